"""SIGKILL at every write of a first pin, a move and a roll forward ends in the state of an undisturbed run.

A write is stopped before it reaches the API server, or after the server applied it and before the answer came back; the
process dies at that moment and is started again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sandbox.kube import NotYet
from sandbox.processes import Process

from .faults import FaultProxy, When
from .world import SCENARIOS, Case, World

MOST_WRITES = 12


class Bench:
    """A world with one gateway and what undisturbed runs end in."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.gateway: Process
        self.proxy: FaultProxy
        self.gateway, self.proxy = world.gateway()
        self.baselines: dict[str, tuple[dict[str, Any], int]] = {}
        self.cases: list[tuple[str, Case]] = []

    def run(self, scenario: str, number: int = 0, when: When = "before") -> tuple[Case, bool]:
        """Prepares a case and triggers it with the ``number``-th write held (0: none); True when one was held."""
        case = Case.make(self.world.kube)
        self.cases.append((scenario, case))
        steps = SCENARIOS[scenario][0](case)
        next(steps)
        if number:
            self.proxy.hold(number, when)
        before = len(self.proxy.writes)
        next(steps, None)
        if not number:
            case.wait_settled(SCENARIOS[scenario][1])
            self.baselines[scenario] = (case.state(), len(self.proxy.writes) - before)
            return case, False
        held = self.proxy.held.wait(15)
        return case, held

    def baseline(self, scenario: str) -> tuple[dict[str, Any], int]:
        if scenario not in self.baselines:
            self.run(scenario)
        return self.baselines[scenario]

    def check(self, scenario: str, case: Case) -> None:
        """The case comes to the baseline's state, and to one event of each kind at most."""
        expected, _ = self.baseline(scenario)
        try:
            case.wait(lambda: case.state() == expected, f"the state of an undisturbed {scenario}")
        except NotYet:
            assert case.state() == expected
            raise
        reasons = [event["reason"] for event in case.events() if event["reason"].startswith("Runtime")]
        assert len(reasons) == len(set(reasons)), reasons


@pytest.fixture(scope="module")
def bench(world: World) -> Iterator[Bench]:
    yield Bench(world)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("scenario", list(SCENARIOS))
def test_gateway_killed_at_every_write(bench: Bench, scenario: str, when: When) -> None:
    _, writes = bench.baseline(scenario)
    assert 3 <= writes <= MOST_WRITES, "snapshot, status and event at least"
    for number in range(1, writes + 1):
        case, held = bench.run(scenario, number, when)
        assert held, f"write {number} of {writes} did not come"
        bench.gateway.kill()
        bench.proxy.release()
        bench.world.expire_lease()
        bench.gateway.start()
        bench.gateway.wait_serving()
        bench.check(scenario, case)


@pytest.mark.parametrize("scenario", list(SCENARIOS))
def test_pinning_killed_at_every_write(bench: Bench, scenario: str) -> None:
    _, writes = bench.baseline(scenario)
    pinning = bench.world.suite.pinning
    for number in range(1, writes + 1):
        case, held = bench.run(scenario, number, "before")
        assert held, f"write {number} of {writes} did not come"
        pinning.kill()
        bench.proxy.release()
        pinning.restart()
        bench.check(scenario, case)


def test_later_passes_change_nothing_any_more(bench: Bench) -> None:
    """After all those deaths a fresh gateway looks at every InferenceService once more and writes nothing."""
    assert bench.cases
    bench.gateway.terminate()
    for scenario, case in bench.cases:
        bench.check(scenario, case)
    before = len(bench.proxy.writes)
    bench.gateway.start()
    bench.gateway.wait_serving()
    canary = Case.make(bench.world.kube)
    canary.create()  # handled after the initial list was queued, by the same leader
    canary.wait_event("RuntimePinned")
    own = canary.namespace
    others = [w for w in bench.proxy.writes[before:] if own not in w.path and own.encode() not in w.body]
    assert others == []
    for scenario, case in bench.cases:
        bench.check(scenario, case)
