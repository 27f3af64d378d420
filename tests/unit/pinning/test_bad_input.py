"""Bad input of a pass (pinning specification 9), RuntimeReady, and the sameness of answers (section 8)."""

from __future__ import annotations

import asyncio
import json

import pytest

from ome.common.v1 import common_pb2 as pb
from ome.pinning.v1 import pinning_pb2
from services.kit import errors
from services.pinning.service import PinningServicer
from tests.unit.pinning.test_rows import OLD, isvc
from tests.unit.pinning.world import CR1, CR2, RT, V1, V2, Doc, World, call, revision, runtime

KIND_TEXT = 'spec.runtime.kind "Pod" is not supported; use ServingRuntime or ClusterServingRuntime'
BAD = [
    ("MALFORMED_JSON", b"{"),
    ("DUPLICATE_MEMBER", b'{"a":1,"a":2}'),
    ("NUMBER_OUT_OF_RANGE", b'{"a":9007199254740992}'),
    ("NOT_AN_OBJECT", b"[]"),
    ("DOCUMENT_TOO_DEEP", b'{"a":' + b"[" * 128 + b"]" * 128 + b"}"),
    ("DOCUMENT_TOO_LARGE", b'{"a":"' + b"x" * 2**20 + b'"}'),
    ("INVALID_FIELD", json.dumps(isvc(autoSync="false")).encode()),
    ("INVALID_FIELD", json.dumps(isvc(kind="Pod")).encode()),
    ("INVALID_FIELD", json.dumps(isvc(kind="")).encode()),
    ("INVALID_FIELD", json.dumps(isvc(apiGroup="x")).encode()),
]


def resolve(request: pinning_pb2.ReconcileRequest) -> pinning_pb2.ResolveResponse:
    asked = pinning_pb2.ResolveRequest(meta=request.meta, observation=request.observation)
    return asyncio.run(PinningServicer().Resolve(asked, None))


@pytest.mark.parametrize(("code", "data"), BAD)
def test_bad_isvc(code: str, data: bytes) -> None:
    answer = World().ask(data)
    assert len(answer.events) == 1
    assert answer.events[0].startswith("Warning RuntimePinError: ")
    assert answer.outcome.disposition == pb.DISPOSITION_TERMINAL
    assert not answer.outcome.writes
    assert not answer.patch
    with pytest.raises(errors.RpcError) as caught:
        resolve(World().request(data))
    assert caught.value.reason == code


def test_unknown_kind_has_the_text_of_admission() -> None:
    assert World().ask(isvc(kind="Pod")).error == KIND_TEXT


@pytest.mark.parametrize(
    ("reason", "where", "value"),
    [
        ("IDENTITY_MISMATCH", "name", "other"),
        ("IDENTITY_MISMATCH", "namespace", "other"),
        ("IDENTITY_MISMATCH", "uid", "other"),
        ("IDENTITY_MISMATCH", "resource_version", "6"),
        ("IDENTITY_MISMATCH", "kind", "Pod"),
        ("MISSING_FIELD", "name", ""),
        ("MISSING_FIELD", "uid", ""),
    ],
)
def test_identity(reason: str, where: str, value: str) -> None:
    request = World().request(isvc())
    setattr(request.observation.isvc.ref, where, value)
    for ask in (call, resolve):
        with pytest.raises(errors.RpcError) as caught:
            ask(request)
        assert caught.value.reason == reason


@pytest.mark.parametrize("key", ["name", "uid"])
def test_metadata_missing(key: str) -> None:
    doc = isvc()
    del doc["metadata"][key]
    with pytest.raises(errors.RpcError) as caught:
        call(World().request(doc))
    assert caught.value.reason == "MISSING_FIELD"


def test_now_missing() -> None:
    request = World().request(isvc())
    request.meta.ClearField("now")
    for ask in (call, resolve):
        with pytest.raises(errors.RpcError) as caught:
            ask(request)
        assert caught.value.reason == "MISSING_FIELD"


DETAIL = f"resolve live runtime {RT}: integer {2**53} is beyond +-(2^53 - 1)"
MISSING = f"pinned revision {CR1} missing from ome"
REFUSED = [
    ("E1 does not look", isvc(revision=CR2), "EXPLICIT", "", False),
    ("F1 as F2", isvc(token="2", drift=OLD), "RETRY", DETAIL, True),
    ("M as F2", isvc(f"cr-other-{CR1[-8:]}", drift=OLD), "RETRY", DETAIL, True),
    ("P2 as P1", isvc(f"cr-{RT}-00000000", "2", "1"), "HOLD", DETAIL, False),
    ("P1 tells it too", isvc(f"cr-{RT}-00000000", "1", "1"), "HOLD", DETAIL, False),
    ("usable pin keeps", isvc(CR1, "2", "1", OLD), "STEADY", DETAIL, False),
    ("L retries", isvc(autoSync=True), "LIVE", DETAIL, True),
]


@pytest.mark.parametrize(("reason", "doc", "decision", "error", "retry"), REFUSED, ids=[case[0] for case in REFUSED])
def test_refused_live_document(reason: str, doc: Doc, decision: str, error: str, retry: bool) -> None:
    answer = World([runtime({"n": 2**53}), revision(V1), revision(V2)]).ask(doc)
    assert (answer.decision, answer.error, answer.retry) == (decision, error, retry), reason
    assert "lastRuntimeSyncToken" not in answer.patch
    assert not answer.creates
    assert decision != "STEADY" or answer.message == OLD[1]


def test_limits_are_those_of_the_spec_not_of_the_object() -> None:
    deep: Doc = {"a": 1}
    for _ in range(127):
        deep = {"a": deep}
    answer = World([runtime(deep)]).ask(isvc())
    assert answer.decision == "FIRST_PIN"
    (made,) = answer.creates
    assert World([runtime(deep), revision(deep)]).ask(isvc(made["metadata"]["name"])).row == "P4"
    assert World([runtime({"a": deep})]).ask(isvc()).error.startswith(f"resolve live runtime {RT}: the document nests")


def test_a_runtime_that_outgrows_a_snapshot_in_canonical_form_is_not_pinned() -> None:
    world = World([runtime(V1)], raw={RT: b'{"spec":{"a":[' + b",".join([b"1e-6"] * 200_000) + b"]}}"})
    answer = world.ask(isvc())
    assert (answer.decision, answer.retry) == ("RETRY", True)
    assert answer.error.startswith(f"resolve live runtime {RT}: the canonical form has 1800007 bytes")


def test_runtime_ready() -> None:
    found, text = World([runtime(V1)]), f"ClusterServingRuntime {RT} not found"
    doc = isvc(autoSync=True)
    up, down = found.ask(doc), World().ask(doc)
    assert (up.changes["RuntimeReady"].status, up.changes["RuntimeReady"].reason) == ("True", "RuntimeResolved")
    ready = down.changes["RuntimeReady"]
    assert (ready.status, ready.reason, ready.message) == ("False", "RuntimeNotFound", text)
    assert down.events == [f"Warning RuntimeNotFound: {text}"]
    doc["status"]["conditions"] = [
        {"type": "RuntimeReady", "status": "False", "reason": "RuntimeNotFound", "message": text}
    ]
    assert World().ask(doc).events == []
    again = found.ask(doc)
    assert again.changes["RuntimeReady"].status == "True"
    assert again.events == []


def test_unspecified_presence_is_not_absence() -> None:
    request = World().full_request(isvc(CR1))
    for item in request.observation.objects:
        item.presence = pb.PRESENCE_UNSPECIFIED
    assert call(request).pin.row == "X"


def test_equal_requests_give_equal_bytes() -> None:
    world = World([runtime(V2), revision(V1)])
    one, two = (call(world.full_request(isvc(CR1, "2", "1"), name)) for name in ("a", "b"))
    assert one.SerializeToString(deterministic=True) == two.SerializeToString(deterministic=True)
    other = world.full_request(isvc(CR1, "2", "1"))
    other.meta.now.seconds += 1
    assert call(other).meta.decision_id != one.meta.decision_id


def test_being_deleted_gets_no_decision() -> None:
    doc = isvc(CR1)
    doc["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    answer = call(World().request(doc))
    assert not answer.HasField("pin")
    assert not answer.outcome.writes
    assert not answer.outcome.events
