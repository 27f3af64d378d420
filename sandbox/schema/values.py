"""How Kubernetes writes values in error texts, and what it means by equal."""

from __future__ import annotations

import json

import orjson

from sandbox.jsontypes import JsonValue


def quote(text: str) -> str:
    """A Go-quoted string (``%q``)."""
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted.replace("\x7f", r"\x7f")


def shown(value: JsonValue) -> str:
    """A value after ``Invalid value: ``."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, float):
        return number(value)
    return orjson.dumps(value).decode() if isinstance(value, dict | list) else str(value)


def number(value: float) -> str:
    """A number as Go's ``%v`` prints a float64."""
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e21):
        return str(int(value))
    text = repr(value)
    mantissa, found, exponent = text.partition("e")
    return f"{mantissa.removesuffix('.0')}e{exponent}" if found else text


def type_name(value: JsonValue) -> str:
    """The JSON type of a value, as error texts name it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    return {float: "number", str: "string", list: "array", dict: "object"}[type(value)]


def same(a: JsonValue, b: JsonValue) -> bool:
    """Deep equality that keeps ``true`` and 1 apart."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(value, b[key]) for key, value in a.items())
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)
