"""DiffRevisions and PlanAction through the servicer (pinning specification 8)."""

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2

from ome.common.v1 import common_pb2
from ome.pinning.v1 import pinning_pb2
from services.kit import canonical
from services.kit.errors import RpcError
from services.pinning.service import PinningServicer


def live(document: object) -> pinning_pb2.RevisionSide:
    return pinning_pb2.RevisionSide(live_spec=json.dumps(document).encode())


def snapshot(spec: dict[str, Any], **annotations: str) -> dict[str, Any]:
    digest = canonical.digest(canonical.canonical(spec))
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"cr-echo-{digest[:8]}",
            "namespace": "ome",
            "uid": "r1",
            "labels": {
                "ome.io/runtime-of": "echo",
                "ome.io/runtime-of-kind": "ClusterServingRuntime",
                "ome.io/runtime-of-namespace": "",
                "ome.io/revision-hash": digest[:8],
            },
            "annotations": {
                "ome.io/created-by": "ome-controller",
                "ome.io/revision-digest": f"c14n-v1:sha256:{digest}",
                **annotations,
            },
        },
        "data": spec,
        "revision": 1,
    }


def stored(document: dict[str, Any]) -> pinning_pb2.RevisionSide:
    return pinning_pb2.RevisionSide(snapshot=common_pb2.Manifest(json=json.dumps(document).encode()))


async def diff(left: pinning_pb2.RevisionSide, right: pinning_pb2.RevisionSide) -> pinning_pb2.DiffRevisionsResponse:
    return await PinningServicer().DiffRevisions(pinning_pb2.DiffRevisionsRequest(left=left, right=right), None)


def rows(answer: pinning_pb2.DiffRevisionsResponse) -> list[tuple[str, str, bytes, bytes]]:
    names = {1: "ADDED", 2: "REMOVED", 3: "CHANGED"}
    return [(names[item.type], item.pointer, item.left_json, item.right_json) for item in answer.changes]


DIFFS = [
    ({"a": 1}, {"a": 1.0, "b": None}, [], "one value, and null is absent"),
    ({"a": 1}, {"a": True}, [("CHANGED", "/a", b"1", b"true")], "a boolean is no number"),
    ({"a": {"b": 1}}, {"a": {"b": 2}}, [("CHANGED", "/a/b", b"1", b"2")], "nested"),
    ({}, {"a/b": {"~": 1}}, [("ADDED", "/a~1b", b"", b'{"~":1}')], "escaped"),
    ({"a": [1, 2, 3]}, {"a": [1, 9]}, [("CHANGED", "/a/1", b"2", b"9"), ("REMOVED", "/a/2", b"3", b"")], "by index"),
    ({"a": []}, {"a": {}}, [("CHANGED", "/a", b"[]", b"{}")], "another type"),
    ({"b": 1, "a": 1}, {}, [("REMOVED", "/a", b"1", b""), ("REMOVED", "/b", b"1", b"")], "sorted"),
    ({}, {"a": {"b": None, "c": 1e21, "d": 1.0}}, [("ADDED", "/a", b"", b'{"c":1e+21,"d":1}')], "values are canonical"),
    ({"a": [{"b": None}]}, {"a": [{}]}, [], "null is absent in arrays too"),
    ({"a": [None]}, {"a": [0]}, [("CHANGED", "/a/0", b"null", b"0")], "null elements count"),
]


@pytest.mark.parametrize(("left", "right", "expected", "reason"), DIFFS, ids=[row[3] for row in DIFFS])
async def test_changes(left: object, right: object, expected: list[Any], reason: str) -> None:
    assert rows(await diff(live(left), live(right))) == expected, reason


async def test_snapshot_against_live_with_both_digests() -> None:
    answer = await diff(stored(snapshot({"a": 1})), live({"a": 2}))
    assert rows(answer) == [("CHANGED", "/a", b"1", b"2")]
    assert answer.left_digest == canonical.digest(b'{"a":1}') and answer.right_digest == canonical.digest(b'{"a":2}')


@pytest.mark.parametrize(("count", "truncated"), [(10_000, False), (10_001, True)])
async def test_at_most_ten_thousand(count: int, truncated: bool) -> None:
    answer = await diff(live({}), live({f"k{index}": 1 for index in range(count)}))
    assert (len(answer.changes), answer.truncated) == (10_000, truncated)


async def test_an_unusable_snapshot_is_a_failed_precondition() -> None:
    bad = snapshot({"a": 1}, **{"ome.io/created-by": "someone"})
    with pytest.raises(RpcError) as caught:
        await diff(stored(bad), live({}))
    failure = next(item for item in caught.value.details if isinstance(item, error_details_pb2.PreconditionFailure))
    violation = failure.violations[0]
    assert (violation.type, violation.subject) == ("RevisionInvalid", bad["metadata"]["name"])
    assert violation.description == "not created by this controller"


async def test_a_missing_side_is_named() -> None:
    with pytest.raises(RpcError) as caught:
        await diff(live({}), pinning_pb2.RevisionSide())
    assert caught.value.reason == "MISSING_FIELD" and "right" in str(caught.value)


async def test_a_document_that_grows_in_canonical_form_is_compared() -> None:
    small = b'{"a":[' + b",".join([b"1e-6"] * 200_000) + b"]}"
    request = pinning_pb2.DiffRevisionsRequest(left=pinning_pb2.RevisionSide(live_spec=small), right=live({}))
    answer = await PinningServicer().DiffRevisions(request, None)
    assert [(item.type, item.pointer) for item in answer.changes] == [(pinning_pb2.CHANGE_TYPE_REMOVED, "/a")]
    assert len(answer.changes[0].left_json) > canonical.MAX_BYTES


async def test_a_snapshot_under_another_name_is_refused() -> None:
    side = stored(snapshot({"a": 1}))
    side.snapshot.ref.name = "cr-other-0123abcd"
    with pytest.raises(RpcError) as caught:
        await diff(side, live({}))
    assert caught.value.reason == "IDENTITY_MISMATCH" and "left.snapshot.ref.name" in str(caught.value)


def ask(action: pinning_pb2.Action, runtime: dict[str, Any], **given: Any) -> pinning_pb2.PlanActionRequest:
    document = {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {
            "name": "chat",
            "namespace": "team",
            "uid": "u1",
            "resourceVersion": "7",
            "annotations": given.get("annotations", {}),
        },
        "spec": {"runtime": runtime},
        "status": given.get("status", {}),
    }
    request = pinning_pb2.PlanActionRequest(action=action, revision=given.get("revision", ""))
    request.meta.now.seconds = 1
    request.context.request_id = given.get("request_id", "req-1")
    request.expected_pinned_revision = given.get("expected", "")
    request.observation.ome_namespace = "ome"
    request.observation.isvc.json = json.dumps(document).encode()
    request.observation.isvc.ref.CopyFrom(
        common_pb2.ObjectRef(
            api_version="ome.io/v1beta1", kind="InferenceService", namespace="team", name="chat", uid="u1"
        )
    )
    for item in given.get("objects", []):
        observed = request.observation.objects.add(presence=common_pb2.PRESENCE_FOUND)
        observed.interest.CopyFrom(
            common_pb2.Interest(
                api_version="apps/v1", kind="ControllerRevision", namespace="ome", name=item["metadata"]["name"]
            )
        )
        observed.objects.add(json=json.dumps(item).encode())
    return request


async def plan(request: pinning_pb2.PlanActionRequest) -> common_pb2.ActionAnswer:
    return (await PinningServicer().PlanAction(request, None)).answer


PINNED = {"name": "echo", "autoSync": False}


async def test_a_sync_writes_its_request_id_as_token() -> None:
    answer = await plan(ask(pinning_pb2.ACTION_SYNC, PINNED))
    assert json.loads(answer.patch.json) == {"metadata": {"annotations": {"ome.io/runtime-sync": "req-1"}}}
    assert (answer.patch.precondition.uid, answer.patch.precondition.resource_version) == ("u1", "7")
    again = await plan(ask(pinning_pb2.ACTION_SYNC, PINNED, status={"lastRuntimeSyncToken": "req-1"}))
    assert again.already_applied and not again.HasField("patch")


async def test_a_pin_names_a_usable_snapshot() -> None:
    item = snapshot({"a": 1})
    name = item["metadata"]["name"]
    answer = await plan(ask(pinning_pb2.ACTION_PIN, {"name": "echo"}, revision=name, objects=[item]))
    assert json.loads(answer.patch.json) == {"spec": {"runtime": {"autoSync": False, "revision": name}}}
    done = ask(pinning_pb2.ACTION_PIN, {**PINNED, "revision": name}, revision=name, objects=[item])
    assert (await plan(done)).already_applied


async def test_an_unpin_follows_the_live_runtime() -> None:
    answer = await plan(ask(pinning_pb2.ACTION_UNPIN, {**PINNED, "revision": "cr-echo-0123abcd"}))
    assert json.loads(answer.patch.json) == {"spec": {"runtime": {"autoSync": True, "revision": None}}}
    assert (await plan(ask(pinning_pb2.ACTION_UNPIN, {"name": "echo"}))).already_applied


FOREIGN = snapshot({"a": 1}, **{"ome.io/created-by": "someone"})
REFUSED = [
    (ask(pinning_pb2.ACTION_SYNC, {"name": "echo"}), "NotPinned", "nothing is pinned"),
    (ask(pinning_pb2.ACTION_SYNC, {**PINNED, "revision": "cr-echo-0123abcd"}), "ExplicitRevision", "overridden"),
    (ask(pinning_pb2.ACTION_SYNC, PINNED, request_id=""), "MISSING_FIELD", "no request id"),
    (ask(pinning_pb2.ACTION_PIN, PINNED), "MISSING_FIELD", "no revision"),
    (ask(pinning_pb2.ACTION_PIN, PINNED, revision="cr-echo-0123abcd"), "MISSING_FIELD", "not observed"),
    (ask(pinning_pb2.ACTION_PIN, {}, revision="cr-echo-0123abcd"), "RuntimeNotNamed", "no runtime is named"),
    (
        ask(pinning_pb2.ACTION_PIN, PINNED, revision=FOREIGN["metadata"]["name"], objects=[FOREIGN]),
        "RevisionInvalid",
        "unusable",
    ),
    (ask(pinning_pb2.ACTION_SYNC, PINNED, expected="other"), "RESOURCE_VERSION_CONFLICT", "the pin has moved"),
    (ask(pinning_pb2.ACTION_UNSPECIFIED, PINNED), "INVALID_FIELD", "no action"),
]


@pytest.mark.parametrize(("request_", "code", "reason"), REFUSED, ids=[row[2] for row in REFUSED])
async def test_refused(request_: pinning_pb2.PlanActionRequest, code: str, reason: str) -> None:
    with pytest.raises(RpcError) as caught:
        await plan(request_)
    assert caught.value.reason == code, reason


@pytest.mark.parametrize("fact", ["uid", "resource_version"])
async def test_another_version_than_the_caller_saw_is_aborted(fact: str) -> None:
    request = ask(pinning_pb2.ACTION_SYNC, PINNED)
    setattr(request.context.expected, fact, "other")
    with pytest.raises(RpcError) as caught:
        await plan(request)
    assert (caught.value.code, caught.value.reason) == (grpc.StatusCode.ABORTED, "RESOURCE_VERSION_CONFLICT")


async def test_a_repeated_request_finds_its_own_effect() -> None:
    request = ask(pinning_pb2.ACTION_SYNC, PINNED, annotations={"ome.io/runtime-sync": "req-1"})
    request.context.expected.resource_version = "6"
    assert (await plan(request)).already_applied
    request.context.expected.uid = "another object"
    with pytest.raises(RpcError) as caught:
        await plan(request)
    assert caught.value.reason == "RESOURCE_VERSION_CONFLICT"


async def test_one_who_is_behind_is_told_so_before_a_refusal() -> None:
    request = ask(pinning_pb2.ACTION_SYNC, {"name": "echo"})
    request.context.expected.resource_version = "6"
    with pytest.raises(RpcError) as caught:
        await plan(request)
    assert caught.value.code == grpc.StatusCode.ABORTED


async def test_a_refusal_names_the_service_and_its_reason() -> None:
    with pytest.raises(RpcError) as caught:
        await plan(ask(pinning_pb2.ACTION_SYNC, {"name": "echo"}))
    assert caught.value.code == grpc.StatusCode.FAILED_PRECONDITION
    failure = next(item for item in caught.value.details if isinstance(item, error_details_pb2.PreconditionFailure))
    assert (failure.violations[0].type, failure.violations[0].subject) == ("NotPinned", "team/chat")


async def test_an_actor_beyond_its_bound_is_refused() -> None:
    request = ask(pinning_pb2.ACTION_SYNC, PINNED)
    request.context.actor = "a" * 257
    with pytest.raises(RpcError) as caught:
        await plan(request)
    assert caught.value.reason == "INVALID_FIELD" and "context.actor" in str(caught.value)
