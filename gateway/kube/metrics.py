"""Metrics of the traffic with the API server. Labels are kinds, verbs and reasons, never names."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

from services.kit.metrics import REGISTRY

WATCH_RESTARTS = Counter(
    "ome_kube_watch_restarts_total",
    "Watches begun again, by kind and by why the one before ended.",
    ("kind", "reason"),
    registry=REGISTRY,
)
LISTS = Counter("ome_kube_lists_total", "Complete lists taken, by kind.", ("kind",), registry=REGISTRY)
CACHED = Gauge("ome_kube_cached_objects", "Objects in the cache, by kind.", ("kind",), registry=REGISTRY)
WRITES = Counter("ome_kube_writes_total", "Writes, by verb and result.", ("verb", "result"), registry=REGISTRY)
CONFLICTS = Counter(
    "ome_kube_conflicts_total", "Writes refused for a lost compare-and-set, by kind.", ("kind",), registry=REGISTRY
)
LEADER = Gauge("ome_gateway_leader", "1 while this process leads.", registry=REGISTRY)
TRANSITIONS = Counter("ome_gateway_leader_starts_total", "Times this process began to lead.", registry=REGISTRY)
