"""What makes a schema structural, as apiextensions checks it when a CustomResourceDefinition is written."""

from __future__ import annotations

from collections.abc import Iterator

from sandbox.jsontypes import JsonObject
from sandbox.schema.node import PRESERVE, compile_schema
from sandbox.schema.validation import validate

Violation = tuple[str, str, str]
_REQUIRED, _FORBIDDEN, _INVALID = "FieldValueRequired", "FieldValueForbidden", "FieldValueInvalid"
_SPINE_ONLY = (
    "additionalProperties",
    "default",
    "description",
    "nullable",
    "title",
    "type",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    PRESERVE,
)
_COMBINED = ("allOf", "anyOf", "oneOf", "not")


def violations(schema: JsonObject) -> Iterator[Violation]:
    """Path below the root, cause and text of everything that is not structural."""
    if schema.get("type") != "object":
        yield ".type", _INVALID, f'Invalid value: "{schema.get("type", "")}": must be object at the root'
    yield from _metadata(schema)
    yield from _node(schema, "")


def _metadata(root: JsonObject) -> Iterator[Violation]:
    meta = (root.get("properties") or {}).get("metadata")
    allowed = {"type", "properties", "x-kubernetes-validations"}
    extra = meta is not None and (set(meta) - allowed or set(meta.get("properties") or {}) - {"name", "generateName"})
    if extra:
        text = (
            "Forbidden: must not specify anything other than name and generateName, "
            "but metadata is implicitly specified"
        )
        yield ".properties[metadata]", _FORBIDDEN, text


def _node(schema: JsonObject, path: str) -> Iterator[Violation]:
    yield from _own(schema, path)
    for name, child in (schema.get("properties") or {}).items():
        yield from _node(child, f"{path}.properties[{name}]")
    if isinstance(schema.get("items"), dict):
        yield from _node(schema["items"], f"{path}.items")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _node(schema["additionalProperties"], f"{path}.additionalProperties")
    for name in _COMBINED:
        parts = schema.get(name) or []
        for index, part in enumerate(parts if isinstance(parts, list) else [parts]):
            place = f"{path}.{name}[{index}]" if name != "not" else f"{path}.not"
            yield from _nested(part, place, bool(schema.get("x-kubernetes-int-or-string")))


def _own(schema: JsonObject, path: str) -> Iterator[Violation]:
    kind = schema.get("type", "")
    free = schema.get("x-kubernetes-int-or-string") or schema.get(PRESERVE)
    if not kind and not free:
        yield f"{path}.type", _REQUIRED, "Required value: must not be empty for specified object fields"
    if kind == "array" and not schema.get("items"):
        yield f"{path}.items", _REQUIRED, "Required value: must be specified"
    if kind == "array" and isinstance(schema.get("items"), list):
        yield f"{path}.items", _FORBIDDEN, "Forbidden: items must be a schema object and not an array"
    if schema.get("$ref"):
        yield f"{path}.$ref", _FORBIDDEN, "Forbidden: $ref is not supported"
    if schema.get("uniqueItems"):
        text = "Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield f"{path}.uniqueItems", _FORBIDDEN, text
    if schema.get("x-kubernetes-list-type") == "map":
        yield from _list_map(schema, path)
    yield from _additional(schema, path)
    if schema.get("default") is not None:
        bare = {key: value for key, value in schema.items() if key != "default"}
        for fault in validate(schema["default"], compile_schema(bare)):
            yield f"{path}.default", _INVALID, fault.message


def _additional(schema: JsonObject, path: str) -> Iterator[Violation]:
    if schema.get("additionalProperties") is False:
        yield f"{path}.additionalProperties", _FORBIDDEN, "Forbidden: additionalProperties cannot be set to false"
    if schema.get("properties") and schema.get("additionalProperties"):
        text = "Forbidden: additionalProperties and properties are mutual exclusive"
        yield f"{path}.additionalProperties", _FORBIDDEN, text


def _list_map(schema: JsonObject, path: str) -> Iterator[Violation]:
    items = schema.get("items") or {}
    keys = schema.get("x-kubernetes-list-map-keys") or []
    if not keys:
        text = "Required value: must not be empty if x-kubernetes-list-type is map"
        yield f"{path}.x-kubernetes-list-map-keys", _REQUIRED, text
    for index, key in enumerate(keys):
        child = (items.get("properties") or {}).get(key)
        place = f"{path}.x-kubernetes-list-map-keys[{index}]"
        if child is None:
            yield place, _INVALID, f'Invalid value: "{key}": entries must all be names of item properties'
        elif key not in (items.get("required") or []) and child.get("default") is None:
            text = (
                "Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a "
                "required property"
            )
            yield f"{path}.items.properties[{key}].default", _REQUIRED, text


def _nested(schema: JsonObject, path: str, int_or_string: bool) -> Iterator[Violation]:
    for name in _SPINE_ONLY:
        if schema.get(name) is not None and not (name == "type" and int_or_string):
            yield f"{path}.{name}", _FORBIDDEN, "Forbidden: must be empty to be structural"
    for name, child in (schema.get("properties") or {}).items():
        yield from _nested(child, f"{path}.properties[{name}]", False)
    if isinstance(schema.get("items"), dict):
        yield from _nested(schema["items"], f"{path}.items", False)
    for name in _COMBINED:
        parts = schema.get(name) or []
        for index, part in enumerate(parts if isinstance(parts, list) else [parts]):
            yield from _nested(part, f"{path}.{name}[{index}]", int_or_string)
