"""Rules of pods and pod templates."""

from __future__ import annotations

from collections.abc import Iterator

from sandbox.builtin.faults import (
    at_least_zero,
    duplicate,
    forbidden,
    invalid,
    label,
    not_found,
    one_of,
    port,
    port_name,
    required,
)
from sandbox.jsontypes import JsonObject, JsonValue
from sandbox.schema import quantity
from sandbox.schema.validation import Fault

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
UPDATE_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def pod_spec(spec: JsonObject, path: str) -> Iterator[Fault]:
    """The faults of a pod's specification (core/v1 PodSpec)."""
    volumes: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        place, name = f"{path}.volumes[{index}]", volume.get("name", "")
        yield from label(f"{place}.name", name)
        if name in volumes:
            yield duplicate(f"{place}.name", name)
        if len(volume) > 2:
            yield forbidden(f"{place}.{list(volume)[-1]}", "may not specify more than 1 volume type")
        volumes.add(name)
    if not spec.get("containers"):
        yield required(f"{path}.containers")
    seen: set[str] = set()
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(kind) or ()):
            place = f"{path}.{kind}[{index}]"
            yield from _container(container, place, volumes, init=kind == "initContainers")
            name = container.get("name", "")
            if name and name in seen:
                yield duplicate(f"{place}.name", name)
            seen.add(name)
    yield from one_of(f"{path}.restartPolicy", spec.get("restartPolicy"), ("Always", "OnFailure", "Never"))
    policies = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
    yield from one_of(f"{path}.dnsPolicy", spec.get("dnsPolicy"), policies)


def _container(container: JsonObject, path: str, volumes: set[str], init: bool) -> Iterator[Fault]:
    yield from label(f"{path}.name", container.get("name", ""))
    if not container.get("image"):
        yield required(f"{path}.image")
    policy = container.get("imagePullPolicy")
    yield from one_of(f"{path}.imagePullPolicy", policy, ("Always", "IfNotPresent", "Never"))
    yield from _ports(container.get("ports") or [], f"{path}.ports")
    for index, entry in enumerate(container.get("env") or ()):
        if not entry.get("name"):
            yield required(f"{path}.env[{index}].name")
        if entry.get("value") and entry.get("valueFrom"):
            yield invalid(f"{path}.env[{index}].valueFrom", "", "may not be specified when `value` is not empty")
    yield from _mounts(container, path, volumes)
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(name) and (not init or container.get("restartPolicy") == "Always"):
            yield from _probe(container[name], f"{path}.{name}")
    yield from _resources(container.get("resources") or {}, f"{path}.resources")


def _mounts(container: JsonObject, path: str, volumes: set[str]) -> Iterator[Fault]:
    mounted: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        place = f"{path}.volumeMounts[{index}]"
        if not mount.get("name"):
            yield required(f"{place}.name")
        if mount.get("name", "") not in volumes:
            yield not_found(f"{place}.name", mount.get("name", ""))
        target = mount.get("mountPath", "")
        if not target:
            yield required(f"{place}.mountPath")
        if target in mounted:
            yield invalid(f"{place}.mountPath", target, "must be unique")
        mounted.add(target)


def _ports(ports: list[JsonObject], path: str) -> Iterator[Fault]:
    names: set[str] = set()
    for index, entry in enumerate(ports):
        place = f"{path}[{index}]"
        number = entry.get("containerPort")
        if not number:
            yield required(f"{place}.containerPort")
        else:
            yield from port(f"{place}.containerPort", number)
        if entry.get("hostPort"):
            yield from port(f"{place}.hostPort", entry["hostPort"])
        yield from one_of(f"{place}.protocol", entry.get("protocol"), _PROTOCOLS)
        name = entry.get("name")
        if name:
            yield from port_name(f"{place}.name", name)
            if name in names:
                yield duplicate(f"{place}.name", name)
            names.add(name)


def _probe(probe: JsonObject, path: str) -> Iterator[Fault]:
    handlers = [name for name in _HANDLERS if probe.get(name) is not None]
    if not handlers:
        yield required(path, "must specify a handler type")
    for extra in handlers[1:]:
        yield forbidden(f"{path}.{extra}", "may not specify more than 1 handler type")
    fields = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
    yield from at_least_zero(probe, path, *fields)
    for name in ("httpGet", "tcpSocket"):
        target = (probe.get(name) or {}).get("port")
        if isinstance(target, int):
            yield from port(f"{path}.{name}.port", target)


def _resources(resources: JsonObject, path: str) -> Iterator[Fault]:
    limits: JsonObject = resources.get("limits") or {}
    requests: JsonObject = resources.get("requests") or {}
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            amount = quantity.parse(text)
            place = f"{path}.{kind}[{name}]"
            if amount < 0:
                yield invalid(place, text, "must be greater than or equal to 0")
            elif "/" in name and amount.denominator != 1:
                yield invalid(place, text, "must be an integer")
    for name, text in requests.items():
        limit = limits.get(name)
        if limit is None:
            if "/" in name:
                yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        elif "/" in name and quantity.parse(text) != quantity.parse(limit):
            yield invalid(f"{path}.requests", text, f"must be equal to {name} limit of {limit}")
        elif quantity.parse(text) > quantity.parse(limit):
            yield invalid(f"{path}.requests", text, f"must be less than or equal to {name} limit of {limit}")


def pod(obj: JsonObject, old: JsonObject | None) -> Iterator[Fault]:
    """The faults of a pod; on update also of what may not change (a first ``nodeName`` counts as the binding)."""
    yield from pod_spec(obj.get("spec") or {}, "spec")
    if old is not None and _fixed(obj.get("spec") or {}, old) != _fixed(old.get("spec") or {}, old):
        yield forbidden("spec", UPDATE_TEXT)


def _fixed(spec: JsonObject, old: JsonObject) -> JsonValue:
    changeable = {"activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"}
    if not (old.get("spec") or {}).get("nodeName"):
        changeable.add("nodeName")
    kept = {key: value for key, value in spec.items() if key not in changeable}
    for kind in ("containers", "initContainers"):
        if kind in kept:
            kept[kind] = [{key: value for key, value in c.items() if key != "image"} for c in kept[kind]]
    return kept
