"""The reflector against scripted API servers: every way in which a list or a watch can end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import pytest

from gateway.kube.cache import Cache
from gateway.kube.client import KubeClient
from gateway.kube.errors import Unreachable
from gateway.kube.kinds import CLUSTER_SERVING_RUNTIME, ISVC, NAMESPACE, SECRET
from gateway.kube.reflector import Reflector, Tuning
from gateway.kube.report import Reporter
from services.kit.metrics import REGISTRY
from tests.gateway.kube.world import (
    ISVCS,
    Cluster,
    Script,
    ScriptTransport,
    Time,
    bookmark,
    frame,
    isvc,
    obj,
    page,
    settle,
    status,
)

GONE_STATUS = status(410, "Expired", "too old resource version: 5 (90)")
GONE_EVENT = frame("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
TOO_LARGE = status(
    504, "Timeout", "Too large resource version", {"causes": [{"reason": "ResourceVersionTooLarge", "message": "x"}]}
)


@dataclass
class World:
    transport: ScriptTransport = field(default_factory=ScriptTransport)
    time: Time = field(default_factory=Time)
    cache: Cache = field(default_factory=lambda: Cache(ISVC))
    reporter: Reporter = field(default_factory=Reporter)
    draw: float = 0.0

    def reflector(self, tuning: Tuning | None = None) -> Reflector:
        return Reflector(
            KubeClient(self.transport), ISVC, self.cache, tuning=tuning, reporter=self.reporter,
            clock=self.time, sleep=self.time.sleep, draw=lambda: self.draw,
        )  # fmt: skip

    @contextlib.asynccontextmanager
    async def running(self, tuning: Tuning | None = None) -> AsyncIterator[None]:
        task = asyncio.ensure_future(self.reflector(tuning).run())
        await settle()
        try:
            yield
            assert not task.done() and not self.transport.unexpected
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.cache]


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(autouse=True)
def reasons() -> Iterator[dict[str, float]]:
    """How often watches were restarted in this test, by reason."""

    class Counts(dict[str, float]):
        def __missing__(self, reason: str) -> float:
            return count(reason) - before.get(reason, 0.0)

    def count(reason: str) -> float:
        labels = {"kind": "InferenceService", "reason": reason}
        return REGISTRY.get_sample_value("ome_kube_watch_restarts_total", labels) or 0.0

    every = ("closed", "gone", "inactive", "unreachable", "error", "forbidden", "kind_missing", "throttled")
    before = {reason: count(reason) for reason in every}
    yield Counts()


async def test_pages_then_a_watch_from_the_lists_version(world: World) -> None:
    world.transport.answers += [page(obj("a", 1), rv=9, token="t1"), page(obj("b", 2), rv=9)]
    world.transport.watches += [script := Script()]
    async with world.running(Tuning(page_size=1)):
        assert world.names == ["a", "b"] and world.cache.synced
        assert [call.query for call in world.transport.lists] == [{"limit": "1"}, {"limit": "1", "continue": "t1"}]
        watch = world.transport.calls[-1]
        assert watch.path == "/apis/ome.io/v1beta1/inferenceservices"
        assert watch.query["resourceVersion"] == "9" and watch.query["allowWatchBookmarks"] == "true"
        script.send(frame("ADDED", obj("c", 10)), frame("DELETED", obj("a", 11)), frame("MODIFIED", obj("b", 12)))
        await settle()
        assert world.names == ["b", "c"] and world.cache.seen_rv == 12
    assert script.closed


async def test_nothing_is_shown_of_a_list_that_is_not_complete(world: World) -> None:
    world.transport.answers += [page(obj("a", 1), rv=9, token="t1"), Unreachable("reset")]
    async with world.running():
        assert world.names == [] and not world.cache.synced
        assert "reset" in world.cache.error


@pytest.mark.parametrize("gone", [Script(410, GONE_STATUS.body), GONE_EVENT, Script(504, TOO_LARGE.body)])
async def test_410_in_any_form_leads_to_a_new_list(
    world: World, gone: Script | bytes, reasons: dict[str, float]
) -> None:
    world.transport.answers += [page(obj("a", 1), obj("b", 2), rv=5), page(obj("b", 2), obj("c", 80), rv=90)]
    if isinstance(gone, bytes):
        (script := Script()).send(gone)
    else:
        script = gone
    world.transport.watches += [script, Script()]
    async with world.running():
        assert world.names == ["b", "c"], "the deletion of a was missed and only the list tells it"
        assert world.transport.versions == ["5", "90"]
        assert world.time.sleeps[0] == 120.0 and 0.5 not in world.time.sleeps, "the first one needs no back-off"
    assert reasons["gone"] == 1


async def test_a_restored_server_is_listed_at_once_after_it_was_away(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its versions begin anew: the old place is not reached for a long time, and what was held is gone."""
    world.transport.answers += [page(obj("a", 400), rv=500), page(obj("b", 3), rv=5)]
    away: list[Script | Exception] = [Unreachable("refused") for _ in range(4)]
    world.transport.watches += [Script(200, bookmark(600)), *away, Script(504, TOO_LARGE.body), Script()]
    async with world.running():
        await world.time.advance(10.0)
        assert world.transport.versions == ["500", *["600"] * 5, "5"] and world.names == ["b"]
        assert world.time.sleeps.count(8.0) == 0, "no further back-off: a list mends it"
        assert world.cache.seen_rv == 5 and world.reporter.troubles == {}
    assert "Too large" not in capsys.readouterr().out


async def test_a_server_that_always_answers_410_is_not_hammered(world: World) -> None:
    world.transport.answers += [page(rv=5) for _ in range(20)]
    world.transport.watches += [Script(410, GONE_STATUS.body) for _ in range(20)]
    async with world.running():
        await world.time.advance(10.0)
        assert 4 <= len(world.transport.lists) <= 7


async def test_an_expired_page_token_starts_the_list_again_and_then_takes_it_whole(world: World) -> None:
    first = page(obj("a", 1), rv=9, token="t1")
    world.transport.answers += [first, GONE_STATUS, first, GONE_STATUS, page(obj("b", 2), rv=30)]
    async with world.running():
        assert world.names == ["b"] and world.cache.seen_rv == 30
        assert [call.query.get("limit") for call in world.transport.lists] == ["250", "250", "250", "250", None]


async def test_a_dropped_watch_goes_on_from_the_last_version(world: World, reasons: dict[str, float]) -> None:
    world.transport.answers += [page(rv=5)]
    world.transport.watches += [first := Script(), second := Script()]
    async with world.running():
        first.send(frame("ADDED", obj("a", 6)), bookmark(40))
        await settle()
        first.fail(Unreachable("reset"))
        await settle()
        assert world.transport.versions == ["5"]
        assert world.reporter.troubles == {} and world.cache.error == "", "one lost connection is no trouble"
        await world.time.advance(0.5)
        assert world.transport.versions == ["5", "40"], "a bookmark moves the place to go on from"
        second.send(frame("ADDED", obj("b", 41)))
        await settle()
        assert world.names == ["a", "b"] and len(world.transport.lists) == 1
    assert reasons["unreachable"] == 1 and reasons["gone"] == 0


async def test_a_silent_watch_is_taken_for_dead(world: World, reasons: dict[str, float]) -> None:
    world.transport.answers += [page(rv=5)]
    world.transport.watches += [first := Script(), Script()]
    async with world.running(Tuning(inactivity=90.0)):
        await world.time.advance(80.0)
        first.send(bookmark(7))
        await world.time.advance(80.0)
        assert world.transport.versions == ["5"] and not first.closed
        await world.time.advance(11.0)
        assert world.transport.versions == ["5", "7"] and first.closed
    assert reasons["inactive"] == 1


async def test_a_watch_that_the_server_ends_goes_on_at_once(world: World, reasons: dict[str, float]) -> None:
    world.transport.answers += [page(rv=5)]
    world.transport.watches += [first := Script(), Script()]
    async with world.running():
        await world.time.advance(60.0)
        first.end()
        await settle()
        assert world.transport.versions == ["5", "5"]
    assert reasons["closed"] == 1


async def test_a_server_that_ends_every_watch_at_once_is_not_hammered(world: World) -> None:
    world.transport.answers += [page(rv=5)]
    world.transport.watches += [Script(200, b"\n") for _ in range(50)]
    async with world.running():
        await world.time.advance(10.0)
        assert 3 <= len(world.transport.versions) <= 6


async def test_duplicates_and_stragglers_do_no_harm(world: World) -> None:
    world.transport.answers += [page(obj("a", 5), rv=5)]
    world.transport.watches += [script := Script()]
    told: list[str] = []
    world.cache.on_change(
        lambda old, new: told.append(f"{old and old.resource_version}>{new and new.resource_version}")
    )
    async with world.running():
        script.send(
            frame("ADDED", obj("a", 5)), frame("MODIFIED", obj("a", 7)), frame("MODIFIED", obj("a", 7)),
            frame("MODIFIED", obj("a", 6)), frame("DELETED", obj("a", 8)), frame("MODIFIED", obj("a", 7)),
        )  # fmt: skip
        await settle()
        assert told == ["None>5", "5>7", "7>None"]


async def test_frames_may_come_in_any_pieces(world: World) -> None:
    world.transport.answers += [page(rv=5)]
    world.transport.watches += [script := Script()]
    async with world.running():
        data = frame("ADDED", obj("ä", 6)) + b"\n" + frame("ADDED", obj("b", 7)) + frame("ADDED", obj("c", 8))[:-1]
        script.send(*(data[at : at + 1] for at in range(len(data))))
        await settle(2000)
        assert world.names == ["b", "ä"], "a line without its end has not come yet"


@pytest.mark.parametrize("bad", [b"<html>\n", b"[]\n", frame("WHAT", {}), frame("ADDED", {"metadata": {}}), b"{}\n"])
async def test_a_frame_that_is_not_understood_leads_to_a_new_list(
    world: World, bad: bytes, reasons: dict[str, float]
) -> None:
    world.transport.answers += [page(rv=5), page(obj("a", 6), rv=7)]
    world.transport.watches += [script := Script(), Script()]
    async with world.running():
        script.send(bad)
        await world.time.advance(1.0)
        assert world.names == ["a"]
    assert reasons["error"] == 1


async def test_one_deeply_nested_object_does_not_stop_the_others(world: World) -> None:
    deep = b'{"a":' * 3000 + b"1" + b"}" * 3000
    monster = frame("x", obj("deep", 6, spec="DEEP"))
    body = page(obj("a", 5), obj("deep", 6, spec="DEEP"), rv=6).body.replace(b'"DEEP"', deep)
    world.transport.answers += [type(GONE_STATUS)(200, {}, body)]
    world.transport.watches += [script := Script()]
    async with world.running():
        assert world.names == ["a", "deep"]
        later = monster.replace(b'"x"', b'"MODIFIED"').replace(b'"6"', b'"7"').replace(b'"DEEP"', deep)
        script.send(later, frame("ADDED", obj("b", 8)))
        await settle()
        assert world.names == ["a", "b", "deep"]
        held = world.cache.get("team", "deep")
        assert held is not None and held.resource_version == "7" and deep in held.raw


async def test_a_fault_of_its_own_ends_nothing(world: World, reasons: dict[str, float]) -> None:
    odd = obj("odd", 6, metadata={"labels": ["no", "labels"]})
    world.transport.answers += [page(obj("a", 5), rv=5), page(obj("a", 5), rv=7)]
    world.transport.watches += [script := Script(), Script()]
    async with world.running():
        script.send(frame("ADDED", odd))
        await world.time.advance(1.0)
        assert world.transport.versions == ["5", "7"] and world.names == ["a"]
    assert reasons["error"] == 1


async def test_back_off_doubles_up_to_its_cap_with_jitter(world: World) -> None:
    world.transport.answers += [Unreachable("refused") for _ in range(20)]
    world.draw = 0.5
    async with world.running():
        await world.time.advance(200.0)
        assert world.time.sleeps[:8] == [0.375, 0.75, 1.5, 3.0, 6.0, 12.0, 22.5, 22.5]


async def test_back_off_begins_anew_after_a_watch_that_worked(world: World) -> None:
    world.transport.answers += [Unreachable("refused"), Unreachable("refused"), page(rv=5)]
    world.transport.watches += [script := Script(), Script()]
    async with world.running():
        await world.time.advance(5.0)
        assert world.transport.versions == ["5"] and world.cache.error == ""
        script.fail(Unreachable("reset"))
        await settle()
        assert world.time.sleeps[-1] == 0.5


async def test_throttling_waits_as_long_as_the_server_asks(world: World) -> None:
    world.transport.answers += [status(429, "TooManyRequests", retry_after="7"), page(obj("a", 1), rv=5)]
    async with world.running():
        await world.time.advance(6.9)
        assert not world.cache.synced
        await world.time.advance(0.2)
        assert world.names == ["a"]


async def test_a_transient_fault_keeps_the_place(world: World) -> None:
    world.transport.answers += [page(rv=5)]
    world.transport.watches += [Script(503, status(503, "ServiceUnavailable").body), Script()]
    async with world.running():
        await world.time.advance(1.0)
        assert world.transport.versions == ["5", "5"] and len(world.transport.lists) == 1


async def test_refused_credentials_are_told_once_and_tried_again(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    forbidden = status(403, "Forbidden", 'inferenceservices.ome.io is forbidden: User "x" cannot list')
    world.transport.answers += [forbidden, forbidden, forbidden, page(rv=5)]
    async with world.running():
        assert world.cache.error.startswith("list inferenceservices.ome.io: inferenceservices.ome.io is forbidden")
        await world.time.advance(10.0)
        assert world.cache.synced and world.cache.error == ""
    assert capsys.readouterr().out.count("cannot list") == 2, "once when it begins, once when it is over"


async def test_eight_kinds_before_a_server_that_is_away_make_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = Reporter()
    for kind in "abcdefgh":
        reporter.trouble(kind, "cannot reach the API server")
        reporter.trouble(kind, "cannot reach the API server")
    for kind in "abcdefgh":
        reporter.well(kind)
    assert capsys.readouterr().out.count("cannot reach the API server") == 2


def test_a_secret_is_never_listed(world: World) -> None:
    with pytest.raises(ValueError, match="Secret is never listed"):
        Reflector(KubeClient(world.transport), SECRET, Cache(SECRET))


async def test_a_missing_crd_stops_its_kind_only_until_it_comes(capsys: pytest.CaptureFixture[str]) -> None:
    cluster, time, reporter = Cluster(crds=False), Time(), Reporter()
    kinds = (ISVC, CLUSTER_SERVING_RUNTIME, NAMESPACE)
    caches = [Cache(kind) for kind in kinds]
    tasks = [
        asyncio.ensure_future(
            Reflector(cluster.client, kind, cache, reporter=reporter, clock=time, sleep=time.sleep).run()
        )
        for kind, cache in zip(kinds, caches, strict=True)
    ]
    try:
        await time.advance(100.0)
        assert [cache.missing for cache in caches] == [True, True, False]
        assert [cache.synced for cache in caches] == [False, False, True]
        assert caches[0].error == ("InferenceService (ome.io/v1beta1) is not served by the API server; install its CRD")
        assert capsys.readouterr().out.count("InferenceService (ome.io/v1beta1) is not served") == 1
        cluster.install()
        cluster.do("POST", ISVCS, isvc("a"))
        await time.advance(31.0)
        assert [each.name for each in caches[0]] == ["a"] and not caches[0].missing and caches[0].error == ""
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_against_the_sandbox_nothing_is_missed_while_watches_drop() -> None:
    """Creates, changes and deletions while connections break and history is lost: the cache ends as the cluster is."""
    cluster, time = Cluster(), Time()
    cache = Cache(ISVC)
    task = asyncio.ensure_future(
        Reflector(cluster.client, ISVC, cache, clock=time, sleep=time.sleep, tuning=Tuning(page_size=3)).run()
    )
    try:
        for number in range(30):
            cluster.do("POST", ISVCS, isvc(f"i{number}"))
            if number % 3 == 0:
                cluster.drop()
            if number % 4 == 0:
                await time.advance(3.0)
            if number % 5 == 0:
                cluster.do("DELETE", f"{ISVCS}/i{number}")
        await time.advance(60.0)
        stored = {item["metadata"]["name"]: item for item in cluster.do("GET", ISVCS)["items"]}
        assert {each.name for each in cache} == set(stored)
        assert all(each.resource_version == stored[each.name]["metadata"]["resourceVersion"] for each in cache)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
