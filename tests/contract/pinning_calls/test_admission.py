"""Every message of pinning specification 6, verbatim, through the servicer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ome.common.v1 import common_pb2
from ome.pinning.v1 import pinning_pb2
from services.kit.errors import RpcError
from services.pinning.service import PinningServicer

NS = "team"


def isvc(runtime: dict[str, Any] | None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "chat", "namespace": NS, "uid": "u1", **metadata},
        "spec": {"runtime": runtime},
    }


def manifest(document: dict[str, Any]) -> common_pb2.Manifest:
    ref = common_pb2.ObjectRef(kind=document["kind"], namespace=document["metadata"].get("namespace", ""))
    return common_pb2.Manifest(ref=ref, json=json.dumps(document).encode())


async def judge(new: dict[str, Any], old: dict[str, Any] | None = None) -> pinning_pb2.ValidateResponse:
    request = pinning_pb2.ValidateRequest(ome_namespace="ome")
    request.admission.operation = common_pb2.OPERATION_UPDATE if old else common_pb2.OPERATION_CREATE
    request.admission.object.CopyFrom(manifest(new))
    if old:
        request.admission.old_object.CopyFrom(manifest(old))
    return await PinningServicer().Validate(request, None)


def told(answer: pinning_pb2.ValidateResponse) -> tuple[bool, str, list[str]]:
    result = answer.result
    return result.allowed, result.findings[0].message if result.findings else "", list(result.warnings)


def shape(revision: str, kind: str, pattern: str) -> str:
    return (
        f'spec.runtime.revision "{revision}" does not match the expected naming convention for runtime "echo" '
        f"({kind}); expected the form {pattern}"
    )


CR, R = "cr-echo-<8 lowercase hex chars>", "r-team-echo-<8 lowercase hex chars>"
KIND = 'spec.runtime.kind "Pod" is not supported; use ServingRuntime or ClusterServingRuntime'
GROUP = 'spec.runtime.apiGroup "apps" is not supported; use ome.io'
SILENT = "spec.runtime.revision requires spec.runtime.autoSync=false; AutoSync=true would silently ignore the pin"
NAME = "spec.runtime.revision requires spec.runtime.name"
PINNED = {"name": "echo", "autoSync": False}
CASES: list[tuple[dict[str, Any] | None, str, str]] = [
    (None, "", "no runtime"),
    ({"name": "echo"}, "", "live"),
    (PINNED, "", "pinned without a revision"),
    ({**PINNED, "kind": "Pod"}, KIND, "unknown kind"),
    ({"kind": "Pod", "apiGroup": "apps", "revision": "x"}, KIND, "the first of many denies"),
    ({"autoSync": True, "revision": "x"}, SILENT, "rule 2 before rule 3"),
    ({**PINNED, "kind": None, "apiGroup": None, "revision": None}, "", "nil is unset"),
    ({**PINNED, "apiGroup": "apps"}, GROUP, "unknown group"),
    ({"name": "echo", "revision": "cr-echo-0123abcd"}, SILENT, "autoSync nil"),
    ({"name": "echo", "autoSync": True, "revision": "cr-echo-0123abcd"}, SILENT, "autoSync true"),
    ({"autoSync": False, "revision": "cr-echo-0123abcd"}, NAME, "no name"),
    ({**PINNED, "revision": ""}, "", "an empty revision is unset"),
    ({**PINNED, "revision": "cr-echo-0123abcd"}, "", "cluster shape, kind omitted"),
    ({**PINNED, "revision": "r-team-echo-0123abcd"}, "", "namespace shape, kind omitted"),
    ({**PINNED, "revision": "x"}, shape("x", "kind omitted", f"{CR} or {R}"), "no shape, kind omitted"),
    (
        {**PINNED, "kind": "ClusterServingRuntime", "revision": "r-team-echo-0123abcd"},
        shape("r-team-echo-0123abcd", "ClusterServingRuntime", CR),
        "the other scope's shape",
    ),
    (
        {**PINNED, "kind": "ServingRuntime", "revision": "cr-echo-0123abcd"},
        shape("cr-echo-0123abcd", "ServingRuntime", R),
        "the cluster's shape",
    ),
    (
        {**PINNED, "kind": "ServingRuntime", "revision": "r-team-echo-0123ABCD"},
        shape("r-team-echo-0123ABCD", "ServingRuntime", R),
        "upper case",
    ),
    ({**PINNED, "kind": "Pod", "revision": "x"}, KIND, "no shape is asked of an unknown kind"),
]


@pytest.mark.parametrize(("runtime", "message", "reason"), CASES, ids=[reason for _, _, reason in CASES])
async def test_create(runtime: dict[str, Any] | None, message: str, reason: str) -> None:
    assert told(await judge(isvc(runtime))) == (not message, message, []), reason


async def test_a_stored_fault_only_warns_and_the_next_one_denies() -> None:
    old = isvc({**PINNED, "kind": "Pod"})
    assert told(await judge(isvc({**PINNED, "kind": "Pod"}, labels={"a": "b"}), old)) == (True, "", [KIND])
    new = isvc({**PINNED, "kind": "Pod", "apiGroup": "apps"})
    assert told(await judge(new, old)) == (False, GROUP, [KIND])


async def test_one_being_deleted_passes() -> None:
    new = isvc({**PINNED, "kind": "Pod"}, deletionTimestamp="2026-01-01T00:00:00Z")
    assert told(await judge(new, isvc(PINNED))) == (True, "", [])


def revision(**changes: Any) -> dict[str, Any]:
    annotations = {"ome.io/created-by": "ome-controller", "ome.io/revision-digest": "c14n-v1:sha256:ab"}
    document: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": "cr-a-1",
            "namespace": changes.pop("namespace", "ome"),
            "labels": changes.pop("labels", {"ome.io/runtime-of": "a"}),
            "annotations": {**annotations, **changes.pop("annotations", {})},
        },
        "data": {"a": 1},
        "revision": 1,
    }
    return {**document, **changes}


OWNED = "ControllerRevision ome/cr-a-1 is owned by OME; "
FOREIGN = {"ome.io/created-by": "someone"}
REVISIONS = [
    (revision(), revision(data={"a": 2}), OWNED + ".data is immutable", "content"),
    (revision(), revision(data={"a": 1.0, "b": None}), "", "the same canonical form"),
    (revision(), revision(labels={}), OWNED + ".labels are immutable", "labels"),
    (
        revision(),
        revision(data={"a": 2}, labels={}, revision=2),
        OWNED + ".data is immutable",
        "content before the rest",
    ),
    (revision(), revision(labels={"ome.io/runtime-of": "a", "x": "y"}), OWNED + ".labels are immutable", "one more"),
    (revision(), revision(revision=2), OWNED + ".revision is immutable", "number"),
    (
        revision(),
        revision(annotations=FOREIGN),
        OWNED + "annotation ome.io/created-by cannot be changed or removed",
        "creator",
    ),
    (
        revision(),
        revision(annotations={"ome.io/revision-digest": "x"}),
        OWNED + "annotation ome.io/revision-digest is immutable",
        "digest",
    ),
    (
        revision(),
        revision(annotations={"ome.io/runtime-of-name": "x"}),
        OWNED + "annotation ome.io/runtime-of-name is immutable",
        "full name",
    ),
    (revision(), revision(annotations={"ome.io/gc-eligible-since": "2026-01-01T00:00:00Z"}), "", "the mark"),
    (revision(annotations=FOREIGN), revision(data={"a": 2}), "", "somebody else's"),
    (revision(namespace="team"), revision(namespace="team", data={"a": 2}), "", "another namespace"),
    (None, revision(), "", "create"),
]


@pytest.mark.parametrize(("old", "new", "message", "reason"), REVISIONS, ids=[row[3] for row in REVISIONS])
async def test_snapshots(old: dict[str, Any] | None, new: dict[str, Any], message: str, reason: str) -> None:
    allowed, text, _ = told(await judge(new, old))
    assert (allowed, text) == (not message, message), reason


async def test_a_malformed_object_is_named() -> None:
    request = pinning_pb2.ValidateRequest()
    request.admission.operation = common_pb2.OPERATION_CREATE
    request.admission.object.json = b"{"
    with pytest.raises(RpcError) as caught:
        await PinningServicer().Validate(request, None)
    assert caught.value.reason == "MALFORMED_JSON" and "admission.object.json" in str(caught.value)


async def refused(request: pinning_pb2.ValidateRequest) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await PinningServicer().Validate(request, None)
    return caught.value


def asked(new: dict[str, Any]) -> pinning_pb2.ValidateRequest:
    request = pinning_pb2.ValidateRequest()
    request.admission.operation = common_pb2.OPERATION_CREATE
    request.admission.object.CopyFrom(manifest(new))
    return request


async def test_a_wrong_type_is_no_finding_but_a_bad_request() -> None:
    error = await refused(asked(isvc({"name": "echo", "autoSync": "false"})))
    assert error.reason == "INVALID_FIELD" and "spec.runtime.autoSync must be true or false" in str(error)


async def test_a_stored_wrong_type_only_warns_and_does_not_stop_its_repair() -> None:
    old = isvc({"name": "echo", "autoSync": "false"})
    text = "spec.runtime.autoSync must be true or false"
    assert told(await judge(old, old)) == (True, "", [text])
    assert told(await judge(isvc(PINNED), old)) == (True, "", [])


async def test_an_identity_that_is_not_the_objects_is_refused() -> None:
    request = asked(isvc(PINNED))
    request.admission.object.ref.namespace = "other"
    assert (await refused(request)).reason == "IDENTITY_MISMATCH"
    request = asked(isvc(PINNED))
    request.admission.object.ref.kind = "ControllerRevision"
    assert (await refused(request)).reason == "IDENTITY_MISMATCH"


async def test_other_questions_are_refused() -> None:
    request = asked({**isvc(PINNED), "kind": "Pod"})
    assert (await refused(request)).reason == "INVALID_FIELD"
    request = asked(isvc(PINNED))
    request.admission.operation = common_pb2.OPERATION_UNSPECIFIED
    assert (await refused(request)).reason == "INVALID_FIELD"


@pytest.mark.parametrize(
    ("data", "reason"), [(b"", "MALFORMED_JSON"), (b"[]", "NOT_AN_OBJECT"), (b'{"a":1,"a":1}', "DUPLICATE_MEMBER")]
)
async def test_a_malformed_stored_object_is_named(data: bytes, reason: str) -> None:
    request = asked(isvc(PINNED))
    request.admission.operation = common_pb2.OPERATION_UPDATE
    request.admission.old_object.json = data
    error = await refused(request)
    assert error.reason == reason and "admission.old_object.json" in str(error)
