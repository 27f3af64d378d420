"""Decoding into Go structs (built-in kinds, and the metadata of all): no value of another type is taken."""

from __future__ import annotations

from sandbox.api.status import bad_request
from sandbox.jsontypes import JsonObject, JsonValue
from sandbox.schema import formats, quantity
from sandbox.schema.node import Node
from sandbox.schema.values import number, type_name

_GO = {"string": "string", "boolean": "bool", "number": "float64", "object": "map[string]interface {}", "array": "[]"}
_JSON = {"boolean": "bool", "integer": "number"}


class Mismatch(Exception):
    """A value that does not fit: the text of Go's json package."""


def check_types(obj: JsonObject, node: Node, kind: str, version: str) -> None:
    """Takes out nulls and turns numeric quantities into text, in place; 400 for a value of a wrong type."""
    try:
        for name in [key for key, value in obj.items() if value is None]:
            del obj[name]
        _check(obj, node, "", kind)
    except Mismatch as error:
        text = f'{kind} in version "{version}" cannot be handled as a {kind}: {error}'
        raise bad_request(text) from None


def _check(value: JsonValue, node: Node, path: str, struct: str) -> None:
    if isinstance(value, dict) and node.type in ("object", ""):
        _members(value, node, path, node.title or struct)
    elif isinstance(value, list) and node.type == "array":
        if node.items is not None:
            value[:] = [_zero(node.items) if item is None else item for item in value]
            for item in value:
                _check(item, node.items, path, struct)
    elif value is not None and not _fits(value, node):
        raise Mismatch(_text(value, node, path, struct))


def _members(value: JsonObject, node: Node, path: str, struct: str) -> None:
    for name in list(value):
        child = node.properties.get(name) or node.additional
        if child is None:
            continue
        if value[name] is None:
            if name in node.properties:
                del value[name]
            else:
                value[name] = _zero(child)
            continue
        if child.quantity:
            value[name] = _quantity(value[name])
        place = f"{path}.{name}" if name in node.properties else path
        _check(value[name], child, place.lstrip("."), struct)


def _zero(node: Node) -> JsonValue:
    """What Go makes of a null in a map or a list: the zero value."""
    if node.int_or_string:
        return 0
    zeros: JsonObject = {"string": "", "integer": 0, "number": 0, "boolean": False, "object": {}, "array": []}
    return zeros.get(node.type)


def _quantity(value: JsonValue) -> JsonValue:
    """A number becomes text; text has to be a quantity."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(value)
    if isinstance(value, str):
        try:
            quantity.parse(value)
        except ValueError as error:
            raise Mismatch(str(error)) from None
    return value


def _fits(value: JsonValue, node: Node) -> bool:
    if node.int_or_string:
        return isinstance(value, str | int) and not isinstance(value, bool)
    given = type_name(value)
    if node.type == "integer":
        return given == "integer" and formats.integer_fits(value, node.format)
    return node.type in ("", given) or (node.type == "number" and given == "integer")


def _text(value: JsonValue, node: Node, path: str, struct: str) -> str:
    given = type_name(value)
    shown = _JSON.get(given, given)
    if node.int_or_string:
        return f"json: cannot unmarshal {shown} into Go struct field {struct}.{path} of type intstr.IntOrString"
    if node.type == "integer" and given in ("integer", "number"):
        shown = f"number {number(value)}"
    wanted = node.format or "int32" if node.type == "integer" else _GO.get(node.type, node.type)
    if node.type == "object" and node.title:
        wanted = f"v1.{node.title}"
    if node.type == "array" and node.items is not None:
        inner = node.items
        wanted = f"[]v1.{inner.title}" if inner.title else f"[]{_GO.get(inner.type, inner.type)}"
    return f"json: cannot unmarshal {shown} into Go struct field {struct}.{path} of type {wanted}"
