"""Prometheus metrics of the process: one registry, served over HTTP on demand."""

from __future__ import annotations

from collections.abc import Callable

import grpc
from prometheus_client import CollectorRegistry, Histogram, PlatformCollector, ProcessCollector, start_http_server

from services.kit.addresses import join_host_port, split_host_port

REGISTRY = CollectorRegistry()
"""Every metric of the process is registered here. No label ever carries an object's name, unless the series dies
with the object."""

ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SERVER = Histogram(
    "ome_rpc_server_duration_seconds",
    "Time from a call's start in the server to its status, by method and status code.",
    ("method", "code"),
    buckets=_BUCKETS,
    registry=REGISTRY,
)
_CLIENT = Histogram(
    "ome_rpc_client_duration_seconds",
    "Time from a call's start in the client to its status, retries included, by method and status code.",
    ("method", "code"),
    buckets=_BUCKETS,
    registry=REGISTRY,
)
_children: dict[tuple[bool, str, grpc.StatusCode], Histogram] = {}


def observe_server(method: str, code: grpc.StatusCode, seconds: float) -> None:
    """Counts a call that this process served; `method` is the full name of a method that exists."""
    _child(True, method, code).observe(seconds)


def observe_client(method: str, code: grpc.StatusCode, seconds: float) -> None:
    """Counts a call that this process made."""
    _child(False, method, code).observe(seconds)


def _child(server: bool, method: str, code: grpc.StatusCode) -> Histogram:
    key = (server, method, code)
    child = _children.get(key)
    if child is None:
        child = _children[key] = (_SERVER if server else _CLIENT).labels(method.lstrip("/"), code.name)
    return child


def serve(listen: str) -> tuple[str, Callable[[], None]]:
    """Serves `/metrics` on HOST:PORT in a thread; answers the bound address and what stops it. OSError if it cannot."""
    host, port = split_host_port(listen)
    server, thread = start_http_server(port, host, REGISTRY)

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return join_host_port(host, server.server_port), stop
