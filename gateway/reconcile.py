"""What becomes of one pass: whether it runs, what it remembers, and when the InferenceService is looked at again."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from gateway.clock import Clock
from gateway.cluster import Cluster
from gateway.events import EventWriter
from gateway.execution import Execution, Report, Step
from gateway.interests import InterestIndex
from gateway.kube.cache import Cache
from gateway.kube.errors import Conflict, KubeError, NotLeader, TooManyRequests, Unreachable
from gateway.kube.objects import CachedObject
from gateway.memory import Memory, Settled
from gateway.metrics import Metrics
from gateway.pipeline import Decision, Pipeline, TooManyRounds
from gateway.queue import Item, Key, Lane
from gateway.services import CallError, Failing
from gateway.snapshot import Snapshot, Supplier
from gateway.status import StatusFault
from ome.common.v1 import common_pb2 as pb
from services.kit import logs

EVENT_REASON = "ReconcileError"
COMMITTED_SECONDS = 1.0
"""When a pass that committed and stopped is followed up even if the event of its own write does not come."""
FIRST_WAIT, LONGEST_WAIT = 0.05, 5.0
_log = logs.get(__name__)


class Result(enum.Enum):
    """How a pass ended. The first four are the outcomes of design 2.6; the others did not decide anything."""

    DONE = "done"
    REQUEUE = "requeue"
    RETRY = "retry"
    TERMINAL = "terminal"
    UNCHANGED = "unchanged"
    """Nobody need be asked: the input is the one that the last answer still holds for."""
    WAITING = "waiting"
    """A cache does not show yet what an earlier pass wrote or read past it."""
    GONE = "gone"
    NOT_LEADER = "not_leader"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The end of a pass. `again_in` and `at_least` are seconds: when to look again, and the least back-off."""

    result: Result
    again_in: float | None = None
    at_least: float = 0.0
    decision_id: str = ""
    writes: int = 0
    cause: str = ""
    shared: bool = False
    """The cause lies with a service or the API server and hits every object alike: it is told once, elsewhere."""


@dataclass(slots=True)
class Parts:
    """What a reconciler works with."""

    isvcs: Cache
    supplier: Supplier
    pipeline: Pipeline
    cluster: Cluster
    clock: Clock
    metrics: Metrics
    reask_seconds: float = 3600.0
    index: InterestIndex = field(default_factory=InterestIndex)


class Reconciler:
    """Passes over InferenceServices. Keeps what is remembered between them; any of it may be lost."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._clock = parts.clock
        self._events = EventWriter(parts.cluster, parts.clock)
        self._memories: dict[Key, Memory] = {}

    def forget_all(self) -> None:
        """Drops all memory: another process has led meanwhile."""
        self._memories.clear()
        self._parts.index.clear()

    async def run(self, item: Item, reconcile_id: str, interval: float) -> Verdict:
        """One pass. Never raises but for cancellation; `interval` is for events (EventWriter.post)."""
        isvc = self._parts.isvcs.get(item.key.namespace, item.key.name)
        if isvc is None or isvc.terminating:
            self._forget(item.key)
            return Verdict(Result.GONE)
        memory = self._memory(item.key, isvc)
        behind = self._parts.supplier.lagging(memory.seen)
        if behind:
            memory.waits += 1
            seconds = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(memory.waits - 1, 10))
            return Verdict(Result.WAITING, again_in=seconds, cause=f"{behind[0][1]} {behind[0][3]}")
        memory.waits = 0
        memory.seen.clear()
        snapshot = Snapshot(self._parts.supplier, isvc, memory.failures.values())
        if item.lane is Lane.RESYNC and memory.settled and self._holds(memory, memory.settled, snapshot):
            again_at = memory.settled.again_at
            return Verdict(Result.UNCHANGED, None if again_at is None else again_at - self._clock.monotonic())
        memory.settled = None
        return await self._guarded(item, isvc, memory, snapshot, reconcile_id, interval)

    def _forget(self, key: Key) -> None:
        self._memories.pop(key, None)
        self._parts.index.forget(key)

    def _memory(self, key: Key, isvc: CachedObject) -> Memory:
        memory = self._memories.get(key)
        if memory is None or memory.uid != isvc.uid:
            self._forget(key)
            memory = self._memories[key] = Memory(isvc.uid)
        return memory

    def _holds(self, memory: Memory, settled: Settled, snapshot: Snapshot) -> bool:
        """The last answer still holds: its time is not over, the services are the same, and so is what they got."""
        now = self._clock.monotonic()
        return (
            (settled.until is None or self._clock.now() < settled.until)
            and (settled.again_at is None or now < settled.again_at)
            and now - settled.asked_at < self._parts.reask_seconds
            and settled.epoch == self._parts.pipeline.epoch
            and not self._parts.pipeline.due()
            and all(snapshot.digest(memory.interests.get(name, ())) == was for name, was in settled.digests.items())
        )

    async def _guarded(
        self, item: Item, isvc: CachedObject, memory: Memory, snapshot: Snapshot, reconcile_id: str, interval: float
    ) -> Verdict:
        try:
            report = await self._pass(item.key, memory, snapshot, reconcile_id, interval)
            return self._verdict(report, memory)
        except CallError as error:
            if error.failing is Failing.TERMINAL:
                return await self._refused(isvc, memory, snapshot, error, interval)
            return Verdict(Result.RETRY, at_least=error.retry_after, cause=str(error), shared=error.shared)
        except NotLeader:
            return Verdict(Result.NOT_LEADER)
        except Conflict as error:
            return Verdict(Result.RETRY, cause=f"conflict: {error}")
        except TooManyRequests as error:
            return Verdict(Result.RETRY, at_least=error.retry_after, cause=str(error))
        except Unreachable as error:
            return Verdict(Result.RETRY, cause=str(error), shared=True)
        except (KubeError, TooManyRounds, StatusFault) as error:
            return Verdict(Result.RETRY, cause=str(error))
        except Exception:
            _log.exception("a pass failed")
            return Verdict(Result.RETRY, cause="internal error")

    async def _pass(self, key: Key, memory: Memory, snapshot: Snapshot, reconcile_id: str, interval: float) -> Report:
        def remember(stage: str, interests: Sequence[pb.Interest]) -> None:
            memory.interests[stage] = interests
            supplier = self._parts.supplier
            honoured = [i for i in memory.all_interests() if not supplier.refusal(i, key.namespace)]
            self._parts.index.replace(key, honoured)

        async def ask(view: Snapshot) -> Decision:
            now = self._clock.now()
            return await self._parts.pipeline.decide(view, memory.interests, remember, reconcile_id, now)

        parts = self._parts
        execution = Execution(snapshot, memory, parts.cluster, self._events, parts.metrics, self._clock)
        return await execution.run(ask, interval)

    def _verdict(self, report: Report, memory: Memory) -> Verdict:
        decision, id_, writes = report.decision, report.decision.decision_id, report.writes
        if report.step in (Step.UNPREPARED, Step.UNFOLLOWED, Step.EXISTING):
            return Verdict(Result.RETRY, decision_id=id_, writes=writes, cause=f"{report.step.value}: {report.cause}")
        outcomes = decision.outcomes
        cause = "; ".join(
            [str(failure) for failure in decision.failures]
            + [f"{o.error.reason}: {o.error.message}" for o in outcomes if o.HasField("error")]
        )
        dispositions = {outcome.disposition for outcome in outcomes}
        again_in = min((_seconds(o.requeue_after) for o in outcomes if o.HasField("requeue_after")), default=None)
        if decision.failures or pb.DISPOSITION_RETRY in dispositions:
            at_least = max((failure.retry_after for failure in decision.failures), default=0.0)
            shared = pb.DISPOSITION_RETRY not in dispositions and all(f.shared for f in decision.failures)
            return Verdict(Result.RETRY, again_in, at_least, id_, writes, cause, shared)
        terminal = pb.DISPOSITION_TERMINAL in dispositions
        if decision.flow == pb.FLOW_COMMIT_AND_STOP and not terminal:
            if not writes:
                return Verdict(Result.RETRY, decision_id=id_, cause="asked to commit and stop, with nothing to commit")
            return Verdict(Result.REQUEUE, min(COMMITTED_SECONDS, again_in or COMMITTED_SECONDS), 0.0, id_, writes)
        if not writes:
            self._settle(memory, decision, again_in, terminal)
        result = Result.TERMINAL if terminal else Result.DONE if again_in is None else Result.REQUEUE
        return Verdict(result, again_in, 0.0, id_, writes, cause)

    def _settle(self, memory: Memory, decision: Decision, again_in: float | None, terminal: bool) -> None:
        """Remembers until when the answers hold, if all services have said so."""
        until: datetime | None = None
        if not terminal:
            if not all(outcome.HasField("valid_until") for outcome in decision.outcomes):
                return
            until = min((o.valid_until.ToDatetime(UTC) for o in decision.outcomes), default=None)
        now = self._clock.monotonic()
        again_at = None if again_in is None else now + again_in
        memory.settled = Settled(dict(decision.digests), until, self._parts.pipeline.epoch, now, again_at)

    async def _refused(
        self, isvc: CachedObject, memory: Memory, snapshot: Snapshot, error: CallError, interval: float
    ) -> Verdict:
        """The service cannot decide this input: told to the user, and left alone until the input changes."""
        event = pb.Event(
            type="Warning",
            reason=EVENT_REASON,
            message=str(error),
            key=f"{EVENT_REASON}/{error.service}",
            repeat=pb.EVENT_REPEAT_ON_CHANGE,
        )
        try:
            await self._events.post(isvc, memory, [event], interval)
        except NotLeader:
            return Verdict(Result.NOT_LEADER)
        digests = {name: snapshot.digest(interests) for name, interests in memory.interests.items()}
        now = self._clock.monotonic()
        memory.settled = Settled(digests or {"": snapshot.digest(())}, None, self._parts.pipeline.epoch, now, None)
        return Verdict(Result.TERMINAL, cause=str(error))


def _seconds(duration: object) -> float:
    seconds, nanos = getattr(duration, "seconds", 0), getattr(duration, "nanos", 0)
    return float(max(0.0, seconds + nanos / 1e9))
