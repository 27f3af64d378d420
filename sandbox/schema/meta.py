"""``metav1.ObjectMeta`` as a schema: what every object's metadata may hold."""

from __future__ import annotations

from sandbox.jsontypes import JsonObject
from sandbox.schema.node import compile_schema

_TEXT: JsonObject = {"type": "string"}
_TEXTS: JsonObject = {"type": "object", "additionalProperties": _TEXT}
_TIME: JsonObject = {"type": "string", "format": "date-time"}
_NUMBER: JsonObject = {"type": "integer", "format": "int64"}
_FLAG: JsonObject = {"type": "boolean"}

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "annotations": _TEXTS,
        "creationTimestamp": _TIME,
        "deletionGracePeriodSeconds": _NUMBER,
        "deletionTimestamp": _TIME,
        "finalizers": {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
        "generateName": _TEXT,
        "generation": _NUMBER,
        "labels": _TEXTS,
        "managedFields": {
            "type": "array",
            "x-kubernetes-list-type": "atomic",
            "items": {
                "type": "object",
                "properties": {
                    "apiVersion": _TEXT,
                    "fieldsType": _TEXT,
                    "fieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "manager": _TEXT,
                    "operation": _TEXT,
                    "subresource": _TEXT,
                    "time": _TIME,
                },
            },
        },
        "name": _TEXT,
        "namespace": _TEXT,
        "ownerReferences": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "items": {
                "type": "object",
                "properties": {
                    "apiVersion": _TEXT,
                    "blockOwnerDeletion": _FLAG,
                    "controller": _FLAG,
                    "kind": _TEXT,
                    "name": _TEXT,
                    "uid": _TEXT,
                },
            },
        },
        "resourceVersion": _TEXT,
        "selfLink": _TEXT,
        "uid": _TEXT,
    },
}

OBJECT_META_NAME = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
"""The name of the schema among published components."""

OBJECT_META = compile_schema(SCHEMA)
