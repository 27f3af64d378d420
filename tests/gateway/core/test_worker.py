"""What can be seen of a pass: its trace, its figures, its log lines."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import generate_latest

from gateway.queue import Key, Lane
from gateway.services import CallError, Failing
from ome.common.v1 import common_pb2 as pb
from services.kit import logs, tracing
from services.kit.settings import ServiceSettings
from tests.gateway.core.world import World, isvc, respond


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    made = InMemorySpanExporter()
    stop = tracing.setup("test", ServiceSettings.model_validate({}), made)
    yield made
    stop()
    tracing.setup("test", ServiceSettings.model_validate({}))()


def spans(exporter: InMemorySpanExporter) -> list[ReadableSpan]:
    provider = tracing._State.provider
    assert provider is not None
    provider.force_flush()
    return list(exporter.get_finished_spans())


async def test_one_trace_per_pass_from_when_it_was_ready(exporter: InMemorySpanExporter) -> None:
    inner: list[str] = []

    def answer(request: object) -> object:
        inner.append(tracing.trace_id())
        tracing.tracer().start_span("inner").end()
        return respond(flow=pb.FLOW_PASSIVE)

    world = World(answer)  # type: ignore[arg-type]
    world.store.put(isvc("a"))
    world.store.put(isvc("b"))
    world.controller.lead()
    world.clock.seconds += 2.0  # both wait that long
    await world.idle()
    found = spans(exporter)
    roots = [span for span in found if span.name == "reconcile"]
    assert len(roots) == 2
    assert len({span.context.trace_id for span in roots}) == 2
    for root in roots:
        assert root.parent is None
        children = [s for s in found if s.parent is not None and s.parent.span_id == root.context.span_id]
        assert sorted(child.name for child in children) == ["inner", "queue.wait"]
        (wait,) = [child for child in children if child.name == "queue.wait"]
        assert wait.start_time == root.start_time
        assert (wait.end_time or 0) - (wait.start_time or 0) >= 2_000_000_000
        assert (wait.end_time or 0) <= (root.end_time or 0)
        attributes = dict(root.attributes or {})
        assert attributes.pop("object") in ("team/a", "team/b")
        assert len(str(attributes.pop("reconcile_id"))) == 16
        assert attributes == {"outcome": "done", "decision_id": "d"}
    assert set(inner) == {f"{span.context.trace_id:032x}" for span in roots}


async def test_every_line_of_a_pass_carries_its_ids(exporter: InMemorySpanExporter, lines: io.StringIO) -> None:
    def answer(request: object) -> object:
        logs.get("service").info("deep inside")
        return respond(status=pb.StatusPatch(merge_patch=b'{"x":1}'))

    world = World(answer)  # type: ignore[arg-type]
    world.store.put(isvc("a"))
    world.controller.lead()
    await world.idle()
    written = [json.loads(line) for line in lines.getvalue().splitlines()]
    of_pass = [line for line in written if line["event"] in ("deep inside", "status written", "pass ended")]
    assert len(of_pass) >= 4
    assert all(line["object"] == "team/a" and line["reconcile_id"] and line["trace_id"] for line in of_pass)
    first = [line for line in of_pass if line["reconcile_id"] == of_pass[0]["reconcile_id"]]
    assert {line["event"] for line in first} == {"deep inside", "status written", "pass ended"}
    assert len({line["trace_id"] for line in first}) == 1
    leading = next(line for line in written if line["event"] == "leading")
    assert "reconcile_id" not in leading


async def test_figures(lines: io.StringIO) -> None:
    def answer(request: object) -> object:
        raise CallError("pinning", Failing.TRANSIENT, "UNAVAILABLE", "gone")

    world = World(answer)  # type: ignore[arg-type]
    world.store.put(isvc("a"))
    world.controller.lead()
    world.queue.add(Key("team", "gone"))
    text = generate_latest(world.metrics._registry).decode()
    assert 'ome_gateway_queue_depth{lane="change"} 1.0' in text
    assert 'ome_gateway_queue_depth{lane="resync"} 1.0' in text
    world.clock.seconds += 2.0
    await world.idle()
    text = generate_latest(world.metrics._registry).decode()
    assert 'ome_gateway_reconciles_total{outcome="retry"} 1.0' in text
    assert 'ome_gateway_reconciles_total{outcome="gone"} 1.0' in text
    assert 'ome_gateway_queue_wait_seconds_sum{lane="resync"} 2.0' in text
    assert 'ome_gateway_queue_depth{lane="change"} 0.0' in text
    assert "team" not in text
    # A service that is away is told by the service's own line, not once per object.
    assert not [line for line in lines.getvalue().splitlines() if '"warning"' in line]


async def test_series_that_services_ask_for() -> None:
    def update(name: str, **value: float) -> pb.MetricUpdate:
        return pb.MetricUpdate(name=name, labels=[pb.KeyValue(key="unit", value="engine")], **value)

    world = World()
    world.metrics.apply([update("ome_x_step", set=3), update("ome_x_total", add=2), update("ome_x_total", add=1)])
    world.metrics.apply([update("ome_x_step", add=1), update("no name", set=1), update("ome_x_total", add=-1)])
    other = pb.MetricUpdate(name="ome_x_step", labels=[pb.KeyValue(key="other", value="x")], set=1)
    world.metrics.apply([other, update("ome_x_step", set=4)])
    text = generate_latest(world.metrics._registry).decode()
    assert 'ome_x_step{unit="engine"} 4.0' in text
    assert 'ome_x_total{unit="engine"} 3.0' in text


async def test_metrics_follow_the_commit() -> None:
    metric = pb.MetricUpdate(name="ome_y", set=1)
    world = World(lambda request: respond(status=pb.StatusPatch(merge_patch=b"nonsense"), metrics=[metric]))
    world.store.put(isvc("a"))
    await world.once()
    assert "ome_y 1.0" not in generate_latest(world.metrics._registry).decode()
    world.service.answer = lambda request: respond(metrics=[metric])
    await world.once()
    assert "ome_y 1.0" in generate_latest(world.metrics._registry).decode()
    assert world.queue.depth(Lane.CHANGE) == 0
