"""PlanAction over the wire: patches, what already stands, refusals and lost compare-and-sets (pinning spec 8)."""

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2

from ome.common.v1 import common_pb2
from ome.pinning.v1 import pinning_pb2
from services.kit import canonical
from tests.contract.pinning_calls.conftest import Failing
from tests.contract.pinning_calls.test_diff_and_actions import FOREIGN, PINNED, ask, snapshot

SYNC, PIN, UNPIN = pinning_pb2.ACTION_SYNC, pinning_pb2.ACTION_PIN, pinning_pb2.ACTION_UNPIN
GOOD = snapshot({"a": 1})
NAME = GOOD["metadata"]["name"]
EXPLICIT = {**PINNED, "revision": NAME}
PATCHES = [
    (ask(SYNC, PINNED), {"metadata": {"annotations": {"ome.io/runtime-sync": "req-1"}}}, "sync"),
    (
        ask(PIN, {"name": "echo"}, revision=NAME, objects=[GOOD]),
        {"spec": {"runtime": {"autoSync": False, "revision": NAME}}},
        "pin of a live service",
    ),
    (
        ask(PIN, {**PINNED, "revision": "cr-echo-0123abcd"}, revision=NAME, objects=[GOOD]),
        {"spec": {"runtime": {"autoSync": False, "revision": NAME}}},
        "pin to another snapshot",
    ),
    (ask(UNPIN, EXPLICIT), {"spec": {"runtime": {"autoSync": True, "revision": None}}}, "unpin"),
    (ask(UNPIN, PINNED), {"spec": {"runtime": {"autoSync": True, "revision": None}}}, "unpin of a managed pin"),
]


@pytest.mark.parametrize(("request_", "patch", "reason"), PATCHES, ids=[row[2] for row in PATCHES])
async def test_patch(stub: Any, request_: pinning_pb2.PlanActionRequest, patch: dict[str, Any], reason: str) -> None:
    answer = (await stub.PlanAction(request_, timeout=10)).answer
    write = answer.patch
    assert (json.loads(write.json), answer.already_applied) == (patch, False), reason
    assert (write.verb, write.field_validation) == (common_pb2.VERB_MERGE_PATCH, common_pb2.FIELD_VALIDATION_STRICT)
    target = write.target
    assert (target.kind, target.namespace, target.name) == ("InferenceService", "team", "chat")
    assert (write.precondition.uid, write.precondition.resource_version) == ("u1", "7")
    assert write.content_digest == canonical.digest(write.json)
    assert answer.preview


STANDING = [
    (ask(SYNC, PINNED, annotations={"ome.io/runtime-sync": "req-1"}), "the token waits"),
    (ask(SYNC, PINNED, status={"lastRuntimeSyncToken": "req-1"}), "the token was acted on"),
    (ask(PIN, EXPLICIT, revision=NAME, objects=[GOOD]), "pinned"),
    (ask(UNPIN, {"name": "echo"}), "live"),
]


@pytest.mark.parametrize("behind", [False, True], ids=["up to date", "behind"])
@pytest.mark.parametrize(("request_", "reason"), STANDING, ids=[row[1] for row in STANDING])
async def test_already_applied(stub: Any, request_: pinning_pb2.PlanActionRequest, reason: str, behind: bool) -> None:
    asked = pinning_pb2.PlanActionRequest()
    asked.CopyFrom(request_)
    asked.context.expected.resource_version = "6" if behind else "7"
    answer = (await stub.PlanAction(asked, timeout=10)).answer
    assert answer.already_applied and not answer.HasField("patch"), reason


@pytest.mark.parametrize(
    "action", [ask(SYNC, PINNED), ask(PIN, PINNED, revision=NAME, objects=[GOOD]), ask(UNPIN, PINNED)]
)
@pytest.mark.parametrize("fact", ["uid", "resource_version", "pin"])
async def test_a_lost_compare_and_set_is_aborted(
    stub: Any, failing: Failing, action: pinning_pb2.PlanActionRequest, fact: str
) -> None:
    asked = pinning_pb2.PlanActionRequest()
    asked.CopyFrom(action)
    if fact == "pin":
        asked.expected_pinned_revision = "cr-echo-0123abcd"
    else:
        setattr(asked.context.expected, fact, "other")
    failure = await failing(stub.PlanAction(asked, timeout=10))
    assert (failure.code, failure.reason) == (grpc.StatusCode.ABORTED, "RESOURCE_VERSION_CONFLICT")
    assert "read the InferenceService again" in failure.message


def presence(value: common_pb2.Presence) -> pinning_pb2.PlanActionRequest:
    asked = ask(PIN, PINNED, revision=NAME, objects=[GOOD])
    del asked.observation.objects[0].objects[:]
    asked.observation.objects[0].presence = value
    return asked


REFUSED = [
    (ask(SYNC, {"name": "echo"}), "NotPinned", "nothing is pinned"),
    (ask(SYNC, EXPLICIT), "ExplicitRevision", "an explicit pin overrides"),
    (ask(PIN, {}, revision=NAME), "RuntimeNotNamed", "no runtime is named"),
    (ask(PIN, PINNED, revision=FOREIGN["metadata"]["name"], objects=[FOREIGN]), "RevisionInvalid", "unusable"),
    (ask(PIN, {**PINNED, "name": "other"}, revision=NAME, objects=[GOOD]), "RuntimeMismatch", "another runtime's"),
    (presence(common_pb2.PRESENCE_ABSENT), "RevisionMissing", "absent"),
    (presence(common_pb2.PRESENCE_UNDETERMINED), "RevisionUnknown", "undetermined"),
]


@pytest.mark.parametrize(("request_", "type_", "reason"), REFUSED, ids=[row[2] for row in REFUSED])
async def test_refused(
    stub: Any, failing: Failing, request_: pinning_pb2.PlanActionRequest, type_: str, reason: str
) -> None:
    failure = await failing(stub.PlanAction(request_, timeout=10))
    assert (failure.code, failure.reason) == (grpc.StatusCode.FAILED_PRECONDITION, type_), reason
    (found,) = [item for item in failure.details if isinstance(item, error_details_pb2.PreconditionFailure)]
    assert [(item.type, item.subject) for item in found.violations] == [(type_, "team/chat")]


LATE = ask(SYNC, PINNED)
LATE.meta.ClearField("now")
BAD = [
    (ask(SYNC, PINNED, request_id=""), "MISSING_FIELD", "context.request_id"),
    (ask(PIN, PINNED), "MISSING_FIELD", "revision"),
    (ask(PIN, PINNED, revision=NAME), "MISSING_FIELD", "observation.objects"),
    (LATE, "MISSING_FIELD", "meta.now"),
    (ask(pinning_pb2.ACTION_UNSPECIFIED, PINNED), "INVALID_FIELD", "action"),
    (ask(UNPIN, {**PINNED, "kind": "Pod"}), "INVALID_FIELD", "observation.isvc.json:spec.runtime.kind"),
]


@pytest.mark.parametrize(("request_", "reason", "field"), BAD, ids=[row[2] for row in BAD])
async def test_bad_request(
    stub: Any, failing: Failing, request_: pinning_pb2.PlanActionRequest, reason: str, field: str
) -> None:
    failure = await failing(stub.PlanAction(request_, timeout=10))
    assert (failure.code, failure.reason) == (grpc.StatusCode.INVALID_ARGUMENT, reason)
    assert [item.field for item in failure.violations] == [field]
