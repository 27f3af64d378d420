"""Node ports and rules of Services."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from sandbox.builtin.faults import duplicate, invalid, label, one_of, port, port_name, required
from sandbox.jsontypes import JsonObject
from sandbox.schema.validation import Fault

_UNNAMED = {"Name": "", "Protocol": "", "AppProtocol": None, "Port": 0, "TargetPort": 0, "NodePort": 0}
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


def node_ports(obj: JsonObject) -> None:
    """Gives a NodePort or LoadBalancer Service its node ports, in 30000 to 32767; other types have none.

    They derive from the names, so an update that leaves them out keeps them.
    """
    spec, meta = obj["spec"], obj.get("metadata") or {}
    ports = spec.get("ports") or ()
    if spec.get("type") not in ("NodePort", "LoadBalancer"):
        for entry in ports:
            entry.pop("nodePort", None)
        return
    seed = f"{meta.get('namespace', '')}/{meta.get('name', '')}"
    taken = {entry["nodePort"] for entry in ports if entry.get("nodePort")}
    for entry in ports:
        if not entry.get("nodePort"):
            entry["nodePort"] = _node_port(f"{seed}/{entry.get('protocol')}/{entry.get('port')}", taken)


def _number(seed: str, below: int) -> int:
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big") % below


def _node_port(seed: str, taken: set[int]) -> int:
    number = 30000 + _number(seed, 2768)
    while number in taken:
        number = 30000 + (number - 29999) % 2768
    taken.add(number)
    return number


def service(obj: JsonObject) -> Iterator[Fault]:
    """The faults of a Service."""
    spec: JsonObject = obj.get("spec") or {}
    kind = spec.get("type")
    yield from one_of("spec.type", kind, _TYPES)
    yield from one_of("spec.sessionAffinity", spec.get("sessionAffinity"), ("ClientIP", "None"))
    headless = spec.get("clusterIP") == "None"
    if headless and kind in ("NodePort", "LoadBalancer"):
        why = f"may not be set to 'None' for {kind} services"
        yield invalid("spec.clusterIPs[0]", "None", why)
    if kind == "ExternalName" and not spec.get("externalName"):
        yield required("spec.externalName")
    ports = spec.get("ports") or []
    if not ports and not headless and kind != "ExternalName":
        yield required("spec.ports")
    yield from _ports(ports)


def _ports(ports: list[JsonObject]) -> Iterator[Fault]:
    names: set[str] = set()
    numbers: set[tuple[object, object]] = set()
    for index, entry in enumerate(ports):
        place = f"spec.ports[{index}]"
        name = entry.get("name", "")
        if not name and len(ports) > 1:
            yield required(f"{place}.name")
        if name:
            yield from label(f"{place}.name", name)
        if name and name in names:
            yield duplicate(f"{place}.name", name)
        names.add(name)
        yield from port(f"{place}.port", entry.get("port"))
        yield from one_of(f"{place}.protocol", entry.get("protocol"), ("SCTP", "TCP", "UDP"))
        target = entry.get("targetPort")
        if isinstance(target, int):
            yield from port(f"{place}.targetPort", target)
        elif isinstance(target, str):
            yield from port_name(f"{place}.targetPort", target)
        node_port = entry.get("nodePort")
        if node_port and not 30000 <= node_port <= 32767:
            why = "provided port is not in the valid range. The range of valid ports is 30000-32767"
            yield invalid(f"{place}.nodePort", node_port, why)
        key = (entry.get("port"), entry.get("protocol"))
        if key in numbers:
            yield duplicate(place, {**_UNNAMED, "Protocol": entry.get("protocol"), "Port": entry.get("port")})
        numbers.add(key)


