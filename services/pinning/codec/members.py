"""One member of an object that section 2 of the pinning specification refuses as a whole."""

from __future__ import annotations

import json
import re
from typing import Any

from services.kit import canonical
from services.kit.jsontypes import JsonObject

_SPACE = re.compile(r"[ \t\n\r]*")
_TYPES = json.JSONDecoder(parse_int=len, parse_float=len)


def lenient(data: bytes) -> JsonObject | None:
    """The object without the limits of section 2, the last of doubled members; None when it is no JSON object."""
    try:
        parsed = json.loads(data, parse_int=_number)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _number(literal: str) -> int:
    return int(literal) if len(literal) <= 20 else 0


def member(data: bytes, name: str) -> tuple[Any, str]:
    """The strictly decoded member `name` of an object, and what section 2 refuses in it (empty when nothing)."""
    try:
        raw = _raw(data.decode(), name)
    except (ValueError, RecursionError):
        return None, "the document cannot be read"
    if raw is None or raw == "null":
        return None, ""
    try:
        return canonical.decode(raw.encode()), ""
    except canonical.DocumentError as error:
        return None, error.detail


def raw_member(data: bytes, name: str) -> str | None:
    """Source text of a member; None when there is none that can be found."""
    try:
        return _raw(data.decode(), name)
    except (ValueError, RecursionError):
        return None


def _raw(text: str, name: str) -> str | None:
    """Source text of a top-level member, the last one of that name."""
    found = None
    at = _skip(text, _skip(text, 0) + 1)
    while text[at : at + 1] == '"':
        key, at = _TYPES.raw_decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        _, end = _TYPES.raw_decode(text, start)
        if key == name:
            found = text[start:end]
        at = _skip(text, end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
    return found


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
