"""A service that is away: the object's status stays as it is, the gateway waits with growing pauses, and recovers."""

from __future__ import annotations

from itertools import pairwise

from sandbox.collector import TraceCollector
from sandbox.kube import eventually

from .world import Case, World


def test_pinning_is_away_and_comes_back(traced: tuple[World, TraceCollector]) -> None:
    world, collector = traced
    gateway, proxy = world.gateway()
    case = Case.make(world.kube)
    case.create()
    case.wait_settled("RuntimePinned")
    settled = case.state()

    world.suite.pinning.kill()
    writes = len(proxy.writes)
    case.edit_runtime("first:v2")
    other = Case.make(world.kube)
    other.create()

    def failed() -> list[int]:
        spans = [span for span in collector.find("rpc.client") if span.failed and span.service == "ome-gateway"]
        return [span.start for span in spans if span.attributes.get("rpc.service") == "ome.pinning.v1.PinningService"]

    eventually(lambda: len(failed()) >= 8, 15, "several attempts, told in the traces")
    assert len(proxy.writes) == writes, "nothing is written meanwhile"
    assert case.state() == settled
    assert gateway.running
    pauses = [later - earlier for earlier, later in pairwise(sorted(failed()))]
    assert max(pauses[len(pauses) // 2 :]) > 2 * min(pauses), "the pauses grow"

    world.suite.pinning.restart()
    case.wait(lambda: case.drift() == "RevisionMismatch", "drift is seen after the return")
    other.wait_pin()
    assert [event["count"] for event in case.events()] == [1, 1]


def test_services_of_later_rooms_may_stay_away(traced: tuple[World, TraceCollector]) -> None:
    """Traffic and canary failing keep the pin's answer: it is written, and the pass tries again."""
    world, _ = traced
    for name in ("canary", "traffic", "gc"):
        world.suite.services[name].kill()
    case = Case.make(world.kube)
    case.create()
    case.wait_pin()
    case.edit_runtime("first:v2")
    case.wait(lambda: case.drift() == "RevisionMismatch", "drift")
    for name in ("canary", "traffic", "gc"):
        world.suite.services[name].restart()


def test_a_reconcile_is_one_trace_over_processes(traced: tuple[World, TraceCollector]) -> None:
    world, collector = traced
    case = Case.make(world.kube)
    case.create()
    case.wait_event("RuntimePinned")

    def trace() -> list[str] | None:
        for root in collector.find("reconcile"):
            spans = collector.trace(root.trace_id)
            mine = any(case.namespace in str(value) for span in spans for value in span.attributes.values())
            wrote = any(span.name == "kube.write" for span in spans)
            if mine and wrote and {"ome-gateway", "ome-pinning"} <= {span.service for span in spans}:
                return [f"{span.service} {span.name}" for span in spans]
        return None

    names = eventually(trace, 10, "the trace of the first pin")
    assert {"ome-gateway reconcile", "ome-gateway queue.wait", "ome-gateway rpc.client", "ome-pinning rpc.server",
            "ome-gateway kube.write"} <= set(names)  # fmt: skip
    spans = {span.span_id: span for root in collector.find("reconcile") for span in collector.trace(root.trace_id)}
    servers = [span for span in spans.values() if span.name == "rpc.server" and span.service == "ome-pinning"]
    assert servers
    for server in servers:
        assert spans[server.parent_id].name == "rpc.client", "a server's span hangs below its client's"
