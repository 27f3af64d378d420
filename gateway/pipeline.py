"""The order in which the services are asked, and what of one's answer the next one needs.

A list of stages; none of them knows a rule of its service. Without the answer of a required one nothing is decided;
another that fails keeps the others' answers (design 5).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from gateway.clock import Clock
from gateway.interests import identity
from gateway.services import CallError, Failing
from gateway.snapshot import Snapshot
from ome.common.v1 import common_pb2 as pb
from services.kit import logs

MAX_ROUNDS = 3
"""How often a pass asks a service again because it named an interest that it had not been given."""
UNIMPLEMENTED_SECONDS = 60.0
"""How long a service that does not decide yet is left alone before one pass asks it again."""

_log = logs.get(__name__)


class Asked(Protocol):
    """A service that can be asked."""

    async def ask(self, request: Message) -> Any: ...


@dataclass(slots=True)
class Facts:
    """What earlier stages of the pass answered for later ones. Unknown weights until traffic has said them."""

    components: Sequence[pb.Component] = ()
    routed: pb.RoutedWeights = field(default_factory=pb.RoutedWeights)


@dataclass(slots=True)
class Stage:
    """One service's place. `request` makes its request from facts, metadata and observation; `learn` takes from its
    answer what later stages need, None being the empty answer of a service that does not decide yet."""

    name: str
    service: Asked
    request: Callable[[Facts, pb.RequestMeta, pb.Observation], Message]
    learn: Callable[[Facts, Any], None]
    required: bool = False
    _empty_until: float = field(default=float("-inf"), init=False)
    _empty: bool = field(default=False, init=False)

    def resting(self, now: float) -> bool:
        """It said lately that it does not decide yet; `now` is monotonic."""
        return self._empty and now < self._empty_until

    def due(self, now: float) -> bool:
        """It does not decide yet as far as is known, and it is time to ask again."""
        return self._empty and now >= self._empty_until

    def note(self, empty: bool, now: float) -> bool:
        """Records whether it decides; True when that changed."""
        changed = empty != self._empty
        self._empty = empty
        if empty:
            self._empty_until = now + UNIMPLEMENTED_SECONDS
        return changed


class TooManyRounds(Exception):
    """A service asked for more with every answer."""

    def __init__(self, service: str) -> None:
        super().__init__(f"{service} named new interests in each of {MAX_ROUNDS + 1} answers")
        self.service = service


Remember = Callable[[str, Sequence[pb.Interest]], None]
"""Takes a stage's name and its interests, before they are looked up, so that no change in between is missed."""


@dataclass(slots=True)
class Decision:
    """What the services want of one pass. `complete`: all have answered and none stopped the pass. `digests` holds, by
    stage, the digest of what it was given; where an answer names something else, it will not be found equal again."""

    outcomes: list[pb.Outcome] = field(default_factory=list)
    failures: list[CallError] = field(default_factory=list)
    decision_id: str = ""
    flow: pb.Flow = pb.FLOW_PROCEED
    complete: bool = False
    digests: dict[str, bytes] = field(default_factory=dict)


class Pipeline:
    """The stages in order."""

    def __init__(self, stages: Sequence[Stage], clock: Clock) -> None:
        self._stages = stages
        self._clock = clock
        self.epoch = 0
        """Rises when a service begins or ceases to decide: trusted answers are then asked for anew."""

    def due(self) -> bool:
        """A service that does not decide yet should be asked again by some pass."""
        now = self._clock.monotonic()
        return any(stage.due(now) for stage in self._stages)

    async def decide(
        self,
        snapshot: Snapshot,
        interests: dict[str, Sequence[pb.Interest]],
        remember: Remember,
        request_id: str,
        now: datetime,
    ) -> Decision:
        """Asks every stage. `interests` are the last known ones by stage. CallError when a required stage fails,
        TooManyRounds when it never has enough."""
        decision, facts = Decision(), Facts()
        stamp = Timestamp()
        stamp.FromDatetime(now)
        meta = pb.RequestMeta(request_id=request_id, now=stamp)
        for stage in self._stages:
            if stage.resting(self._clock.monotonic()):
                stage.learn(facts, None)
                continue
            try:
                answer = await self._ask(stage, snapshot, interests, remember, facts, meta, decision)
            except CallError as error:
                if stage.required:
                    raise
                decision.failures.append(error)
                continue
            stage.learn(facts, answer)
            if answer is None:
                continue
            decision.decision_id = decision.decision_id or answer.meta.decision_id
            decision.outcomes.append(answer.outcome)
            if answer.outcome.flow in (pb.FLOW_COMMIT_AND_STOP, pb.FLOW_PASSIVE):
                decision.flow = answer.outcome.flow
                return decision
        decision.complete = not decision.failures
        return decision

    async def _ask(
        self,
        stage: Stage,
        snapshot: Snapshot,
        interests: dict[str, Sequence[pb.Interest]],
        remember: Remember,
        facts: Facts,
        meta: pb.RequestMeta,
        decision: Decision,
    ) -> Any:
        """The stage's final answer, asked again while it names more; None when it does not decide yet."""
        for _ in range(1 + MAX_ROUNDS):
            given = interests.get(stage.name, ())
            decision.digests[stage.name] = snapshot.digest(given)
            try:
                answer = await stage.service.ask(stage.request(facts, meta, snapshot.observation(given)))
            except CallError as error:
                if error.failing is not Failing.UNIMPLEMENTED or stage.required:
                    raise
                decision.digests.pop(stage.name, None)
                self._note(stage, True)
                return None
            self._note(stage, False)
            # Copies: a part of an answer keeps all of it in memory.
            named = [pb.Interest.FromString(identity(interest)) for interest in answer.outcome.interests]
            remember(stage.name, named)
            if answer.outcome.flow != pb.FLOW_ASK_AGAIN:
                return answer
        endless = TooManyRounds(stage.name)
        if stage.required:
            raise endless
        raise CallError(stage.name, Failing.TRANSIENT, "ASK_AGAIN", str(endless))

    def _note(self, stage: Stage, empty: bool) -> None:
        if stage.note(empty, self._clock.monotonic()):
            self.epoch += 1
            _log.info("service does not decide yet" if empty else "service decides now", peer=stage.name)
