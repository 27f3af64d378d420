"""The Table form of objects (``meta.k8s.io`` Table), as ``kubectl get`` shows it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sandbox.api.forms import Wanted, partial
from sandbox.api.resources import Resource
from sandbox.jsontypes import JsonObject

NAME_COLUMN: JsonObject = {
    "name": "Name",
    "type": "string",
    "format": "name",
    "description": "Name must be unique within a namespace.",
    "priority": 0,
}
AGE_COLUMN: JsonObject = {
    "name": "Created At",
    "type": "date",
    "format": "",
    "description": "CreationTimestamp is a timestamp representing the server time when this object was created.",
    "priority": 0,
}


def columns(resource: Resource) -> list[JsonObject]:
    """The column definitions of a kind."""
    found = resource.model.columns() if resource.model else []
    return found or [NAME_COLUMN, AGE_COLUMN]


def row(resource: Resource, obj: JsonObject, wanted: Wanted, now: datetime) -> JsonObject:
    """One row, with the object in the extent that the client asked for."""
    cells = resource.model.cells(obj, now) if resource.model and resource.model.columns() else None
    if cells is None:
        cells = [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp")]
    line: JsonObject = {"cells": cells}
    if wanted.include == "Object":
        line["object"] = obj
    elif wanted.include != "None":
        line["object"] = partial(obj, wanted.version)
    return line


def table(
    resource: Resource, objects: Sequence[JsonObject], metadata: JsonObject, wanted: Wanted, now: datetime,
    with_columns: bool = True,
) -> JsonObject:  # fmt: skip
    """A Table of objects; only the first table of a watch carries the column definitions."""
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{wanted.version}",
        "metadata": metadata,
        "columnDefinitions": columns(resource) if with_columns else None,
        "rows": [row(resource, obj, wanted, now) for obj in objects],
    }
