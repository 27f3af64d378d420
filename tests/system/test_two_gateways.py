"""Two gateways: one leads and writes; a leader that was asleep writes nothing when it wakes up."""

from __future__ import annotations

import signal
from pathlib import Path

from sandbox.kube import eventually

from .world import Case, World


def test_one_leads_and_a_late_leader_cannot_write(world: World) -> None:
    one, first = world.gateway(1)
    case = Case.make(world.kube, "led")
    case.create()
    case.wait_event("RuntimePinned")
    leader = world.holder()
    assert leader

    two, second = world.gateway(2)
    for index in range(5):
        extra = Case.make(world.kube, "led")
        extra.create()
        extra.wait_event("RuntimePinned")
        assert extra.state()["snapshots"][0]["revision"] == 1 and len(extra.snapshots()) == 1, index
    assert world.holder() == leader
    assert second.writes == [], "a standby writes nothing"

    # The leader falls asleep amid a pass: it has asked pinning and has not yet read the answer.
    late = Case.make(world.kube, "late")
    world.suite.pinning.send(signal.SIGSTOP)
    asked = len(first.writes)
    late.create()
    eventually(lambda: first.requests and _waits_for_pinning(world), 5, "the leader has asked")
    one.send(signal.SIGSTOP)
    world.suite.pinning.send(signal.SIGCONT)
    eventually(lambda: world.holder() not in ("", leader), 10, "the other takes the lease over")
    late.wait_settled("RuntimePinned")
    assert len(first.writes) == asked
    state = late.state()

    one.send(signal.SIGCONT)
    # What it would still want to write, it would write now: work goes on meanwhile, by the new leader alone.
    for _ in range(3):
        after = Case.make(world.kube, "after")
        after.create()
        after.wait_event("RuntimePinned")
    one.wait_line("no longer leading", 10)
    assert len(first.writes) == asked, first.writes[asked:]
    assert late.state() == state
    assert [event["count"] for event in late.events() if event["reason"] == "RuntimePinned"] == [1]

    # And when the new leader goes in good order, the old one leads again at once.
    holder = world.holder()
    assert two.terminate() == 0
    eventually(lambda: world.holder() not in ("", holder), 5, "the lease was released and taken")
    again = Case.make(world.kube, "again")
    again.create()
    again.wait_event("RuntimePinned")
    assert len(first.writes) > asked
    assert one.terminate() == 0
    assert world.holder() == ""


def _waits_for_pinning(world: World) -> bool:
    """Whether an established connection to pinning has bytes that pinning, asleep, has not read (Linux)."""
    port = int(world.suite.pinning.address.rpartition(":")[2])
    tables = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
    rows = [line.split() for table in tables for line in table.read_text("ascii").splitlines()[1:]]
    return any(
        int(row[1].rpartition(":")[2], 16) == port and row[3] == "01" and int(row[4].partition(":")[2], 16) > 0
        for row in rows
    )
