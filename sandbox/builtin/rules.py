"""Rules of built-in kinds."""

from __future__ import annotations

from sandbox.jsontypes import JsonObject
from sandbox.schema.validation import Fault


def faults(group: str, kind: str, obj: JsonObject, old: JsonObject | None, subresource: str) -> list[Fault]:
    """Every broken rule."""
    return []
