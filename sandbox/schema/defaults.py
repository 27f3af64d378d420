"""Structural defaulting, and the pruning of nulls that goes with it."""

from __future__ import annotations

import copy

from sandbox.jsontypes import JsonObject, JsonValue
from sandbox.schema.node import Node


def apply_defaults(value: JsonValue, node: Node) -> None:
    """Fills in ``default`` values in place, the outer before the inner. A null counts as absent unless ``nullable``."""
    if not node.defaults_below:
        return
    if isinstance(value, dict):
        _members(value, node)
    elif isinstance(value, list) and node.items is not None:
        for item in value:
            apply_defaults(item, node.items)


def _members(value: JsonObject, node: Node) -> None:
    for name, child in node.properties.items():
        if child.has_default and (name not in value or (value[name] is None and not child.nullable)):
            value[name] = copy.deepcopy(child.default)
        if child.defaults_below and name in value:
            apply_defaults(value[name], child)
    extra = node.additional
    if extra is not None and extra.defaults_below:
        for name in value.keys() - node.properties.keys():
            if value[name] is None and extra.has_default and not extra.nullable:
                value[name] = copy.deepcopy(extra.default)
            apply_defaults(value[name], extra)


def prune_nulls(value: JsonValue, node: Node) -> None:
    """Takes out, in place, members that are null where the schema does not allow it: null means unset.

    Items of lists stay (they are told by validation), as do members that no schema describes.
    """
    if isinstance(value, dict):
        for name in list(value):
            child = node.properties.get(name) or node.additional
            if child is None:
                continue
            if value[name] is None:
                if not child.nullable:
                    del value[name]
            else:
                prune_nulls(value[name], child)
    elif isinstance(value, list) and node.items is not None:
        for item in value:
            prune_nulls(item, node.items)
