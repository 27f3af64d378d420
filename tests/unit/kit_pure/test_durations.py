"""Durations: what is read, what is refused, the normal form; held to the recorded oracle where it is at hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.kit import durations
from services.kit.durations import DurationError, UnknownUnitError

ORACLE = Path(__file__).parents[4] / "shared" / "data" / "duration-and-number-oracle.txt"
READ = [
    ("0", 0, "0s", "zero needs no unit"),
    ("-0", 0, "0s", "signed zero"),
    ("5m", 300 * 10**9, "5m0s", "the seconds are told"),
    ("1m30s", 90 * 10**9, "1m30s", "two parts"),
    ("1.5s", 1_500_000_000, "1.5s", "a fraction"),
    (".5s", 500_000_000, "500ms", "no digit before the point"),
    ("1500ms", 1_500_000_000, "1.5s", "a larger unit"),
    ("36h", 36 * 3600 * 10**9, "36h0m0s", "no days"),
    ("-5s", -5 * 10**9, "-5s", "negative"),
    ("1us", 1000, "1µs", "microseconds"),
    ("1ns", 1, "1ns", "nanoseconds"),
    ("-9223372036854775808ns", -(2**63), "-2562047h47m16.854775808s", "the smallest of 64 bits"),
    ("1h1ms", 3_600_001_000_000, "1h0m0.001s", "a gap between units"),
]
BAD = [
    ("", "nothing"),
    ("-", "a sign alone"),
    ("30", "no unit"),
    ("s", "no number"),
    (".s", "a point alone"),
    ("5 s", "a blank within"),
    (" 5s", "a blank before"),
    ("5s ", "a blank behind"),
    ("--5s", "two signs"),
    ("1e3s", "an exponent"),
    ("５s", "a full-width digit"),
    ("٣s", "a digit of another script"),
    ("9999999999999h", "beyond 64 bits"),
    ("1.2.3s", "two points"),
    ("9" * 5000 + "s", "thousands of digits"),
    ("9223372036854775808ns", "one beyond 64 bits"),
]


@pytest.mark.parametrize(("text", "value", "normal", "reason"), READ, ids=[row[3] for row in READ])
def test_read(text: str, value: int, normal: str, reason: str) -> None:
    assert durations.parse(text) == value, reason
    assert durations.format(value) == normal, reason


@pytest.mark.parametrize(("text", "reason"), BAD, ids=[row[1] for row in BAD])
def test_refused(text: str, reason: str) -> None:
    with pytest.raises(DurationError):
        durations.parse(text)


@pytest.mark.parametrize("unit", ["d", "w", "S", "min", "sec"])
def test_an_unknown_unit_is_named(unit: str) -> None:
    with pytest.raises(UnknownUnitError) as caught:
        durations.parse(f"3{unit}")
    assert caught.value.unit == unit


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_the_normal_form_reads_back(value: int) -> None:
    assert durations.parse(durations.format(value)) == value


def recorded() -> list[tuple[str, str, int]]:
    """Rows of the oracle: text, normal form (or empty where refused), nanoseconds."""
    section = ORACLE.read_text("utf-8").split("== durations\n", 1)[1].split("\n==", 1)[0]
    rows = []
    for line in section.splitlines():
        if match := re.fullmatch(r'"(.*?)" -> (\S+) \((-?\d+)\)', line):
            rows.append((match[1], match[2], int(match[3])))
        elif match := re.fullmatch(r'"(.*?)" -> ERR .*', line):
            rows.append((match[1], "", 0))
    return rows


@pytest.mark.skipif(not ORACLE.is_file(), reason="the recorded oracle is not here")
def test_the_oracle_agrees() -> None:
    rows = recorded()
    assert len(rows) > 30
    for text, normal, value in rows:
        if normal:
            assert (durations.parse(text), durations.format(value)) == (value, normal), text
        else:
            with pytest.raises(DurationError):
                durations.parse(text)
