"""Strategic merge patch for built-in kinds: merge keys, ``$patch``, ``$retainKeys``, deletions and order."""

from __future__ import annotations

import orjson

from sandbox.api.fieldset import View
from sandbox.api.resources import Resource
from sandbox.api.status import StatusError
from sandbox.jsontypes import JsonObject, JsonValue

DELETE_PRIMITIVES, ORDER, RETAIN, DIRECTIVE = (
    "$deleteFromPrimitiveList/",
    "$setElementOrder/",
    "$retainKeys",
    "$patch",
)


def patch(resource: Resource, obj: JsonObject, change: JsonObject) -> JsonObject:
    """``obj`` after the patch. 400 for directives that do not exist."""
    view = View(resource.model.schema(), resource.model.definitions()) if resource.model else View()
    copy: JsonObject = orjson.loads(orjson.dumps(change))
    return _merge_map(obj, copy, view)


def _bad(text: str) -> StatusError:
    return StatusError(400, "BadRequest", text)


def _merge_map(target: JsonObject, change: JsonObject, view: View) -> JsonObject:
    directive = change.pop(DIRECTIVE, None)
    if directive == "replace":
        return change
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise _bad(f"unknown patch type: {directive}")
    result = dict(target)
    retained = change.pop(RETAIN, None)
    if retained is not None:
        result = {key: value for key, value in result.items() if key in retained}
    orders = {key.removeprefix(ORDER): change.pop(key) for key in list(change) if key.startswith(ORDER)}
    for key in [key for key in change if key.startswith(DELETE_PRIMITIVES)]:
        doomed = change.pop(key)
        name = key.removeprefix(DELETE_PRIMITIVES)
        if isinstance(result.get(name), list):
            result[name] = [item for item in result[name] if item not in doomed]
    for key, value in change.items():
        _merge_member(result, key, value, view.member(key)[0])
    for key, order in orders.items():
        if isinstance(result.get(key), list):
            result[key] = _ordered(result[key], order, target.get(key) or [], _merge_key(view.member(key)[0]))
    return result


def _merge_member(result: JsonObject, key: str, value: JsonValue, view: View) -> None:
    if value is None:
        result.pop(key, None)
    elif isinstance(value, dict):
        present = result.get(key)
        result[key] = _merge_map(present if isinstance(present, dict) else {}, value, view)
        if not result[key] and value.get(DIRECTIVE) == "delete":
            del result[key]
    elif isinstance(value, list):
        present = result.get(key)
        result[key] = _merge_list(present if isinstance(present, list) else [], value, view)
    else:
        result[key] = value


def _merge_key(view: View) -> str | None:
    node = view.resolved()
    if "merge" not in str(node.get("x-kubernetes-patch-strategy", "")).split(","):
        return None
    return node.get("x-kubernetes-patch-merge-key") or ""


def _merge_list(target: list[JsonValue], change: list[JsonValue], view: View) -> list[JsonValue]:
    key = _merge_key(view)
    if any(isinstance(item, dict) and item.get(DIRECTIVE) == "replace" for item in change):
        return [item for item in change if not (isinstance(item, dict) and item.get(DIRECTIVE) == "replace")]
    if key is None:
        return [_clean(item) for item in change]
    if key == "":
        return target + [item for item in change if item not in target]
    result = list(target)
    for item in change:
        if not isinstance(item, dict) or key not in item:
            raise _bad(f"map: {orjson.dumps(item).decode()} does not contain declared merge key: {key}")
        place = next(
            (i for i, held in enumerate(result) if isinstance(held, dict) and held.get(key) == item[key]), None
        )
        if item.get(DIRECTIVE) == "delete":
            result = [held for held in result if not (isinstance(held, dict) and held.get(key) == item[key])]
        elif place is None:
            result.append(_merge_map({}, item, view.items()))
        else:
            result[place] = _merge_map(result[place], item, view.items())
    return result


def _clean(item: JsonValue) -> JsonValue:
    return {key: value for key, value in item.items() if key != DIRECTIVE} if isinstance(item, dict) else item


def _ordered(
    items: list[JsonValue], order: list[JsonValue], before: list[JsonValue], key: str | None
) -> list[JsonValue]:
    """Items that the order names, in that order; items only the server has keep their place behind their neighbour."""

    def identity(item: JsonValue) -> JsonValue:
        return item.get(key) if key and isinstance(item, dict) else item

    wanted = [identity(item) for item in order]
    named = {orjson.dumps(identity(item)): item for item in items if identity(item) in wanted}
    result = [named[orjson.dumps(name)] for name in wanted if orjson.dumps(name) in named]
    previous = [identity(item) for item in before]
    for item in items:
        if identity(item) in wanted:
            continue
        at = previous.index(identity(item)) if identity(item) in previous else len(previous)
        place = 0
        for index, placed in enumerate(result):
            name = identity(placed)
            if name in previous and previous.index(name) < at:
                place = index + 1
        result.insert(place, item)
    return result
