"""What every decision service of the suite has in common, seen from outside the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from services.kit import errors

RSS_BYTES = 90 * 1000 * 1000
SERVICES = {
    "pinning": ("ome.pinning.v1.PinningService", "HashRuntime"),
    "canary": ("ome.canary.v1.CanaryService", "Explain"),
    "traffic": ("ome.traffic.v1.TrafficService", "Translate"),
    "gc": ("ome.gc.v1.GcService", "Plan"),
}
Start = Callable[..., Any]


@pytest.mark.parametrize("name", list(SERVICES))
async def test_a_service_starts_answers_and_ends(start: Start, name: str) -> None:
    service, method = SERVICES[name]
    process = start(module=f"services.{name}")
    assert process.first_line.startswith(f"ome-{name} serving on 127.0.0.1:")
    async with grpc.aio.insecure_channel(process.address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for checked in ("", service):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=checked), timeout=5)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        reflect = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(
            iter([reflection_pb2.ServerReflectionRequest(list_services="")]), timeout=5
        )
        listed = {entry.name for entry in (await reflect.read()).list_services_response.service}
        assert {service, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"} == listed
        raw = channel.unary_unary(f"/{service}/{method}")
        for data, timeout, code, reason in (
            (b"\xff\xff", 5.0, grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED_MESSAGE"),
            (b"", None, grpc.StatusCode.INVALID_ARGUMENT, "MISSING_DEADLINE"),
            (b"\x00" * 5 * 1024 * 1024, 5.0, grpc.StatusCode.RESOURCE_EXHAUSTED, ""),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await raw(data, timeout=timeout)
            failure = errors.read(caught.value)
            assert (failure.code, failure.reason) == (code, reason)
    assert process.rss_bytes() <= RSS_BYTES
    process.signal()
    assert process.wait() == 0


@pytest.mark.parametrize(("name", "port"), [("pinning", 7101), ("canary", 7102), ("traffic", 7103), ("gc", 7104)])
def test_default_ports(run_to_end: Callable[..., Any], name: str, port: int) -> None:
    ended = run_to_end("--help", module=f"services.{name}")
    assert f"--listen  (OME_LISTEN, default: 127.0.0.1:{port})" in ended.stdout
    assert ended.returncode == 0
