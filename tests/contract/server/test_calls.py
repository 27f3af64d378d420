"""What a caller sees of a server: codes, rich details, limits, deadlines, health and reflection."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable, Iterator
from types import ModuleType
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf import descriptor_pb2
from google.rpc import error_details_pb2 as rich
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from prometheus_client import generate_latest

from ome.common.v1 import common_pb2
from ome.gc.v1 import gc_pb2, gc_pb2_grpc
from services.kit import errors, logs, metrics, tracing
from services.kit.server import RpcServer
from services.kit.settings import ServiceSettings

PLAN = "/ome.gc.v1.GcService/Plan"
STREAM = "/ome.gc.v1.GcService/PlanStream"


@pytest.fixture
async def raw(served: RpcServer) -> AsyncIterator[grpc.aio.Channel]:
    """A plain channel: no deadline of its own, no retries."""
    async with grpc.aio.insecure_channel(served.address, [("grpc.enable_retries", 0)]) as channel:
        yield channel


@pytest.fixture
def lines() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The log lines so far, decoded."""
    stream = io.StringIO()
    logs.setup("test", "info", "json", stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    logs.setup("test", "error", "json")


async def failure(call: Any) -> errors.Failure:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return errors.read(caught.value)


def told(command: str) -> tuple[tuple[str, str], ...]:
    return (("x-test", command),)


async def test_call_without_deadline(raw: grpc.aio.Channel) -> None:
    answer = await failure(gc_pb2_grpc.GcServiceStub(raw).Plan(gc_pb2.PlanRequest()))
    assert (answer.code, answer.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MISSING_DEADLINE")
    assert answer.violations[0].field == "grpc-timeout" and "set a timeout" in answer.message


async def test_stream_without_deadline(raw: grpc.aio.Channel) -> None:
    call = gc_pb2_grpc.GcServiceStub(raw).PlanStream(iter([gc_pb2.PlanStreamRequest()]))
    assert (await failure(call.read())).reason == "MISSING_DEADLINE"


@pytest.mark.parametrize("data", [b"\xff\xff\xff", b"\x00", b"\x0a\x05abc", b"\x0a\x02\x0a\x01", b"GET / HTTP/1.1\r\n"])
async def test_garbage_is_an_invalid_argument_and_the_server_lives(raw: grpc.aio.Channel, data: bytes) -> None:
    answer = await failure(raw.unary_unary(PLAN)(data, timeout=5))
    assert (answer.code, answer.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED_MESSAGE")
    good = await gc_pb2_grpc.GcServiceStub(raw).Plan(gc_pb2.PlanRequest(), timeout=5)
    assert list(good.incomplete) == ["ok"]


async def test_garbage_in_a_stream(raw: grpc.aio.Channel) -> None:
    call = raw.stream_stream(STREAM)(iter([b"", b"\xff"]), timeout=5)
    assert await call.read() == b""
    assert (await failure(call.read())).reason == "MALFORMED_MESSAGE"


@pytest.mark.parametrize("method", ["/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"])
async def test_garbage_to_health(raw: grpc.aio.Channel, method: str) -> None:
    call = raw.unary_stream(method)(b"\xff\xff", timeout=5)
    answer = await failure(call.read())
    assert (answer.code, answer.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED_MESSAGE")


async def test_five_mebibytes_are_too_much(raw: grpc.aio.Channel) -> None:
    answer = await failure(raw.unary_unary(PLAN)(b"\x00" * 5 * 1024 * 1024, timeout=5))
    assert answer.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (await gc_pb2_grpc.GcServiceStub(raw).Plan(gc_pb2.PlanRequest(), timeout=5)).incomplete == ["ok"]


async def test_an_answer_above_the_limit(raw: grpc.aio.Channel) -> None:
    stub = gc_pb2_grpc.GcServiceStub(raw)
    answer = await failure(stub.Plan(gc_pb2.PlanRequest(), timeout=5, metadata=told(f"big:{5 * 1024 * 1024}")))
    assert answer.code is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_unexpected_exception_shows_no_internals(
    raw: grpc.aio.Channel, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    stub = gc_pb2_grpc.GcServiceStub(raw)
    request = gc_pb2.PlanRequest(meta=common_pb2.RequestMeta(request_id="req-7"))
    answer = await failure(stub.Plan(request, timeout=5, metadata=told("raise:42")))
    assert (answer.code, answer.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
    assert "secret" not in answer.message
    failed = next(line for line in lines() if line["event"] == "call failed")
    assert "secret 42" in failed["exception"]
    assert failed["request_id"] == "req-7"
    assert answer.message == f"internal error; trace {failed['trace_id']}"


async def test_stream_that_fails_midway(raw: grpc.aio.Channel) -> None:
    call = gc_pb2_grpc.GcServiceStub(raw).PlanStream(
        iter([gc_pb2.PlanStreamRequest()]), timeout=5, metadata=told("raise")
    )
    assert await call.read() == gc_pb2.PlanStreamResponse()
    answer = await failure(call.read())
    assert (answer.code, answer.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")


async def test_a_servicers_own_abort_passes(raw: grpc.aio.Channel) -> None:
    call = gc_pb2_grpc.GcServiceStub(raw).Plan(gc_pb2.PlanRequest(), timeout=5, metadata=told("abort:gone"))
    answer = await failure(call)
    assert (answer.code, answer.message) == (grpc.StatusCode.NOT_FOUND, "gone")


async def test_methods_that_nobody_wrote(raw: grpc.aio.Channel) -> None:
    not_overridden = await failure(raw.unary_unary("/ome.gateway.v1.GatewayService/RolloutAction")(b"", timeout=5))
    assert (not_overridden.code, not_overridden.reason) == (grpc.StatusCode.UNIMPLEMENTED, "UNIMPLEMENTED")
    unknown = await failure(raw.unary_unary("/ome.gc.v1.GcService/Nope")(b"", timeout=5))
    assert unknown.code is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("count", [1, 3, 7, 500])
async def test_many_violations_fit_into_the_metadata(raw: grpc.aio.Channel, count: int) -> None:
    call = gc_pb2_grpc.GcServiceStub(raw).Plan(gc_pb2.PlanRequest(), timeout=5, metadata=told(f"violate:{count}"))
    answer = await failure(call)
    assert (answer.code, answer.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
    if count <= 7:
        assert [v.field for v in answer.violations] == [f"policy.field_{n}" for n in range(count)]
    else:
        assert answer.violations[-1].description == f"and {count - len(answer.violations) + 1} more violations"


async def test_the_clients_deadline_ends_the_call(raw: grpc.aio.Channel, served: RpcServer) -> None:
    call = gc_pb2_grpc.GcServiceStub(raw).Plan(gc_pb2.PlanRequest(), timeout=0.2, metadata=told("sleep:60"))
    assert (await failure(call)).code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert await served.calls.idle(5), "the server goes on with a call whose deadline has passed"


async def test_the_servers_longest_deadline(sample: ModuleType) -> None:
    server = RpcServer(ServiceSettings(max_deadline_seconds=0.2), sample.register)
    await server.start()
    async with grpc.aio.insecure_channel(server.address) as channel:
        stub = gc_pb2_grpc.GcServiceStub(channel)
        answer = await failure(stub.Plan(gc_pb2.PlanRequest(), timeout=60, metadata=told("sleep:60")))
        assert answer.code is grpc.StatusCode.DEADLINE_EXCEEDED
        assert "0.2 s" in answer.message
    await server.stop()


async def test_a_cancelled_call_ends_in_the_server(raw: grpc.aio.Channel, served: RpcServer) -> None:
    call = gc_pb2_grpc.GcServiceStub(raw).Plan(gc_pb2.PlanRequest(), timeout=60, metadata=told("sleep:60"))
    await until(lambda: served.calls.in_flight == 1)
    call.cancel()
    assert await served.calls.idle(5)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - the server's state has no event
            await asyncio.sleep(0.005)


async def test_every_line_of_a_call_has_trace_and_request_id(
    raw: grpc.aio.Channel, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    request = gc_pb2.PlanRequest(meta=common_pb2.RequestMeta(request_id="abc"))
    metadata = (*told("sleep:0"), ("traceparent", parent))
    await gc_pb2_grpc.GcServiceStub(raw).Plan(request, timeout=5, metadata=metadata)
    line = next(line for line in lines() if line["event"] == "sleeping")
    assert line["trace_id"] == "0af7651916cd43dd8448eb211c80319c"
    assert line["request_id"] == "abc"
    assert line["method"] == PLAN

    await gc_pb2_grpc.GcServiceStub(raw).Plan(gc_pb2.PlanRequest(), timeout=5, metadata=told("sleep:0"))
    without = [line for line in lines() if line["event"] == "sleeping"][-1]
    assert len(without["trace_id"]) == 32 and without["trace_id"] != line["trace_id"]
    assert without["request_id"] and without["request_id"] != "abc"


async def test_calls_are_counted_by_method_and_code(raw: grpc.aio.Channel) -> None:
    def count(code: str) -> float:
        labels = {"method": PLAN.lstrip("/"), "code": code}
        return metrics.REGISTRY.get_sample_value("ome_rpc_server_duration_seconds_count", labels) or 0

    stub = gc_pb2_grpc.GcServiceStub(raw)
    good, bad = count("OK"), count("INTERNAL")
    await stub.Plan(gc_pb2.PlanRequest(), timeout=5)
    await failure(stub.Plan(gc_pb2.PlanRequest(), timeout=5, metadata=told("raise:1")))
    assert (count("OK"), count("INTERNAL")) == (good + 1, bad + 1)
    assert b"Nope" not in generate_latest(metrics.REGISTRY), "methods that do not exist must not become labels"


async def test_health_of_every_service_and_of_the_process(raw: grpc.aio.Channel, served: RpcServer) -> None:
    health = health_pb2_grpc.HealthStub(raw)
    for name in ("", "ome.gc.v1.GcService", "ome.gateway.v1.GatewayService"):
        answer = await health.Check(health_pb2.HealthCheckRequest(service=name))  # no deadline is asked for
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    assert (await failure(health.Check(health_pb2.HealthCheckRequest(service="nope")))).code is (
        grpc.StatusCode.NOT_FOUND
    )


async def test_reflection_lists_and_describes(raw: grpc.aio.Channel) -> None:
    asked = ["ome.gc.v1.GcService", "ome.gc.v1.GcService.Plan", "ome.gc.v1.PlanRequest"]
    unknown = ["ome.gc.v1.GcService.Nope", "ome.gc.v1.Nope", "nope", ""]
    requests = [reflection_pb2.ServerReflectionRequest(list_services="")]
    requests += [reflection_pb2.ServerReflectionRequest(file_containing_symbol=name) for name in asked + unknown]
    call = reflection_pb2_grpc.ServerReflectionStub(raw).ServerReflectionInfo(iter(requests))
    names = {service.name for service in (await call.read()).list_services_response.service}
    assert {"ome.gc.v1.GcService", "ome.gateway.v1.GatewayService", "grpc.health.v1.Health"} <= names
    for _ in asked:
        (file,) = (await call.read()).file_descriptor_response.file_descriptor_proto[:1]
        assert descriptor_pb2.FileDescriptorProto.FromString(file).name == "ome/gc/v1/gc.proto"
    for _ in unknown:
        assert (await call.read()).error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]


async def test_a_call_is_one_trace_of_client_and_server(served: RpcServer) -> None:
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from services.kit.channel import connect

    exporter = InMemorySpanExporter()
    stop = tracing.setup("test", ServiceSettings(), exporter)
    try:
        async with connect(served.address) as channel:
            stub = gc_pb2_grpc.GcServiceStub(channel)
            with tracing.tracer().start_as_current_span("reconcile") as root:
                await stub.Plan(gc_pb2.PlanRequest())
                await failure(stub.Plan(gc_pb2.PlanRequest(), metadata=told("violate:1")))
        stop()
    finally:
        tracing.setup("test", ServiceSettings())
    spans = exporter.get_finished_spans()
    servers = [span for span in spans if span.name == "rpc.server"]
    clients = {span.context.span_id: span for span in spans if span.name == "rpc.client"}
    assert len(servers) == len(clients) == 2
    for server in servers:
        assert server.context.trace_id == root.get_span_context().trace_id
        client = clients[server.parent.span_id]
        assert client.parent.span_id == root.get_span_context().span_id
        assert client.attributes == server.attributes
    assert [dict(span.attributes) for span in servers] == [
        {"rpc.system": "grpc", "rpc.service": "ome.gc.v1.GcService", "rpc.method": "Plan", "rpc.grpc.status_code": code}
        for code in (0, 3)
    ]
    assert not any(span.status.status_code.name == "ERROR" for span in servers), "a caller's mistake is no server error"


async def test_precondition_and_quota_details() -> None:
    status = errors.failed_precondition("RevisionInvalid", "cr-1", "digest differs").status()
    info, failed = rich.ErrorInfo(), rich.PreconditionFailure()
    assert status.details[0].Unpack(info) and status.details[1].Unpack(failed)
    assert (info.domain, info.reason) == ("ome.io", "RevisionInvalid")
    assert (failed.violations[0].type, failed.violations[0].subject) == ("RevisionInvalid", "cr-1")
