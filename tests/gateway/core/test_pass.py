"""One pass: what is asked, what is written in which order, and how it ends."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from gateway.kube.errors import Conflict, Forbidden, NotLeader, Unreachable
from gateway.kube.kinds import CLUSTER_SERVING_RUNTIME, CONTROLLER_REVISION, ISVC
from gateway.pipeline import Facts, Stage
from gateway.queue import Lane
from gateway.reconcile import Result
from gateway.services import CallError, Failing
from ome.canary.v1 import canary_pb2
from ome.common.v1 import common_pb2 as pb
from ome.pinning.v1 import pinning_pb2
from ome.traffic.v1 import traffic_pb2
from tests.gateway.core.world import FakeService, World, isvc, named, respond, revision, runtime

RT = named(CLUSTER_SERVING_RUNTIME, "rt")
SNAPSHOTS = pb.Interest(
    api_version="apps/v1",
    kind="ControllerRevision",
    namespace="ome",
    match_labels=[pb.KeyValue(key="of", value="rt")],
)
A = (ISVC.api_version, "InferenceService", "team", "a")


def create(name: str, stage: pb.Stage = pb.STAGE_PREPARE, chain: str = "", digest: str = "d1", **more: Any) -> pb.Write:
    return pb.Write(
        verb=pb.VERB_CREATE,
        stage=stage,
        chain=chain,
        reason="Create",
        content_digest=digest,
        target=pb.ObjectRef(api_version="apps/v1", kind="ControllerRevision", namespace="ome", name=name),
        json=json.dumps(revision(name, labels={"of": "rt"}, **more)).encode(),
    )


def status(**values: Any) -> pb.StatusPatch:
    return pb.StatusPatch(merge_patch=json.dumps(values).encode())


def event(reason: str = "Pinned", message: str = "m", repeat: pb.EventRepeat = pb.EVENT_REPEAT_COUNT) -> pb.Event:
    return pb.Event(type="Normal", reason=reason, message=message, key=reason, repeat=repeat)


def far() -> Timestamp:
    return Timestamp(seconds=4102444800)


def objects(request: pinning_pb2.ReconcileRequest) -> dict[str, pb.Observed]:
    return {f"{o.interest.kind}/{o.interest.name}": o for o in request.observation.objects}


async def test_the_request_carries_the_object_its_bytes_and_the_time() -> None:
    world = World()
    stored = world.store.put(isvc(x=1))
    verdict = await world.once()
    (request,) = world.service.requests
    observed = request.observation.isvc
    assert (observed.ref.uid, observed.ref.resource_version, observed.ref.generation) == (
        stored.uid,
        stored.resource_version,
        1,
    )
    assert (observed.json, observed.json_sha256) == (stored.raw, stored.sha256)
    assert request.meta.now.ToDatetime().isoformat() == "2026-12-01T00:00:00"
    assert (request.observation.cluster_domain, request.observation.ome_namespace) == ("cluster.local", "ome")
    assert (verdict.result, verdict.decision_id) == (Result.DONE, "d")


async def test_missing_interests_are_supplied_and_the_service_asked_again() -> None:
    def answer(request: pinning_pb2.ReconcileRequest) -> pinning_pb2.ReconcileResponse:
        if not request.observation.objects:
            return respond(flow=pb.FLOW_ASK_AGAIN, interests=[RT])
        if len(request.observation.objects) == 1:
            return respond(flow=pb.FLOW_ASK_AGAIN, interests=[RT, SNAPSHOTS])
        return respond(interests=[RT, SNAPSHOTS])

    world = World(answer)
    world.store.put(isvc())
    found = world.store.put(runtime())
    for name, labels in (("cr-b", {"of": "rt"}), ("cr-a", {"of": "rt"}), ("cr-c", {"of": "other"})):
        world.store.put(revision(name, labels=labels))
    assert (await world.once()).result is Result.DONE
    first, second, third = world.service.requests
    assert not first.observation.objects
    assert objects(second)["ClusterServingRuntime/rt"].objects[0].json == found.raw
    given = objects(third)["ControllerRevision/"]
    assert (given.presence, [m.ref.name for m in given.objects]) == (pb.PRESENCE_FOUND, ["cr-a", "cr-b"])
    assert [o.interest for o in third.observation.objects] == [RT, SNAPSHOTS]
    await world.once()
    assert len(world.service.requests) == 4  # remembered: one call is enough now
    assert len(world.service.requests[3].observation.objects) == 2


async def test_a_service_that_never_has_enough_is_asked_at_most_three_times_again() -> None:
    world = World(lambda request: respond(flow=pb.FLOW_ASK_AGAIN, interests=[RT], status=status(x=1)))
    world.store.put(isvc())
    verdict = await world.once()
    assert (verdict.result, len(world.service.requests), world.cluster.writes) == (Result.RETRY, 4, [])


async def test_absence_is_known_only_from_a_synced_cache() -> None:
    world = World(lambda request: respond(interests=[RT, SNAPSHOTS]))
    world.store.put(isvc())
    world.start(synced=False)
    world.store.sync(world.caches, ISVC)
    await world.once()
    await world.once()
    seen = world.service.requests[-1].observation.objects
    assert [o.presence for o in seen] == [pb.PRESENCE_UNDETERMINED, pb.PRESENCE_UNDETERMINED]
    assert all(o.error for o in seen)
    world.store.sync(world.caches)
    await world.once()
    seen = world.service.requests[-1].observation.objects
    assert [o.presence for o in seen] == [pb.PRESENCE_ABSENT, pb.PRESENCE_FOUND]


async def test_metadata_only_travels_without_the_rest() -> None:
    interest = named(CONTROLLER_REVISION, "cr", "ome", metadata_only=True)
    world = World(lambda request: respond(interests=[interest]))
    world.store.put(isvc())
    world.store.put(revision("cr", data={"secret": 1}))
    await world.once()
    await world.once()
    (observed,) = world.service.requests[-1].observation.objects
    assert set(json.loads(observed.objects[0].json)) == {"apiVersion", "kind", "metadata"}


async def test_a_refused_interest_is_undetermined_with_its_cause() -> None:
    secret = named(CONTROLLER_REVISION, "x", "kube-system")
    world = World(lambda request: respond(interests=[secret]))
    world.store.put(isvc())
    world.store.put(revision("x", namespace="kube-system"))
    await world.once()
    await world.once()
    (observed,) = world.service.requests[-1].observation.objects
    assert observed.presence == pb.PRESENCE_UNDETERMINED
    assert "kube-system" in observed.error
    assert not observed.objects


async def test_writes_status_events_and_follow_ups_come_in_order() -> None:
    done: list[str] = []
    follow = create("later", pb.STAGE_FOLLOW_UP)
    answer = respond(writes=[follow, create("first")], status=status(pinned="first"), events=[event()])
    world = World(lambda request: answer)
    world.store.put(isvc())
    world.cluster.before = done.append
    verdict = await world.once()
    assert done == ["CREATE first", "STATUS a", "EVENT Pinned", "CREATE later"]
    assert (verdict.result, verdict.writes) == (Result.DONE, 3)
    assert world.store.objects[A]["status"] == {"pinned": "first", "observedGeneration": 1}


async def test_a_steady_pass_writes_nothing() -> None:
    world = World(lambda request: respond(status=status(pinned="x")))
    world.store.put(isvc())
    await world.once()
    version = world.store.version
    for _ in range(3):
        assert (await world.once()).writes == 0
    assert world.store.version == version


async def test_commit_and_stop_asks_nobody_else_and_leaves_follow_ups() -> None:
    later = FakeService(lambda request: respond())
    stage = Stage("canary", later, lambda facts, meta, observation: meta, lambda facts, answer: None)
    answer = respond(
        flow=pb.FLOW_COMMIT_AND_STOP,
        writes=[create("first"), create("later", pb.STAGE_FOLLOW_UP)],
        status=status(pinned="first"),
        events=[event()],
    )
    world = World(lambda request: answer, stage)
    world.store.put(isvc())
    verdict = await world.once()
    assert world.cluster.writes == ["CREATE first", "STATUS a"]
    assert [e.reason for e in world.cluster.events] == ["Pinned"]
    assert not later.requests
    assert verdict.result is Result.REQUEUE
    assert world.store.objects[A]["status"] == {"pinned": "first"}  # not all have judged this generation


async def test_commit_and_stop_with_nothing_to_commit_is_no_busy_loop() -> None:
    world = World(lambda request: respond(flow=pb.FLOW_COMMIT_AND_STOP))
    world.store.put(isvc())
    assert (await world.once()).result is Result.RETRY


async def test_commit_and_stop_with_a_terminal_error_is_left_alone_until_the_input_changes() -> None:
    error = pb.OutcomeError(reason="RuntimePinError", message="bad isvc")
    told = [event("RuntimePinError")]
    bad = respond(flow=pb.FLOW_COMMIT_AND_STOP, disposition=pb.DISPOSITION_TERMINAL, error=error, events=told)
    world = World(lambda request: bad)
    world.store.put(isvc())
    verdict = await world.once()
    assert (verdict.result, verdict.again_in) == (Result.TERMINAL, None)
    assert "bad isvc" in verdict.cause
    assert [e.reason for e in world.cluster.events] == ["RuntimePinError"]
    assert (await world.once(lane=Lane.RESYNC)).result is Result.UNCHANGED
    world.store.edit(A, lambda obj: obj["spec"].update(x=2))
    assert (await world.once(lane=Lane.RESYNC)).result is Result.TERMINAL


async def test_all_services_of_a_pass_are_given_the_same_state() -> None:
    def first(request: pinning_pb2.ReconcileRequest) -> pinning_pb2.ReconcileResponse:
        if request.observation.objects:
            world.store.put(runtime(x=2))  # changes between the two questions
        return respond(flow=pb.FLOW_PROCEED if request.observation.objects else pb.FLOW_ASK_AGAIN, interests=[RT])

    def request(facts: Facts, meta: pb.RequestMeta, observation: pb.Observation) -> pinning_pb2.ReconcileRequest:
        return pinning_pb2.ReconcileRequest(meta=meta, observation=observation)

    def second(request: pinning_pb2.ReconcileRequest) -> pinning_pb2.ReconcileResponse:
        flow = pb.FLOW_PROCEED if request.observation.objects else pb.FLOW_ASK_AGAIN
        return respond(flow=flow, interests=[RT])

    later = FakeService(second)
    world = World(first, Stage("canary", later, request, lambda facts, answer: None))
    world.store.put(isvc())
    world.store.put(runtime(x=1))
    await world.once()
    given = [service.requests[-1].observation.objects[0].objects[0] for service in (world.service, later)]
    assert given[0] == given[1]


async def test_a_passive_answer_writes_nothing_and_asks_nobody_else() -> None:
    later = FakeService(lambda request: respond())
    stage = Stage("canary", later, lambda facts, meta, observation: meta, lambda facts, answer: None)
    passive = respond(flow=pb.FLOW_PASSIVE, writes=[create("x")], status=status(x=1), events=[event()])
    world = World(lambda request: passive, stage)
    world.store.put(isvc())
    assert (await world.once()).result is Result.DONE
    assert (world.cluster.writes, world.cluster.events, later.requests) == ([], [], [])


async def test_a_conflict_ends_the_pass_and_drops_its_decision() -> None:
    world = World(lambda request: respond(status=status(n=len(world.service.requests))))
    world.store.put(isvc())
    world.store.flow = False
    world.store.edit(A, lambda obj: obj["spec"].update(x=2))  # the cache does not know yet
    verdict = await world.once()
    assert (verdict.result, world.cluster.writes, world.cluster.events) == (Result.RETRY, [], [])
    world.store.release()
    assert (await world.once()).writes == 1
    assert world.store.objects[A]["status"] == {"n": 2, "observedGeneration": 2}


async def test_a_conflict_of_a_write_leaves_the_status_alone() -> None:
    patch = pb.Write(
        verb=pb.VERB_MERGE_PATCH,
        stage=pb.STAGE_PREPARE,
        target=pb.ObjectRef(api_version="apps/v1", kind="ControllerRevision", namespace="ome", name="cr"),
        precondition=pb.Precondition(resource_version="1"),
        json=b"{}",
    )
    world = World(lambda request: respond(writes=[patch, create("x")], status=status(x=1)))
    world.store.put(isvc())
    world.store.put(revision("cr"))
    verdict = await world.once()
    assert (verdict.result, world.cluster.writes) == (Result.RETRY, [])
    assert not world.service.requests[0].observation.failures
    await world.once()
    assert not world.service.requests[1].observation.failures  # a conflict is nothing to hold against the content


async def test_a_target_that_is_gone_is_a_conflict_and_a_delete_of_it_is_done() -> None:
    ref = pb.ObjectRef(api_version="apps/v1", kind="ControllerRevision", namespace="ome", name="cr")
    delete = pb.Write(verb=pb.VERB_DELETE, stage=pb.STAGE_PREPARE, target=ref)
    world = World(lambda request: respond(writes=[delete]))
    world.store.put(isvc())
    assert (await world.once()).result is Result.DONE
    patch = pb.Write(verb=pb.VERB_MERGE_PATCH, stage=pb.STAGE_PREPARE, target=ref, json=b"{}")
    world.service.answer = lambda request: respond(writes=[patch], status=status(x=1))
    verdict = await world.once()
    assert (verdict.result, "status" in world.cluster.writes) == (Result.RETRY, False)
    assert "conflict" in verdict.cause


async def test_the_second_write_of_an_object_expects_the_version_the_first_left() -> None:
    ref = pb.ObjectRef(api_version="apps/v1", kind="ControllerRevision", namespace="ome", name="cr")

    def patch(stage: pb.Stage, version: str, **labels: str) -> pb.Write:
        body = json.dumps({"metadata": {"labels": labels}}).encode()
        expected = pb.Precondition(resource_version=version)
        return pb.Write(verb=pb.VERB_MERGE_PATCH, stage=stage, target=ref, precondition=expected, json=body)

    world = World()
    world.store.put(isvc())
    version = world.store.put(revision("cr")).resource_version
    writes = [patch(pb.STAGE_PREPARE, version, a="1"), patch(pb.STAGE_FOLLOW_UP, version, b="2")]
    world.service.answer = lambda request: respond(writes=writes)
    assert (await world.once()).result is Result.DONE
    stored = world.store.objects[("apps/v1", "ControllerRevision", "ome", "cr")]
    assert stored["metadata"]["labels"] == {"a": "1", "b": "2"}


async def test_a_failed_write_ends_its_chain_and_the_pass_before_the_status() -> None:
    writes = [create("a1", chain="a"), create("b1", chain="b"), create("b2", chain="b"), create("alone")]
    world = World(lambda request: respond(writes=writes, status=status(x=1), events=[event()]))
    world.store.put(isvc())

    def refuse(what: str) -> None:
        if what == "CREATE b1":
            raise Forbidden(403, "Forbidden", "no right")

    world.cluster.before = refuse
    verdict = await world.once()
    assert world.cluster.writes == ["CREATE a1", "CREATE alone"]
    assert (verdict.result, world.cluster.events) == (Result.RETRY, [])
    assert "status" not in world.store.objects[A]


async def test_a_failure_comes_back_until_its_target_is_written() -> None:
    world = World(lambda request: respond(writes=[create("x", digest="d7")]))
    world.store.put(isvc())

    def refuse(what: str) -> None:
        raise Forbidden(403, "Forbidden", "no right")

    world.cluster.before = refuse
    await world.once()
    world.service.answer = lambda request: respond()
    await world.once()
    await world.once()
    for request in world.service.requests[1:]:
        (failure,) = request.observation.failures
        assert (failure.target.name, failure.verb, failure.content_digest) == ("x", pb.VERB_CREATE, "d7")
        assert (failure.code, failure.api_reason, failure.message) == (403, "Forbidden", "no right")
    world.cluster.before = lambda what: None
    world.service.answer = lambda request: respond(writes=[create("x", digest="d8")])
    await world.once()
    world.service.answer = lambda request: respond()
    await world.once()
    assert not world.service.requests[-1].observation.failures


async def test_an_api_server_that_is_away_ends_the_pass_at_once() -> None:
    world = World(lambda request: respond(writes=[create("x"), create("y")], status=status(x=1)))
    world.store.put(isvc())
    tried: list[str] = []

    def away(what: str) -> None:
        tried.append(what)
        raise Unreachable("connection refused")

    world.cluster.before = away
    verdict = await world.once()
    assert (verdict.result, verdict.shared, tried) == (Result.RETRY, True, ["CREATE x"])
    await world.once()
    assert [f.code for f in world.service.requests[1].observation.failures] == [0]


async def test_a_failed_follow_up_keeps_the_status_and_is_tried_again() -> None:
    world = World(lambda request: respond(writes=[create("x", pb.STAGE_FOLLOW_UP)], status=status(x=1)))
    world.store.put(isvc())

    def refuse(what: str) -> None:
        if what == "CREATE x":
            raise Forbidden(403, "Forbidden", "no right")

    world.cluster.before = refuse
    verdict = await world.once()
    assert (verdict.result, world.cluster.writes) == (Result.RETRY, ["STATUS a"])


async def test_an_object_that_exists_is_read_and_the_service_asked_again_with_it_in_view() -> None:
    def answer(request: pinning_pb2.ReconcileRequest) -> pinning_pb2.ReconcileResponse:
        seen = [m.ref.name for o in request.observation.objects for m in o.objects]
        if "cr-1" not in seen:
            return respond(interests=[SNAPSHOTS], writes=[create("cr-1")], status=status(pinned="new"))
        return respond(interests=[SNAPSHOTS], status=status(pinned="reused"))

    world = World(answer)
    world.store.put(isvc())
    await world.once()
    world.store.edit(A, lambda obj: obj.pop("status"))
    world.store.delete(("apps/v1", "ControllerRevision", "ome", "cr-1"))
    world.store.flow = False  # another gateway makes it; this one's cache lags
    world.store.put(revision("cr-1", labels={"of": "rt"}))
    world.service.requests.clear()
    verdict = await world.once()
    assert (verdict.result, verdict.writes, len(world.service.requests)) == (Result.DONE, 1, 2)
    assert world.store.objects[A]["status"]["pinned"] == "reused"
    assert world.caches[CONTROLLER_REVISION].get("ome", "cr-1") is None  # nothing is written back into a cache


async def test_an_object_that_was_read_is_waited_for_before_the_next_pass() -> None:
    def answer(request: pinning_pb2.ReconcileRequest) -> pinning_pb2.ReconcileResponse:
        seen = [m.ref.name for o in request.observation.objects for m in o.objects]
        pinned = "status" in json.loads(request.observation.isvc.json)
        if "cr-1" in seen:
            return respond(interests=[SNAPSHOTS], status=status(pinned="cr-1"))
        if pinned:
            return respond(interests=[SNAPSHOTS], events=[event("Missing")])
        return respond(interests=[SNAPSHOTS], writes=[create("cr-1")], status=status(pinned="cr-1"))

    world = World(answer)
    world.store.put(isvc())
    world.store.flow = False  # another gateway makes it; this one's cache of the kind lags
    world.store.put(revision("cr-1", labels={"of": "rt"}))
    assert (await world.once()).writes == 1
    world.caches[ISVC].store(world.store.cached(A))  # the own status write is seen before it
    assert (await world.once()).result is Result.WAITING
    world.store.release()
    assert (await world.once()).result is Result.DONE
    assert world.cluster.events == [], "what was just read is never told missing"


async def test_an_object_that_goes_on_existing_is_given_up_after_three_times() -> None:
    world = World(lambda request: respond(writes=[create("cr-1")], status=status(x=1)))
    world.store.put(isvc())
    world.store.put(revision("cr-1"))
    verdict = await world.once()
    assert (verdict.result, len(world.service.requests), world.cluster.writes) == (Result.RETRY, 4, [])
    assert len(world.cluster.reads) == 3


async def test_a_stale_cache_is_waited_for() -> None:
    world = World(lambda request: respond(status=status(n=len(world.service.requests))))
    world.store.put(isvc())
    world.store.flow = False
    await world.once()
    waits = [await world.once() for _ in range(3)]
    assert [w.result for w in waits] == [Result.WAITING] * 3
    assert [w.again_in for w in waits] == [0.05, 0.1, 0.2]
    assert len(world.service.requests) == 1
    world.store.release()
    assert (await world.once()).result is Result.DONE


async def test_a_created_object_is_waited_for_too() -> None:
    world = World()
    world.store.put(isvc())
    await world.once()
    world.service.answer = lambda request: respond(writes=[create("cr-1")])
    world.store.flow = False
    assert (await world.once()).writes == 1
    verdict = await world.once()
    assert (verdict.result, verdict.cause) == (Result.WAITING, "ControllerRevision cr-1")
    world.service.answer = lambda request: respond()
    world.store.release()
    assert (await world.once()).result is Result.DONE


async def test_an_object_deleted_right_after_its_write_is_not_waited_for_for_ever() -> None:
    world = World(lambda request: respond(writes=[create("cr-1")] if len(world.service.requests) == 1 else []))
    world.store.put(isvc())
    await world.once()
    world.store.delete(("apps/v1", "ControllerRevision", "ome", "cr-1"))
    assert (await world.once()).result is Result.DONE


@pytest.mark.parametrize("code", ["UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL"])
async def test_a_service_that_is_away_leaves_everything_untouched(code: str) -> None:
    def away(request: object) -> Any:
        raise CallError("pinning", Failing.TRANSIENT, code, "gone", retry_after=3.0)

    world = World(away)
    world.store.put(isvc())
    version = world.store.version
    verdict = await world.once()
    assert (verdict.result, verdict.at_least) == (Result.RETRY, 3.0)
    assert (world.store.version, world.cluster.events) == (version, [])


async def test_refused_input_is_told_once_and_left_alone_until_it_changes() -> None:
    def refuse(request: object) -> Any:
        raise CallError("pinning", Failing.TERMINAL, "INVALID_ARGUMENT", "spec is odd")

    world = World(refuse)
    world.store.put(isvc())
    assert (await world.once()).result is Result.TERMINAL
    assert (await world.once(lane=Lane.RESYNC)).result is Result.UNCHANGED
    assert len(world.service.requests) == 1
    (told,) = world.cluster.events
    assert (told.type, told.reason) == ("Warning", "ReconcileError")
    assert "spec is odd" in told.message
    world.store.edit(A, lambda obj: obj["spec"].update(x=2))
    assert (await world.once(lane=Lane.RESYNC)).result is Result.TERMINAL
    assert (len(world.service.requests), len(world.cluster.events)) == (2, 1)
    assert world.cluster.writes == []


async def test_a_terminal_answer_is_not_asked_again_until_an_interest_changes() -> None:
    error = pb.OutcomeError(reason="RuntimePinError", message="bad isvc")
    world = World(lambda request: respond(disposition=pb.DISPOSITION_TERMINAL, error=error, interests=[RT]))
    world.store.put(isvc())
    await world.once()
    verdict = await world.once()
    assert verdict.result is Result.TERMINAL
    assert "bad isvc" in verdict.cause
    world.clock.advance(10)
    assert (await world.once(lane=Lane.RESYNC)).result is Result.UNCHANGED
    world.store.put(runtime())
    assert (await world.once(lane=Lane.RESYNC)).result is Result.TERMINAL


async def test_a_retry_is_written_and_then_tried_again() -> None:
    answer = respond(disposition=pb.DISPOSITION_RETRY, status=status(x=1), events=[event()])
    world = World(lambda request: answer)
    world.store.put(isvc())
    assert (await world.once()).result is Result.RETRY
    assert (world.cluster.writes, len(world.cluster.events)) == (["STATUS a"], 1)
    world.service.answer = lambda request: respond(disposition=pb.DISPOSITION_RETRY, requeue_after=Duration(seconds=9))
    assert (await world.once()).again_in == 9


async def test_a_stated_time_is_passed_on() -> None:
    world = World(lambda request: respond(requeue_after=Duration(seconds=30, nanos=500_000_000)))
    world.store.put(isvc())
    verdict = await world.once()
    assert (verdict.result, verdict.again_in) == (Result.REQUEUE, 30.5)


async def test_nobody_is_asked_while_the_last_answer_holds() -> None:
    world = World(lambda request: respond(interests=[RT], valid_until=far()))
    world.store.put(isvc())
    world.store.put(runtime(x=1))
    await world.once()
    await world.once()
    await world.once()  # the one whose input was complete and that wrote nothing
    asked = len(world.service.requests)
    assert (await world.once(lane=Lane.RESYNC)).result is Result.UNCHANGED
    world.store.put(runtime(x=1))  # a new resourceVersion alone
    assert (await world.once(lane=Lane.RESYNC)).result is Result.UNCHANGED
    assert len(world.service.requests) == asked
    world.store.put(runtime(x=2))
    assert (await world.once(lane=Lane.RESYNC)).result is Result.DONE
    await world.once(lane=Lane.CHANGE)  # a change always asks
    assert len(world.service.requests) == asked + 2


@pytest.mark.parametrize(("short", "seconds"), [(True, 50), (False, 3600)])
async def test_an_answer_holds_no_longer_than_it_says_and_than_the_setting(short: bool, seconds: int) -> None:
    def answer(request: pinning_pb2.ReconcileRequest) -> pinning_pb2.ReconcileResponse:
        until = Timestamp()
        until.FromSeconds(request.meta.now.seconds + 50)
        return respond(valid_until=until if short else far())

    world = World(answer)
    world.store.put(isvc())
    await world.once()
    await world.once()
    world.clock.advance(seconds - 1)
    assert (await world.once(lane=Lane.RESYNC)).result is Result.UNCHANGED
    world.clock.advance(1)
    assert (await world.once(lane=Lane.RESYNC)).result is Result.DONE


async def test_without_permission_every_resync_asks() -> None:
    world = World(lambda request: respond())
    world.store.put(isvc())
    for _ in range(3):
        assert (await world.once(lane=Lane.RESYNC)).result is Result.DONE
    assert len(world.service.requests) == 3


async def test_an_answer_that_rests_on_what_was_not_given_is_not_trusted() -> None:
    fresh = iter(range(100))
    world = World(
        lambda request: respond(valid_until=far(), interests=[named(CONTROLLER_REVISION, f"x{next(fresh)}", "ome")])
    )
    world.store.put(isvc())
    for _ in range(3):
        await world.once()
    assert (await world.once(lane=Lane.RESYNC)).result is Result.DONE


async def test_a_skipped_look_keeps_the_stated_time() -> None:
    world = World(lambda request: respond(valid_until=far(), requeue_after=Duration(seconds=100)))
    world.store.put(isvc())
    await world.once()
    await world.once()
    world.clock.advance(40)
    verdict = await world.once(lane=Lane.RESYNC)
    assert (verdict.result, verdict.again_in) == (Result.UNCHANGED, 60)
    world.clock.advance(60)
    assert (await world.once(lane=Lane.RESYNC)).result is Result.REQUEUE


async def test_one_that_is_gone_or_going_gets_no_decision_and_is_forgotten() -> None:
    world = World(lambda request: respond(interests=[RT]))
    world.store.put(isvc())
    await world.once()
    assert world.parts.index.woken_by(None, world.store.put(runtime()))
    world.store.edit(A, lambda obj: obj["metadata"].update(deletionTimestamp="2026-12-01T00:00:00Z"))
    assert (await world.once()).result is Result.GONE
    world.store.delete(A)
    assert (await world.once()).result is Result.GONE
    assert len(world.service.requests) == 1
    assert not world.reconciler._memories
    assert not world.parts.index._by_key


async def test_another_object_of_the_same_name_inherits_nothing() -> None:
    world = World(lambda request: respond(writes=[create("x")], interests=[RT]))
    world.store.put(isvc())

    def refuse(what: str) -> None:
        raise Forbidden(403, "Forbidden", "no right")

    world.cluster.before = refuse
    await world.once()
    world.store.delete(A)
    world.store.put(isvc())
    await world.once()
    assert not world.service.requests[-1].observation.failures
    assert not world.service.requests[-1].observation.objects


async def test_a_leader_no_more_ends_quietly() -> None:
    world = World(lambda request: respond(writes=[create("x")], status=status(x=1)))
    world.store.put(isvc())

    def fence(what: str) -> None:
        raise NotLeader

    world.cluster.before = fence
    assert (await world.once()).result is Result.NOT_LEADER
    world.service.answer = lambda request: respond(events=[event()])
    assert (await world.once()).result is Result.NOT_LEADER


async def test_a_fault_of_our_own_or_of_an_answer_is_a_retry() -> None:
    world = World(lambda request: respond(status=pb.StatusPatch(merge_patch=b"nonsense")))
    world.store.put(isvc())
    assert (await world.once()).result is Result.RETRY

    def broken(request: object) -> Any:
        raise ZeroDivisionError

    world.service.answer = broken
    assert (await world.once()).result is Result.RETRY
    assert world.cluster.writes == []


async def test_status_conflict_raises_nothing_but_a_new_look() -> None:
    world = World(lambda request: respond(status=status(x=1)))
    world.store.put(isvc())

    def lost(what: str) -> None:
        raise Conflict(409, "Conflict", "modified")

    world.cluster.before = lost
    assert (await world.once()).result is Result.RETRY


class TestEvents:
    async def told(self, world: World, *events: pb.Event, seconds: float = 0.0) -> int:
        world.service.answer = lambda request: respond(events=events)
        before = len(world.cluster.events)
        world.clock.advance(seconds)
        await world.once()
        return len(world.cluster.events) - before

    async def test_on_change_is_told_again_only_with_another_text(self) -> None:
        world = World()
        world.store.put(isvc())
        first, second = (event("Err", text, pb.EVENT_REPEAT_ON_CHANGE) for text in ("one", "two"))
        assert [await self.told(world, e, seconds=10) for e in (first, first, second, second, first)] == [1, 0, 1, 0, 1]

    async def test_a_pass_without_it_forgets(self) -> None:
        world = World()
        world.store.put(isvc())
        only = event("Err", "one", pb.EVENT_REPEAT_ON_CHANGE)
        assert await self.told(world, only) == 1
        assert await self.told(world) == 0
        assert await self.told(world, only) == 1

    async def test_a_lost_one_is_told_again(self) -> None:
        world = World()
        world.store.put(isvc())

        def away(what: str) -> None:
            raise Unreachable("gone")

        world.cluster.before = away
        only = event("Err", "one", pb.EVENT_REPEAT_ON_CHANGE)
        assert await self.told(world, only) == 0
        world.cluster.before = lambda what: None
        assert await self.told(world, only) == 1

    async def test_a_lost_event_changes_nothing_about_the_pass(self) -> None:
        world = World(lambda request: respond(events=[event()], writes=[create("x", pb.STAGE_FOLLOW_UP)]))
        world.store.put(isvc())

        def away(what: str) -> None:
            if what.startswith("EVENT"):
                raise Unreachable("gone")

        world.cluster.before = away
        assert (await world.once()).result is Result.DONE
        assert "CREATE x" in world.cluster.writes

    async def test_a_counted_one_rises_at_most_once_per_back_off(self) -> None:
        world = World()
        world.store.put(isvc())
        assert [await self.told(world, event(), seconds=s) for s in (0, 0, 0.9, 0.1, 5)] == [1, 0, 0, 1, 1]

    async def test_once_is_once(self) -> None:
        world = World()
        world.store.put(isvc())
        once = event("Once", repeat=pb.EVENT_REPEAT_ONCE)
        assert [await self.told(world, once, seconds=100) for _ in range(3)] == [1, 0, 0]


class TestStages:
    """The services after the first."""

    def later(self, answer: Any) -> tuple[World, FakeService, list[Facts]]:
        facts: list[Facts] = []
        traffic = FakeService(answer)

        def learn(known: Facts, response: Any) -> None:
            known.routed = pb.RoutedWeights(known=True) if response is None else response.routed

        def watch(known: Facts, meta: pb.RequestMeta, observation: pb.Observation) -> canary_pb2.ReconcileRequest:
            facts.append(known)
            return canary_pb2.ReconcileRequest()

        canary = FakeService(lambda request: canary_pb2.ReconcileResponse(outcome=pb.Outcome(status=status(canary=1))))
        world = World(
            lambda request: respond(status=status(pinned="x")),
            Stage("traffic", traffic, lambda *_: traffic_pb2.ReconcileRequest(), learn),
            Stage("canary", canary, watch, lambda *_: None),
        )
        world.store.put(isvc())
        return world, traffic, facts

    async def test_all_answers_are_one_status_write(self) -> None:
        world, _, facts = self.later(
            lambda request: traffic_pb2.ReconcileResponse(
                outcome=pb.Outcome(status=status(url="u")), routed=pb.RoutedWeights(known=True)
            )
        )
        assert (await world.once()).result is Result.DONE
        assert world.cluster.writes == ["STATUS a"]
        expected = {"pinned": "x", "url": "u", "canary": 1, "observedGeneration": 1}
        assert world.store.objects[A]["status"] == expected
        assert facts[0].routed.known

    async def test_unimplemented_is_an_empty_answer_with_known_weights(self) -> None:
        def refuse(request: object) -> Any:
            raise CallError("traffic", Failing.UNIMPLEMENTED, "UNIMPLEMENTED", "not yet")

        world, traffic, facts = self.later(refuse)
        assert (await world.once()).result is Result.DONE
        assert facts[0].routed == pb.RoutedWeights(known=True)
        assert world.store.objects[A]["status"]["observedGeneration"] == 1
        for _ in range(5):
            await world.once()
        assert len(traffic.requests) == 1  # left alone for a while
        assert all(known.routed.known for known in facts)
        world.clock.advance(60)
        await world.once()
        assert len(traffic.requests) == 2

    async def test_a_service_that_begins_to_decide_is_noticed_though_answers_hold(self) -> None:
        def refuse(request: object) -> Any:
            raise CallError("traffic", Failing.UNIMPLEMENTED, "UNIMPLEMENTED", "not yet")

        traffic = FakeService(refuse)
        stage = Stage("traffic", traffic, lambda *_: traffic_pb2.ReconcileRequest(), lambda *_: None)
        world = World(lambda request: respond(valid_until=far()), stage)
        for name in ("a", "b"):
            world.store.put(isvc(name))
            await world.once(name)
            await world.once(name)
            assert (await world.once(name, Lane.RESYNC)).result is Result.UNCHANGED
        world.clock.advance(60)
        traffic.answer = lambda request: traffic_pb2.ReconcileResponse(outcome=pb.Outcome(valid_until=far()))
        for name in ("a", "b"):
            assert (await world.once(name, Lane.RESYNC)).result is Result.DONE
            assert (await world.once(name, Lane.RESYNC)).result is Result.UNCHANGED

    async def test_one_that_fails_keeps_the_others_answers_and_makes_a_retry(self) -> None:
        def away(request: object) -> Any:
            raise CallError("traffic", Failing.TRANSIENT, "UNAVAILABLE", "gone")

        world, _, facts = self.later(away)
        assert (await world.once()).result is Result.RETRY
        assert world.store.objects[A]["status"] == {"pinned": "x", "canary": 1}
        assert not facts[0].routed.known

    async def test_unimplemented_from_the_first_is_no_answer(self) -> None:
        def refuse(request: object) -> Any:
            raise CallError("pinning", Failing.UNIMPLEMENTED, "UNIMPLEMENTED", "wrong target?")

        world = World(refuse)
        world.store.put(isvc())
        assert (await world.once()).result is Result.RETRY


async def test_an_interest_that_changes_during_the_call_is_not_missed() -> None:
    """The interests of an answer are indexed before they are looked up."""
    world = World()
    woken: list[bool] = []

    async def answer(request: pinning_pb2.ReconcileRequest) -> pinning_pb2.ReconcileResponse:
        if not request.observation.objects:
            return respond(flow=pb.FLOW_ASK_AGAIN, interests=[RT])
        await asyncio.sleep(0)
        woken.append(bool(world.parts.index.woken_by(None, world.store.put(runtime()))))
        return respond(interests=[RT])

    world.service.answer = answer
    world.store.put(isvc())
    await world.once()
    assert woken == [True]
