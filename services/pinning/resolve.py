"""One pass of pinning: situation, row, and the snapshot that an advancing row needs (pinning specification 3, 5)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from services.kit import canonical
from services.pinning.creation import Create, NoFreeName, Reuse, find_or_create
from services.pinning.isvc import InferenceService
from services.pinning.machine import Decision, Live, LiveView, Situation, SnapshotView, Undetermined, decide, unknown
from services.pinning.outcome import stored_drift
from services.pinning.snapshots import Snapshot, Usable
from services.pinning.sources import Source


@dataclass(frozen=True, slots=True)
class Resolution:
    """A decision with what it writes first: a snapshot to create, a mark to take off, or nothing.

    `again`: creating that snapshot failed before. The decision does without it, and the write is tried once more last.
    """

    decision: Decision
    live: LiveView | None = None
    source: Source | None = None
    create: Create | None = None
    again: bool = False
    unmark: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why creating a snapshot of a name and content failed in an earlier pass."""

    name: str
    content_digest: str
    cause: str


@dataclass(frozen=True, slots=True)
class Observed:
    """What the cluster shows: the explicit and the pinned snapshot, the live runtime, all snapshots of the name; and
    which snapshots could not be created."""

    explicit: SnapshotView | None = None
    pinned: SnapshotView | None = None
    live: LiveView | None = None
    known: list[Snapshot] | Undetermined | None = None
    failed: tuple[Failure, ...] = ()


def resolve(isvc: InferenceService, seen: Observed, ome_namespace: str) -> Resolution:
    """Decide. In: the InferenceService, what is observed, the OME namespace. Out: the decision and its first write."""
    situation = Situation(
        ome_namespace=ome_namespace,
        auto_sync=isvc.runtime.auto_sync,
        reference=isvc.reference,
        revision=isvc.runtime.revision,
        pin=isvc.pin,
        token=isvc.token,
        last=isvc.last,
        explicit=seen.explicit,
        pinned=seen.pinned,
        live=seen.live,
        drift=stored_drift(isvc),
    )
    decision = decide(situation)
    if decision.row == "L":
        return Resolution(_live(isvc, decision, seen.live), seen.live)
    if decision.advance is not None:
        return _advance(situation, decision, decision.advance, seen, ome_namespace)
    return Resolution(decision, seen.live, unmark=_to_unmark(decision, seen, isvc.pin))


def _live(isvc: InferenceService, decision: Decision, live: LiveView | None) -> Decision:
    if isinstance(live, Undetermined):
        cause = live.error
    elif isinstance(live, Live) and live.refused:
        cause = live.refused
    else:
        return decision
    return replace(decision, error=f"resolve live runtime {isvc.runtime.name}: {cause}", retry=True, renders="hold")


def _to_unmark(decision: Decision, seen: Observed, pin: str) -> Snapshot | None:
    """A pass that makes a marked snapshot the pin takes the mark off first (5.3)."""
    view = seen.explicit
    if decision.kind != "EXPLICIT" or decision.pin == pin or not isinstance(view, Usable):
        return None
    return view.snapshot if view.snapshot.marked else None


def _advance(s: Situation, decision: Decision, live: Live, seen: Observed, namespace: str) -> Resolution:
    refused = decision.refused
    assert refused is not None
    if live.unpinnable:
        return Resolution(replace(refused, error=refused.error + live.unpinnable), seen.live)
    if not isinstance(seen.known, list):
        cause = seen.known.error if seen.known else "not known yet"
        return Resolution(unknown(s, f"read snapshots: {cause}"), seen.live)
    spec = canonical.decode(live.canonical)
    try:
        found = find_or_create(live.source, live.canonical, spec, seen.known, namespace)
    except NoFreeName as error:
        return Resolution(replace(refused, error=refused.error + str(error)), seen.live)
    if isinstance(found, Reuse):
        unmark = found.snapshot if found.snapshot.marked else None
        return Resolution(replace(decision, pin=found.snapshot.name), seen.live, live.source, unmark=unmark)
    cause = _failed_before(found, seen.failed)
    if cause:
        told = replace(refused, error=refused.error + cause, retry=True)
        return Resolution(told, seen.live, create=found, again=True)
    return Resolution(replace(decision, pin=found.name), seen.live, live.source, create=found)


def _failed_before(wanted: Create, failed: tuple[Failure, ...]) -> str:
    """Why the same content of the same name could not be created; empty when it was not tried or is another one."""
    same = [item.cause for item in failed if item.name == wanted.name and item.content_digest == wanted.content_digest]
    return same[-1] if same else ""
