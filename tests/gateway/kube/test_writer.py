"""The writer against the sandbox's API server: verbs, preconditions, the fence, events, what is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from gateway.kube import events
from gateway.kube.client import KubeClient
from gateway.kube.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    NotLeader,
    Unreachable,
)
from gateway.kube.kinds import CONTROLLER_REVISION, DEPLOYMENT, EVENT, ISVC
from gateway.kube.objects import CachedObject
from gateway.kube.transport import Answer, Call
from gateway.kube.writer import Writer
from ome.common.v1 import common_pb2 as pb
from services.kit import tracing
from services.kit.metrics import REGISTRY
from tests.gateway.kube.world import ISVCS, START, Cluster, isvc, status

REVISIONS = "/apis/apps/v1/namespaces/ome/controllerrevisions"
DEPLOYMENTS = "/apis/apps/v1/namespaces/team/deployments"


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def writer(cluster: Cluster) -> Writer:
    return Writer(cluster.client, lambda: True)


def ref(of: dict[str, Any], **changes: str) -> pb.ObjectRef:
    meta = of["metadata"]
    fields = {
        "api_version": of["apiVersion"],
        "kind": of["kind"],
        "namespace": meta.get("namespace", ""),
        "name": meta["name"],
        "uid": meta["uid"],
        "resource_version": meta["resourceVersion"],
    }
    return pb.ObjectRef(**(fields | changes))


def revision(name: str = "cr-rt-00000001", **extra: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ome", "annotations": {"a": "1"}}
    return {
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata, "revision": 1, "data": {"x": 1.0},
    } | extra  # fmt: skip


def write(verb: pb.Verb, body: Any = None, name: str = "cr-rt-00000001", **fields: Any) -> pb.Write:
    target = pb.ObjectRef(api_version="apps/v1", kind="ControllerRevision", namespace="ome", name=name)
    made = pb.Write(verb=verb, target=target, reason="Test", **fields)
    if body is not None:
        made.json = body if isinstance(body, bytes) else orjson.dumps(body)
    return made


def on(obj: CachedObject) -> pb.Precondition:
    return pb.Precondition(uid=obj.uid, resource_version=obj.resource_version)


async def created(writer: Writer) -> CachedObject:
    done = await writer.apply(write(pb.VERB_CREATE, revision(), field_validation=pb.FIELD_VALIDATION_STRICT))
    assert done.obj is not None and done.rv == done.obj.resource_version
    return done.obj


def counted(verb: str, result: str) -> float:
    return REGISTRY.get_sample_value("ome_kube_writes_total", {"verb": verb, "result": result}) or 0.0


async def test_create_sends_the_services_own_bytes(cluster: Cluster, writer: Writer) -> None:
    before = counted("create", "ok")
    body = orjson.dumps(revision()).replace(b'"x":1.0', b'"x": 1.0')
    await writer.apply(write(pb.VERB_CREATE, body, field_validation=pb.FIELD_VALIDATION_STRICT))
    call = cluster.writes[-1]
    assert call.body == body and call.path == REVISIONS
    assert call.query == {"fieldManager": "ome-rollouts", "fieldValidation": "Strict"}
    assert counted("create", "ok") == before + 1
    with pytest.raises(AlreadyExists):
        await writer.apply(write(pb.VERB_CREATE, body))


async def test_strict_field_validation_refuses_what_warn_drops(cluster: Cluster, writer: Writer) -> None:
    body = revision(wrong=1)
    with pytest.raises(BadRequest, match="wrong"):
        await writer.apply(write(pb.VERB_CREATE, body, field_validation=pb.FIELD_VALIDATION_STRICT))
    done = await writer.apply(write(pb.VERB_CREATE, body, field_validation=pb.FIELD_VALIDATION_WARN))
    assert done.obj is not None and "wrong" not in done.obj.json()


PATCHES: dict[str, Callable[[CachedObject, pb.Precondition], pb.Write]] = {
    "merge": lambda obj, pre: write(
        pb.VERB_MERGE_PATCH, {"metadata": {"annotations": {"a": "2"}}}, precondition=pre
    ),
    "json": lambda obj, pre: write(
        pb.VERB_JSON_PATCH, [{"op": "replace", "path": "/metadata/annotations/a", "value": "2"}], precondition=pre
    ),
    "update": lambda obj, pre: write(
        pb.VERB_UPDATE, {key: value for key, value in revision().items() if key != "metadata"}
        | {"metadata": {"name": obj.name, "namespace": "ome", "annotations": {"a": "2"}}}, precondition=pre,
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", PATCHES)
async def test_a_change_on_what_it_was_decided_on(cluster: Cluster, writer: Writer, how: str) -> None:
    obj = await created(writer)
    done = await writer.apply(PATCHES[how](obj, on(obj)))
    stored = cluster.do("GET", f"{REVISIONS}/{obj.name}")
    assert stored["metadata"]["annotations"] == {"a": "2"} and stored["data"] == {"x": 1.0}
    assert done.rv == stored["metadata"]["resourceVersion"] != obj.resource_version


@pytest.mark.parametrize("how", [*PATCHES, "delete"])
async def test_a_conflict_changes_nothing(cluster: Cluster, writer: Writer, how: str) -> None:
    """Without the precondition in the request the write would go through."""
    obj = await created(writer)
    moved = cluster.do(
        "PATCH", f"{REVISIONS}/{obj.name}", {"metadata": {"labels": {"by": "else"}}},
        content_type="application/merge-patch+json",
    )  # fmt: skip
    make = PATCHES.get(how, lambda obj, pre: write(pb.VERB_DELETE, precondition=pre))
    conflicts = REGISTRY.get_sample_value("ome_kube_conflicts_total", {"kind": "ControllerRevision"}) or 0.0
    with pytest.raises(Conflict):
        await writer.apply(make(obj, on(obj)))
    assert cluster.do("GET", f"{REVISIONS}/{obj.name}") == moved
    assert REGISTRY.get_sample_value("ome_kube_conflicts_total", {"kind": "ControllerRevision"}) == conflicts + 1
    await writer.apply(make(obj, on(obj)), rv_override=moved["metadata"]["resourceVersion"])


@pytest.mark.parametrize("how", [*PATCHES, "delete"])
async def test_a_namesake_is_not_touched(cluster: Cluster, writer: Writer, how: str) -> None:
    """The uid alone tells an object from one made later under its name."""
    obj = await created(writer)
    cluster.do("DELETE", f"{REVISIONS}/{obj.name}")
    namesake = await created(writer)
    make = PATCHES.get(how, lambda obj, pre: write(pb.VERB_DELETE, precondition=pre))
    with pytest.raises(Conflict):
        await writer.apply(make(obj, pb.Precondition(uid=obj.uid)))
    assert (await cluster.client.get(CONTROLLER_REVISION, "ome", obj.name)).sha256 == namesake.sha256


async def test_delete(cluster: Cluster, writer: Writer) -> None:
    obj = await created(writer)
    done = await writer.apply(write(pb.VERB_DELETE, precondition=on(obj)))
    assert (done.rv, done.obj) == ("", None)
    with pytest.raises(NotFound):
        await writer.apply(write(pb.VERB_DELETE, precondition=on(obj)))


async def test_scale(cluster: Cluster, writer: Writer) -> None:
    labels = {"matchLabels": {"app": "a"}}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 1, "selector": labels, "template": template}
    made = cluster.do(
        "POST", DEPLOYMENTS, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    )
    target = pb.ObjectRef(api_version="apps/v1", kind="Deployment", namespace="team", name="d")
    pre = pb.Precondition(uid=made["metadata"]["uid"], resource_version=made["metadata"]["resourceVersion"])
    scale = pb.Write(verb=pb.VERB_SCALE, target=target, precondition=pre, replicas=0)
    done = await writer.apply(scale)
    stored = await cluster.client.get(DEPLOYMENT, "team", "d")
    assert stored.json()["spec"]["replicas"] == 0 and done.rv == stored.resource_version
    with pytest.raises(Conflict):
        await writer.apply(pb.Write(verb=pb.VERB_SCALE, target=target, precondition=pre, replicas=3))
    with pytest.raises(BadRequest, match="replicas must be 0 or more"):
        await writer.apply(pb.Write(verb=pb.VERB_SCALE, target=target, replicas=-1))


REFUSED = {
    "kind off the list": pb.Write(
        verb=pb.VERB_DELETE, target=pb.ObjectRef(api_version="v1", kind="Node", name="n")
    ),
    "no name": write(pb.VERB_DELETE, name=""),
    "no verb": write(pb.VERB_UNSPECIFIED, {}),
    "an unknown verb": write(99, {}),  # type: ignore[arg-type]
    "a body that is no JSON": write(pb.VERB_CREATE, b"{"),
    "a body that is no object": write(pb.VERB_CREATE, []),
    "a patch that is no object": write(pb.VERB_MERGE_PATCH, [], precondition=pb.Precondition(uid="u")),
    "a JSON patch that is no list": write(pb.VERB_JSON_PATCH, {}),
    "a body for another name": write(pb.VERB_CREATE, revision("other")),
    "a body of another kind": write(pb.VERB_CREATE, revision(kind="Deployment")),
    "a scale without replicas": write(pb.VERB_SCALE),
    "a name of dots": write(pb.VERB_DELETE, name=".."),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
async def test_a_write_that_makes_no_sense_is_not_sent(cluster: Cluster, writer: Writer, what: str) -> None:
    before = len(cluster.log)
    with pytest.raises(BadRequest):
        await writer.apply(REFUSED[what])
    assert len(cluster.log) == before


async def test_a_name_cannot_leave_its_path(cluster: Cluster, writer: Writer) -> None:
    before = len(cluster.log)
    for name in ("../../namespaces/team", "a/status", "..", "a%2Fstatus"):
        with pytest.raises(BadRequest):
            await writer.apply(write(pb.VERB_DELETE, name=name))
        with pytest.raises(BadRequest):
            await cluster.client.get(CONTROLLER_REVISION, "ome", name)
    assert len(cluster.log) == before
    with pytest.raises(NotFound):
        await writer.apply(write(pb.VERB_DELETE, name="a?x=1"))
    assert cluster.writes[-1].path == f"{REVISIONS}/a%3Fx%3D1"


async def test_status(cluster: Cluster, writer: Writer) -> None:
    made = cluster.do("POST", ISVCS, isvc("a"))
    done = await writer.patch_status(ref(made), b'{"pinnedRevisionName":"cr-1"}')
    stored = cluster.do("GET", f"{ISVCS}/a")
    assert stored["status"] == {"pinnedRevisionName": "cr-1"} and stored["spec"] == made["spec"]
    assert done.rv == stored["metadata"]["resourceVersion"]
    assert cluster.writes[-1].path == f"{ISVCS}/a/status"
    with pytest.raises(Conflict):
        await writer.patch_status(ref(made), b'{"pinnedRevisionName":"cr-2"}')
    done = await writer.patch_status(ref(stored), b'{"pinnedRevisionName":null}')
    assert done.obj is not None and done.obj.json().get("status", {}) == {}
    with pytest.raises(BadRequest):
        await writer.patch_status(ref(stored, resource_version=""), b"{}")


async def test_a_status_of_a_namesake_is_a_conflict(cluster: Cluster, writer: Writer) -> None:
    made = cluster.do("POST", ISVCS, isvc("a"))
    cluster.do("DELETE", f"{ISVCS}/a")
    cluster.do("POST", ISVCS, isvc("a"))
    with pytest.raises(Conflict):
        await writer.patch_status(ref(made), b'{"pinnedRevisionName":"cr-1"}')


def happening(repeat: pb.EventRepeat = pb.EVENT_REPEAT_ONCE, message: str = "pinned to cr-1") -> pb.Event:
    return pb.Event(type="Normal", reason="RuntimePinned", message=message, key="pin/cr-1", repeat=repeat)


async def event_of(cluster: Cluster) -> dict[str, Any]:
    [item] = cluster.do("GET", "/api/v1/namespaces/team/events")["items"]
    return item  # type: ignore[no-any-return]


async def test_an_event_once(cluster: Cluster, writer: Writer) -> None:
    about = ref(cluster.do("POST", ISVCS, isvc("a")))
    assert await writer.event(happening(), about, START) is not None
    assert await writer.event(happening(), about, START) is None
    item = await event_of(cluster)
    assert item["metadata"]["name"] == events.name(about, "pin/cr-1") and item["count"] == 1
    assert item["involvedObject"]["uid"] == about.uid and item["involvedObject"]["kind"] == "InferenceService"
    assert (item["type"], item["reason"], item["message"]) == ("Normal", "RuntimePinned", "pinned to cr-1")
    assert item["firstTimestamp"] == item["lastTimestamp"] == "2026-12-01T00:00:00Z"
    assert item["source"] == {"component": "ome-gateway"}


@pytest.mark.parametrize("repeat", [pb.EVENT_REPEAT_COUNT, pb.EVENT_REPEAT_ON_CHANGE])
async def test_a_repeat_is_one_object_whose_count_rises(
    cluster: Cluster, writer: Writer, repeat: pb.EventRepeat
) -> None:
    about = ref(cluster.do("POST", ISVCS, isvc("a")))
    for number in range(3):
        await writer.event(happening(repeat, f"text {number}"), about, START.replace(minute=number))
    item = await event_of(cluster)
    assert (item["count"], item["message"]) == (3, "text 2")
    assert (item["firstTimestamp"], item["lastTimestamp"]) == ("2026-12-01T00:00:00Z", "2026-12-01T00:02:00Z")


async def test_two_writers_of_one_event_lose_no_count(cluster: Cluster, writer: Writer) -> None:
    about = ref(cluster.do("POST", ISVCS, isvc("a")))
    await writer.event(happening(), about, START)
    path = f"/api/v1/namespaces/team/events/{events.name(about, 'pin/cr-1')}"
    rivals = [5]

    def rival(call: Call) -> Answer | None:
        if call.method == "PATCH" and rivals:
            cluster.do("PATCH", path, {"count": rivals.pop()}, content_type="application/merge-patch+json")
        return None

    cluster.fault = rival
    await writer.event(happening(pb.EVENT_REPEAT_COUNT), about, START)
    assert (await event_of(cluster))["count"] == 6
    rivals[:] = [7, 9]
    with pytest.raises(Conflict):
        await writer.event(happening(pb.EVENT_REPEAT_COUNT), about, START)


async def test_an_event_that_expired_between_is_made_anew(cluster: Cluster, writer: Writer) -> None:
    about = ref(cluster.do("POST", ISVCS, isvc("a")))
    await writer.event(happening(), about, START)
    path = f"/api/v1/namespaces/team/events/{events.name(about, 'pin/cr-1')}"

    def expire(call: Call) -> Answer | None:
        if call.method == "GET":
            cluster.fault = lambda call: None
            cluster.do("DELETE", path)
        return None

    cluster.fault = expire
    await writer.event(happening(pb.EVENT_REPEAT_COUNT), about, START)
    assert (await event_of(cluster))["count"] == 1


async def test_an_event_carries_the_trace(cluster: Cluster, writer: Writer) -> None:
    about = ref(cluster.do("POST", ISVCS, isvc("a")))
    with tracing.tracer().start_as_current_span("pass"):
        trace = tracing.trace_id()
        await writer.event(happening(), about, START)
    assert (await event_of(cluster))["metadata"]["annotations"] == {"ome.io/trace-id": trace} and len(trace) == 32


async def test_an_event_about_a_cluster_scoped_object(cluster: Cluster, writer: Writer) -> None:
    about = pb.ObjectRef(api_version="ome.io/v1beta1", kind="ClusterServingRuntime", name="rt", uid="u")
    event = happening()
    event.regarding.CopyFrom(about)
    await writer.event(event, pb.ObjectRef(kind="InferenceService", name="a", namespace="team"), START)
    [item] = cluster.do("GET", "/api/v1/namespaces/default/events")["items"]
    assert item["involvedObject"]["name"] == "rt"


def test_event_names_are_bounded_and_distinct() -> None:
    long = pb.ObjectRef(name="a" * 235 + "." + "b" * 17, uid="u")
    assert len(events.name(long, "k")) <= 253 and ".." not in events.name(long, "k")
    about = pb.ObjectRef(name="a", uid="u")
    assert (
        len({events.name(about, "k"), events.name(about, "l"), events.name(pb.ObjectRef(name="a", uid="v"), "k")}) == 3
    )


def test_a_long_text_is_cut_at_a_character() -> None:
    body = events.body(pb.Event(message="ä" * 1000, reason="R"), pb.ObjectRef(name="a", namespace="n"), START)
    assert len(body["message"].encode()) <= 1024 and body["message"].endswith("ä...")


async def test_the_fence_stops_every_write(cluster: Cluster) -> None:
    made = cluster.do("POST", ISVCS, isvc("a"))
    writer = Writer(cluster.client, lambda: False)
    before, counts = len(cluster.log), counted("create", "not_leader")
    for verb, body in ((pb.VERB_CREATE, revision()), (pb.VERB_MERGE_PATCH, {}), (pb.VERB_DELETE, None)):
        with pytest.raises(NotLeader):
            await writer.apply(write(verb, body))
    with pytest.raises(NotLeader):
        await writer.patch_status(ref(made), b"{}")
    with pytest.raises(NotLeader):
        await writer.event(happening(), ref(made), START)
    assert len(cluster.log) == before and counted("create", "not_leader") == counts + 1


async def test_the_fence_is_asked_again_right_before_sending(cluster: Cluster) -> None:
    """Getting credentials or a connection may take long enough to lose the lease."""
    answers = iter([True, False])
    with pytest.raises(NotLeader):
        await Writer(cluster.client, lambda: next(answers)).apply(write(pb.VERB_CREATE, revision()))
    assert cluster.do("GET", REVISIONS)["items"] == []


async def test_the_fence_is_asked_before_each_part_of_a_repeated_event(cluster: Cluster) -> None:
    about = ref(cluster.do("POST", ISVCS, isvc("a")))
    await Writer(cluster.client, lambda: True).event(happening(), about, START)
    lease = [True]

    def lose(call: Call) -> Answer | None:
        lease[0] = call.method != "GET"
        return None

    cluster.fault = lose
    with pytest.raises(NotLeader):
        await Writer(cluster.client, lambda: lease[0]).event(happening(pb.EVENT_REPEAT_COUNT), about, START)
    assert (await event_of(cluster))["count"] == 1


@pytest.mark.parametrize(
    ("answer", "error", "result"),
    [
        (status(403, "Forbidden", "no"), Forbidden, "forbidden"),
        (status(422, "Invalid", "no"), Invalid, "invalid"),
        (status(500, "InternalError", "no"), KubeError, "error"),
        (Unreachable("reset"), Unreachable, "unreachable"),
    ],
)
async def test_refusals_come_through_and_are_counted(
    cluster: Cluster, writer: Writer, answer: Answer | Exception, error: type[Exception], result: str
) -> None:
    def refuse(call: Call) -> Answer | None:
        if isinstance(answer, Exception):
            raise answer
        return answer

    cluster.fault = refuse
    before = counted("create", result)
    with pytest.raises(error):
        await writer.apply(write(pb.VERB_CREATE, revision()))
    assert counted("create", result) == before + 1


async def test_reading_one_object(cluster: Cluster) -> None:
    client: KubeClient = cluster.client
    cluster.do("POST", ISVCS, isvc("a"))
    assert (await client.get(ISVC, "team", "a")).name == "a"
    with pytest.raises(NotFound):
        await client.get(ISVC, "team", "b")
    with pytest.raises(NotFound):
        await client.get(EVENT, "nowhere", "b")
