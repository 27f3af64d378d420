"""Stored objects in the version that a path names."""

from __future__ import annotations

import orjson

from sandbox.api.resources import Resource
from sandbox.jsontypes import JsonObject
from sandbox.store import Entry


def in_version(resource: Resource, obj: JsonObject) -> JsonObject:
    """``obj`` under the group, version and kind of ``resource``; the argument is not changed."""
    if obj.get("apiVersion") == resource.api_version and obj.get("kind") == resource.kind:
        return obj
    converted = {**obj, "apiVersion": resource.api_version, "kind": resource.kind}
    if resource.storage == "events":
        return _event(converted, resource.group == "events.k8s.io")
    return converted


_EVENT_NAMES = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
)


def _event(obj: JsonObject, modern: bool) -> JsonObject:
    names = dict(_EVENT_NAMES if modern else [(new, old) for old, new in _EVENT_NAMES])
    return {names.get(key, key): value for key, value in obj.items()}


def to_storage(resource: Resource, obj: JsonObject, stored_as: str) -> JsonObject:
    """``obj`` of a path's version in the version that is kept."""
    if obj.get("apiVersion") == stored_as:
        return obj
    converted = {**obj, "apiVersion": stored_as}
    if resource.storage == "events":
        return _event(converted, stored_as == "events.k8s.io/v1")
    return converted


def as_item(resource: Resource, entry: Entry) -> bytes:
    """The JSON of an entry inside a list: items of built-in kinds have neither kind nor apiVersion."""
    if resource.custom:
        return encoded(resource, entry)
    key = f"item/{resource.api_version}"
    form = entry.forms.get(key)
    if form is None:
        obj = in_version(resource, entry.obj)
        bare = {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}
        form = entry.forms[key] = orjson.dumps(bare)
    return form


def encoded(resource: Resource, entry: Entry) -> bytes:
    """The JSON of an entry in the path's version, made once for all readers."""
    if entry.obj.get("apiVersion") == resource.api_version:
        return entry.raw
    form = entry.forms.get(resource.api_version)
    if form is None:
        form = entry.forms[resource.api_version] = orjson.dumps(in_version(resource, entry.obj))
    return form
