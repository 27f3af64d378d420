"""What the gateway process remembers of one InferenceService between passes. All of it may be lost at any time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from gateway.cluster import Target
from ome.common.v1 import common_pb2 as pb

MAX_FAILURES = 64


@dataclass(frozen=True, slots=True)
class Settled:
    """The last pass left nothing to do. `digests` tell, by stage, what its services were given; until `until` (None:
    for ever) and while input and `epoch` stay the same, nobody need be asked. `asked_at` and `again_at` (when it wanted
    to look again, None for never) are monotonic times."""

    digests: dict[str, bytes]
    until: datetime | None
    epoch: int
    asked_at: float
    again_at: float | None


@dataclass(slots=True)
class Memory:
    """State of one InferenceService, by its uid."""

    uid: str
    interests: dict[str, Sequence[pb.Interest]] = field(default_factory=dict)
    failures: dict[Target, pb.WriteFailure] = field(default_factory=dict)
    seen: dict[Target, str] = field(default_factory=dict)
    """resourceVersion of each object that a pass wrote or read past the caches, until they show it."""
    told: dict[tuple[Target, str], str] = field(default_factory=dict)
    """Last message of each event that is told again only when its text changes, by object and reason."""
    counted: dict[str, float] = field(default_factory=dict)
    """When each event was last written, monotonic, by its name."""
    settled: Settled | None = None
    waits: int = 0
    """Passes in a row that could not begin because a cache lagged behind."""

    def all_interests(self) -> Iterator[pb.Interest]:
        """The interests of all stages."""
        for interests in self.interests.values():
            yield from interests

    def failed(self, target: Target, failure: pb.WriteFailure) -> None:
        """Remembers a failed write until its target is written or another content fails; the oldest goes when there are
        too many."""
        self.failures.pop(target, None)
        self.failures[target] = failure
        while len(self.failures) > MAX_FAILURES:
            del self.failures[next(iter(self.failures))]
