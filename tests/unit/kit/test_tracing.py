"""Traces: context over the wire, what is recorded, and what is not."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from services.kit import tracing
from services.kit.settings import ServiceSettings

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    yield InMemorySpanExporter()
    tracing.setup("test", ServiceSettings())


@pytest.fixture(autouse=True)
def clean_context() -> Iterator[None]:
    token = otel_context.attach(otel_context.Context())
    yield
    otel_context.detach(token)


def test_a_server_span_continues_the_callers_trace(exporter: InMemorySpanExporter) -> None:
    stop = tracing.setup("ome-test", ServiceSettings(), exporter)
    span = tracing.start_server_span("/a.v1.B/C", [("traceparent", PARENT), ("tracestate", "k=v"), ("x-bin", b"\xff")])
    assert tracing.trace_id() == "0af7651916cd43dd8448eb211c80319c"
    sent = dict(tracing.headers())
    assert sent["traceparent"].startswith("00-0af7651916cd43dd8448eb211c80319c-") and sent["traceparent"] != PARENT
    assert sent["tracestate"] == "k=v"
    tracing.finish(span, grpc.StatusCode.NOT_FOUND)
    stop()
    (finished,) = exporter.get_finished_spans()
    assert finished.parent is not None and f"{finished.parent.span_id:016x}" == "b7ad6b7169203331"
    assert finished.attributes == {
        "rpc.system": "grpc",
        "rpc.service": "a.v1.B",
        "rpc.method": "C",
        "rpc.grpc.status_code": 5,
    }
    assert finished.resource.attributes["service.name"] == "ome-test"


@pytest.mark.parametrize("header", ["", "junk", "00-00000000000000000000000000000000-b7ad6b7169203331-01", PARENT[:-1]])
def test_a_bad_header_starts_a_new_trace(exporter: InMemorySpanExporter, header: str) -> None:
    tracing.setup("ome-test", ServiceSettings(), exporter)
    tracing.start_server_span("/a.v1.B/C", [("traceparent", header)])
    assert len(tracing.trace_id()) == 32 and tracing.trace_id() not in PARENT


def test_without_an_exporter_ids_exist_and_nothing_is_recorded() -> None:
    tracing.setup("ome-test", ServiceSettings())
    span = tracing.start_server_span("/a.v1.B/C", [("traceparent", PARENT)])
    assert not span.is_recording()
    assert tracing.trace_id() == "0af7651916cd43dd8448eb211c80319c"
    assert dict(tracing.headers())["traceparent"].startswith("00-0af7651916cd43dd8448eb211c80319c-")
    tracing.finish(span, grpc.StatusCode.OK)


@pytest.mark.parametrize(("ratio", "recorded"), [(0.0, 0), (1.0, 20)])
def test_the_ratio_counts_for_new_traces_and_not_for_sampled_parents(
    exporter: InMemorySpanExporter, ratio: float, recorded: int
) -> None:
    stop = tracing.setup("ome-test", ServiceSettings(trace_ratio=ratio), exporter)
    for _ in range(20):
        with tracing.tracer().start_as_current_span("root"):
            tracing.finish(tracing.start_client_span("/a.v1.B/C"), grpc.StatusCode.OK)
    span = tracing.tracer().start_span("child", tracing.extract([("traceparent", PARENT)]))
    span.end()
    stop()
    names = [finished.name for finished in exporter.get_finished_spans()]
    assert names.count("root") == names.count("rpc.client") == recorded
    assert names.count("child") == 1


@pytest.mark.parametrize(
    ("kind", "code", "error"),
    [
        (trace.SpanKind.SERVER, grpc.StatusCode.OK, False),
        (trace.SpanKind.SERVER, grpc.StatusCode.INVALID_ARGUMENT, False),
        (trace.SpanKind.SERVER, grpc.StatusCode.INTERNAL, True),
        (trace.SpanKind.CLIENT, grpc.StatusCode.OK, False),
        (trace.SpanKind.CLIENT, grpc.StatusCode.INVALID_ARGUMENT, True),
    ],
)
def test_what_counts_as_an_error(
    exporter: InMemorySpanExporter, kind: trace.SpanKind, code: grpc.StatusCode, error: bool
) -> None:
    stop = tracing.setup("ome-test", ServiceSettings(), exporter)
    tracing.finish(tracing.tracer().start_span("rpc", kind=kind), code)
    stop()
    (finished,) = exporter.get_finished_spans()
    assert (finished.status.status_code is trace.StatusCode.ERROR) is error
