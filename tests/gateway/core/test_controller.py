"""From watch event to pass: who is woken, in which order, and what one object's trouble does to others."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any

import pytest

from gateway.controller import wait_for_caches
from gateway.kube.cache import Cache
from gateway.kube.errors import Forbidden
from gateway.kube.kinds import CLUSTER_SERVING_RUNTIME, CONTROLLER_REVISION, ISVC
from gateway.queue import Lane
from gateway.services import CallError, Failing
from ome.common.v1 import common_pb2 as pb
from ome.pinning.v1 import pinning_pb2
from tests.gateway.core.clocks import settle
from tests.gateway.core.world import Dead, Store, World, isvc, named, respond, revision, runtime


def asked(world: World) -> list[str]:
    """Names of the InferenceServices the service was asked about since the last look."""
    names = [request.observation.isvc.ref.name for request in world.service.requests]
    world.service.requests.clear()
    return names


def name_of(request: pinning_pb2.ReconcileRequest) -> str:
    return str(request.observation.isvc.ref.name)


def follows_runtime(request: pinning_pb2.ReconcileRequest) -> pinning_pb2.ReconcileResponse:
    """Depends on the runtime its spec names, and writes nothing."""
    name = json.loads(request.observation.isvc.json)["spec"].get("runtime", "rt")
    wanted = named(CLUSTER_SERVING_RUNTIME, name)
    supplied = [o.interest for o in request.observation.objects]
    return respond(flow=pb.FLOW_PROCEED if supplied == [wanted] else pb.FLOW_ASK_AGAIN, interests=[wanted])


def target(name: str = "a") -> tuple[str, str, str, str]:
    return (ISVC.api_version, "InferenceService", "team", name)


async def leading(world: World, count: int = 0) -> None:
    for number in range(count):
        world.store.put(isvc(f"s{number}", runtime=f"rt{number % 5}"))
    world.controller.lead()
    await world.rest()
    asked(world)


async def test_a_runtime_wakes_only_those_that_named_it() -> None:
    world = World(follows_runtime)
    for number in range(5):
        world.store.put(runtime(f"rt{number}"))
    await leading(world, 20)
    world.store.put(runtime("rt3", image="v2"))
    await world.idle()
    assert sorted(asked(world)) == ["s13", "s18", "s3", "s8"]
    world.store.put(runtime("rt3", image="v2"))  # a new resourceVersion, nothing else
    world.store.put(runtime("rt9"))
    await world.idle()
    assert asked(world) == []


async def test_its_own_change_wakes_it_and_nobody_else() -> None:
    world = World(follows_runtime)
    await leading(world, 3)
    world.store.edit(target("s1"), lambda obj: obj["spec"].update(x=1))
    world.store.put(isvc("new"))
    await world.idle()
    assert sorted(set(asked(world))) == ["new", "s1"]
    world.store.edit(target("s1"), lambda obj: None)
    await world.idle()
    assert asked(world) == []


async def test_its_own_status_write_ends_after_one_more_look() -> None:
    world = World(lambda request: respond(status=pb.StatusPatch(merge_patch=b'{"pinned":"x"}')))
    world.store.put(isvc())
    await leading(world)
    assert world.cluster.writes == ["STATUS a"]
    version = world.store.version
    world.clock.advance(600)  # a resync
    await world.rest()
    assert asked(world) == ["a"]
    assert (world.store.version, world.cluster.writes) == (version, ["STATUS a"])


async def test_a_duplicate_event_wakes_nobody() -> None:
    world = World(follows_runtime)
    await leading(world, 1)
    obj = world.store.cached(target("s0"))
    for _ in range(3):
        world.caches[ISVC].store(obj)
    await world.idle()
    assert asked(world) == []
    assert (world.queue.depth(Lane.CHANGE), world.queue.depth(Lane.RESYNC)) == (0, 0)


async def test_an_owned_object_wakes_its_owner() -> None:
    world = World(follows_runtime)
    await leading(world, 2)
    owner = {"apiVersion": ISVC.api_version, "kind": "InferenceService", "name": "s1", "uid": "u", "controller": True}
    child = revision("child", namespace="team")
    child["metadata"]["ownerReferences"] = [owner, {**owner, "kind": "Other", "name": "s0"}]
    world.store.put(child)
    await world.idle()
    assert asked(world) == ["s1"]
    world.store.delete(("apps/v1", "ControllerRevision", "team", "child"))
    await world.idle()
    assert asked(world) == ["s1"]


async def test_changes_go_before_the_initial_list() -> None:
    order: list[str] = []

    async def slow(request: pinning_pb2.ReconcileRequest) -> pinning_pb2.ReconcileResponse:
        order.append(name_of(request))
        await asyncio.sleep(0)
        return respond(flow=pb.FLOW_PASSIVE)

    world = World(slow, workers=1)
    for number in range(50):
        world.store.put(isvc(f"s{number:02}"))
    world.controller.lead()
    await settle(4)
    assert 0 < len(order) < 10
    started = len(order)
    world.store.edit(target("s40"), lambda obj: obj["spec"].update(x=1))
    await world.idle()
    assert order.index("s40") <= started + 1
    assert sorted(order) == sorted(f"s{number:02}" for number in range(50))  # s40 only once: folded together


async def test_one_pass_at_a_time_and_one_more_for_all_that_came_meanwhile() -> None:
    gate = asyncio.Event()
    running = most = 0

    async def slow(request: pinning_pb2.ReconcileRequest) -> pinning_pb2.ReconcileResponse:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1
        return respond(flow=pb.FLOW_PASSIVE)

    world = World(slow)
    world.store.put(isvc())
    world.controller.lead()
    await world.idle()
    for number in range(5):
        world.store.put(isvc(x=number))
        await world.idle()
    gate.set()
    await world.idle()
    assert most == 1
    assert len(world.service.requests) == 2
    assert json.loads(world.service.requests[-1].observation.isvc.json)["spec"] == {"x": 4}


async def test_a_slow_and_a_bad_object_delay_no_other() -> None:
    never = asyncio.Event()

    async def answer(request: pinning_pb2.ReconcileRequest) -> pinning_pb2.ReconcileResponse:
        if name_of(request) == "slow":
            await never.wait()
        if name_of(request) == "bad":
            raise ZeroDivisionError
        return respond(status=pb.StatusPatch(merge_patch=b'{"ok":true}'))

    world = World(answer, workers=2)
    for name in ("bad", "slow", *(f"s{number}" for number in range(20))):
        world.store.put(isvc(name))
    world.controller.lead()
    await world.idle()
    assert sorted(world.cluster.writes) == sorted(f"STATUS s{number}" for number in range(20))
    world.store.edit(target("s7"), lambda obj: obj["spec"].update(x=1))
    await world.idle()
    assert world.cluster.writes[-1] == "STATUS s7"
    never.set()
    await world.idle()


async def test_a_failing_object_is_tried_less_and_less_often_and_at_once_when_it_changes() -> None:
    def away(request: object) -> Any:
        raise CallError("pinning", Failing.TRANSIENT, "UNAVAILABLE", "gone")

    world = World(away)
    world.store.put(isvc())
    world.controller.lead()
    await world.idle()
    for seconds in (1, 2, 4, 8):
        count = len(world.service.requests)
        world.clock.advance(seconds - 0.01)
        await world.idle()
        assert len(world.service.requests) == count
        world.clock.advance(0.01)
        await world.idle()
        assert len(world.service.requests) == count + 1
    world.store.edit(target(), lambda obj: obj["spec"].update(x=1))
    await world.idle()
    assert len(world.service.requests) == 6


async def test_a_service_that_was_away_is_made_up_for_without_any_event() -> None:
    def away(request: object) -> Any:
        raise CallError("pinning", Failing.TRANSIENT, "UNAVAILABLE", "gone")

    world = World(away)
    for number in range(10):
        world.store.put(isvc(f"s{number}"))
    version = world.store.version
    world.controller.lead()
    for _ in range(6):
        world.clock.advance(10)
        await world.idle()
    assert world.store.version == version
    assert not world.cluster.events
    world.service.answer = lambda request: respond(status=pb.StatusPatch(merge_patch=b'{"ok":true}'))
    world.clock.advance(60)
    await world.idle()
    assert sorted(world.cluster.writes) == [f"STATUS s{number}" for number in range(10)]
    world.service.answer = away
    asked(world)
    world.store.edit(target("s0"), lambda obj: obj["spec"].update(x=1))
    await world.idle()
    count = len(asked(world))
    world.clock.advance(1)  # success has reset the back-off
    await world.idle()
    assert (count, len(asked(world))) == (1, 1)


async def test_a_conflict_is_looked_at_again() -> None:
    world = World(lambda request: respond(status=pb.StatusPatch(merge_patch=b'{"ok":true}')))
    world.store.put(isvc())
    once = [1]

    def other_writer(what: str) -> None:
        if once and what == "STATUS a":
            once.clear()
            world.store.edit(target(), lambda obj: obj["spec"].update(x=1))

    world.cluster.before = other_writer
    await leading(world)
    assert world.store.objects[target()]["status"] == {"ok": True, "observedGeneration": 2}
    assert world.cluster.writes == ["STATUS a"]


async def test_a_stale_cache_delays_the_pass_and_is_never_decided_on() -> None:
    world = World(lambda request: respond(status=pb.StatusPatch(merge_patch=b'{"n":%d}' % len(world.service.requests))))
    world.store.put(isvc())
    world.store.flow = False
    world.controller.lead()
    await world.idle()
    for _ in range(20):
        world.clock.advance(1)
        await world.idle()
    assert len(world.service.requests) == 1
    # Somebody else changes it meanwhile; the cache still shows neither.
    world.store.edit(target(), lambda obj: obj["spec"].update(x=1))
    world.service.answer = lambda request: respond()
    world.store.release()
    world.clock.advance(5)
    await world.idle()
    seen = json.loads(world.service.requests[-1].observation.isvc.json)
    assert (seen["spec"], seen["status"]["n"]) == ({"x": 1}, 1)


async def test_a_stated_time_wakes_without_any_event() -> None:
    world = World()
    world.service.answer = lambda request: respond(requeue_after={"seconds": 30})
    world.store.put(isvc())
    world.controller.lead()
    await world.idle()
    asked(world)
    world.clock.advance(29)
    await world.idle()
    assert asked(world) == []
    world.clock.advance(1)
    await world.idle()
    assert asked(world) == ["a"]


async def test_a_resync_looks_at_everything_from_time_to_time() -> None:
    world = World(follows_runtime)
    await leading(world, 5)
    for _ in range(2):
        world.clock.advance(600)
        await world.idle()
        assert len(asked(world)) == 5


async def test_a_standby_does_nothing_and_takes_over_with_a_fresh_look() -> None:
    world = World(follows_runtime)
    world.store.put(isvc())
    await world.rest()
    world.store.edit(target(), lambda obj: obj["spec"].update(x=1))
    await world.idle()
    assert asked(world) == []
    assert world.caches[ISVC].get("team", "a") is not None
    world.controller.lead()
    await world.idle()
    assert set(asked(world)) == {"a"}
    world.controller.follow()
    world.store.edit(target(), lambda obj: obj["spec"].update(x=2))
    world.clock.advance(1000)
    await world.idle()
    assert asked(world) == []
    world.controller.lead()
    world.controller.lead()
    await world.idle()
    assert set(asked(world)) == {"a"}
    assert len(world.workers._tasks) == 4


async def test_a_new_term_begins_without_memory() -> None:
    failing = [_create("x", "ome", {}, pb.STAGE_PREPARE)]
    world = World(lambda request: respond(flow=pb.FLOW_COMMIT_AND_STOP, writes=failing))
    world.store.put(isvc())

    def refuse(what: str) -> None:
        raise Forbidden(403, "Forbidden", "no right")

    world.cluster.before = refuse
    world.controller.lead()
    await world.idle()
    world.clock.advance(1)
    await world.idle()
    assert world.service.requests[-1].observation.failures
    world.controller.follow()
    await world.idle()
    asked(world)
    world.controller.lead()
    await world.idle()
    assert not world.service.requests[0].observation.failures


async def test_workers_that_were_busy_when_leadership_went_and_came_back_are_not_doubled() -> None:
    gate = asyncio.Event()
    running: list[str] = []
    doubled: list[str] = []

    async def slow(request: pinning_pb2.ReconcileRequest) -> pinning_pb2.ReconcileResponse:
        name = name_of(request)
        if name in running:
            doubled.append(name)
        running.append(name)
        await gate.wait()
        running.remove(name)
        return respond()

    world = World(slow)
    world.store.put(isvc())
    world.controller.lead()
    await world.idle()
    world.controller.follow()
    await world.idle()
    world.controller.lead()
    await world.idle()
    assert (running, doubled) == (["a"], [])
    gate.set()
    await world.idle()
    assert not doubled
    assert len(world.service.requests) == 2
    assert len([task for task in world.workers._tasks if not task.done()]) == 4


async def test_stop_lets_passes_finish_and_takes_no_more() -> None:
    gate = asyncio.Event()

    async def slow(request: pinning_pb2.ReconcileRequest) -> pinning_pb2.ReconcileResponse:
        await gate.wait()
        return respond(status=pb.StatusPatch(merge_patch=b'{"ok":true}'))

    world = World(slow, workers=1)
    world.store.put(isvc("a"))
    world.store.put(isvc("b"))
    world.controller.lead()
    await world.idle()
    stopping = asyncio.ensure_future(world.controller.stop(30))
    await world.idle()
    assert not stopping.done()
    gate.set()
    await asyncio.wait_for(stopping, 5)
    assert world.cluster.writes == ["STATUS a"]
    assert not world.workers._tasks
    assert world.clock.pending == 0
    world.controller.lead()  # the lease came too late
    await world.idle()
    assert not world.controller.leading
    assert not world.workers._tasks


async def test_stop_cuts_off_what_takes_too_long() -> None:
    async def stuck(request: pinning_pb2.ReconcileRequest) -> pinning_pb2.ReconcileResponse:
        await asyncio.Event().wait()
        return respond()

    world = World(stuck)
    world.store.put(isvc())
    world.controller.lead()
    await world.idle()
    await asyncio.wait_for(world.controller.stop(0), 5)
    assert not world.workers._tasks


async def test_a_list_that_comes_late_wakes_those_that_wait_for_it() -> None:
    world = World(follows_runtime)
    world.store.put(isvc(runtime="rt"))
    world.start(synced=False)
    world.store.sync(world.caches, ISVC)
    await leading(world)
    world.store.sync(world.caches, CLUSTER_SERVING_RUNTIME)
    await world.idle()
    (request,) = world.service.requests
    assert [o.presence for o in request.observation.objects] == [pb.PRESENCE_ABSENT]
    asked(world)
    world.store.sync(world.caches, CONTROLLER_REVISION)
    await world.idle()
    assert asked(world) == []


async def test_caches_are_waited_for_but_not_for_ever() -> None:
    required, other = Cache(ISVC), Cache(CLUSTER_SERVING_RUNTIME)
    waiting = asyncio.ensure_future(wait_for_caches([required, other], required, 0.01))
    await settle()
    other.replace([], "1")
    await settle()
    assert not waiting.done()
    required.replace([], "1")
    await asyncio.wait_for(waiting, 5)
    await asyncio.wait_for(wait_for_caches([required, Cache(CONTROLLER_REVISION)], required, 0.01), 5)


SNAPSHOTS = pb.Interest(
    api_version="apps/v1", kind="ControllerRevision", namespace="ome", match_labels=[pb.KeyValue(key="of", value="rt")]
)


def pinner(request: pinning_pb2.ReconcileRequest) -> pinning_pb2.ReconcileResponse:
    """Pins to a snapshot of the runtime, then makes a child from the pin and records it: three passes, five writes."""
    runtime_of = named(CLUSTER_SERVING_RUNTIME, "rt")
    child = named(CONTROLLER_REVISION, f"child-{name_of(request)}", "team")
    wanted = [runtime_of, SNAPSHOTS, child]
    given = {o.interest.SerializeToString(): o for o in request.observation.objects}
    if any(interest.SerializeToString() not in given for interest in wanted):
        return respond(flow=pb.FLOW_ASK_AGAIN, interests=wanted)
    live, snapshots, made = (given[interest.SerializeToString()] for interest in wanted)
    spec = json.dumps(json.loads(live.objects[0].json)["spec"], sort_keys=True)
    wish = "cr-rt-" + hashlib.sha256(spec.encode()).hexdigest()[:8]
    status = json.loads(request.observation.isvc.json).get("status", {})
    if status.get("pinned") != wish:
        exists = wish in [m.ref.name for m in snapshots.objects]
        writes = [] if exists else [_create(wish, "ome", {"of": "rt"}, pb.STAGE_PREPARE)]
        patch = pb.StatusPatch(merge_patch=json.dumps({"pinned": wish}).encode())
        told = pb.Event(type="Normal", reason="Pinned", message=wish, key=wish, repeat=pb.EVENT_REPEAT_COUNT)
        flow = pb.FLOW_COMMIT_AND_STOP
        return respond(flow=flow, writes=writes, status=patch, events=[told], interests=wanted)
    if made.presence == pb.PRESENCE_ABSENT:
        return respond(writes=[_create(child.name, "team", {}, pb.STAGE_FOLLOW_UP)], interests=wanted)
    return respond(status=pb.StatusPatch(merge_patch=b'{"rendered":true}'), interests=wanted)


def _create(name: str, namespace: str, labels: dict[str, str], stage: pb.Stage) -> pb.Write:
    ref = pb.ObjectRef(api_version="apps/v1", kind="ControllerRevision", namespace=namespace, name=name)
    body = json.dumps(revision(name, namespace=namespace, labels=labels)).encode()
    return pb.Write(verb=pb.VERB_CREATE, stage=stage, target=ref, json=body, content_digest=name)


def state(store: Store) -> dict[str, Any]:
    """The cluster's content, without what two runs may differ in."""
    found = {}
    for key, obj in store.objects.items():
        metadata = {k: v for k, v in obj["metadata"].items() if k not in ("uid", "resourceVersion")}
        found["/".join(key)] = {**obj, "metadata": metadata}
    return found


async def first_pin(world: World) -> None:
    world.store.put(runtime(image="v1"))
    world.store.put(isvc("a"))
    world.store.put(isvc("b"))


async def roll(world: World) -> None:
    world.store.put(runtime(image="v2"))


async def undisturbed() -> tuple[dict[str, Any], int]:
    world = World(pinner)
    await first_pin(world)
    count = Dead(world.cluster, 0, False)
    world.controller.lead()
    await world.rest()
    await roll(world)
    await world.rest()
    return state(world.store), count.count


@pytest.mark.parametrize("lost", [True, False], ids=["before", "after"])
async def test_a_crash_at_any_write_ends_in_the_state_of_an_undisturbed_run(lost: bool) -> None:
    expected, writes = await undisturbed()
    assert writes >= 10
    for at in range(1, writes + 1):
        world = World(pinner)
        await first_pin(world)
        dead = Dead(world.cluster, at, lost)
        world.controller.lead()
        await world.rest()
        if not dead.fired:
            await roll(world)
            await world.rest()
        assert dead.fired
        rolled = any("v2" in json.dumps(obj) for obj in world.store.objects.values())
        world.restart()
        world.controller.lead()
        await world.rest()
        if not rolled:
            await roll(world)
            await world.rest()
        result = state(world.store)
        assert result == expected, f"killed at write {at}"
        before = world.store.version
        world.restart()
        world.controller.lead()
        await world.rest()
        assert world.store.version == before


@pytest.mark.parametrize("cut", range(0, 40, 3))
async def test_two_gateways_never_write_twice(cut: int) -> None:
    """An old leader whose caches stand still and whose fence fails: preconditions alone must hold."""
    old = World(pinner)
    await first_pin(old)
    old.controller.lead()
    await settle(cut)
    new = World(pinner, store=old.store)  # from here on the old one's caches get nothing
    new.controller.lead()
    for _ in range(50):
        for world in (old, new):
            await settle(3)
            world.clock.advance(0.5)
    await new.rest()
    await roll(new)
    await new.rest()
    for _ in range(20):
        await settle(3)
        old.clock.advance(30)
    await new.rest()
    writes = [*old.cluster.writes, *new.cluster.writes]
    created = [what for what in writes if what.startswith("CREATE")]
    assert len(created) == len(set(created)) == 4
    assert writes.count("STATUS a") == writes.count("STATUS b") == 4  # pin, judged, rendered, next pin
    assert state(new.store) == (await undisturbed())[0]


async def test_a_thousand_settle_and_then_a_resync_writes_nothing() -> None:
    world = World(pinner)
    world.store.put(runtime(image="v1"))
    for number in range(300):
        world.store.put(isvc(f"s{number}"))
    world.controller.lead()
    for _ in range(40):
        await settle(500)
        world.clock.advance(1)
    assert all(world.store.objects[target(f"s{n}")]["status"].get("rendered") for n in range(300))
    version = world.store.version
    world.clock.advance(600)
    await settle(2000)
    assert (world.store.version, world.queue.depth(Lane.RESYNC)) == (version, 0)
