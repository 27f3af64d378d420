"""Figures of the gateway: passes, the queue, and the series that services ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ome.common.v1 import common_pb2 as pb
from services.kit import logs
from services.kit.metrics import REGISTRY

_log = logs.get(__name__)
_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Metrics:
    """The gateway's own metrics in a registry."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._registry = registry
        self._asked: dict[str, Counter | Gauge] = {}
        self._passes = Counter("ome_gateway_reconciles", "Passes, by how they ended.", ("outcome",), registry=registry)
        self._duration = Histogram(
            "ome_gateway_reconcile_duration_seconds",
            "Time of a pass, without its wait.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._wait = Histogram(
            "ome_gateway_queue_wait_seconds",
            "Time from when a pass was ready to its start.",
            ("lane",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._depth = Gauge(
            "ome_gateway_queue_depth", "InferenceServices that wait for a pass.", ("lane",), registry=registry
        )

    def watch_queue(self, lane: str, depth: Callable[[], int]) -> None:
        """Reports the depth of a lane whenever metrics are read."""
        self._depth.labels(lane).set_function(depth)

    def waited(self, lane: str, seconds: float) -> None:
        """A pass began after that wait."""
        self._wait.labels(lane).observe(seconds)

    def passed(self, outcome: str, seconds: float) -> None:
        """A pass ended."""
        self._passes.labels(outcome).inc()
        self._duration.observe(seconds)

    def apply(self, updates: Iterable[pb.MetricUpdate]) -> None:
        """Applies what services asked for. An update that fits no metric is logged and dropped."""
        for update in updates:
            try:
                self._apply(update)
            except ValueError as error:
                _log.warning("metric update dropped", metric=update.name, cause=str(error))

    def _apply(self, update: pb.MetricUpdate) -> None:
        labels = {label.key: label.value for label in update.labels}
        adds = update.WhichOneof("value") == "add"
        metric = self._metric(update.name, sorted(labels), adds)
        if isinstance(metric, Counter) is not adds:
            raise ValueError("it is both set and added to")
        child = metric.labels(**labels) if labels else metric
        if isinstance(child, Counter):
            child.inc(update.add)
        else:
            child.set(update.set)

    def _metric(self, name: str, labels: list[str], adds: bool) -> Counter | Gauge:
        metric = self._asked.get(name)
        if metric is None:
            make = Counter if adds else Gauge
            metric = make(name, "As decided by a service.", labels, registry=self._registry)
            self._asked[name] = metric
        return metric
