"""What a decision means for status, conditions and events (pinning specification 5.3 to 5.5)."""

from __future__ import annotations

from dataclasses import dataclass

from services.kit.conditions import Change
from services.kit.jsontypes import JsonObject
from services.pinning.isvc import InferenceService
from services.pinning.machine import Absent, Decision, Drift, LiveView
from services.pinning.sources import Source

DRIFTED = "RuntimeDrifted"
READY = "RuntimeReady"
ERROR = "RuntimePinError"
DRIFT_EVENTS = {
    "RevisionMismatch": "RuntimeDrifted",
    "RevisionMissing": "RuntimeRevisionMissing",
    "RevisionInvalid": "RuntimeRevisionInvalid",
    "RuntimeMismatch": "RuntimeMismatch",
    "SourceRuntimeMissing": "SourceRuntimeMissing",
}


@dataclass(frozen=True, slots=True)
class EventText:
    """One event: type, reason, message; `on_change` repeats it only when its text changes."""

    type: str
    reason: str
    message: str
    on_change: bool = False


def stored_drift(isvc: InferenceService) -> Drift | None:
    """The drift the stored status tells, None unless the condition is True."""
    item = isvc.condition(DRIFTED)
    if item is None or item.get("status") != "True":
        return None
    return Drift(str(item.get("reason", "")), str(item.get("message", "")))


def status_patch(isvc: InferenceService, decision: Decision) -> JsonObject:
    """Merge patch of `.status`: pin and last token where they change; an empty value removes the field."""
    patch: JsonObject = {}
    if decision.pin != isvc.pin:
        patch["pinnedRevisionName"] = decision.pin or None
    if decision.last != isvc.last:
        patch["lastRuntimeSyncToken"] = decision.last or None
    return patch


def condition_changes(isvc: InferenceService, decision: Decision, live: LiveView | None) -> list[Change]:
    """Wished conditions: `RuntimeDrifted` True or removed, `RuntimeReady` where this decision knows it."""
    changes: list[Change] = []
    if decision.drift is not None:
        changes.append(Change(DRIFTED, "True", decision.drift.reason, decision.drift.message))
    elif isvc.condition(DRIFTED) is not None:
        changes.append(Change(DRIFTED, ""))
    ready = _ready(isvc, decision, live)
    return [*changes, ready] if ready else changes


def _ready(isvc: InferenceService, decision: Decision, live: LiveView | None) -> Change | None:
    if isvc.reference is None:
        return None
    if isinstance(live, Absent) and (decision.renders == "live" or decision.row in ("F2", "M")):
        return Change(READY, "False", "RuntimeNotFound", live.text)
    if decision.renders == "hold" or (decision.renders == "live" and decision.error):
        return None
    return Change(READY, "True", "RuntimeResolved")


def events(isvc: InferenceService, decision: Decision, live: LiveView | None, source: Source | None) -> list[EventText]:
    """The events of section 5.5; `source` is that of the new pin for first pins and moves."""
    found = _pin_events(isvc, decision, source)
    found += _drift_events(isvc, decision)
    if decision.error:
        found.append(EventText("Warning", ERROR, decision.error, on_change=True))
    if decision.row == "L" and isinstance(live, Absent):
        stored = isvc.condition(READY) or {}
        if (stored.get("status"), stored.get("message")) != ("False", live.text):
            found.append(EventText("Warning", "RuntimeNotFound", live.text))
    return found


def _pin_events(isvc: InferenceService, decision: Decision, source: Source | None) -> list[EventText]:
    old, new = isvc.pin, decision.pin
    if decision.kind == "FIRST_PIN":
        return [EventText("Normal", "RuntimePinned", f"pinned to {new} of {source}")]
    if decision.kind == "MOVE":
        text = f"reference changed; pinned to {new} of {source} (was {old})"
        return [EventText("Normal", "RuntimePinMoved", text)]
    if decision.kind == "ADVANCE":
        return [EventText("Normal", "RuntimePinAdvanced", f"advanced from {old} to {new}")]
    if decision.kind == "EXPLICIT" and old != new:
        text = f"pinned to explicit revision {new} (was {old or 'none'})"
        return [EventText("Normal", "RuntimePinExplicit", text)]
    if decision.kind == "LIVE" and old:
        return [EventText("Normal", "RuntimePinReleased", f"following the live runtime; released {old}")]
    return []


def _drift_events(isvc: InferenceService, decision: Decision) -> list[EventText]:
    before, after = stored_drift(isvc), decision.drift
    if after is not None:
        if after == before:
            return []
        return [EventText("Warning", DRIFT_EVENTS.get(after.reason, after.reason), after.message)]
    if before is None or not isvc.pin or decision.pin != isvc.pin or decision.kind == "ADVANCE":
        return []
    if decision.kind == "EXPLICIT" and before.reason == "RevisionMismatch":
        return []
    return [EventText("Normal", "RuntimeDriftResolved", f"no longer drifted from {isvc.pin}")]
