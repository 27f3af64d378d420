"""Server-side apply: merging what a manager applies, its conflicts, and what it no longer applies."""

from __future__ import annotations

import orjson

from sandbox.api import metadata
from sandbox.api.fieldset import (
    Child,
    FieldSet,
    View,
    children,
    compare,
    difference,
    fields_of,
    intersection,
    is_member,
    paths,
    union,
)
from sandbox.api.managedfields import entry_key, managed_part, new_entry, take_from_others, view_of
from sandbox.api.resources import Resource
from sandbox.api.routes import Route, WriteOptions
from sandbox.api.status import StatusError, bad_request, cause, conflict
from sandbox.api.writer import Steps, Writer, Written
from sandbox.jsontypes import JsonObject, JsonValue
from services.kit.times import timestamp


def apply(
    writer: Writer, resource: Resource, route: Route, body: bytes, options: WriteOptions, user: JsonObject
) -> Steps[Written]:
    """Applies a configuration (JSON bytes); creates the object when it does not exist."""
    given: JsonObject = orjson.loads(body)
    meta = metadata.metadata_of(given)
    if meta.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    if given.get("kind") != resource.kind or given.get("apiVersion") != resource.api_version:
        raise bad_request(f"the applied object must be of apiVersion {resource.api_version}, kind {resource.kind}")
    _check_declared(resource, route, given)
    now = timestamp(writer.store.clock.now())

    def change(current: JsonObject) -> JsonObject:
        again: JsonObject = orjson.loads(body)
        metadata.metadata_of(again)
        return merged(resource, current, again, options, route, now)

    if writer.store.get(resource.storage, route.namespace, route.name) is not None or route.subresource:
        return (yield from writer.modify(resource, route, change, options, user, manage=False))
    if meta.get("uid"):
        why = f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing object was found"
        raise conflict(resource.group, resource.plural, route.name, why)
    meta.setdefault("name", route.name)
    if meta["name"] != route.name:
        raise bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({route.name})")
    meta.pop("resourceVersion", None)
    fields = fields_of(managed_part(given), view_of(resource))
    meta["managedFields"] = [
        {**new_entry(options.field_manager, "Apply", resource.api_version, "", fields), "time": now}
    ]
    return (yield from writer.create(resource, route, given, options, user, manage=False))


def _check_declared(resource: Resource, route: Route, given: JsonObject) -> None:
    if resource.model is None:
        return
    _, unknown = resource.model.decode(orjson.loads(orjson.dumps(given)))
    if unknown:
        path = unknown[0].partition('"')[2].rstrip('"')
        name = f"{route.namespace}/{route.name}" if route.namespace else f"/{route.name}"
        subject = f"{name}; {resource.api_version}, Kind={resource.kind}"
        text = f"failed to create typed patch object ({subject}): .{path}: field not declared in schema"
        raise StatusError(500, "", text)


def merged(
    resource: Resource, current: JsonObject, given: JsonObject, options: WriteOptions, route: Route, now: str
) -> JsonObject:
    """``current`` with the configuration ``given`` applied and managedFields brought up to date; 409 on conflicts."""
    view = view_of(resource)
    entries: list[JsonObject] = list(current["metadata"].get("managedFields") or ())
    entry = new_entry(options.field_manager, "Apply", resource.api_version, route.subresource, {})
    mine = entry_key(entry)
    held = next((e for e in entries if entry_key(e) == mine), None)
    before: FieldSet = held["fieldsV1"] if held else {}
    part = managed_part(given)
    fields = fields_of(part, view)
    live = managed_part(current)
    result = merge(live, part, view)
    changed, _ = compare(live, result, view)
    entries = _settle(resource, route, entries, mine, changed, options.force)
    owned = fields
    for other in entries:
        if entry_key(other) != mine:
            owned = union(owned, other.get("fieldsV1") or {})
    prune(result, view, difference(before, fields), owned)
    entries = _recorded(entries, mine, {**entry, "fieldsV1": fields}, held, now)
    return _assemble(current, given, result, entries)


def _recorded(
    entries: list[JsonObject], mine: tuple[str, str, str, str], entry: JsonObject, held: JsonObject | None, now: str
) -> list[JsonObject]:
    if held is not None and held["fieldsV1"] == entry["fieldsV1"] and held["apiVersion"] == entry["apiVersion"]:
        return entries
    return [e for e in entries if entry_key(e) != mine] + [{**entry, "time": now}]


def _assemble(current: JsonObject, given: JsonObject, result: JsonObject, entries: list[JsonObject]) -> JsonObject:
    kept = {
        key: value for key, value in current["metadata"].items() if key not in managed_part(current).get("metadata", {})
    }
    meta = {**kept, **result.get("metadata", {}), "managedFields": entries}
    for field in ("uid", "resourceVersion", "name", "namespace"):
        if given["metadata"].get(field):
            meta[field] = given["metadata"][field]
    return {**result, "apiVersion": current["apiVersion"], "kind": current["kind"], "metadata": meta}


def _settle(
    resource: Resource, route: Route, entries: list[JsonObject], mine: tuple[str, str, str, str], changed: FieldSet,
    force: bool,
) -> list[JsonObject]:  # fmt: skip
    """Finds what other managers own of the changed fields: a conflict, or taken from them by force."""
    clashes = []
    for entry in entries:
        if entry_key(entry) == mine:
            continue
        lost = intersection(entry.get("fieldsV1") or {}, changed)
        clashes += [(_manager_text(entry), path) for path in paths(lost)]
    if clashes and not force:
        raise _conflict(clashes)
    return take_from_others(entries, mine, changed) if clashes else entries


def _manager_text(entry: JsonObject) -> str:
    text = orjson.dumps(entry.get("manager", "")).decode()
    if entry.get("subresource"):
        text += f" with subresource {orjson.dumps(entry['subresource']).decode()}"
    return f"{text} using {entry['apiVersion']}" if entry.get("operation") == "Update" else text


def _conflict(clashes: list[tuple[str, str]]) -> StatusError:
    causes = [cause(path, "FieldManagerConflict", f"conflict with {manager}") for manager, path in clashes]
    if len(clashes) == 1:
        manager, path = clashes[0]
        text = f"Apply failed with 1 conflict: conflict with {manager}: {path}"
    else:
        lines = []
        for manager in sorted({manager for manager, _ in clashes}):
            lines.append(f"conflicts with {manager}:")
            lines += [f"- {path}" for owner, path in clashes if owner == manager]
        text = f"Apply failed with {len(clashes)} conflicts: " + "\n".join(lines)
    return StatusError(409, "Conflict", text, {"causes": causes})


def merge(live: JsonValue, applied: JsonValue, view: View) -> JsonValue:
    """``live`` with everything that ``applied`` sets; atomic parts are replaced whole."""
    mine, theirs = children(applied, view), children(live, view)
    if mine is None or theirs is None or type(live) is not type(applied):
        return applied
    if isinstance(applied, dict):
        result = dict(live)
        for element, child in mine.items():
            past = theirs.get(element)
            result[element[2:]] = merge(past.value, child.value, child.view) if past else child.value
        return result
    return _merge_list(theirs, mine)


def _merge_list(theirs: dict[str, Child], mine: dict[str, Child]) -> list[JsonValue]:
    """The applied order, with items that only the live list has kept in their places."""
    result: list[JsonValue] = []
    order = list(theirs)
    position = 0
    for element, child in mine.items():
        while position < len(order) and order[position] not in mine:
            result.append(theirs[order[position]].value)
            position += 1
        past = theirs.get(element)
        result.append(merge(past.value, child.value, child.view) if past else child.value)
        if position < len(order) and order[position] in mine:
            position += 1
    result += [theirs[element].value for element in order[position:] if element not in mine]
    return result


def prune(value: JsonValue, view: View, dropped: FieldSet, owned: FieldSet) -> None:
    """Removes from ``value``, in place, the paths ``dropped`` that nobody in ``owned`` has."""
    parts = children(value, view) or {}
    doomed = []
    for element, node in dropped.items():
        child = parts.get(element)
        if element == "." or child is None:
            continue
        holder = owned.get(element)
        below = {key: kid for key, kid in node.items() if key != "."}
        if holder is not None and element[:2] == "k:":  # an item that stays keeps its keys
            below = {key: kid for key, kid in below.items() if key[2:] not in orjson.loads(element[2:])}
        if below:
            prune(child.value, child.view, below, holder or {})
        unowned = holder is None
        empty = not child.value or not children(child.value, child.view)
        bare_item = element[:2] == "k:" and is_member(node)
        if unowned and (empty or bare_item):
            doomed.append((element, child))
    for element, child in doomed:
        if isinstance(value, dict):
            value.pop(element[2:], None)
        elif isinstance(value, list):
            value[:] = [item for item in value if item is not child.value and item != child.value]
