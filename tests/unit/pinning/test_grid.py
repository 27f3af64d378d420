"""The state machine over the full grid of its inputs, held to an independent table and to invariants."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.unit.pinning.test_rows import OLD, isvc
from tests.unit.pinning.world import CLUSTER, CR1, CR2, LOCAL, NS, RT, SECRET, V1, V2, World, revision, runtime

PIN = {"none": "", "own": CR1, "moved": f"cr-other-{CR1[-8:]}"}
TOKEN = {"none": ("", "1"), "same": ("1", "1"), "new": (SECRET, "1")}
VIEWS = ("usable", "missing", "broken", "unknown")
LIVE = ("equal", "other", "scope", "disabled", "refused", "absent", "unknown")
GRID = list(itertools.product((True, False), (True, False), ("", CR2), VIEWS, PIN, VIEWS, LIVE, TOKEN, (CLUSTER, None)))


def oracle(auto: bool, named: bool, rev: str, explicit: str, pin: str, pinned: str, live: str, token: str) -> str:
    """The row by the table of 5.1, top to bottom."""
    found = live not in ("absent", "unknown")
    if auto or not named:
        return "L"
    if rev:
        return {"unknown": "X", "usable": "E1" if found else "E2"}.get(explicit, "E3")
    if (pin == "own" and pinned == "unknown") or live == "unknown":
        return "X"
    if pin == "none":
        return "F1" if found else "F2"
    if pin == "moved":
        return "M"
    if pinned != "usable":
        return "P2" if token == "new" and found else "P1"
    if live == "absent":
        return "P3"
    if live == "equal":
        return "P4"
    return "P6" if token == "new" and live != "refused" else "P5"


def build(explicit: str, pinned: str, live: str) -> World:
    world = World()
    for name, spec, view in ((CR1, V1, pinned), (CR2, V2, explicit)):
        if view == "unknown":
            world.unknown.add(name)
        elif view != "missing":
            world.objects.append(revision(spec, annotations={"ome.io/created-by": None} if view == "broken" else {}))
    specs: dict[str, Any] = {"equal": V1, "other": {"x": 1}, "scope": V1, "disabled": {"x": 1, "disabled": True}}
    specs["refused"] = {"n": 2**53}
    if live == "unknown":
        world.unknown.add(RT)
    elif live == "scope":
        world.objects.append(runtime(V1, kind=LOCAL, ns=NS))
    elif live != "absent":
        world.objects.append(runtime(specs[live]))
    return world


@pytest.mark.parametrize("kind", [CLUSTER, None], ids=["cluster", "omitted"])
@pytest.mark.parametrize("drift", [None, OLD], ids=["no drift", "drifted"])
def test_grid(kind: str | None, drift: tuple[str, str] | None) -> None:
    for auto, named, rev, explicit, pin, pinned, live, token, of_kind in GRID:
        if of_kind != kind or (not rev and explicit != "usable") or (pin != "own" and pinned != "missing"):
            continue
        where = (auto, named, rev, explicit, pin, pinned, live, token)
        tok, last = TOKEN[token]
        doc = isvc(PIN[pin], tok, last, drift, kind=kind, autoSync=auto, name=RT if named else None, revision=rev)
        answer = build(explicit, pinned, live).ask(doc)
        seen = "absent" if live == "scope" and kind else live
        row = oracle(auto, named, rev, explicit, pin, pinned, seen, token)
        assert answer.row == row, where
        invariants(answer, row, where, PIN[pin], drift)


def invariants(answer: Any, row: str, where: tuple[Any, ...], pin: str, drift: tuple[str, str] | None) -> None:
    patch, events = answer.patch, answer.events
    warnings = [text for text in events if text.startswith("Warning") and "RuntimePinError" not in text]
    assert len([text for text in warnings if "RuntimeNotFound" not in text]) <= 1, where
    assert (answer.error == "") == (not any("RuntimePinError" in text for text in events)), where
    after = patch.get("pinnedRevisionName", pin)
    if answer.decision in ("FIRST_PIN", "MOVE", "ADVANCE"):
        assert after, where
        assert patch.get("lastRuntimeSyncToken", "1") == (TOKEN[where[-1]][0] or None), where
        assert answer.drift in ("kept", "removed"), where
        assert answer.stops, where
    else:
        assert "lastRuntimeSyncToken" not in patch, where
        assert not answer.creates, where
    if answer.decision in ("HOLD", "RETRY"):
        assert patch == {}, where
        assert not answer.outcome.writes, where
        assert not answer.stops, where
    if row == "L":
        assert not after, where
        assert answer.drift == ("removed" if drift else "kept"), where
    if row == "X":
        assert answer.retry, where
        assert answer.drift == (drift[0] if drift else "kept"), where
    for item in answer.outcome.status.conditions:
        assert item.type != "RuntimeDrifted" or item.status in ("True", ""), where
        assert SECRET not in item.message, where
    assert all(SECRET not in text for text in (*events, answer.error)), where
