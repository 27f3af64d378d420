"""Cluster IPs of Services, as kube-apiserver allots them."""

from __future__ import annotations

import ipaddress

from sandbox.jsontypes import JsonObject
from sandbox.store import Store

RANGE = ipaddress.IPv4Network("10.96.0.0/16")
RESERVED = "10.96.0.1"
"""The address of the API server's own Service in a real cluster."""
BUCKET = "services"


def allot(store: Store, obj: JsonObject) -> None:
    """Gives a Service the lowest free address of the range; headless and external ones get none."""
    spec = obj.setdefault("spec", {})
    if spec.get("type") == "ExternalName":
        return
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if not spec.get("clusterIP"):
        taken = {entry.obj["spec"].get("clusterIP") for entry in store.list(BUCKET)} | {RESERVED}
        hosts = (str(host) for host in RANGE.hosts())
        spec["clusterIP"] = next(address for address in hosts if address not in taken)
    spec["clusterIPs"] = [spec["clusterIP"]]


def keep(obj: JsonObject, old: JsonObject) -> None:
    """An update that leaves the address out keeps the one that the Service has."""
    spec, before = obj.setdefault("spec", {}), old.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return
    for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if not spec.get(field) and field in before:
            spec[field] = before[field]
