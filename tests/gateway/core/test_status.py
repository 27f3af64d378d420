"""Folding patches into one status."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.status import StatusFault, difference, fold, same
from ome.common.v1 import common_pb2 as pb
from services.kit.mergepatch import merge_patch

NOW = datetime(2026, 12, 1, 8, 30, 15, 999, tzinfo=UTC)
OLD = "2026-11-30T00:00:00Z"


def patch(merge_patch: dict[str, Any] | None = None, **more: Any) -> pb.StatusPatch:
    return pb.StatusPatch(merge_patch=json.dumps(merge_patch).encode() if merge_patch else b"", **more)


def change(kind: str, status: str = "True", reason: str = "R", message: str = "m") -> pb.ConditionChange:
    return pb.ConditionChange(type=kind, status=status, reason=reason, message=message)


def condition(kind: str, status: str = "True", generation: int = 1, **more: Any) -> dict[str, Any]:
    base = {"type": kind, "status": status, "reason": "R", "message": "m", "lastTransitionTime": OLD}
    return {**base, "observedGeneration": generation, **more}


def test_patches_are_folded_in_order_and_null_removes() -> None:
    stored = {"pinned": "x", "keep": {"a": 1, "b": 2}}
    folded = fold(stored, [patch({"pinned": None}), patch({"keep": {"b": None, "c": 3}})], NOW, 4, True)
    assert folded == {"keep": {"a": 1, "c": 3}, "observedGeneration": 4}
    assert stored == {"pinned": "x", "keep": {"a": 1, "b": 2}}


def test_observed_generation_moves_only_when_all_have_answered() -> None:
    assert fold({"observedGeneration": 1}, [patch({"x": 1})], NOW, 2, False) == {"observedGeneration": 1, "x": 1}


def test_transition_time_moves_only_with_the_status() -> None:
    stored = {"conditions": [condition("A"), condition("B")]}
    changes = [change("A", message="new"), change("B", "False"), change("C")]
    folded = fold(stored, [patch(conditions=changes)], NOW, 2, False)["conditions"]
    assert [c["lastTransitionTime"] for c in folded] == [OLD, "2026-12-01T08:30:15Z", "2026-12-01T08:30:15Z"]
    assert [c["observedGeneration"] for c in folded] == [2, 2, 2]
    assert folded[0]["message"] == "new"


def test_an_empty_status_removes_the_condition_and_an_empty_list_the_field() -> None:
    gone = pb.ConditionChange(type="A")
    assert fold({"conditions": [condition("A")]}, [patch(conditions=[gone])], NOW, 1, False) == {}
    kept = fold({"conditions": [condition("A"), condition("B")]}, [patch(conditions=[gone])], NOW, 1, False)
    assert [c["type"] for c in kept["conditions"]] == ["B"]


def test_a_rollup_sees_conditions_of_all_patches_and_stored_ones() -> None:
    rollup = pb.ConditionRollup(type="Ready", of=["A", "B"], true_reason="Ready")
    first = patch(rollups=[rollup], conditions=[change("A")])
    later = patch(conditions=[change("B", "False", "NotYet", "wait")])
    folded = {c["type"]: c for c in fold({}, [first, later], NOW, 1, False)["conditions"]}
    assert (folded["Ready"]["status"], folded["Ready"]["reason"], folded["Ready"]["message"]) == (
        "False",
        "NotYet",
        "wait",
    )
    ready = fold({"conditions": [condition("B")]}, [first], NOW, 1, False)["conditions"]
    assert {c["type"]: c["status"] for c in ready} == {"A": "True", "B": "True", "Ready": "True"}
    absent = fold({}, [first], NOW, 1, False)["conditions"]
    assert {c["type"]: c["status"] for c in absent} == {"A": "True", "Ready": "False"}


def test_folding_the_same_again_changes_nothing() -> None:
    patches = [patch({"pinned": "x"}, conditions=[change("A")], rollups=[pb.ConditionRollup(type="Ready", of=["A"])])]
    once = fold({}, patches, NOW, 3, True)
    assert same(once, fold(once, patches, datetime(2027, 1, 1, tzinfo=UTC), 3, True))


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"conditions":[]}', b'{"observedGeneration":1}'])
def test_a_patch_that_cannot_be_folded_is_a_fault(data: bytes) -> None:
    with pytest.raises(StatusFault):
        fold({}, [pb.StatusPatch(merge_patch=data)], NOW, 1, True)


def test_stored_nonsense_is_replaced() -> None:
    folded = fold({"conditions": ["x", 1]}, [patch(conditions=[change("A")])], NOW, 1, False)
    assert [c["type"] for c in folded["conditions"]] == ["A"]
    assert fold({"conditions": "x"}, [], NOW, 1, False) == {}


VALUES = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@settings(deadline=None)
@given(OBJECTS, OBJECTS)
def test_the_difference_turns_old_into_new(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert same(merge_patch(old, difference(old, new)), new)
    assert difference(old, old) == {}
