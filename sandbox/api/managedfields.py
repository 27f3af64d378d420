"""Field ownership in ``metadata.managedFields`` (FieldsV1) by Update: who set which field last."""

from __future__ import annotations

from datetime import datetime
from weakref import WeakKeyDictionary

from sandbox.api.fieldset import FieldSet, View, compare, difference, intersection, union
from sandbox.api.resources import Model, Resource
from sandbox.jsontypes import JsonObject
from services.kit.times import timestamp

_NOT_MANAGED = frozenset(
    {
        "name", "namespace", "uid", "creationTimestamp", "generation", "resourceVersion", "managedFields", "selfLink",
        "deletionTimestamp", "deletionGracePeriodSeconds",
    }
)  # fmt: skip

METADATA: JsonObject = {
    "properties": {
        "labels": {"additionalProperties": {"type": "string"}},
        "annotations": {"additionalProperties": {"type": "string"}},
        "finalizers": {"x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "ownerReferences": {
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "items": {"x-kubernetes-map-type": "atomic"},
        },
        "generateName": {"type": "string"},
    }
}

_VIEWS: WeakKeyDictionary[Model, View] = WeakKeyDictionary()


def view_of(resource: Resource) -> View:
    """The schema of a kind for the purposes of ownership; metadata is the same for all."""
    model = resource.model
    if model is None:
        return View({"properties": {"metadata": METADATA}})
    view = _VIEWS.get(model)
    if view is None:
        schema = model.schema()
        merged = {**schema, "properties": {**(schema.get("properties") or {}), "metadata": METADATA}}
        view = _VIEWS[model] = View(merged, model.definitions())
    return view


def managed_part(obj: JsonObject) -> JsonObject:
    """The object without the fields that nobody owns."""
    part = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}
    meta = {key: value for key, value in obj.get("metadata", {}).items() if key not in _NOT_MANAGED}
    if meta:
        part["metadata"] = meta
    return part


def same(a: object, b: object) -> bool:
    """Whether two managedFields lists say the same, times aside."""

    def bare(entries: object) -> list[JsonObject]:
        listed = entries if isinstance(entries, list) else []
        return [{key: value for key, value in entry.items() if key != "time"} for entry in listed]

    return a == b or bare(a) == bare(b)


def entry_key(entry: JsonObject) -> tuple[str, str, str, str]:
    """What makes a managedFields entry one entry; Apply entries are one whatever their version."""
    operation = entry.get("operation", "")
    version = entry.get("apiVersion", "") if operation == "Update" else ""
    return entry.get("manager", ""), operation, version, entry.get("subresource", "")


def new_entry(manager: str, operation: str, api_version: str, subresource: str, fields: FieldSet) -> JsonObject:
    """A managedFields entry without its time."""
    entry: JsonObject = {
        "manager": manager,
        "operation": operation,
        "apiVersion": api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    if subresource:
        entry["subresource"] = subresource
    return entry


def take_from_others(entries: list[JsonObject], mine: tuple[str, str, str, str], lost: FieldSet) -> list[JsonObject]:
    """The entries after every manager but ``mine`` has lost the paths ``lost``; emptied entries go."""
    kept = []
    for entry in entries:
        if entry_key(entry) == mine or not intersection(entry.get("fieldsV1") or {}, lost):
            kept.append(entry)
            continue
        left = difference(entry["fieldsV1"], lost)
        if left:
            kept.append({**entry, "fieldsV1": left})
    return kept


def record_update(
    resource: Resource, old: JsonObject, new: JsonObject, manager: str, subresource: str, now: datetime
) -> None:
    """Gives ``manager`` what ``new`` changes against ``old`` and takes it from everybody else; writes it into ``new``.

    A list that the caller changed is taken as the state before (so that ownership can be edited), a list with one empty
    entry ends the record, and one that is missing, empty or malformed counts as left out.
    """
    meta = new["metadata"]
    given = meta.get("managedFields")
    if old and given == [{}]:
        meta.pop("managedFields", None)
        return
    held_before: list[JsonObject] = old.get("metadata", {}).get("managedFields") or []
    entries = list(given) if old and not subresource and given and _well_formed(given) else list(held_before)
    changed, removed = compare(managed_part(old), managed_part(new), view_of(resource))
    if not old:
        _trim_roots(resource, changed)
    if changed or removed:
        entry = new_entry(manager, "Update", resource.api_version, subresource, {})
        mine = entry_key(entry)
        entries = take_from_others(entries, mine, union(changed, removed))
        held = next((e for e in entries if entry_key(e) == mine), None)
        before = held["fieldsV1"] if held else {}
        fields = difference(union(before, changed), removed)
        if fields != before:
            entries = [e for e in entries if entry_key(e) != mine]
            if fields:
                entries.append({**entry, "fieldsV1": fields, "time": timestamp(now)})
    if entries:
        meta["managedFields"] = entries
    else:
        meta.pop("managedFields", None)


def _well_formed(entries: list[JsonObject]) -> bool:
    return all(
        isinstance(entry, dict)
        and entry.get("operation") in ("Apply", "Update")
        and entry.get("fieldsType") == "FieldsV1"
        and _is_set(entry.get("fieldsV1"))
        for entry in entries
    )


def _is_set(fields: object) -> bool:
    return isinstance(fields, dict) and all(_is_set(node) for node in fields.values())


def _trim_roots(resource: Resource, changed: FieldSet) -> None:
    """``metadata`` always exists, and so do ``spec`` and ``status`` of built-in kinds: nobody owns them themselves."""
    roots = ("f:metadata",) if resource.custom else ("f:metadata", "f:spec", "f:status")
    for root in roots:
        if root in changed:
            changed[root].pop(".", None)
            if not changed[root]:
                del changed[root]
