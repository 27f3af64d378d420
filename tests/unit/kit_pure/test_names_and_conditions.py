"""Bounded names (pinning specification 1.3) and the fold of conditions."""

from __future__ import annotations

import hashlib

import pytest

from services.kit import conditions, names
from services.kit.conditions import Change, Rollup


def hex8(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


LONG = "a" * 64
DASHED = "b" * 52 + "-." + "c" * 30


@pytest.mark.parametrize(
    ("name", "expected", "reason"),
    [
        ("echo", "echo", "short"),
        ("a" * 63, "a" * 63, "just fits"),
        (LONG, "a" * 54 + "-" + hex8(LONG), "one too long"),
        (DASHED, "b" * 52 + "-" + hex8(DASHED), "trailing dash and dot go"),
    ],
)
def test_labels(name: str, expected: str, reason: str) -> None:
    assert names.bound_label(name) == expected, reason
    assert len(expected) <= 63


def test_prefixes() -> None:
    fits, over = "p" * 244, "p" * 245
    assert names.bound_prefix(fits) == fits
    assert names.bound_prefix(over) == "p" * 235 + "-" + hex8(over)
    assert len(names.bound_prefix(over) + "-12345678") == 253


def test_cut_keeps_the_end() -> None:
    assert names.cut("abc", 3) == "abc"
    assert names.cut("x" * 40, 32) == hex8("x" * 40) + "-" + "x" * 23


NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"


def test_times_move_only_with_the_status() -> None:
    first = conditions.apply([], [Change("A", "True", "R", "m")], NOW, 1)
    second = conditions.apply(first, [Change("A", "True", "S", "n")], LATER, 2)
    third = conditions.apply(second, [Change("A", "False", "S", "n")], LATER, 2)
    assert second[0]["lastTransitionTime"] == NOW and second[0]["reason"] == "S"
    assert third[0]["lastTransitionTime"] == LATER


def test_nothing_changed_is_equal_and_input_is_left_alone() -> None:
    stored = conditions.apply([], [Change("A", "True", "R", "m"), Change("B", "False")], NOW, 1)
    copy = [dict(item) for item in stored]
    assert conditions.apply(stored, [Change("A", "True", "R", "m")], LATER, 1) == stored
    conditions.apply(stored, [Change("A", "False"), Change("B", "")], LATER, 3)
    assert stored == copy


def test_an_empty_status_removes() -> None:
    stored = conditions.apply([], [Change("A", "True"), Change("B", "True")], NOW, 1)
    left = conditions.apply(stored, [Change("A", ""), Change("C", "")], NOW, 1)
    assert [item["type"] for item in left] == ["B"]


def test_a_roll_up_names_the_first_that_is_not_true() -> None:
    rollup = Rollup("Ready", ("A", "B"), "Ready")
    stored = conditions.apply([], [Change("A", "True"), Change("B", "False", "Why", "because")], NOW, 1)
    assert conditions.roll_up(stored, rollup) == Change("Ready", "False", "Why", "because")
    stored = conditions.apply(stored, [Change("B", "True")], NOW, 1)
    assert conditions.roll_up(stored, rollup) == Change("Ready", "True", "Ready", "")
    assert conditions.roll_up([], rollup).status == "False"
