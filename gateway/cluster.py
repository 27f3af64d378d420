"""The cluster as a pass acts on it: writes, which only the leader's get through, and reads that bypass the caches."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from gateway.kube.client import KubeClient
from gateway.kube.errors import BadRequest, NotFound
from gateway.kube.kinds import by_api
from gateway.kube.objects import CachedObject
from gateway.kube.writer import Writer, WriteResult
from ome.common.v1 import common_pb2 as pb

Target = tuple[str, str, str, str]
"""An object: api_version, kind, namespace, name."""


def target_of(ref: pb.ObjectRef | CachedObject) -> Target:
    """The object that a reference or a cached version belongs to."""
    return ref.api_version, ref.kind, ref.namespace, ref.name


def ref_of(obj: CachedObject) -> pb.ObjectRef:
    """The typed identity of a cached version."""
    return pb.ObjectRef(
        api_version=obj.api_version,
        kind=obj.kind,
        namespace=obj.namespace,
        name=obj.name,
        uid=obj.uid,
        resource_version=obj.resource_version,
        generation=obj.generation,
    )


class Cluster(Protocol):
    """Every method raises KubeError; the writes also NotLeader, when nothing was sent."""

    async def apply(self, write: pb.Write, rv_override: str = "") -> WriteResult:
        """Does one write; `rv_override`, if given, replaces the resourceVersion of its precondition."""

    async def patch_status(self, ref: pb.ObjectRef, status_patch: bytes) -> WriteResult:
        """Merge-patches the content of `.status` of exactly that version; Conflict when it has another."""

    async def event(self, event: pb.Event, regarding: pb.ObjectRef, now: datetime) -> WriteResult | None:
        """Writes an Event by its key; `regarding` counts where it names none. None when it was there already."""

    async def read(self, target: Target) -> CachedObject | None:
        """The object as the API server has it now; None when it does not exist."""


class KubeCluster:
    """`Cluster` by a writer and a client."""

    def __init__(self, client: KubeClient, writer: Writer) -> None:
        self._client = client
        self._writer = writer

    async def apply(self, write: pb.Write, rv_override: str = "") -> WriteResult:
        return await self._writer.apply(write, rv_override)

    async def patch_status(self, ref: pb.ObjectRef, status_patch: bytes) -> WriteResult:
        return await self._writer.patch_status(ref, status_patch)

    async def event(self, event: pb.Event, regarding: pb.ObjectRef, now: datetime) -> WriteResult | None:
        return await self._writer.event(event, regarding, now)

    async def read(self, target: Target) -> CachedObject | None:
        api_version, kind_name, namespace, name = target
        kind = by_api(api_version, kind_name)
        if kind is None:
            raise BadRequest(0, "BadRequest", f"{kind_name} ({api_version}) is not a kind the gateway reads")
        try:
            return await self._client.get(kind, namespace, name)
        except NotFound:
            return None
