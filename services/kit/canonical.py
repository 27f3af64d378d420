"""Canonical JSON `c14n-v1` and its digest (pinning specification, section 2).

Null members are dropped at every depth, the rest is RFC 8785. The rule is frozen: a changed rule gets another name.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import cast

import orjson
import rfc8785

from services.kit.jsontypes import JsonObject, JsonValue

ALGORITHM = "c14n-v1"
MAX_BYTES = 1024 * 1024
MAX_DEPTH = 128
MAX_INTEGER = 2**53 - 1
_INTEGRAL_LIMIT = 1e21
# An open string goes to the end, so that nothing is ever scanned twice.
_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
_BRACKETS = re.compile(rb"[\[\]{}]")
_SURROGATE = re.compile("[\ud800-\udfff]")
# What the fast encoder does not write as RFC 8785 does, where a value may stand: null members and floats, NaN and
# infinities as null. It refuses integers beyond +-(2^53 - 1) itself.
_FAST = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
_NULL_OR_FLOAT_MEMBER = re.compile(rb'":[-n0-9](?:ull|[0-9]*[.e])')
_NULL_OR_FLOAT_NEXT = re.compile(rb",[-n0-9](?:ull|[0-9]*[.e])")
_NULL_OR_FLOAT_FIRST = re.compile(rb"\[[-n0-9](?:ull|[0-9]*[.e])")
_FLOAT_MEMBER = re.compile(rb'":[-0-9][0-9]*[.e]')
_FLOAT_NEXT = re.compile(rb",[-0-9][0-9]*[.e]")
_FLOAT_FIRST = re.compile(rb"\[[-0-9][0-9]*[.e]")
_ESCAPED_COLON = re.compile(rb"\\u003[aA]")
# The first bytes of characters beyond U+FFFF in UTF-8: without them the order of UTF-8 is that of UTF-16.
_BEYOND = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4")
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


class DocumentError(ValueError):
    """A document that section 2 refuses. `reason` is the error reason, `detail` what is wrong and where."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def decode(data: bytes) -> JsonObject:
    """Decode strictly. In: UTF-8 JSON of at most 1 MiB. Out: the object. Raises DocumentError with its reason."""
    if len(data) > MAX_BYTES:
        raise DocumentError("DOCUMENT_TOO_LARGE", f"the document has {len(data)} bytes, at most {MAX_BYTES} are read")
    _check_depth(data)
    quick = _quick(data)
    if quick is not None:
        return quick
    if data.startswith(b"\xef\xbb\xbf"):
        raise DocumentError("MALFORMED_JSON", "the document starts with a byte-order mark")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DocumentError("MALFORMED_JSON", f"invalid UTF-8 at byte {error.start}") from None
    value = _parse(text)
    if _SURROGATE_ESCAPE.search(data):
        _check_surrogates(value)
    if not isinstance(value, dict):
        raise DocumentError("NOT_AN_OBJECT", f"the document is {_type_name(value)}, not an object")
    return value


def _float_element(encoded: bytes) -> bool:
    """Whether an array in bytes of the fast encoder may hold a float."""
    return bool(_FLOAT_FIRST.search(encoded)) or _FLOAT_NEXT.search(encoded) is not None


def _sorted(encoded: bytes) -> bool:
    """Whether members that the fast encoder sorted by UTF-8 stand in the order of UTF-16 code units."""
    return encoded.isascii() or not any(byte in encoded for byte in _BEYOND)


def _quick(data: bytes) -> JsonObject | None:
    """The object, where a fast parser provably read it as the strict one would; None leaves it to the strict one.

    The parser keeps the last of equal members. Written out again such a document has fewer colons, so equal counts
    prove that none was dropped, unless an escape hides a colon in `data`. Floats are left to the strict one, which
    judges their literals.
    """
    if _ESCAPED_COLON.search(data):
        return None
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(value, dict):
        return None
    try:
        again = orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER)
    except orjson.JSONEncodeError:
        return None
    if data != again and data.count(b":") != again.count(b":"):
        return None
    if _FLOAT_MEMBER.search(again) or _float_element(again):
        return None
    return value


def _parse(text: str) -> JsonValue:
    try:
        return cast(
            JsonValue,
            json.loads(
                text,
                object_pairs_hook=_members,
                parse_int=_integer,
                parse_float=_float,
                parse_constant=_constant,
            ),
        )
    except json.JSONDecodeError as error:
        raise DocumentError("MALFORMED_JSON", f"{error.msg} at character {error.pos}") from None


def _check_depth(data: bytes) -> None:
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return
    depth = 0
    for match in _BRACKETS.finditer(_STRINGS.sub(b"", data)):
        if match.group() in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise DocumentError("DOCUMENT_TOO_DEEP", f"the document nests deeper than {MAX_DEPTH} levels")
        else:
            depth -= 1


def _members(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise DocumentError("DUPLICATE_MEMBER", f"member {json.dumps(name)} stands twice in one object")
            seen.add(name)
    return result


def _integer(literal: str) -> int:
    # A literal of thousands of digits would be slow to convert; its length alone refuses it.
    value = int(literal) if len(literal) <= 20 else MAX_INTEGER + 1
    if abs(value) > MAX_INTEGER:
        raise DocumentError("NUMBER_OUT_OF_RANGE", f"integer {literal[:40]} is beyond +-(2^53 - 1)")
    return value


def _float(literal: str) -> float:
    value = float(literal)
    if value in (float("inf"), float("-inf")):
        raise DocumentError("NUMBER_OUT_OF_RANGE", f"number {literal[:40]} overflows binary64")
    if value.is_integer() and MAX_INTEGER < abs(value) < _INTEGRAL_LIMIT:
        raise DocumentError("NUMBER_OUT_OF_RANGE", f"number {literal[:40]} is integral and beyond +-(2^53 - 1)")
    return value


def _constant(name: str) -> float:
    raise DocumentError("MALFORMED_JSON", f"{name} is not JSON")


def _check_surrogates(value: JsonValue) -> None:
    stack: list[JsonValue] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            if _SURROGATE.search(item):
                raise DocumentError("MALFORMED_JSON", "a string has an unpaired surrogate escape")
        elif isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, dict):
            stack.extend(item)
            stack.extend(item.values())


def _type_name(value: JsonValue) -> str:
    names = {type(None): "null", bool: "a boolean", str: "a string", list: "an array"}
    return names.get(type(value), "a number")


def canonical(value: JsonValue) -> bytes:
    """Canonical bytes of a decoded value. Raises DocumentError for an integer beyond +-(2^53 - 1), naming its path, and
    for NaN and infinities."""
    if isinstance(value, dict):
        # Sorted by the fast encoder, without null, float, large integer or a name that UTF-16 sorts otherwise: the
        # same bytes as RFC 8785.
        try:
            data = orjson.dumps(value, option=_FAST)
        except orjson.JSONEncodeError:  # an integer that is too large: its path is told below
            data = b""
        if (
            data
            and _sorted(data)
            and not _NULL_OR_FLOAT_MEMBER.search(data)
            and not _NULL_OR_FLOAT_FIRST.search(data)
            and not _NULL_OR_FLOAT_NEXT.search(data)
        ):
            return data
    simple, cleaned = _clean(value, "")
    return orjson.dumps(cleaned, option=orjson.OPT_SORT_KEYS) if simple else reference(cleaned)


def reference(cleaned: JsonValue) -> bytes:
    """RFC 8785 by its reference package, for values without null members."""
    return rfc8785.dumps(cast(dict[str, object], cleaned))  # type: ignore[arg-type]


def _clean(value: JsonValue, path: str) -> tuple[bool, JsonValue]:
    """Drop null members; also whether orjson provably gives RFC 8785 (no floats, ASCII names)."""
    if isinstance(value, dict):
        simple = True
        members: JsonObject = {}
        for name, item in value.items():
            if item is None:
                continue
            inner, members[name] = _clean(item, f"{path}/{name}") if not isinstance(item, str) else (True, item)
            simple = simple and inner and name.isascii()
        return simple, members
    if isinstance(value, list):
        simple = True
        items: list[JsonValue] = []
        for index, item in enumerate(value):
            inner, cleaned = _clean(item, f"{path}/{index}")
            simple = simple and inner
            items.append(cleaned)
        return simple, items
    if isinstance(value, float):
        if not math.isfinite(value):
            raise DocumentError("NUMBER_OUT_OF_RANGE", f"{path or '/'}: {value} is not JSON")
        return False, value
    if type(value) is int and abs(value) > MAX_INTEGER:
        raise DocumentError("NUMBER_OUT_OF_RANGE", f"{path or '/'}: integer {value} is beyond +-(2^53 - 1)")
    return True, value


def digest(canonical_bytes: bytes) -> str:
    """SHA-256 of canonical bytes, 64 lower-case hex digits."""
    return hashlib.sha256(canonical_bytes).hexdigest()


def short(full: str) -> str:
    """The first 8 hex digits, for names and labels only; comparisons use the full digest."""
    return full[:8]
