"""The pin state machine: which row of pinning specification 5.1 a situation is, and what that row decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from services.pinning.snapshots import Usable
from services.pinning.sources import Reference, Source

RenderFrom = Literal["live", "pin", "hold"]


@dataclass(frozen=True, slots=True)
class Undetermined:
    """Something that could not be looked up; never the same as absent."""

    error: str


@dataclass(frozen=True, slots=True)
class Missing:
    """A snapshot that does not exist."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A snapshot that exists and cannot be used."""

    reason: str
    cause: str


SnapshotView = Usable | Broken | Missing | Undetermined


@dataclass(frozen=True, slots=True)
class Live:
    """A runtime that was found. `refused`: why it cannot be read; `unpinnable`: why it is not newly pinned."""

    source: Source
    digest: str = ""
    canonical: bytes = b""
    refused: str = ""
    unpinnable: str = ""


@dataclass(frozen=True, slots=True)
class Absent:
    """No runtime answers to the reference."""

    text: str


LiveView = Live | Absent | Undetermined


@dataclass(frozen=True, slots=True)
class Drift:
    """The condition `RuntimeDrifted` while it is True."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything a decision rests on. `explicit` and `pinned` are None when there is no such name."""

    ome_namespace: str
    auto_sync: bool
    reference: Reference | None
    revision: str
    pin: str
    token: str
    last: str
    explicit: SnapshotView | None = None
    pinned: SnapshotView | None = None
    live: LiveView | None = None
    drift: Drift | None = None

    @property
    def new_token(self) -> bool:
        """A token is new when it is not empty and differs from the last one, byte for byte."""
        return self.token != "" and self.token != self.last

    @property
    def moved(self) -> bool:
        """Reference moved (5.2): no revision, and the pin's name has no shape of the reference."""
        return (
            bool(self.pin) and not self.revision and self.reference is not None and not self.reference.shapes(self.pin)
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """A row's outcome. `pin` and `last` are the values afterwards; `advance` asks for a snapshot of `live` first."""

    row: str
    kind: str
    pin: str
    last: str
    drift: Drift | None
    renders: RenderFrom
    error: str = ""
    retry: bool = False
    advance: Live | None = None
    refused: Decision | None = field(default=None, repr=False)


def decide(s: Situation) -> Decision:
    """The first matching row of 5.1. An advancing row carries `refused`: what it acts as without a snapshot."""
    if not _pinned_mode(s):
        return Decision("L", "LIVE", "", s.last, None, "live")
    if s.revision:
        return _explicit(s)
    if not s.pin or s.moved:
        return _first(s, "M" if s.pin else "F1")
    return _managed(s)


def _pinned_mode(s: Situation) -> bool:
    return s.reference is not None and not s.auto_sync


def unknown(s: Situation, error: str) -> Decision:
    """Row X: something needed is undetermined; the pin renders if it is usable."""
    renders: RenderFrom = "pin" if isinstance(s.pinned, Usable) else "hold"
    return Decision("X", "RETRY", s.pin, s.last, s.drift, renders, error=error, retry=True)


def _explicit(s: Situation) -> Decision:
    view = s.explicit
    if isinstance(view, Undetermined):
        return unknown(s, f"read snapshots: {view.error}")
    if isinstance(view, Usable):
        row = "E1" if isinstance(s.live, Live) else "E2"
        return Decision(row, "EXPLICIT", s.revision, s.last, None, "pin")
    drift = _unusable(view, s.revision, f"explicit pin {s.revision} not found in namespace {s.ome_namespace}")
    return Decision("E3", "HOLD", s.pin, s.last, drift, "hold")


def _unusable(view: SnapshotView | None, name: str, missing: str) -> Drift:
    if not isinstance(view, Broken):
        return Drift("RevisionMissing", missing)
    if view.reason == "RuntimeMismatch":
        return Drift(view.reason, view.cause)
    return Drift(view.reason, f"revision {name} cannot be used: {view.cause}")


def _first(s: Situation, row: str) -> Decision:
    name = s.reference.name if s.reference else ""
    live = s.live
    if isinstance(live, Undetermined):
        return unknown(s, f"resolve live runtime {name}: {live.error}")

    def hold(name_of_row: str, error: str) -> Decision:
        return Decision(name_of_row, "RETRY", s.pin, s.last, s.drift, "hold", error=error, retry=True)

    if not isinstance(live, Live):
        text = live.text if live else ""
        return hold("F2" if row == "F1" else row, f"resolve live runtime {name}: {text}")
    if live.refused:
        return hold(row, f"resolve live runtime {name}: {live.refused}")
    kind = "FIRST_PIN" if row == "F1" else "MOVE"
    refused = Decision(
        row, "RETRY", s.pin, s.last, s.drift, "hold", error=f"create initial pin for {name}: ", retry=True
    )
    return Decision(row, kind, "", s.token, None, "pin", advance=live, refused=refused)


def _managed(s: Situation) -> Decision:
    name = s.reference.name if s.reference else ""
    if isinstance(s.pinned, Undetermined):
        return unknown(s, f"read snapshots: {s.pinned.error}")
    if isinstance(s.live, Undetermined):
        return unknown(s, f"resolve live runtime {name}: {s.live.error}")
    return _steady(s, s.pinned, name) if isinstance(s.pinned, Usable) else _lost(s, name)


def _lost(s: Situation, name: str) -> Decision:
    drift = _unusable(s.pinned, s.pin, f"pinned revision {s.pin} missing from {s.ome_namespace}")
    hold = Decision("P1", "HOLD", s.pin, s.last, drift, "hold")
    if not isinstance(s.live, Live):
        return hold
    if s.live.refused:
        return _with_error(hold, "P2" if s.new_token else "P1", f"resolve live runtime {name}: {s.live.refused}")
    if not s.new_token:
        return hold
    refused = _with_error(hold, "P2", f"advance pin for {name}: ")
    return Decision("P2", "ADVANCE", "", s.token, None, "pin", advance=s.live, refused=refused)


def _with_error(like: Decision, row: str, error: str) -> Decision:
    return Decision(row, like.kind, like.pin, like.last, like.drift, like.renders, error=error)


def _steady(s: Situation, pinned: Usable, name: str) -> Decision:
    live = s.live
    if not isinstance(live, Live):
        rev, source = s.pin, pinned.source
        drift = Drift("SourceRuntimeMissing", f"pinned {rev}, {source} no longer exists; serving the snapshot")
        return Decision("P3", "STEADY", s.pin, s.last, drift, "pin")
    if live.refused:
        error = f"resolve live runtime {name}: {live.refused}"
        return Decision("P5", "STEADY", s.pin, s.last, s.drift, "pin", error=error)
    if live.source == pinned.source and live.digest == pinned.digest:
        return Decision("P4", "STEADY", s.pin, s.last, None, "pin")
    drifted = Decision("P5", "DRIFT", s.pin, s.last, _mismatch(s.pin, pinned.source, live.source), "pin")
    if not s.new_token:
        return drifted
    refused = _with_error(drifted, "P6", f"advance pin for {name}: ")
    return Decision("P6", "ADVANCE", "", s.token, None, "pin", advance=live, refused=refused)


def _mismatch(pin: str, pinned: Source, live: Source) -> Drift:
    hint = "bump ome.io/runtime-sync annotation to advance"
    if pinned == live:
        return Drift("RevisionMismatch", f"pinned {pin}, live spec differs; {hint}")
    return Drift("RevisionMismatch", f"pinned {pin} of {pinned}, reference now resolves to {live}; {hint}")
