"""Pruning: unknown members are taken out and named, as the API server does for field validation."""

from __future__ import annotations

from sandbox.jsontypes import JsonObject, JsonValue
from sandbox.schema.meta import OBJECT_META
from sandbox.schema.node import Node

_STANDING = frozenset({"apiVersion", "kind", "metadata"})


def decode(obj: JsonObject, node: Node) -> tuple[JsonObject, list[str]]:
    """``obj`` without unknown members (a copy where it differs) and their paths, sorted.

    Members below ``x-kubernetes-preserve-unknown-fields`` are kept, but those declared there are pruned by their own
    schema. An object's own metadata, and that of an embedded object, is held to ``metav1.ObjectMeta``.
    """
    unknown: list[str] = []
    pruned: JsonObject = _prune(obj, node, "", unknown, True)
    return pruned, sorted(unknown)


def _prune(value: JsonValue, node: Node, path: str, unknown: list[str], embedded: bool) -> JsonValue:
    if isinstance(value, dict):
        return _prune_object(value, node, path, unknown, embedded)
    if isinstance(value, list) and node.items is not None:
        items, inner = node.items, node.items.embedded
        return [_prune(item, items, f"{path}[{index}]", unknown, inner) for index, item in enumerate(value)]
    return value


def _prune_object(value: JsonObject, node: Node, path: str, unknown: list[str], embedded: bool) -> JsonObject:
    kept: JsonObject = {}
    for name, child in value.items():
        place = f"{path}.{name}" if path else name
        if embedded and name in _STANDING:
            kept[name] = _prune(child, OBJECT_META, place, unknown, False) if name == "metadata" else child
            continue
        schema = node.properties.get(name) or node.additional
        if schema is not None:
            kept[name] = _prune(child, schema, place, unknown, schema.embedded)
        elif node.preserve:
            kept[name] = child
        else:
            unknown.append(place)
    return kept
