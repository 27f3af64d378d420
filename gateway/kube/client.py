"""Requests to the API server: raw JSON over a transport, no model classes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gateway.kube.kinds import Kind
from gateway.kube.objects import CachedObject

Obj = CachedObject
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list; `continue_token` is empty on the last one."""

    items: list[CachedObject]
    resource_version: str
    continue_token: str


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """ADDED, MODIFIED, DELETED with the object, or BOOKMARK without one."""

    type: str
    resource_version: str
    obj: CachedObject | None = None


class Transport(Protocol):
    """see gateway.kube.transport"""


class KubeClient:
    def __init__(self, transport: Transport) -> None: ...

    async def get(self, kind: Kind, namespace: str, name: str) -> Obj:
        """NotFound, Forbidden, Unreachable, ..."""
        raise NotImplementedError

    async def list(
        self, kind: Kind, namespace: str = "", *, limit: int = 500, continue_token: str = "", labels: str = ""
    ) -> Page:
        raise NotImplementedError

    async def create(
        self, kind: Kind, obj: bytes, namespace: str = "", *, field_validation: str = "", dry_run: bool = False,
        before_send: Callable[[], None] | None = None,
    ) -> Obj:  # fmt: skip
        raise NotImplementedError

    async def patch(
        self, kind: Kind, namespace: str, name: str, patch: bytes, content_type: str = MERGE_PATCH,
        subresource: str = "", *, field_validation: str = "", dry_run: bool = False,
        before_send: Callable[[], None] | None = None,
    ) -> Obj:  # fmt: skip
        raise NotImplementedError

    async def delete(
        self, kind: Kind, namespace: str, name: str, uid: str = "", rv: str = "", *,
        before_send: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        raise NotImplementedError

    def watch(self, kind: Kind, namespace: str, rv: str, timeout_seconds: int) -> AsyncIterator[WatchEvent]:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


async def connect(kubeconfig: str, env: Mapping[str, str]) -> KubeClient:
    """The client for a kubeconfig (empty: KUBECONFIG, the pod's own account, ~/.kube/config). ConfigError if unusable."""
    raise NotImplementedError


Json = dict[str, Any]
