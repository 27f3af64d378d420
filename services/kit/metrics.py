"""Prometheus metrics of a process: the RPC figures every server and client has, and the page that shows them."""

from __future__ import annotations

from prometheus_client import Counter, Histogram, start_http_server

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

SERVED = Histogram(
    "ome_rpc_server_duration_seconds", "Time to answer a call", ["service", "method", "code"], buckets=BUCKETS
)
CALLED = Histogram(
    "ome_rpc_client_duration_seconds", "Time until a call was answered", ["service", "method", "code"], buckets=BUCKETS
)
FAULTS = Counter("ome_rpc_server_faults_total", "Calls that ended in an unexpected exception", ["service", "method"])


def serve(listen: str) -> None:
    """Serve `/metrics` on HOST:PORT from a thread of its own; empty: nothing. Raises OSError when the port is in use."""
    if not listen:
        return
    host, _, port = listen.rpartition(":")
    start_http_server(int(port), addr=host.strip("[]"))
