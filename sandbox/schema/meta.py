"""``metav1.ObjectMeta`` as a schema: what every object's metadata may hold."""

from __future__ import annotations

from sandbox.jsontypes import JsonObject, JsonValue
from sandbox.schema.node import Node, compile_schema


def _text(description: str, **more: JsonValue) -> JsonObject:
    return {"type": "string", "description": description, **more}


def _texts(description: str) -> JsonObject:
    return {"type": "object", "additionalProperties": {"type": "string"}, "description": description}


def _time(description: str) -> JsonObject:
    return _text(description, format="date-time")


def _number(description: str) -> JsonObject:
    return {"type": "integer", "format": "int64", "description": description}


def _flag(description: str) -> JsonObject:
    return {"type": "boolean", "description": description}


_MANAGED: JsonObject = {
    "type": "object",
    "title": "ManagedFieldsEntry",
    "description": "The fields that one manager has set.",
    "properties": {
        "apiVersion": _text("The version of the object that the fields are of."),
        "fieldsType": _text("The form of the fields: FieldsV1."),
        "fieldsV1": {
            "type": "object",
            "description": "The set of fields.",
            "x-kubernetes-preserve-unknown-fields": True,
        },
        "manager": _text("The name of the manager."),
        "operation": _text("Apply or Update."),
        "subresource": _text("The subresource that was written, empty for the object itself."),
        "time": _time("When the manager last set a field."),
    },
}

_OWNER: JsonObject = {
    "type": "object",
    "title": "OwnerReference",
    "description": "An object that this one depends on.",
    "required": ["apiVersion", "kind", "name", "uid"],
    "properties": {
        "apiVersion": _text("API version of the owner."),
        "blockOwnerDeletion": _flag("Whether a foreground deletion of the owner waits for this object."),
        "controller": _flag("Whether the owner is the managing controller."),
        "kind": _text("Kind of the owner."),
        "name": _text("Name of the owner."),
        "uid": _text("UID of the owner."),
    },
}

SCHEMA: JsonObject = {
    "type": "object",
    "title": "ObjectMeta",
    "description": "ObjectMeta is the metadata that every stored object has.",
    "properties": {
        "annotations": _texts("Unstructured key values for tools; they are not selected by."),
        "creationTimestamp": _time("When the object was created, set by the server."),
        "deletionGracePeriodSeconds": _number("Seconds that the object has to end; set with deletionTimestamp."),
        "deletionTimestamp": _time("When the object will be gone, set by the server on a deletion."),
        "finalizers": {
            "type": "array",
            "description": "Names that have to be taken off before the object goes.",
            "items": {"type": "string"},
            "x-kubernetes-list-type": "set",
            "x-kubernetes-patch-strategy": "merge",
        },
        "generateName": _text("Start of a name that the server completes when name is empty."),
        "generation": _number("Counts the changes of the wished state, set by the server."),
        "labels": _texts("Key values by which objects are selected."),
        "managedFields": {
            "type": "array",
            "description": "Which manager has set which fields.",
            "items": _MANAGED,
            "x-kubernetes-list-type": "atomic",
        },
        "name": _text("Name of the object, unique within its namespace; it cannot change."),
        "namespace": _text("The namespace of the object."),
        "ownerReferences": {
            "type": "array",
            "description": "The objects that this one depends on; it is collected when all of them are gone.",
            "items": _OWNER,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": "uid",
        },
        "resourceVersion": _text("Changes with every write; opaque to clients."),
        "selfLink": _text("Deprecated and not set."),
        "uid": _text("Identity of the object in time and space, set by the server."),
    },
}
"""The schema that custom resources refer to for their metadata."""

OBJECT_META_NAME = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
"""The name of the schema among published components."""

OBJECT_META = compile_schema(SCHEMA)
STANDING = Node(type="object", properties={"metadata": OBJECT_META})
"""An object of which only the metadata is known."""
