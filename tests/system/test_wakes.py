"""Who is woken: a change of one runtime concerns only the InferenceServices that name it."""

from __future__ import annotations

import time

from sandbox.collector import TraceCollector
from sandbox.kube import eventually

from .world import Case, World


def test_one_runtime_wakes_only_those_that_name_it(traced: tuple[World, TraceCollector]) -> None:
    world, collector = traced
    _, proxy = world.gateway()
    cases = [Case.make(world.kube) for _ in range(30)]
    for case in cases:
        case.create()
    for case in cases:
        case.wait_event("RuntimePinned")

    def woken(since: int) -> set[str]:
        passes = [span for span in collector.find("reconcile") if span.start >= since]
        return {case.namespace for case in cases for span in passes
                if any(case.namespace in str(value) for value in span.attributes.values())}  # fmt: skip

    eventually(lambda: len(woken(0)) == len(cases), 10, "the traces of the first pins have come")
    for round_, case in enumerate(cases[:3]):
        before, writes = time.time_ns(), len(proxy.writes)
        case.edit_runtime(f"first:v{round_ + 2}")
        case.wait_event("RuntimeDrifted")
        eventually(lambda: case.namespace in woken(before), 10, "its trace has come")  # noqa: B023
        assert woken(before) == {case.namespace}
        assert all(case.namespace in write.path for write in proxy.writes[writes:])

    # A runtime that nobody names wakes nobody; an own runtime of the one that is pinned to it wakes that one.
    before = time.time_ns()
    cases[5].edit_runtime("second:v2", "second")
    last = cases[6]
    last.edit_runtime("first:v9")
    last.wait_event("RuntimeDrifted")
    eventually(lambda: last.namespace in woken(before), 10, "the trace of the later change has come")
    assert woken(before) == {last.namespace}
