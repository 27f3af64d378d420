"""P2: what tracing costs a call."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ome.common.v1 import common_pb2
from ome.pinning.v1 import pinning_pb2, pinning_pb2_grpc
from sandbox.processes import Process, Supervisor
from services.kit import channel, tracing

from .figures import report

pytestmark = pytest.mark.perf
ROUNDS, CALLS = 7, 400


@dataclass(frozen=True)
class Trace:
    otlp_endpoint: str
    trace_ratio: float = 1.0


@pytest.fixture
def servers() -> Iterator[tuple[str, str, str]]:
    """Addresses of a pinning service that traces and of one that does not, and where spans go."""
    with Supervisor() as supervisor:
        traces = Process("traces", "sandbox.collector", [])
        supervisor.start(traces)
        endpoint = f"http://{traces.address}"
        listen = ["--listen", "127.0.0.1:0", "--log-level", "warning"]
        traced = Process("traced", "services.pinning", [*listen, "--otlp-endpoint", endpoint])
        plain = Process("plain", "services.pinning", listen)
        supervisor.start(traced, plain)
        yield traced.address, plain.address, endpoint
        traces.terminate()
        received = int(traces.wait_line("received", 1).split()[1])
        assert received > ROUNDS * CALLS * 2, "the traced side is traced at both ends"


async def p50(target: str, request: pinning_pb2.HashRuntimeRequest) -> float:
    """Median time of a call in seconds, one at a time, after a warm-up."""
    connection = channel.connect(target)
    try:
        call: Callable[..., Any] = pinning_pb2_grpc.PinningServiceStub(connection).HashRuntime  # type: ignore[no-untyped-call]
        for _ in range(30):
            await call(request, timeout=5)
        times = []
        for _ in range(CALLS):
            with tracing.tracer().start_as_current_span("bench"):
                begin = time.perf_counter()
                await call(request, timeout=5)
                times.append(time.perf_counter() - begin)
        return statistics.median(times)
    finally:
        await connection.close()


def test_p2_traced_call(servers: tuple[str, str, str]) -> None:
    traced, plain, collecting = servers
    spec = json.dumps({"engineConfig": {"runner": {"args": [f"--flag-{n}=value" for n in range(180)]}}}).encode()
    request = pinning_pb2.HashRuntimeRequest(meta=common_pb2.RequestMeta(request_id="bench"), spec=spec)
    with_tracing, without = [], []
    for _ in range(ROUNDS):
        for target, endpoint, into in ((traced, collecting, with_tracing), (plain, "", without)):
            stop = tracing.setup("bench", Trace(endpoint))
            into.append(asyncio.run(p50(target, request)))
            stop()
    note = f"{min(with_tracing) * 1e6:.0f} to {min(without) * 1e6:.0f} microseconds"
    report("P2", min(with_tracing) / min(without), note)
