"""OpenAPI v3 schemas of built-in kinds, made from the model classes of the official ``kubernetes`` package.

The classes give names, types, required members and descriptions; what they do not know (list keys, quantities,
formats) is added from ``extensions``.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from kubernetes.client import models

from sandbox.builtin import extensions
from sandbox.jsontypes import JsonObject

PREFIX = "#/components/schemas/"
_PLAIN: dict[str, JsonObject] = {
    "str": {"type": "string"},
    "bool": {"type": "boolean"},
    "float": {"type": "number", "format": "double"},
    "int": {"type": "integer"},
    "bytes": {"type": "string", "format": "byte"},
    "datetime": {"type": "string", "format": "date-time"},
}


def definition_name(model: str) -> str:
    """The published name of a model class: ``V1PodSpec`` is ``io.k8s.api.core.v1.PodSpec``."""
    group, version, name = split_name(model)
    if group == "meta":
        return f"io.k8s.apimachinery.pkg.apis.meta.{version}.{name}"
    if group == "apiextensions":
        return f"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{version}.{name}"
    return f"io.k8s.api.{group}.{version}.{name}"


def split_name(model: str) -> tuple[str, str, str]:
    """Group, version and Go name of a model class."""
    prefix, version, name = re.fullmatch(r"([A-Z][a-z]+?)?(V\d+(?:(?:alpha|beta)\d+)?)(.+)", model, re.DOTALL).groups()  # type: ignore[union-attr]
    group = prefix.lower() if prefix else extensions.group_of(name)
    return group, version.lower(), name


@cache
def definition(model: str) -> JsonObject:
    """The schema of a model class; other classes are referred to by ``$ref``."""
    cls = getattr(models, model)
    properties: JsonObject = {}
    required = []
    for attribute, kind in cls.openapi_types.items():
        name = cls.attribute_map[attribute]
        properties[name] = _member(model, cls, attribute, name, kind)
        if _is_required(cls, attribute):
            required.append(name)
    schema: JsonObject = {"type": "object", "title": split_name(model)[2], "properties": properties}
    text = (cls.__doc__ or "").split("Attributes:")[0].strip()
    if text:
        schema["description"] = re.sub(r"\s+", " ", text)
    if required:
        schema["required"] = sorted(required)
    schema.update(extensions.STRUCTS.get(split_name(model)[2], {}))
    return schema


def _is_required(cls: Any, attribute: str) -> bool:
    field = getattr(cls, "model_fields", {}).get(attribute)
    return bool(field is not None and field.is_required())


def _member(model: str, cls: Any, attribute: str, name: str, kind: str) -> JsonObject:
    struct = split_name(model)[2]
    schema = _typed(kind, struct, name)
    field = getattr(cls, "model_fields", {}).get(attribute)
    described: JsonObject = {}
    if field is not None and field.description:
        described["description"] = field.description
    described.update(extensions.members(struct, name))
    if not described:
        return schema
    if "$ref" in schema:
        return {"allOf": [schema], "default": {}, **described}
    return {**schema, **described}


def _typed(kind: str, struct: str, name: str) -> JsonObject:
    listed = re.fullmatch(r"List\[(.+)\]", kind)
    if listed:
        return {"type": "array", "items": _typed(listed[1], struct, name)}
    mapped = re.fullmatch(r"Dict\[str, (.+)\]", kind)
    if mapped:
        if name in extensions.QUANTITY_MAPS:
            return {"type": "object", "additionalProperties": {"type": "string", "format": "quantity"}}
        return {"type": "object", "additionalProperties": _typed(mapped[1], struct, name)}
    if kind == "object":
        if name in extensions.INT_OR_STRING:
            return {"type": "string", "format": "int-or-string"}
        open_object = (struct, name) in extensions.OPEN_OBJECTS
        return {"x-kubernetes-preserve-unknown-fields": True, **({"type": "object"} if open_object else {})}
    if kind == "str" and name in extensions.QUANTITIES:
        return {"type": "string", "format": "quantity"}
    if kind == "int":
        return {"type": "integer", "format": "int64" if name in extensions.LONG else "int32"}
    plain = _PLAIN.get(kind)
    return dict(plain) if plain else {"$ref": PREFIX + definition_name(kind)}


@cache
def definitions(model: str) -> JsonObject:
    """The schemas of a class and of all it refers to, by published name."""
    found: JsonObject = {}
    waiting = [model]
    while waiting:
        current = waiting.pop()
        name = definition_name(current)
        if name not in found:
            found[name] = definition(current)
            for kind in getattr(models, current).openapi_types.values():
                waiting.extend(re.findall(r"\b(?:[A-Z][a-z]+)?V\d\w+", kind))
    return found
