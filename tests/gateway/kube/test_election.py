"""Two candidates and one Lease, in virtual time, against the sandbox's API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from gateway.election import Election, LeaseTimes, boot_time
from gateway.kube.errors import Unreachable
from gateway.kube.transport import Answer, Call
from tests.gateway.kube.world import Cluster, Time, settle

LEASE = "/apis/coordination.k8s.io/v1/namespaces/ome/leases/ome-gateway"


class Candidate:
    """An elector with a connection of its own; `away` breaks it, `frozen` stops the whole process."""

    def __init__(self, cluster: Cluster, time: Time, identity: str, skew: float = 0.0) -> None:
        self.log: list[str] = []
        self.away = False
        self.hung = False
        self.frozen = 0.0
        self._cluster, self._time, self._identity = cluster, time, identity
        self.election = Election(
            _client(self), identity, "ome", clock=time, now=lambda: time.now() + timedelta(seconds=skew),
            sleep=self.sleep, draw=lambda: 0.0,
        )  # fmt: skip
        self.election.on_started(lambda: self.log.append("started"))
        self.election.on_stopped(lambda: self.log.append("stopped"))
        self.task = asyncio.ensure_future(self.election.run())

    async def sleep(self, seconds: float) -> None:
        await self._time.sleep(seconds)
        while self.frozen > self._time():
            await self._time.sleep(self.frozen - self._time())

    async def request(self, call: Call) -> Answer:
        if self.hung:
            await asyncio.Event().wait()
        if self.away:
            raise Unreachable("cannot reach the API server")
        return await self._cluster.request(call)

    @property
    def leads(self) -> bool:
        return self.election.is_leader

    @property
    def may_write(self) -> bool:
        return self.election.may_write()


def _client(candidate: Candidate) -> Any:
    from gateway.kube.client import KubeClient

    return KubeClient(candidate)  # type: ignore[arg-type]


class Pair:
    def __init__(self) -> None:
        self.cluster, self.time = Cluster(crds=False), Time()
        self.all: list[Candidate] = []

    def join(self, identity: str, skew: float = 0.0) -> Candidate:
        self.all.append(candidate := Candidate(self.cluster, self.time, identity, skew))
        return candidate

    @property
    def spec(self) -> dict[str, Any]:
        return self.cluster.do("GET", LEASE)["spec"]  # type: ignore[no-any-return]

    async def advance(self, seconds: float, step: float = 0.5) -> None:
        """Time passes; at no moment may two write."""
        for _ in range(round(seconds / step)):
            await self.time.advance(step)
            assert sum(each.may_write for each in self.all) <= 1


@pytest_asyncio.fixture
async def pair() -> AsyncIterator[Pair]:
    made = Pair()
    yield made
    for each in made.all:
        each.task.cancel()
    await asyncio.gather(*(each.task for each in made.all), return_exceptions=True)


async def test_one_leads_and_renews(pair: Pair) -> None:
    a, b = pair.join("a"), pair.join("b")
    await pair.advance(1.0)
    assert (a.leads, b.leads) == (True, False) and a.may_write
    assert pair.spec == {
        "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 0,
        "acquireTime": "2026-12-01T00:00:00.000000Z", "renewTime": "2026-12-01T00:00:00.000000Z",
    }  # fmt: skip
    await pair.advance(60.0)
    assert (a.leads, b.leads) == (True, False) and a.may_write
    assert pair.spec["renewTime"] == "2026-12-01T00:01:00.000000Z"
    assert pair.spec["acquireTime"] == "2026-12-01T00:00:00.000000Z"
    assert a.log == ["started"] and b.log == []


async def test_the_second_takes_over_when_the_first_dies(pair: Pair) -> None:
    a, b = pair.join("a"), pair.join("b")
    await pair.advance(5.0)
    a.task.cancel()
    await pair.advance(13.0)
    assert not b.leads
    await pair.advance(6.0)
    assert b.leads and b.may_write and not a.may_write
    assert pair.spec["holderIdentity"] == "b" and pair.spec["leaseTransitions"] == 1


async def test_a_released_lease_is_taken_at_once(pair: Pair) -> None:
    a, b = pair.join("a"), pair.join("b")
    await pair.advance(5.0)
    await a.election.stop()
    assert not a.may_write and a.log == ["started", "stopped"] and a.task.done()
    assert "holderIdentity" not in pair.spec and pair.spec["leaseDurationSeconds"] == 1
    await pair.advance(2.5)
    assert b.leads and pair.spec["leaseDurationSeconds"] == 15
    await a.task


async def test_a_lease_is_released_although_a_renewals_answer_was_lost(pair: Pair) -> None:
    a = pair.join("a")
    await pair.advance(1.0)

    def lose(call: Call) -> None:
        if call.method == "PUT":
            pair.cluster.after = lambda call: None
            raise Unreachable("the answer was lost")

    pair.cluster.after = lose
    await pair.advance(2.0)
    assert a.leads and pair.cluster.after is not lose
    await a.election.stop()
    assert "holderIdentity" not in pair.spec


async def test_a_candidate_that_stops_touches_nothing(pair: Pair) -> None:
    pair.join("a")
    await pair.advance(1.0)
    b = pair.join("b")
    await pair.advance(1.0)
    before = pair.spec
    await b.election.stop()
    assert pair.spec == before and pair.spec["holderIdentity"] == "a"


async def test_a_leader_cut_off_stops_writing_before_another_starts(pair: Pair) -> None:
    a, b = pair.join("a"), pair.join("b")
    await pair.advance(6.0)
    a.away = True
    await pair.advance(9.0)
    assert a.leads and a.may_write, "one lost renewal, or four, is not the end"
    await pair.advance(3.0)
    assert not a.leads and not a.may_write and not b.leads and a.log == ["started", "stopped"]
    await pair.advance(6.0)
    assert b.may_write
    a.away = False
    await pair.advance(10.0)
    assert not a.leads and b.leads


async def test_a_leader_whose_requests_hang_stops_in_time(pair: Pair) -> None:
    a, b = pair.join("a"), pair.join("b")
    await pair.advance(6.0)
    a.hung = True
    await pair.advance(10.5)
    assert not a.leads and not a.may_write
    await pair.advance(8.0)
    assert b.may_write


async def test_a_leader_that_wakes_up_late_cannot_write(pair: Pair) -> None:
    """The process is stopped; all its state says that it leads, and only the clock knows better."""
    a, b = pair.join("a"), pair.join("b")
    await pair.advance(6.0)
    assert a.may_write
    a.frozen = pair.time() + 60.0
    for _ in range(100):
        await pair.time.advance(0.5)
    assert b.may_write
    assert a.leads, "it slept and could not notice"
    assert not a.may_write
    await pair.advance(30.0)
    assert not a.leads and b.may_write and a.log == ["started", "stopped"]


async def test_validity_counts_from_before_the_renewal_was_sent(pair: Pair) -> None:
    """A renewal that took 9 s leaves 1 s, not 10."""
    a = pair.join("a")
    await pair.advance(1.0)
    slow = asyncio.Event()

    async def wait(call: Call) -> Answer:
        await slow.wait()
        return await pair.cluster.request(call)

    a.request = wait  # type: ignore[method-assign]
    await pair.advance(1.0)
    await pair.advance(7.5)
    slow.set()
    await settle()
    a.away, a.request = True, _away  # type: ignore[method-assign]
    assert a.may_write
    await pair.advance(3.0)
    assert not a.may_write


async def _away(call: Call) -> Answer:
    raise Unreachable("away")


@pytest.mark.parametrize("skew", [-3600.0, 3600.0])
async def test_clocks_that_disagree_do_no_harm(pair: Pair, skew: float) -> None:
    a, b = pair.join("a"), pair.join("b", skew)
    await pair.advance(60.0)
    assert a.leads and not b.leads
    a.task.cancel()
    await pair.advance(20.0)
    assert b.leads
    c = pair.join("c")
    await pair.advance(60.0)
    assert b.leads and not c.leads


async def test_a_renewal_whose_answer_was_lost_costs_nothing(pair: Pair) -> None:
    a, b = pair.join("a"), pair.join("b")
    await pair.advance(5.0)
    lost = [0]

    def lose(call: Call) -> None:
        if call.method == "PUT" and lost[0] < 2:
            lost[0] += 1
            raise Unreachable("the answer was lost")

    pair.cluster.after = lose
    await pair.advance(30.0)
    assert lost == [2] and a.may_write and not b.leads and a.log == ["started"]


async def test_a_leader_whose_lease_was_taken_steps_down_at_its_next_renewal(pair: Pair) -> None:
    a = pair.join("a")
    await pair.advance(3.0)
    patch = {"spec": {"holderIdentity": "intruder", "renewTime": "2026-12-01T00:00:03.000000Z"}}
    pair.cluster.do("PATCH", LEASE, patch, content_type="application/merge-patch+json")
    await pair.advance(2.5)
    assert not a.leads and not a.may_write and a.election.holder == "intruder"
    await pair.advance(10.0)
    assert not a.leads and pair.spec["holderIdentity"] == "intruder"
    await pair.advance(10.0)
    assert a.leads


async def test_two_that_start_together_make_one_leader(pair: Pair) -> None:
    """Both see no lease; the second create is refused."""
    gate = asyncio.Event()
    seen: list[str] = []

    async def wait(self: Candidate, call: Call) -> Answer:
        answer = await pair.cluster.request(call)
        if call.method == "GET" and not gate.is_set():
            seen.append(call.method)
            await gate.wait()
        return answer

    for name in ("a", "b"):
        candidate = pair.join(name)
        candidate.request = lambda call, me=candidate: wait(me, call)  # type: ignore[misc, method-assign]
    await settle()
    assert len(seen) == 2
    gate.set()
    await pair.advance(5.0)
    assert sum(each.leads for each in pair.all) == 1


async def test_a_lease_that_is_deleted_is_made_again(pair: Pair) -> None:
    a = pair.join("a")
    await pair.advance(3.0)
    pair.cluster.do("DELETE", LEASE)
    await pair.advance(6.0)
    assert a.may_write and pair.spec["holderIdentity"] == "a"


async def test_a_missing_namespace_is_told(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    a = pair.join("a")
    pair.cluster.do("DELETE", "/api/v1/namespaces/ome")
    pair.cluster.api.collect()
    await pair.advance(5.0)
    assert not a.leads
    assert capsys.readouterr().out.count('namespaces "ome" not found') == 1


async def test_a_listener_that_fails_does_not_end_the_election(pair: Pair) -> None:
    a = pair.join("a")

    def fails() -> None:
        raise RuntimeError("no")

    a.election.on_started(fails)
    await pair.advance(30.0)
    assert a.may_write and not a.task.done()


@pytest.mark.parametrize("times", [(15, 15, 2), (15, 10, 9), (0.5, 0.4, 0.1), (15.5, 10, 2), (15, 10, 0)])
def test_times_that_cannot_work_are_refused(times: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="lease"):
        LeaseTimes(*times)


def test_the_clock_runs_while_the_machine_sleeps() -> None:
    assert boot_time() > 0 and boot_time() <= boot_time()
