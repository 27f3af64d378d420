"""What changed between two documents, by JSON pointer, sorted, arrays by index (pinning specification 8)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from services.kit.jsontypes import JsonValue

LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class Difference:
    """One change: kind, JSON pointer (RFC 6901), both values (the absent side is None)."""

    kind: Literal["ADDED", "REMOVED", "CHANGED"]
    pointer: str
    left: JsonValue = None
    right: JsonValue = None


def differences(left: JsonValue, right: JsonValue) -> tuple[list[Difference], bool]:
    """At most 10,000 changes sorted by pointer, and whether there are more. Null members count as absent."""
    found = sorted(_walk("", left, right), key=lambda item: item.pointer)
    return found[:LIMIT], len(found) > LIMIT


def _walk(pointer: str, left: JsonValue, right: JsonValue) -> Iterator[Difference]:
    if isinstance(left, dict) and isinstance(right, dict):
        for name in left.keys() | right.keys():
            yield from _pair(f"{pointer}/{_escape(name)}", left.get(name), right.get(name))
    elif isinstance(left, list) and isinstance(right, list):
        common = min(len(left), len(right))
        for index in range(common):
            yield from _walk(f"{pointer}/{index}", left[index], right[index])
        for index in range(common, len(right)):
            yield Difference("ADDED", f"{pointer}/{index}", None, right[index])
        for index in range(common, len(left)):
            yield Difference("REMOVED", f"{pointer}/{index}", left[index], None)
    elif not _same(left, right):
        yield Difference("CHANGED", pointer, left, right)


def _pair(pointer: str, left: JsonValue, right: JsonValue) -> Iterator[Difference]:
    if left is None and right is not None:
        yield Difference("ADDED", pointer, None, right)
    elif right is None and left is not None:
        yield Difference("REMOVED", pointer, left, None)
    elif left is not None:
        yield from _walk(pointer, left, right)


def _same(left: JsonValue, right: JsonValue) -> bool:
    # True == 1 in Python; in JSON they are different values, while 1 and 1.0 are one.
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
