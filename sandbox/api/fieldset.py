"""Sets of field paths in the form of FieldsV1, and how a value of a kind is divided into fields.

A set is a tree of path elements (``f:name``, ``k:{"key":"value"}``, ``v:"item"``). A node without children, or with the
child ``.``, is a member of the set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from sandbox.jsontypes import JsonObject, JsonValue

FieldSet = dict[str, Any]
SELF = "."


def is_member(node: FieldSet | None) -> bool:
    """Whether the path of a node itself belongs to the set."""
    return node is not None and (not node or SELF in node)


def _combine(a: FieldSet, b: FieldSet, rule: Callable[[bool, bool], bool]) -> FieldSet:
    result: FieldSet = {}
    for element in a.keys() | b.keys():
        if element == SELF:
            continue
        mine, theirs = a.get(element), b.get(element)
        member = rule(is_member(mine), is_member(theirs))
        children = _combine(mine or {}, theirs or {}, rule)
        if member and children:
            children[SELF] = {}
        if member or children:
            result[element] = children
    return result


def union(a: FieldSet, b: FieldSet) -> FieldSet:
    """Paths in either."""
    if not a or not b:
        return a or b
    return _combine(a, b, lambda mine, theirs: mine or theirs)


def difference(a: FieldSet, b: FieldSet) -> FieldSet:
    """Paths in ``a`` that are not in ``b``."""
    return _combine(a, b, lambda mine, theirs: mine and not theirs) if a and b else a


def intersection(a: FieldSet, b: FieldSet) -> FieldSet:
    """Paths in both."""
    return _combine(a, b, lambda mine, theirs: mine and theirs) if a and b else {}


def paths(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    """The member paths, written as Kubernetes prints them: ``.spec.containers[name="a"].image``."""
    for element in sorted(fields):
        if element == SELF:
            continue
        node, path = fields[element], prefix + _element_text(element)
        if is_member(node):
            yield path
        yield from paths(node, path)


def _element_text(element: str) -> str:
    kind, text = element[:2], element[2:]
    if kind == "f:":
        return f".{text}"
    if kind == "v:":
        return f"[={text}]"
    keys = orjson.loads(text)
    return "[" + ",".join(f"{key}={orjson.dumps(value).decode()}" for key, value in keys.items()) + "]"


@dataclass(frozen=True)
class View:
    """A place in a schema. ``node`` is None where nothing is declared: maps are then granular and lists atomic."""

    node: JsonObject | None = None
    definitions: JsonObject = field(default_factory=dict)

    def resolved(self) -> JsonObject:
        """The schema at this place, references followed."""
        node = self.node or {}
        for _ in range(8):
            parts = node.get("allOf")
            reference = node.get("$ref") or (parts[0].get("$ref") if parts and len(parts) == 1 else None)
            if not reference:
                break
            extensions = {key: value for key, value in node.items() if key.startswith("x-kubernetes-")}
            node = {**self.definitions.get(reference.rsplit("/", 1)[-1], {}), **extensions}
        return node

    def member(self, name: str) -> tuple[View, bool]:
        """The view of a member of a map, and whether it is a declared field of a structure."""
        node = self.resolved()
        declared = (node.get("properties") or {}).get(name)
        if declared is not None:
            return View(declared, self.definitions), True
        extra = node.get("additionalProperties")
        return View(extra if isinstance(extra, dict) else None, self.definitions), False

    def items(self) -> View:
        """The view of the items of a list."""
        return View(self.resolved().get("items"), self.definitions)

    def list_type(self) -> tuple[str, tuple[str, ...]]:
        """``atomic``, ``set`` or ``map`` with its keys."""
        node = self.resolved()
        kind = node.get("x-kubernetes-list-type")
        if kind == "map":
            return "map", tuple(node.get("x-kubernetes-list-map-keys") or ())
        if kind:
            return str(kind), ()
        if "merge" in str(node.get("x-kubernetes-patch-strategy", "")):
            key = node.get("x-kubernetes-patch-merge-key")
            return ("map", (key,)) if key else ("set", ())
        return "atomic", ()

    def atomic_map(self) -> bool:
        """Whether an object at this place is owned as a whole."""
        return self.resolved().get("x-kubernetes-map-type") == "atomic"


@dataclass(frozen=True)
class Child:
    """One part of a value."""

    value: JsonValue
    view: View
    declared: bool


def children(value: JsonValue, view: View) -> dict[str, Child] | None:
    """The parts of a value by path element, or None when it is owned as a whole."""
    if isinstance(value, dict):
        if view.atomic_map():
            return None
        parts = {}
        for name, item in value.items():
            below, declared = view.member(name)
            parts[f"f:{name}"] = Child(item, below, declared)
        return parts
    if isinstance(value, list):
        kind, keys = view.list_type()
        if kind == "atomic":
            return None
        below = view.items()
        return {element_of(item, keys, below): Child(item, below, False) for item in value}
    return None


def element_of(item: JsonValue, keys: tuple[str, ...], view: View) -> str:
    """The path element of a list item: by its keys (defaults filled in), or by its value."""
    if not keys or not isinstance(item, dict):
        return "v:" + orjson.dumps(item).decode()
    found = {}
    for key in sorted(keys):
        if key in item:
            found[key] = item[key]
        else:
            default = view.member(key)[0].resolved().get("default")
            if default is None and key == "protocol":
                default = "TCP"
            if default is not None:
                found[key] = default
    return "k:" + orjson.dumps(found).decode()


def fields_of(value: JsonValue, view: View) -> FieldSet:
    """The paths that a value sets (``ToFieldSet`` of structured-merge-diff)."""
    result: FieldSet = {}
    for element, child in (children(value, view) or {}).items():
        parts = children(child.value, child.view)
        below = fields_of(child.value, child.view) if parts else {}
        if below and not child.declared:
            below[SELF] = {}
        result[element] = below
    return result


def compare(old: JsonValue, new: JsonValue, view: View) -> tuple[FieldSet, FieldSet]:
    """The paths that are new or changed in ``new``, and those that ``old`` alone has."""
    changed: FieldSet = {}
    removed: FieldSet = {}
    before, after = children(old, view) or {}, children(new, view) or {}
    for element, child in after.items():
        past = before.get(element)
        if past is None:
            changed[element] = added_fields(child)
        elif past.value != child.value:
            _compare_child(element, past, child, changed, removed)
    for element, child in before.items():
        if element not in after:
            removed[element] = added_fields(child)
    return changed, removed


def _compare_child(element: str, past: Child, child: Child, changed: FieldSet, removed: FieldSet) -> None:
    parts, earlier = children(child.value, child.view), children(past.value, past.view)
    if parts is None or earlier is None:
        changed[element] = {}
        if earlier:
            removed[element] = added_fields(past)
        return
    more, less = compare(past.value, child.value, child.view)
    if more:
        changed[element] = more
    if less:
        removed[element] = less


def added_fields(child: Child) -> FieldSet:
    """The paths at and below a part that was not there before."""
    parts = children(child.value, child.view)
    if not parts:
        return {}
    below: FieldSet = {element: added_fields(part) for element, part in parts.items()}
    below[SELF] = {}
    return below
