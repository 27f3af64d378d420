"""One pass from its decision to its last write (design 4 and 5).

Ask, prepare, commit the status, tell the events, follow up. A crash between any two steps is harmless: each is derived
anew from what is observed, and nothing is done that the next pass would not ask for again.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson

from gateway import status
from gateway.cluster import ref_of, target_of
from gateway.kube.errors import AlreadyExists, Conflict, KindMissing, KubeError, NotFound, NotLeader, Unreachable
from gateway.pipeline import Decision
from gateway.snapshot import Snapshot
from ome.common.v1 import common_pb2 as pb
from services.kit import logs

if TYPE_CHECKING:
    from gateway.clock import Clock
    from gateway.cluster import Cluster, Target
    from gateway.events import EventWriter
    from gateway.kube.objects import CachedObject
    from gateway.memory import Memory
    from gateway.metrics import Metrics
    from gateway.status import JsonObject

MAX_EXISTING = 3
"""How often a pass asks again because an object that it was to create exists (pinning spec 3.4)."""
MAX_FAILURE_MESSAGE = 1024
_log = logs.get(__name__)


class Step(enum.Enum):
    """How far a pass came."""

    FINISHED = "finished"
    PASSIVE = "passive"
    EXISTING = "existing"
    """Objects to create kept existing under the decision's feet."""
    UNPREPARED = "unprepared"
    """A write before the status failed: the status is not written."""
    UNFOLLOWED = "unfollowed"
    """A write after the status failed."""


@dataclass(slots=True)
class Report:
    """What a pass did. `writes` counts those that went through, the status included, events not."""

    step: Step
    decision: Decision
    writes: int = 0
    cause: str = ""


@dataclass(slots=True)
class _Applied:
    existing: list[pb.Write] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


class Execution:
    """One pass of one InferenceService."""

    def __init__(
        self, snapshot: Snapshot, memory: Memory, cluster: Cluster, events: EventWriter, metrics: Metrics, clock: Clock
    ) -> None:
        self._snapshot = snapshot
        self._memory = memory
        self._cluster = cluster
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._versions: dict[Target, str] = {}
        self._writes = 0

    async def run(self, ask: Ask, interval: float) -> Report:
        """Runs the pass. `interval` is for events (EventWriter.post). Conflict, NotLeader, Unreachable, CallError,
        TooManyRounds and StatusFault end it where it stands."""
        decision = await ask(self._snapshot)
        for _ in range(MAX_EXISTING):
            applied = await self._apply(decision, pb.STAGE_PREPARE)
            if applied.failed or not applied.existing:
                break
            await self._bring_into_view(applied.existing)
            decision = await ask(self._snapshot)
        else:
            applied = await self._apply(decision, pb.STAGE_PREPARE)
        if applied.failed:
            return self._report(Step.UNPREPARED, decision, applied.failed)
        if applied.existing:
            return self._report(Step.EXISTING, decision, [w.target.name for w in applied.existing])
        if decision.flow == pb.FLOW_PASSIVE:
            return self._report(Step.PASSIVE, decision)
        await self._commit(decision)
        told = [event for outcome in decision.outcomes for event in outcome.events]
        await self._events.post(self._snapshot.isvc, self._memory, told, interval)
        self._metrics.apply(update for outcome in decision.outcomes for update in outcome.metrics)
        if decision.flow == pb.FLOW_COMMIT_AND_STOP:
            return self._report(Step.FINISHED, decision)
        followed = await self._apply(decision, pb.STAGE_FOLLOW_UP)
        failed = followed.failed + [f"{w.target.kind} {w.target.name} exists" for w in followed.existing]
        return self._report(Step.UNFOLLOWED if failed else Step.FINISHED, decision, failed)

    def _report(self, step: Step, decision: Decision, causes: Sequence[str] = ()) -> Report:
        return Report(step, decision, self._writes, "; ".join(causes))

    async def _apply(self, decision: Decision, stage: pb.Stage) -> _Applied:
        """The writes of one stage in order; a failure ends its chain, a conflict the pass. A passive pass has none."""
        applied = _Applied()
        if decision.flow == pb.FLOW_PASSIVE:
            return applied
        ended: set[str] = set()
        for outcome in decision.outcomes:
            for write in outcome.writes:
                if write.stage != stage or (write.chain and write.chain in ended):
                    continue
                if not await self._write(write, applied):
                    ended.add(write.chain)
        return applied

    async def _write(self, write: pb.Write, applied: _Applied) -> bool:
        target = target_of(write.target)
        try:
            written = await self._cluster.apply(write, self._versions.get(target, ""))
        except (Conflict, NotLeader):
            raise
        except AlreadyExists:
            if write.verb != pb.VERB_CREATE:
                raise
            applied.existing.append(write)
            return False
        except NotFound as error:
            if isinstance(error, KindMissing):
                return self._failed(write, error, applied)
            if write.verb != pb.VERB_DELETE:
                # What the decision saw is gone: it is dropped, as with any other conflict.
                raise Conflict(error.code, error.reason, error.message) from None
            written = None
        except KubeError as error:
            return self._failed(write, error, applied)
        self._memory.failures.pop(target, None)
        self._writes += 1
        _log.info("written", write=write.reason, verb=pb.Verb.Name(write.verb), kind=target[1], name=target[3])
        if written is not None and written.rv:
            self._wrote(target, written.rv, written.obj)
        return True

    def _failed(self, write: pb.Write, error: KubeError, applied: _Applied) -> bool:
        self._memory.failed(target_of(write.target), _failure(write, error))
        if isinstance(error, Unreachable):
            raise error  # nothing else would get through either
        _log.warning(
            "write failed", write=write.reason, kind=write.target.kind, name=write.target.name, cause=str(error)
        )
        applied.failed.append(f"{write.target.kind} {write.target.name}: {error.message}")
        return False

    def _wrote(self, target: Target, version: str, obj: CachedObject | None) -> None:
        self._versions[target] = version
        self._memory.seen[target] = version
        if obj is not None:
            self._snapshot.overlay[target] = obj

    async def _bring_into_view(self, writes: Sequence[pb.Write]) -> None:
        """Reads what exists against expectation. The next pass waits until the caches show it, or would miss it."""
        for write in writes:
            target = target_of(write.target)
            obj = await self._cluster.read(target)
            if obj is None:
                raise Conflict(409, "Conflict", f"{target[1]} {target[3]} existed a moment ago and is gone")
            self._snapshot.overlay[target] = obj
            self._memory.seen[target] = obj.resource_version

    async def _commit(self, decision: Decision) -> None:
        """The one status write, if anything in it changes."""
        isvc = self._snapshot.isvc
        stored = _status_of(isvc)
        patches = [outcome.status for outcome in decision.outcomes]
        folded = status.fold(stored, patches, self._clock.now(), isvc.generation, decision.complete)
        if status.same(stored, folded):
            return
        patch = orjson.dumps(status.difference(stored, folded))
        written = await self._cluster.patch_status(ref_of(isvc), patch)
        self._writes += 1
        self._memory.seen[target_of(isvc)] = written.rv
        _log.info("status written", resource_version=written.rv)


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Ask = Callable[[Snapshot], Awaitable[Decision]]


def _status_of(isvc: CachedObject) -> JsonObject:
    stored = isvc.json().get("status")
    return stored if isinstance(stored, dict) else {}


def _failure(write: pb.Write, error: KubeError) -> pb.WriteFailure:
    return pb.WriteFailure(
        target=write.target,
        verb=write.verb,
        content_digest=write.content_digest,
        code=error.code,
        api_reason=error.reason,
        message=error.message[:MAX_FAILURE_MESSAGE],
    )
