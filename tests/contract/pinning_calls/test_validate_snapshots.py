"""Validate of snapshots over the wire: every denial, and their order (pinning specification 6)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.pinning_calls.test_admission import FOREIGN, OWNED, REVISIONS, revision
from tests.contract.pinning_calls.test_validate import Doc, judge

MORE: list[tuple[Doc, Doc, str, str]] = [
    (
        revision(),
        revision(labels={}, revision=2, annotations=FOREIGN),
        OWNED + ".labels are immutable",
        "labels come before the number",
    ),
    (revision(), revision(revision=2, annotations=FOREIGN), OWNED + ".revision is immutable", "number before creator"),
    (
        revision(),
        revision(annotations={**FOREIGN, "ome.io/revision-digest": "x"}),
        OWNED + "annotation ome.io/created-by cannot be changed or removed",
        "creator before digest",
    ),
    (
        revision(),
        revision(annotations={"ome.io/revision-digest": "x", "ome.io/runtime-of-name": "y"}),
        OWNED + "annotation ome.io/revision-digest is immutable",
        "digest before the full name",
    ),
    (
        revision(annotations={"ome.io/gc-eligible-since": "2026-01-01T00:00:00Z"}),
        revision(),
        "",
        "the mark may go",
    ),
]
SNAPSHOTS = [*REVISIONS, *MORE]


@pytest.mark.parametrize(("old", "new", "message", "reason"), SNAPSHOTS, ids=[row[3] for row in SNAPSHOTS])
async def test_snapshots(stub: Any, old: Doc | None, new: Doc, message: str, reason: str) -> None:
    allowed, found, warnings = await judge(stub, new, old)
    assert (allowed, [text for _, text in found], warnings) == (not message, [message] if message else [], []), reason
