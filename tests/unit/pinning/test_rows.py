"""Every row of the table in pinning specification 5.1, through the servicer."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.unit.pinning.world import (
    CR1,
    CR2,
    LOCAL,
    NS,
    OME,
    RT,
    V1,
    V2,
    Doc,
    World,
    revision,
    runtime,
    service,
    with_state,
)

MISMATCH = f"pinned {CR1}, live spec differs; bump ome.io/runtime-sync annotation to advance"
GONE = f"pinned {CR1}, ClusterServingRuntime {RT} no longer exists; serving the snapshot"
OLD = ("RevisionMismatch", MISMATCH)
LOST = ("RevisionMissing", f"pinned revision {CR1} missing from {OME}")
NOT_FOUND = f"resolve live runtime {RT}: ClusterServingRuntime {RT} not found"
DISABLED = {**V2, "disabled": True}
FOREIGN = f"cr-other-{CR1[-8:]}"


@dataclass
class Case:
    """One situation and what the pass answers; `patch` is the status patch."""

    reason: str
    isvc: Doc
    world: World
    row: str
    decision: str
    patch: Doc = field(default_factory=dict)
    drift: str = "kept"
    message: str = ""
    events: tuple[str, ...] = ()
    error: str = ""
    retry: bool = False
    creates: tuple[str, ...] = ()
    unmarks: tuple[str, ...] = ()


def isvc(pin: str = "", token: str = "", last: str = "", drift: tuple[str, str] | None = None, **rt: object) -> Doc:
    return with_state(service(**rt), pin=pin, token=token, last=last, drift=drift)


def normal(reason: str, text: str) -> str:
    return f"Normal {reason}: {text}"


def pin_error(text: str) -> str:
    return f"Warning RuntimePinError: {text}"


R1, R2 = revision(V1), revision(V2)
BAD = revision(V1, annotations={"ome.io/created-by": None})
BAD_TEXT = f"revision {CR1} cannot be used: not created by this controller"
LOST_EVENT = f"Warning RuntimeRevisionMissing: {LOST[1]}"
BAD_EVENT = f"Warning RuntimeRevisionInvalid: {BAD_TEXT}"
LIVE1, LIVE2 = runtime(V1), runtime(V2)
RESOLVED_BY_PIN = normal("RuntimeDriftResolved", f"no longer drifted from {CR1}")
ADVANCED = normal("RuntimePinAdvanced", f"advanced from {CR1} to {CR2}")
UNSYNCED = f"resolve live runtime {RT}: cache not synced"
UNREAD = "read snapshots: cache not synced"
NO_PIN = f"create initial pin for {RT}"
RUNTIME_KIND = "ClusterServingRuntime"

FOLLOWING = [
    Case("L autoSync true", isvc(autoSync=True), World([LIVE1]), "L", "LIVE"),
    Case("L autoSync nil", isvc(autoSync=None), World([LIVE1]), "L", "LIVE"),
    Case("L revision is ignored", isvc(autoSync=True, revision=CR1), World([LIVE1]), "L", "LIVE"),
    Case("L no name", isvc(name=None), World(), "L", "LIVE"),
    Case("L empty name", isvc(name=""), World(), "L", "LIVE"),
    Case("L clears the pin and the condition, keeps last", isvc(CR1, "2", "1", OLD, autoSync=True), World([LIVE1]),
         "L", "LIVE", {"pinnedRevisionName": None}, "removed",
         events=(normal("RuntimePinReleased", f"following the live runtime; released {CR1}"),)),
    Case("L without a name clears it too", isvc(CR1, name=None), World(), "L", "LIVE", {"pinnedRevisionName": None},
         events=(normal("RuntimePinReleased", f"following the live runtime; released {CR1}"),)),
    Case("L unreadable lookup", isvc(autoSync=True), World(unknown={RUNTIME_KIND}), "L", "LIVE", error=UNSYNCED,
         events=(pin_error(UNSYNCED),), retry=True),
]  # fmt: skip
UNDETERMINED = [
    Case("X explicit snapshot", isvc(CR1, drift=OLD, revision=CR2), World([LIVE1, R1], {CR2}), "X", "RETRY",
         drift="RevisionMismatch", message=MISMATCH, error=UNREAD, events=(pin_error(UNREAD),), retry=True),
    Case("X pinned snapshot", isvc(CR1, "2", "1"), World([LIVE2, R1], {CR1}), "X", "RETRY", error=UNREAD,
         events=(pin_error(UNREAD),), retry=True),
    Case("X lookup, pin usable", isvc(CR1), World([R1], {RUNTIME_KIND}), "X", "RETRY", error=UNSYNCED,
         events=(pin_error(UNSYNCED),), retry=True),
    Case("X lookup, pin missing: not called missing yet", isvc(CR1), World([], {RUNTIME_KIND}), "X", "RETRY",
         error=UNSYNCED, events=(pin_error(UNSYNCED),), retry=True),
    Case("X lookup, first pin", isvc(), World([], {RUNTIME_KIND}), "X", "RETRY", error=UNSYNCED,
         events=(pin_error(UNSYNCED),), retry=True),
    Case("X second scope of an omitted kind", isvc(kind=None), World([], {LOCAL}), "X", "RETRY", error=UNSYNCED,
         events=(pin_error(UNSYNCED),), retry=True),
    Case("X first scope though the second answers", isvc(kind=None),
         World([runtime(V1, kind=LOCAL, ns=NS)], {RUNTIME_KIND}), "X", "RETRY", error=UNSYNCED,
         events=(pin_error(UNSYNCED),), retry=True),
    Case("X list of snapshots, first pin", isvc(), World([LIVE1], {"ControllerRevision/set"}), "X", "RETRY",
         error=UNREAD, events=(pin_error(UNREAD),), retry=True),
    Case("X list of snapshots, advance", isvc(CR1, "2", "1"), World([LIVE2, R1], {"ControllerRevision/set"}), "X",
         "RETRY", error=UNREAD, events=(pin_error(UNREAD),), retry=True),
]  # fmt: skip
TO2 = {"pinnedRevisionName": CR2}
EXPLICIT2 = normal("RuntimePinExplicit", f"pinned to explicit revision {CR2} (was {CR1})")
EXPLICIT_GONE = f"explicit pin {CR2} not found in namespace {OME}"
EXPLICIT = [
    Case("E1 other content than live", isvc(CR1, revision=CR2), World([LIVE1, R1, R2]), "E1", "EXPLICIT", TO2,
         events=(EXPLICIT2,)),
    Case("E1 from no pin", isvc(revision=CR2), World([LIVE1, R2]), "E1", "EXPLICIT", TO2,
         events=(normal("RuntimePinExplicit", f"pinned to explicit revision {CR2} (was none)"),)),
    Case("E1 consumes no token", isvc(CR1, "2", "1", revision=CR2), World([LIVE1, R1, R2]), "E1", "EXPLICIT", TO2,
         events=(EXPLICIT2,)),
    Case("E1 steady", isvc(CR2, revision=CR2), World([LIVE1, R2]), "E1", "EXPLICIT"),
    Case("E1 takes a mark off first", isvc(CR1, revision=CR2), World([LIVE1, revision(V2, marked=True)]), "E1",
         "EXPLICIT", TO2, events=(EXPLICIT2,), unmarks=(CR2,)),
    Case("E1 a snapshot being deleted exists", isvc(CR2, revision=CR2), World([LIVE1, revision(V2, deleting=True)]),
         "E1", "EXPLICIT"),
    Case("E1 removes RevisionMismatch silently", isvc(CR1, drift=OLD, revision=CR1), World([LIVE2, R1]), "E1",
         "EXPLICIT", drift="removed"),
    Case("E1 tells that a missing snapshot is back", isvc(CR1, drift=LOST, revision=CR1), World([LIVE2, R1]), "E1",
         "EXPLICIT", drift="removed", events=(RESOLVED_BY_PIN,)),
    Case("E1 does not read the live document", isvc(CR1, revision=CR1), World([runtime("text"), R1]), "E1",
         "EXPLICIT"),
    Case("E2 source absent", isvc(CR1, revision=CR2), World([R2]), "E2", "EXPLICIT", TO2, events=(EXPLICIT2,)),
    Case("E2 takes a mark off first", isvc(CR1, revision=CR2), World([revision(V2, marked=True)]), "E2", "EXPLICIT",
         TO2, events=(EXPLICIT2,), unmarks=(CR2,)),
    Case("E3 missing", isvc(CR1, "2", "1", revision=CR2), World([LIVE1, R1]), "E3", "HOLD", {}, "RevisionMissing",
         EXPLICIT_GONE, (f"Warning RuntimeRevisionMissing: {EXPLICIT_GONE}",)),
    Case("E3 told once", isvc(CR1, drift=("RevisionMissing", EXPLICIT_GONE), revision=CR2), World([LIVE1, R1]), "E3",
         "HOLD", {}, "RevisionMissing", EXPLICIT_GONE),
    Case("E3 invalid", isvc(CR1, revision=CR1), World([LIVE1, BAD]), "E3", "HOLD", {}, "RevisionInvalid", BAD_TEXT,
         (BAD_EVENT,)),
]  # fmt: skip


def first(last: str | None = None) -> Doc:
    return {"pinnedRevisionName": CR1, **({"lastRuntimeSyncToken": last} if last else {})}


PINNED = normal("RuntimePinned", f"pinned to {CR1} of ClusterServingRuntime {RT}")
MOVED = normal("RuntimePinMoved", f"reference changed; pinned to {CR1} of ClusterServingRuntime {RT} (was {FOREIGN})")
FIRST = [
    Case("F1 creates", isvc(), World([LIVE1]), "F1", "FIRST_PIN", first(), events=(PINNED,), creates=(CR1,)),
    Case("F1 reuses", isvc(), World([LIVE1, R1]), "F1", "FIRST_PIN", first(), events=(PINNED,)),
    Case("F1 reuses a marked one", isvc(), World([LIVE1, revision(V1, marked=True)]), "F1", "FIRST_PIN", first(),
         events=(PINNED,), unmarks=(CR1,)),
    Case("F1 records the token", isvc(token="2"), World([LIVE1]), "F1", "FIRST_PIN", first("2"), events=(PINNED,),
         creates=(CR1,)),
    Case("F1 without token empties last", isvc(last="1"), World([LIVE1]), "F1", "FIRST_PIN",
         {"pinnedRevisionName": CR1, "lastRuntimeSyncToken": None}, events=(PINNED,), creates=(CR1,)),
    Case("F1 removes the condition without DriftResolved", isvc(drift=OLD), World([LIVE1]), "F1", "FIRST_PIN", first(),
         "removed", events=(PINNED,), creates=(CR1,)),
    Case("F1 disabled retries", isvc(token="2"), World([runtime(DISABLED)]), "F1", "RETRY",
         error=f"{NO_PIN}: {RUNTIME_KIND} {RT} is disabled",
         events=(pin_error(f"{NO_PIN}: {RUNTIME_KIND} {RT} is disabled"),), retry=True),
    Case("F1 empty retries", isvc(), World([runtime({"a": None})]), "F1", "RETRY",
         error=f"{NO_PIN}: {RUNTIME_KIND} {RT} has an empty spec",
         events=(pin_error(f"{NO_PIN}: {RUNTIME_KIND} {RT} has an empty spec"),), retry=True),
    Case("F2 absent", isvc(token="2", drift=OLD), World(), "F2", "RETRY", {}, "RevisionMismatch", MISMATCH,
         (pin_error(NOT_FOUND),), NOT_FOUND, True),
    Case("M moves", isvc(FOREIGN, drift=OLD), World([LIVE1]), "M", "MOVE", first(), "removed", events=(MOVED,),
         creates=(CR1,)),
    Case("M does not need the old pin", isvc(FOREIGN, "2", "2"), World([LIVE1, R1], {FOREIGN}), "M", "MOVE", first(),
         events=(MOVED,)),
    Case("M absent keeps the old pin", isvc(FOREIGN, drift=OLD), World(), "M", "RETRY", {}, "RevisionMismatch",
         MISMATCH, (pin_error(NOT_FOUND),), NOT_FOUND, True),
    Case("M disabled keeps the old pin", isvc(FOREIGN), World([runtime(DISABLED)]), "M", "RETRY",
         error=f"{NO_PIN}: {RUNTIME_KIND} {RT} is disabled",
         events=(pin_error(f"{NO_PIN}: {RUNTIME_KIND} {RT} is disabled"),), retry=True),
]  # fmt: skip
ADVANCE_OFF = f"advance pin for {RT}: {RUNTIME_KIND} {RT} is disabled"
TO2_TOKEN = {"pinnedRevisionName": CR2, "lastRuntimeSyncToken": "2"}
MANAGED = [
    Case("P1 missing", isvc(CR1), World([LIVE1]), "P1", "HOLD", {}, "RevisionMissing", LOST[1], (LOST_EVENT,)),
    Case("P1 told once", isvc(CR1, drift=LOST), World([LIVE1]), "P1", "HOLD", {}, "RevisionMissing", LOST[1]),
    Case("P1 new token, source absent", isvc(CR1, "2", "1"), World(), "P1", "HOLD", {}, "RevisionMissing", LOST[1],
         (LOST_EVENT,)),
    Case("P1 invalid", isvc(CR1, "1", "1"), World([LIVE1, BAD]), "P1", "HOLD", {}, "RevisionInvalid", BAD_TEXT,
         (BAD_EVENT,)),
    Case("P1 reason changes", isvc(CR1, drift=LOST), World([LIVE1, BAD]), "P1", "HOLD", {}, "RevisionInvalid",
         BAD_TEXT, (BAD_EVENT,)),
    Case("P2 advances", isvc(CR1, "2", "1", LOST), World([LIVE2]), "P2", "ADVANCE", TO2_TOKEN, "removed",
         events=(ADVANCED,), creates=(CR2,)),
    Case("P2 to the same name", isvc(CR1, "2", "1", LOST), World([LIVE1]), "P2", "ADVANCE",
         {"lastRuntimeSyncToken": "2"}, "removed",
         events=(normal("RuntimePinAdvanced", f"advanced from {CR1} to {CR1}"),), creates=(CR1,)),
    Case("P2 disabled acts as P1", isvc(CR1, "2", "1"), World([runtime(DISABLED)]), "P2", "HOLD", {},
         "RevisionMissing", LOST[1], (LOST_EVENT, pin_error(ADVANCE_OFF)), ADVANCE_OFF),
    Case("P3 source absent", isvc(CR1), World([R1]), "P3", "STEADY", {}, "SourceRuntimeMissing", GONE,
         (f"Warning SourceRuntimeMissing: {GONE}",)),
    Case("P3 token waits", isvc(CR1, "2", "1", ("SourceRuntimeMissing", GONE)), World([R1]), "P3", "STEADY", {},
         "SourceRuntimeMissing", GONE),
    Case("P4 equal", isvc(CR1), World([LIVE1, R1]), "P4", "STEADY"),
    Case("P4 token waits", isvc(CR1, "2", "1"), World([LIVE1, R1]), "P4", "STEADY"),
    Case("P4 null members are no difference", isvc(CR1), World([runtime({**V1, "x": None}), R1]), "P4", "STEADY"),
    Case("P4 drift ends", isvc(CR1, drift=OLD), World([LIVE1, R1]), "P4", "STEADY", {}, "removed",
         events=(RESOLVED_BY_PIN,)),
    Case("P5 differs", isvc(CR1), World([LIVE2, R1]), "P5", "DRIFT", {}, "RevisionMismatch", MISMATCH,
         (f"Warning RuntimeDrifted: {MISMATCH}",)),
    Case("P5 told once", isvc(CR1, "1", "1", OLD), World([LIVE2, R1]), "P5", "DRIFT", {}, "RevisionMismatch", MISMATCH),
    Case("P5 disabled counts as a change", isvc(CR1), World([runtime({**V1, "disabled": True}), R1]), "P5", "DRIFT",
         {}, "RevisionMismatch", MISMATCH, (f"Warning RuntimeDrifted: {MISMATCH}",)),
    Case("P6 advances", isvc(CR1, "2", "1", OLD), World([LIVE2, R1]), "P6", "ADVANCE", TO2_TOKEN, "removed",
         events=(ADVANCED,), creates=(CR2,)),
    Case("P6 reuses and unmarks", isvc(CR1, "2", "1"), World([LIVE2, R1, revision(V2, marked=True)]), "P6", "ADVANCE",
         TO2_TOKEN, events=(ADVANCED,), unmarks=(CR2,)),
    Case("P6 disabled acts as P5", isvc(CR1, "2", "1"), World([runtime(DISABLED), R1]), "P6", "DRIFT", {},
         "RevisionMismatch", MISMATCH, (f"Warning RuntimeDrifted: {MISMATCH}", pin_error(ADVANCE_OFF)), ADVANCE_OFF),
]  # fmt: skip
CASES = FOLLOWING + UNDETERMINED + EXPLICIT + FIRST + MANAGED
ENDS = {"FIRST_PIN", "MOVE", "ADVANCE"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.reason)
def test_row(case: Case) -> None:
    answer = case.world.ask(case.isvc)
    assert (answer.row, answer.decision) == (case.row, case.decision), case.reason
    assert answer.patch == case.patch
    assert (answer.drift, answer.message) == (case.drift, case.message)
    assert tuple(answer.events) == case.events
    assert (answer.error, answer.retry) == (case.error, case.retry)
    assert tuple(item["metadata"]["name"] for item in answer.creates) == case.creates
    assert tuple(answer.unmarks) == case.unmarks
    # 5.3: a pass that changes or clears the pin ends with the status write.
    assert answer.stops == (case.decision in ENDS or "pinnedRevisionName" in case.patch)


def test_every_row_has_a_case() -> None:
    rows = {"L", "X", "E1", "E2", "E3", "F1", "F2", "M", "P1", "P2", "P3", "P4", "P5", "P6"}
    assert {case.row for case in CASES} == rows
