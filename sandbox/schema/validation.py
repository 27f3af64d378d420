"""Validation of a value against a compiled schema, with the texts of apiextensions-apiserver.

On update, what equals the stored value at the same place is not judged again (ratcheting, as in Kubernetes 1.33).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sandbox.jsontypes import JsonObject, JsonValue
from sandbox.schema import formats
from sandbox.schema.node import Node
from sandbox.schema.values import number, quote, same, shown, type_name

NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
ROOT = "<nil>"


class _Absent:
    """The stored value where there is none to compare with."""


ABSENT = _Absent()


@dataclass(frozen=True)
class Fault:
    """One broken rule: ``reason`` is a cause type (``FieldValueRequired``), ``message`` the text after the field."""

    field: str
    reason: str
    message: str


_BLOCKING = frozenset(
    {"FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"}
)


def blocking(faults: list[Fault]) -> bool:
    """Whether these faults keep CEL rules from being evaluated."""
    return any(fault.reason in _BLOCKING for fault in faults)


def validate(value: JsonValue, node: Node, old: JsonValue = ABSENT) -> list[Fault]:
    """Every fault of ``value``: schema, uniqueness of lists, then CEL rules (only if the rest lets them be judged)."""
    faults = list(_judge(value, node, "", old))
    if not node.rules_below:
        return faults
    if blocking(faults):
        return [*faults, Fault(ROOT, "FieldValueInvalid", f"Invalid value: null: {NOT_CHECKED}")]
    return [*faults, *_rules(value, node, "", old, True)]


def _invalid(path: str, value: JsonValue, detail: str) -> Fault:
    return Fault(path or ROOT, "FieldValueInvalid", f"Invalid value: {shown(value)}: {detail}")


def _wrong_type(path: str, node: Node, value: JsonValue) -> Fault:
    wanted, given = "integer,string" if node.int_or_string else node.type, quote(type_name(value))
    if isinstance(value, float) and node.type == "integer" and node.format:
        wanted, given = node.format, '"float64"'
    text = f"Invalid value: {given}: {path} in body must be of type {wanted}: {given}"
    return Fault(path or ROOT, "FieldValueTypeInvalid", text)


def _judge(value: JsonValue, node: Node, path: str, old: JsonValue) -> Iterator[Fault]:
    if old is not ABSENT and same(value, old):
        return
    if not _type_fits(value, node):
        yield _wrong_type(path, node, value)
    if node.enum and not any(same(value, allowed) for allowed in node.enum):
        allowed_texts = (item if isinstance(item, str) else shown(item) for item in node.enum)
        supported = ", ".join(quote(text) for text in allowed_texts)
        message = f"Unsupported value: {shown(value)}: supported values: {supported}"
        yield Fault(path, "FieldValueNotSupported", message)
    if isinstance(value, dict):
        yield from _object(value, node, path, old)
    elif isinstance(value, list):
        yield from _array(value, node, path, old)
    elif isinstance(value, str):
        yield from _string(value, node, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number(value, node, path)
    if node.all_of or node.any_of or node.one_of or node.none_of:
        yield from _composites(value, node, path)


def _type_fits(value: JsonValue, node: Node) -> bool:
    if value is None:
        return node.nullable or not (node.type or node.int_or_string)
    if node.int_or_string:
        return isinstance(value, str | int) and not isinstance(value, bool)
    match node.type:
        case "":
            return True
        case "integer":
            is_integer = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            return is_integer and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case wanted:
            return type_name(value) == wanted


def _object(value: JsonObject, node: Node, path: str, old: JsonValue) -> Iterator[Fault]:
    count = len(value)
    if node.min_properties is not None and count < node.min_properties:
        yield _invalid(path, count, f"{path} in body should have at least {node.min_properties} properties")
    if node.max_properties is not None and count > node.max_properties:
        yield _too_many(path, count, node.max_properties)
    for name in node.required:
        if name not in value:
            yield Fault(_child(path, name), "FieldValueRequired", "Required value")
    if node.embedded:
        for name in ("apiVersion", "kind"):
            if not value.get(name):
                yield Fault(_child(path, name), "FieldValueRequired", "Required value: must not be empty")
    before = old if isinstance(old, dict) and node.map_type != "atomic" else {}
    for name, item in value.items():
        schema = node.properties.get(name) or node.additional
        if schema is not None:
            yield from _judge(item, schema, _child(path, name), before.get(name, ABSENT))


def _child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _too_many(path: str, count: int, most: int) -> Fault:
    items = "item" if most == 1 else "items"
    return Fault(path, "FieldValueTooMany", f"Too many: {count}: must have at most {most} {items}")


def _array(value: list[JsonValue], node: Node, path: str, old: JsonValue) -> Iterator[Fault]:
    count = len(value)
    if node.min_items is not None and count < node.min_items:
        yield _invalid(path, count, f"{path} in body should have at least {node.min_items} items")
    if node.max_items is not None and count > node.max_items:
        yield _too_many(path, count, node.max_items)
    if node.unique_items and any(same(a, b) for i, a in enumerate(value) for b in value[:i]):
        yield _invalid(path, "", f"{path} in body shouldn't contain duplicates")
    if node.items is not None:
        before = _correlated(value, node, old)
        for index, item in enumerate(value):
            yield from _judge(item, node.items, f"{path}[{index}]", before[index])
    if not (isinstance(old, list) and any(_duplicates(old, node, path))):
        yield from _duplicates(value, node, path)


def _correlated(value: list[JsonValue], node: Node, old: JsonValue) -> list[JsonValue]:
    """The stored item for each item: only lists of type ``map`` tell which one that is."""
    if not isinstance(old, list) or node.list_type != "map":
        return [ABSENT] * len(value)
    known = {_key_of(item, node): item for item in old if isinstance(item, dict)}
    return [known.get(_key_of(item, node), ABSENT) if isinstance(item, dict) else ABSENT for item in value]


def _key_of(item: JsonObject, node: Node) -> tuple[str, ...]:
    keys = node.items.properties if node.items else {}
    return tuple(shown(item.get(key, keys[key].default if key in keys else None)) for key in node.list_keys)


def _duplicates(value: list[JsonValue], node: Node, path: str) -> Iterator[Fault]:
    if node.list_type not in ("set", "map"):
        return
    seen: set[object] = set()
    for index, item in enumerate(value):
        if node.list_type == "set":
            mark: object = (type_name(item), shown(item))
            told = item
        elif isinstance(item, dict):
            mark = _key_of(item, node)
            told = {key: item[key] for key in node.list_keys if key in item}
        else:
            continue
        if mark in seen:
            yield Fault(f"{path}[{index}]", "FieldValueDuplicate", f"Duplicate value: {shown(told)}")
        seen.add(mark)


def _string(value: str, node: Node, path: str) -> Iterator[Fault]:
    if node.max_length is not None and len(value) > node.max_length:
        yield Fault(path, "FieldValueTooLong", f"Too long: may not be more than {node.max_length} bytes")
    elif node.min_length is not None and len(value) < node.min_length:
        yield _invalid(path, value, f"{path} in body should be at least {node.min_length} chars long")
    elif node.pattern is not None and not node.pattern.search(value):
        yield _invalid(path, value, f"{path} in body should match '{node.pattern_text}'")
    if node.format and not formats.string_fits(value, node.format):
        text = f"Invalid value: {quote(value)}: {path} in body must be of type {node.format}: {quote(value)}"
        yield Fault(path, "FieldValueTypeInvalid", text)


def _number(value: float, node: Node, path: str) -> Iterator[Fault]:
    if node.multiple_of is not None and value % node.multiple_of:
        yield _invalid(path, value, f"{path} in body should be a multiple of {number(node.multiple_of)}")
    if node.maximum is not None and (value > node.maximum or (node.exclusive_maximum and value == node.maximum)):
        bound = "less than" if node.exclusive_maximum else "less than or equal to"
        yield _invalid(path, value, f"{path} in body should be {bound} {number(node.maximum)}")
    if node.minimum is not None and (value < node.minimum or (node.exclusive_minimum and value == node.minimum)):
        bound = "greater than" if node.exclusive_minimum else "greater than or equal to"
        yield _invalid(path, value, f"{path} in body should be {bound} {number(node.minimum)}")
    if node.type == "integer" and not (float(value).is_integer() and formats.integer_fits(int(value), node.format)):
        named = f"with format {node.format}" if node.format else "(default format)"
        detail = f"Checked value must be of type integer {named} in {path}"
        yield Fault(ROOT, "FieldValueInvalid", f'Invalid value: "": {detail}')


def _composites(value: JsonValue, node: Node, path: str) -> Iterator[Fault]:
    where = f'Invalid value: "": {quote(path)} must'
    if node.all_of:
        yield from _all_of([list(_judge(value, part, path, ABSENT)) for part in node.all_of], where)
    if node.any_of:
        tried = [list(_judge(value, part, path, ABSENT)) for part in node.any_of]
        if all(tried):
            yield Fault(ROOT, "FieldValueInvalid", f"{where} validate at least one schema (anyOf)")
            yield from min(tried, key=len)
    if node.one_of:
        tried = [list(_judge(value, part, path, ABSENT)) for part in node.one_of]
        fitting = sum(not faults for faults in tried)
        if fitting != 1:
            found = f"Found {fitting} valid alternatives" if fitting else "Found none valid"
            yield Fault(ROOT, "FieldValueInvalid", f"{where} validate one and only one schema (oneOf). {found}")
            if not fitting:
                yield from min(tried, key=len)
    if node.none_of and not list(_judge(value, node.none_of, path, ABSENT)):
        yield Fault(ROOT, "FieldValueInvalid", f"{where} not validate the schema (not)")


def _all_of(tried: list[list[Fault]], where: str) -> Iterator[Fault]:
    if any(tried):
        none = ". None validated" if all(tried) else ""
        yield Fault(ROOT, "FieldValueInvalid", f"{where} validate all the schemas (allOf){none}")
        for faults in tried:
            yield from faults


def _rules(value: JsonValue, node: Node, path: str, old: JsonValue, root: bool = False) -> Iterator[Fault]:
    if value is None or not node.rules_below:
        return
    if node.rules:
        yield from _own_rules(value, node, path, old, root or node.embedded)
    if isinstance(value, dict):
        before = old if isinstance(old, dict) and node.map_type != "atomic" else {}
        for name, item in value.items():
            declared = node.properties.get(name)
            schema = declared or node.additional
            if schema is not None and schema.rules_below:
                place = _child(path, name) if declared else f"{path}[{name}]"
                yield from _rules(item, schema, place, before.get(name, ABSENT))
    elif isinstance(value, list) and node.items is not None:
        stored = _correlated(value, node, old)
        for index, item in enumerate(value):
            yield from _rules(item, node.items, f"{path}[{index}]", stored[index])


def _own_rules(value: JsonValue, node: Node, path: str, old: JsonValue, root: bool) -> Iterator[Fault]:
    unchanged = old is not ABSENT and same(value, old)
    seen = _visible(value) if root else value
    before = None if old is ABSENT else _visible(old) if root else old
    told = "" if isinstance(value, dict | list) else f": {shown(value)}"
    for rule in node.rules:
        if unchanged and not rule.uses_old:
            continue
        broken = rule.check(seen, before, old is not ABSENT)
        if broken is None:
            continue
        if not broken.evaluated:
            text = f"Invalid value: {quote(node.type)}: {broken.message}"
            yield Fault(path or ROOT, "FieldValueInvalid", text)
            continue
        message = broken.message
        place = f"{path}{rule.field_path}".lstrip(".") or ROOT
        match rule.reason:
            case "FieldValueForbidden":
                text = f"Forbidden: {message}"
            case "FieldValueRequired":
                text = f"Required value: {message}"
            case "FieldValueDuplicate":
                text = f"Duplicate value{told}"
            case _:
                text = f"Invalid value{told}: {message}"
        yield Fault(place, rule.reason, text)


def _visible(value: JsonValue) -> JsonValue:
    """What a rule at the root of a resource sees: of the metadata only the names."""
    if not isinstance(value, dict):
        return value
    meta = value.get("metadata") or {}
    names = {key: meta[key] for key in ("name", "generateName") if key in meta}
    return {**value, "metadata": names}
