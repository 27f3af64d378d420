"""Events of a pass, written after its status, best effort: a lost one is never a reason to repeat a decision."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.clock import Clock
from gateway.cluster import Cluster, Target, ref_of, target_of
from gateway.kube.errors import KubeError, NotLeader
from gateway.kube.objects import CachedObject
from gateway.memory import Memory
from ome.common.v1 import common_pb2 as pb
from services.kit import logs

_MAX_COUNTED = 64
_log = logs.get(__name__)


class EventWriter:
    """Writes events by their repeat rules."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    async def post(self, isvc: CachedObject, memory: Memory, events: Iterable[pb.Event], interval: float) -> None:
        """Writes what is due of one pass's events. `interval` in seconds is the least time between two repeats of one
        event: the back-off the InferenceService is in. A text told ON_CHANGE is forgotten by a pass without it."""
        told: dict[tuple[Target, str], str] = {}
        for event in events:
            regarding = event.regarding if event.HasField("regarding") else ref_of(isvc)
            if event.repeat == pb.EVENT_REPEAT_ON_CHANGE:
                mark = (target_of(regarding), event.reason)
                if memory.told.get(mark) == event.message or await self._put(regarding, event):
                    told[mark] = event.message
            elif self._due(memory, _occurrence(regarding, event), event, interval):
                # Counted even when it is lost: the next repeat is as good as this one.
                self._count(memory, _occurrence(regarding, event))
                await self._put(regarding, event)
        memory.told = told

    def _due(self, memory: Memory, occurrence: str, event: pb.Event, interval: float) -> bool:
        last = memory.counted.get(occurrence)
        if last is None:
            return True
        return event.repeat == pb.EVENT_REPEAT_COUNT and self._clock.monotonic() - last >= interval

    def _count(self, memory: Memory, occurrence: str) -> None:
        memory.counted.pop(occurrence, None)
        memory.counted[occurrence] = self._clock.monotonic()
        while len(memory.counted) > _MAX_COUNTED:
            del memory.counted[next(iter(memory.counted))]

    async def _put(self, regarding: pb.ObjectRef, event: pb.Event) -> bool:
        try:
            await self._cluster.event(event, regarding, self._clock.now())
        except NotLeader:
            raise
        except KubeError as error:
            _log.warning("event not written", reason=event.reason, text=event.message, cause=str(error))
            return False
        return True


def _occurrence(regarding: pb.ObjectRef, event: pb.Event) -> str:
    key = event.key or f"{event.reason}\n{event.message}"
    return "\n".join((regarding.kind, regarding.namespace, regarding.name, key))
