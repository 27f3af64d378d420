"""What kubectl would print of a table."""

from __future__ import annotations

import io

from sandbox.demo.printer import Teller, aligned, rows

TABLE = {
    "columnDefinitions": [
        {"name": "Name", "priority": 0}, {"name": "Ready", "priority": 0}, {"name": "Pinned", "priority": 1},
    ],
    "rows": [
        {"cells": ["one", True, None], "object": {"metadata": {"labels": {"x.io/hash": "ab12"}}}},
        {"cells": ["a-long-name", "two\nlines", "r-1"], "object": {"metadata": {}}},
    ],
}  # fmt: skip


def test_columns_are_aligned_three_spaces_apart() -> None:
    assert aligned(rows(TABLE)) == [
        "NAME          READY",
        "one           true",
        "a-long-name   two",
    ]


def test_wide_columns_and_labels() -> None:
    assert rows(TABLE, wide=True, labels=["x.io/hash"]) == [
        ["NAME", "READY", "PINNED", "HASH"],
        ["one", "true", "<none>", "ab12"],
        ["a-long-name", "two", "r-1", ""],
    ]


def test_no_rows_print_nothing_but_the_header() -> None:
    assert aligned(rows({"columnDefinitions": [{"name": "Name"}], "rows": None})) == ["NAME"]
    assert aligned([]) == []


def test_a_file_gets_no_colours() -> None:
    out = io.StringIO()
    teller = Teller(out)
    teller.heading("Title")
    teller.command("kubectl get x")
    teller.output(["a", "b"])
    assert out.getvalue() == "\nTitle\n  $ kubectl get x\n  a\n  b\n"
