"""What the server itself decides on create and update, by kind: status, generation and a few kinds' own rules."""

from __future__ import annotations

import base64
from datetime import datetime

import orjson

from sandbox.api import addresses
from sandbox.api.resources import Resource
from sandbox.api.status import cause, invalid
from sandbox.jsontypes import JsonObject, JsonValue
from services.kit.times import timestamp

KEEPS_STATUS_ON_CREATE = frozenset({"nodes"})
UNCONDITIONAL_REFUSED = frozenset({"leases.coordination.k8s.io", "customresourcedefinitions.apiextensions.k8s.io"})
CREATE_ON_UPDATE = frozenset({"leases.coordination.k8s.io", "events", "endpoints", "endpointslices.discovery.k8s.io"})


def prepare_create(resource: Resource, obj: JsonObject, now: datetime) -> None:
    """Sets what a new object starts with; drops what a creator may not set."""
    meta = obj["metadata"]
    for field in ("resourceVersion", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        meta.pop(field, None)
    meta["creationTimestamp"] = timestamp(now)
    meta.pop("generation", None)
    if resource.generation:
        meta["generation"] = 1
    if resource.status and resource.plural not in KEEPS_STATUS_ON_CREATE:
        obj.pop("status", None)
    if not resource.custom:
        _builtin_create(resource, obj, now)


def _builtin_create(resource: Resource, obj: JsonObject, now: datetime) -> None:
    meta = obj["metadata"]
    match resource.storage:
        case "namespaces":
            obj.setdefault("spec", {})["finalizers"] = ["kubernetes"]
            obj["status"] = {"phase": "Active"}
            meta.setdefault("labels", {})["kubernetes.io/metadata.name"] = meta["name"]
        case "pods":
            obj["status"] = {"phase": "Pending", "qosClass": "BestEffort"}
        case "events" if not resource.group:
            _complete_event(obj)
        case "secrets":
            _encode_secret(obj)
        case _ if resource.status and resource.plural not in KEEPS_STATUS_ON_CREATE:
            obj["status"] = {}


def _complete_event(obj: JsonObject) -> None:
    obj.setdefault("reportingComponent", "")
    obj.setdefault("reportingInstance", "")
    obj.setdefault("source", {})
    for field in ("firstTimestamp", "lastTimestamp", "eventTime"):
        obj.setdefault(field, None)


def _encode_secret(obj: JsonObject) -> None:
    texts = obj.pop("stringData", None)
    if texts:
        data = obj.setdefault("data", {})
        data.update({key: base64.b64encode(text.encode()).decode() for key, text in texts.items()})
    obj.setdefault("type", "Opaque")


def prepare_update(resource: Resource, obj: JsonObject, old: JsonObject, subresource: str) -> JsonObject:
    """The object to store for an update: status from one side, everything else from the other; generation counted."""
    if subresource == "status":
        return _status_update(resource, obj, old)
    if resource.status and resource.plural != "nodes":
        if "status" in old:
            obj["status"] = old["status"]
        else:
            obj.pop("status", None)
    if resource.storage == "namespaces" and subresource != "finalize":
        finalizers = (old.get("spec") or {}).get("finalizers")
        obj.setdefault("spec", {})["finalizers"] = finalizers
    if resource.storage == "secrets":
        _encode_secret(obj)
    if resource.storage == addresses.BUCKET:
        addresses.keep(obj, old)
    if resource.generation and _specification_changed(resource, obj, old):
        obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    return obj


def _status_update(resource: Resource, obj: JsonObject, old: JsonObject) -> JsonObject:
    meta = obj["metadata"] if not resource.custom else dict(old["metadata"])
    if not resource.custom:
        for field in ("labels", "ownerReferences"):
            if field in old["metadata"]:
                meta[field] = old["metadata"][field]
            else:
                meta.pop(field, None)
    meta["managedFields"] = obj["metadata"].get("managedFields", [])
    stored = {**old, "metadata": meta, "apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    if "status" in obj:
        stored["status"] = obj["status"]
    else:
        stored.pop("status", None)
    return stored


def _specification_changed(resource: Resource, obj: JsonObject, old: JsonObject) -> bool:
    ignored = {"metadata", "apiVersion", "kind"}
    if resource.status:
        ignored.add("status")
    if not resource.custom:
        return bool(obj.get("spec") != old.get("spec"))
    mine = {key: value for key, value in obj.items() if key not in ignored}
    return mine != {key: value for key, value in old.items() if key not in ignored}


def _immutable(field: str, value: JsonValue) -> JsonObject:
    return cause(field, "FieldValueInvalid", f"Invalid value: {orjson.dumps(value).decode()}: field is immutable")


def check_immutable(resource: Resource, obj: JsonObject, old: JsonObject) -> None:
    """422 for fields of built-in kinds that never change (the few that the suite relies on)."""
    causes = []
    if resource.storage == "controllerrevisions.apps" and obj.get("data") != old.get("data"):
        causes.append(_immutable("data", obj.get("data")))
    if resource.storage in ("deployments.apps", "replicasets.apps"):
        selector = (obj.get("spec") or {}).get("selector")
        if selector != (old.get("spec") or {}).get("selector"):
            causes.append(_immutable("spec.selector", selector))
    if resource.storage == addresses.BUCKET:
        before, after = (old.get("spec") or {}).get("clusterIP"), (obj.get("spec") or {}).get("clusterIP")
        if before and after != before and (obj.get("spec") or {}).get("type") != "ExternalName":
            text = f'Invalid value: "{after}": may not change once set'
            causes.append(cause("spec.clusterIPs[0]", "FieldValueInvalid", text))
    if resource.storage in ("configmaps", "secrets") and old.get("immutable"):
        for field in ("data", "binaryData", "immutable"):
            if obj.get(field) != old.get(field):
                text = "Forbidden: field is immutable when `immutable` is set"
                causes.append(cause(field, "FieldValueForbidden", text))
    if causes:
        raise invalid(resource.group, resource.kind, obj["metadata"]["name"], causes)
