"""Rules of built-in kinds beyond their types: what kube-apiserver refuses with 422."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from sandbox.builtin import crds, pods, services, workloads
from sandbox.builtin.faults import at_least_zero, invalid, required, too_long
from sandbox.jsontypes import JsonObject
from sandbox.schema.validation import Fault

Check = Callable[[JsonObject, JsonObject | None], Iterable[Fault]]
_MEBIBYTE = 1024 * 1024
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


def faults(group: str, kind: str, obj: JsonObject, old: JsonObject | None, subresource: str) -> list[Fault]:
    """Every broken rule of an object; ``old`` is the stored one on update. A status has no rules of its own."""
    check = _BY_KIND.get((group, kind))
    if check is None or subresource == "status":
        return []
    return list(check(obj, old))


def _texts(obj: JsonObject, _: JsonObject | None) -> Iterator[Fault]:
    size = 0
    for member in ("data", "binaryData"):
        for key, value in (obj.get(member) or {}).items():
            size += len(value.encode())
            if not _KEY.fullmatch(key):
                yield invalid(f"{member}[{key}]", key, _KEY_TEXT)
    for key in (obj.get("data") or {}).keys() & (obj.get("binaryData") or {}).keys():
        yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    if size > _MEBIBYTE:
        yield too_long("[]", _MEBIBYTE)


def _lease(obj: JsonObject, _: JsonObject | None) -> Iterator[Fault]:
    spec = obj.get("spec") or {}
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    yield from at_least_zero(spec, "spec", "leaseTransitions")
    if spec.get("holderIdentity") == "":
        yield invalid("spec.holderIdentity", "", "must not be empty")


def _revision(obj: JsonObject, _: JsonObject | None) -> Iterator[Fault]:
    if obj.get("data") is None:
        yield required("data", "data is mandatory")
    if (obj.get("revision") or 0) < 0:
        yield invalid("revision", obj["revision"], "must be greater than or equal to 0")


def _event(obj: JsonObject, _: JsonObject | None) -> Iterator[Fault]:
    regarding = obj.get("involvedObject") or obj.get("regarding") or {}
    given, home = regarding.get("namespace", ""), (obj.get("metadata") or {}).get("namespace", "")
    if given != home and not (not given and home == "default"):
        yield invalid("involvedObject.namespace", given, "does not match event.namespace")


def _workload(kind: str) -> Check:
    return lambda obj, _: workloads.workload(obj, kind)


_BY_KIND: dict[tuple[str, str], Check] = {
    ("", "ConfigMap"): _texts,
    ("", "Event"): _event,
    ("", "Pod"): pods.pod,
    ("", "Secret"): _texts,
    ("", "Service"): lambda obj, _: services.service(obj),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): lambda obj, _: crds.definition(obj),
    ("apps", "ControllerRevision"): _revision,
    ("apps", "DaemonSet"): _workload("DaemonSet"),
    ("apps", "Deployment"): _workload("Deployment"),
    ("apps", "ReplicaSet"): _workload("ReplicaSet"),
    ("apps", "StatefulSet"): _workload("StatefulSet"),
    ("batch", "Job"): lambda obj, _: workloads.job(obj),
    ("coordination.k8s.io", "Lease"): _lease,
    ("events.k8s.io", "Event"): _event,
}
