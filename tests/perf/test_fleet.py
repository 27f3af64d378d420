"""P4, P5 and memory: what many InferenceServices cost gateway and services."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from .figures import report
from .fleet import Fleet, pinned

pytestmark = pytest.mark.perf
MANY = int(os.environ.get("OME_BENCH_FLEET", "10000"))
HOT = 100
RESYNC = 10.0


def test_p5_and_memory_with_1000(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, RESYNC)
    try:
        begin = time.monotonic()
        for number in range(10):
            fleet.load(f"fleet-{number}", 100, auto_sync=False)
        for number in range(10):
            fleet.wait(f"fleet-{number}", pinned, "pinned")
        settled = time.monotonic() - begin
        fleet.rest()
        memory = {process.name: process.resident_bytes() / 1e6 for process in fleet.deciding}
        failed = [write for write in fleet.proxy.writes if write.status >= 400 and write.status != 409]
        assert failed == [], failed[:3]
        # Two resyncs at rest.
        writes, before, passes = len(fleet.proxy.writes), fleet.cpu(), fleet.passes()
        time.sleep(2 * RESYNC)
        passes = fleet.passes() - passes
        assert passes >= 1_500, f"a resync looks at everything, but there were {passes} passes"
        steady = (fleet.cpu() - before) / passes
        extra = len(fleet.proxy.writes) - writes
        changing = sum(fleet.flip(f"fleet-{number}", 100, rounds=1) for number in range(10)) / 10
        note = f"{steady * 1e3:.2f} to {changing * 1e3:.2f} ms; settled in {settled:.0f} s"
        report("P5-writes", extra)
        report("P5-cpu", steady / changing, note)
        report("M-gateway", memory.pop("ome-gateway"))
        report("M-service", max(memory.values()), ", ".join(f"{name} {size:.0f}" for name, size in memory.items()))
    finally:
        fleet.stop()


def test_p4_cost_of_a_change_in_a_large_cluster(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, 3600)
    try:
        fleet.load("hot", HOT, auto_sync=False)
        fleet.wait("hot", pinned, "pinned")
        fleet.flip("hot", HOT, rounds=1)
        small = min(fleet.flip("hot", HOT, rounds=2) for _ in range(3))
        for number in range((MANY - HOT) // 1000 + 1):
            fleet.load(f"cold-{number}", min(1000, MANY - HOT - number * 1000), auto_sync=True)
        fleet.load("last", 1, auto_sync=False)
        fleet.wait("last", pinned, "pinned after all that came before it")
        fleet.rest()
        large = min(fleet.flip("hot", HOT, rounds=2) for _ in range(3))
        report("P4", large / small, f"{large * 1e3:.2f} to {small * 1e3:.2f} ms, {MANY} InferenceServices")
    finally:
        fleet.stop()


