"""The trace receiver, fed by the OpenTelemetry SDK's own exporter, and the tree that it draws."""

from __future__ import annotations

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import StatusCode

from sandbox.collector import Span, TraceCollector, draw


def span(number: int, parent: int, name: str, service: str, start: float, end: float, **more: object) -> Span:
    attributes = {key.replace("__", "."): value for key, value in more.items() if key != "failed"}
    return Span("t", str(number), str(parent) if parent else "", name, service, int(start * 1e6), int(end * 1e6),
                attributes, bool(more.get("failed")))  # fmt: skip


def test_spans_come_over_the_wire() -> None:
    collector = TraceCollector()
    collector.start()
    try:
        provider = TracerProvider(resource=Resource({"service.name": "ome-test"}))
        exporter = OTLPSpanExporter(endpoint=collector.endpoint, insecure=True)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        tracer = provider.get_tracer("test")
        with tracer.start_as_current_span("reconcile", attributes={"ome.object": "a/b", "n": 3, "on": True}) as outer:
            with tracer.start_as_current_span("rpc.client", attributes={"list": ["x", "y"]}) as inner:
                inner.set_status(StatusCode.ERROR)
            trace_id = f"{outer.get_span_context().trace_id:032x}"
        provider.shutdown()
        first, second = collector.trace(trace_id)
        assert (first.name, first.service, first.parent_id, first.failed) == ("reconcile", "ome-test", "", False)
        assert first.attributes == {"ome.object": "a/b", "n": 3, "on": True}
        assert (second.name, second.parent_id, second.failed) == ("rpc.client", first.span_id, True)
        assert second.attributes == {"list": ["x", "y"]} and 0 <= second.milliseconds <= first.milliseconds
        assert collector.find("reconcile", ome__object="a/b") == [first]
        assert collector.find("reconcile", ome__object="a/c") == []
    finally:
        collector.stop()


def test_only_the_latest_traces_are_kept() -> None:
    collector = TraceCollector(keep=2)
    for number in range(5):
        collector.add([Span(str(number), "1", "", "x", "s", number, number)])
    assert [held.trace_id for held in collector.find("x")] == ["3", "4"]


def test_a_trace_is_drawn_as_a_tree_over_processes() -> None:
    spans = [
        span(3, 2, "rpc.server", "ome-pinning", 3.5, 5, rpc__method="Reconcile"),
        span(1, 0, "reconcile", "ome-gateway", 0, 10, outcome="done"),
        span(4, 1, "kube.write", "ome-gateway", 6, 9, failed=True),
        span(2, 1, "rpc.client", "ome-gateway", 3, 5.25, rpc__method="Reconcile"),
        span(9, 8, "kube.write", "ome-gateway", 12, 13),  # its parent was not received
    ]
    drawn = [line.replace("  ", " ").split() for line in draw(spans)]
    assert [" ".join(words) for words in drawn] == [
        "reconcile (done) ome-gateway 10.00 ms at 0.00 ms",
        "|- rpc.client (Reconcile) ome-gateway 2.25 ms at 3.00 ms",
        "| `- rpc.server (Reconcile) ome-pinning 1.50 ms at 3.50 ms",
        "`- kube.write ome-gateway 3.00 ms at 6.00 ms FAILED",
        "kube.write ome-gateway 1.00 ms at 12.00 ms",
    ]
    places = {line.index("ome-") for line in draw(spans)}
    assert len(places) == 1


def test_nothing_draws_nothing() -> None:
    assert draw([]) == []
