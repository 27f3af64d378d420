"""Actions on a pin as the patch a user would write: sync, pin, unpin (pinning specification 8, PlanAction)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from services.kit.jsontypes import JsonObject
from services.pinning import machine
from services.pinning.isvc import TOKEN, InferenceService


class Refusal(Exception):
    """An action that does not fit the object: reason and what to do; `lost` when the caller saw another state."""

    def __init__(self, reason: str, message: str, *, lost: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.lost = lost


@dataclass(frozen=True, slots=True)
class Planned:
    """The patch (None when it already stands) and one line on what it does."""

    patch: JsonObject | None
    preview: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What the caller saw; empty parts are not compared."""

    uid: str = ""
    resource_version: str = ""
    pin: str = ""


def plan(isvc: InferenceService, seen: Seen, action: Callable[[], Planned]) -> Planned:
    """Compare-and-set around an action. Raises Refusal, `lost` when the caller saw another state.

    What already stands is answered as such to a caller who is behind: a repeated request finds its own effect.
    Another uid is another object, hence always lost.
    """
    _compare(("uid", seen.uid, isvc.uid))
    versions = (
        ("resourceVersion", seen.resource_version, isvc.resource_version),
        ("status.pinnedRevisionName", seen.pin, isvc.pin),
    )
    try:
        planned = action()
    except Refusal:
        _compare(*versions)
        raise
    if planned.patch is not None:
        _compare(*versions)
    return planned


def _compare(*facts: tuple[str, str, str]) -> None:
    for what, expected, actual in facts:
        if expected and expected != actual:
            text = f'{what} is "{actual}", not the expected "{expected}"; read the InferenceService again'
            raise Refusal("RESOURCE_VERSION_CONFLICT", text, lost=True)


def sync(isvc: InferenceService, request_id: str) -> Planned:
    """Roll forward to the live runtime: the token is the request id. Refused while nothing is pinned."""
    if not isvc.pinned_mode:
        raise Refusal("NotPinned", "spec.runtime.autoSync is not false: the service already follows the live runtime")
    if isvc.runtime.revision:
        text = "spec.runtime.revision is set and overrides a sync; remove it first (UNPIN or edit)"
        raise Refusal("ExplicitRevision", text)
    if request_id in (isvc.token, isvc.last):
        return Planned(None, "this request was applied before")
    return Planned({"metadata": {"annotations": {TOKEN: request_id}}}, "roll forward to the live runtime")


def pin(isvc: InferenceService, revision: str, view: machine.SnapshotView | None) -> Planned:
    """Pin to an existing snapshot. Refused when the runtime is not named or the snapshot cannot be used."""
    if isvc.reference is None:
        raise Refusal("RuntimeNotNamed", "spec.runtime.name is not set; a pin needs a named runtime")
    if isinstance(view, machine.Broken):
        # A mismatch already names the revision.
        whole = view.reason == "RuntimeMismatch"
        raise Refusal(view.reason, view.cause if whole else f"revision {revision} cannot be used: {view.cause}")
    if view is None or isinstance(view, machine.Missing):
        raise Refusal("RevisionMissing", f"revision {revision} does not exist; list the runtime's revisions")
    if isinstance(view, machine.Undetermined):
        raise Refusal("RevisionUnknown", f"revision {revision} could not be read: {view.error}")
    if not isvc.runtime.auto_sync and isvc.runtime.revision == revision:
        return Planned(None, f"already pinned to {revision}")
    return Planned({"spec": {"runtime": {"autoSync": False, "revision": revision}}}, f"pin to {revision}")


def unpin(isvc: InferenceService) -> Planned:
    """Follow the live runtime again: autoSync true, no revision."""
    if isvc.runtime.auto_sync and not isvc.runtime.revision:
        return Planned(None, "already follows the live runtime")
    return Planned({"spec": {"runtime": {"autoSync": True, "revision": None}}}, "follow the live runtime")
