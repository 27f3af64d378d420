"""Tables of built-in kinds."""

from __future__ import annotations

from sandbox.schema.printing import Column


def columns(group: str, kind: str) -> list[Column]:
    """The columns."""
    return []
