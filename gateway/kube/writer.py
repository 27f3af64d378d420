"""Every write of the gateway goes through here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from ome.common.v1 import common_pb2

from gateway.kube.client import KubeClient
from gateway.kube.objects import CachedObject


@dataclass(frozen=True, slots=True)
class WriteResult:
    """`rv` is the version the write returned (empty after DELETE), `obj` the object as stored (None after DELETE)."""

    rv: str
    obj: CachedObject | None


class Writer:
    """Raises the KubeErrors of the API server, and NotLeader when the fence is down (nothing was sent then)."""

    def __init__(self, client: KubeClient, fence: Callable[[], bool]) -> None: ...

    async def apply(self, write: common_pb2.Write, rv_override: str = "") -> WriteResult:
        raise NotImplementedError

    async def patch_status(self, ref: common_pb2.ObjectRef, status_patch: bytes) -> WriteResult:
        """`ref.uid` and `ref.resource_version` are the precondition; `status_patch` is a merge patch of `.status`'s
        content, conditions included."""
        raise NotImplementedError

    async def event(
        self, event: common_pb2.Event, regarding: common_pb2.ObjectRef, now: datetime
    ) -> WriteResult | None:
        """`regarding` is used when the event names none. None when it was there already (repeat ONCE)."""
        raise NotImplementedError
