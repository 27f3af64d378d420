"""DiffRevisions over the wire: tables, causes of unusable snapshots, bad documents (pinning specification 4, 8, 9)."""

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2

from ome.pinning.v1 import pinning_pb2
from tests.contract.pinning_calls.conftest import Failing
from tests.contract.pinning_calls.test_diff_and_actions import DIFFS, live, rows, stored
from tests.unit.pinning.world import CR1, SHA1, SHA2, V1, V2, revision

Side = pinning_pb2.RevisionSide


def asked(left: Side, right: Side) -> pinning_pb2.DiffRevisionsRequest:
    return pinning_pb2.DiffRevisionsRequest(left=left, right=right)


@pytest.mark.parametrize(("left", "right", "expected", "reason"), DIFFS, ids=[row[3] for row in DIFFS])
async def test_changes(stub: Any, left: object, right: object, expected: list[Any], reason: str) -> None:
    assert rows(await stub.DiffRevisions(asked(live(left), live(right)), timeout=10)) == expected, reason


async def test_equal_requests_give_byte_equal_answers(stub: Any) -> None:
    request = asked(live({f"k{index}": index for index in range(50)}), live({"z": 1, "~": 2, "/": 3}))
    first = await stub.DiffRevisions(request, timeout=10)
    assert [item.pointer for item in first.changes] == sorted(item.pointer for item in first.changes)
    assert len(first.changes) == 53
    assert first.SerializeToString() == (await stub.DiffRevisions(request, timeout=10)).SerializeToString()


async def test_two_snapshots_with_their_golden_digests(stub: Any) -> None:
    answer = await stub.DiffRevisions(asked(stored(revision(V1)), stored(revision(V2))), timeout=10)
    pointer = "/engineConfig/runner/image"
    assert rows(answer) == [("CHANGED", pointer, b'"example:v1"', b'"example:v2"')]
    assert (answer.left_digest, answer.right_digest) == (SHA1, SHA2)


async def test_truncation_keeps_the_first_ten_thousand(stub: Any) -> None:
    many = live({f"k{index:05}": 1 for index in range(10_003)})
    answer = await stub.DiffRevisions(asked(many, live({})), timeout=20)
    assert answer.truncated
    assert [item.pointer for item in answer.changes] == [f"/k{index:05}" for index in range(10_000)]


DIGEST, HASH = "ome.io/revision-digest", "ome.io/revision-hash"
NOTE, LABEL = "annotations", "labels"
UNUSABLE: list[tuple[dict[str, Any], str, str]] = [
    ({NOTE: {"ome.io/created-by": None}}, "not created by this controller", "no creator"),
    ({LABEL: {"ome.io/runtime-of": None}}, 'label ome.io/runtime-of is ""', "no name"),
    ({LABEL: {"ome.io/runtime-of-kind": "Pod"}}, 'label ome.io/runtime-of-kind is "Pod"', "unknown kind"),
    ({LABEL: {"ome.io/runtime-of-namespace": "a"}}, 'label ome.io/runtime-of-namespace is "a"', "namespaced CSR"),
    (
        {NOTE: {"ome.io/runtime-of-name": "vllm"}},
        "annotation ome.io/runtime-of-name does not match its label",
        "a full name that is not long",
    ),
    ({"name": "cr-vllm-ABCDEF01"}, "name does not match its labels", "shape"),
    ({NOTE: {DIGEST: None}}, f"annotation {DIGEST} is missing", "no digest"),
    ({NOTE: {DIGEST: f"c14n-v2:md5:{SHA1}"}}, 'digest algorithm "c14n-v2:md5" is not supported', "algorithm"),
    ({"data": []}, "data is not readable: the document is an array, not an object", "an array"),
    ({"data": None}, "data is not readable: the document is null, not an object", "null"),
    ({"data": {"n": 2**53}}, "data is not readable: integer 9007199254740992 is beyond +-(2^53 - 1)", "number"),
    ({"data": {"a": None}}, "data is an empty document", "empty"),
    ({"data": V2}, f"digest {SHA1} does not match data {SHA2}", "other content"),
    ({LABEL: {HASH: "00000000"}}, f'label {HASH} is "00000000", expected "{SHA1[:8]}"', "hash label"),
    (
        {NOTE: {"ome.io/created-by": "x", DIGEST: None}, "data": []},
        "not created by this controller",
        "first check wins",
    ),
]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("changes", "cause", "reason"), UNUSABLE, ids=[row[2] for row in UNUSABLE])
async def test_unusable(
    stub: Any, failing: Failing, changes: dict[str, Any], cause: str, reason: str, side: str
) -> None:
    bad = stored(revision(V1, **changes))
    request = asked(bad, live({})) if side == "left" else asked(live({}), bad)
    failure = await failing(stub.DiffRevisions(request, timeout=10))
    assert (failure.code, failure.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "RevisionInvalid"), reason
    (found,) = [item for item in failure.details if isinstance(item, error_details_pb2.PreconditionFailure)]
    told = [(item.type, item.subject, item.description) for item in found.violations]
    assert told == [("RevisionInvalid", changes.get("name", CR1), cause)]


async def test_a_doubled_member_of_data_makes_a_snapshot_unusable(stub: Any, failing: Failing) -> None:
    raw = json.dumps(revision({"a": 1})).replace('"data": {"a": 1}', '"data": {"a": 1, "a": 1}').encode()
    request = asked(live({}), stored({}))
    request.right.snapshot.json = raw
    failure = await failing(stub.DiffRevisions(request, timeout=10))
    assert (failure.code, failure.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "RevisionInvalid")
    request.right.snapshot.ref.name = "cr-other-0123abcd"
    failure = await failing(stub.DiffRevisions(request, timeout=10))
    assert (failure.code, failure.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "IDENTITY_MISMATCH")


async def test_the_size_limit_is_that_of_data(stub: Any) -> None:
    spec = {"a": "x" * (1024 * 1024 - 100)}
    assert len(json.dumps(revision(spec))) > 1024 * 1024
    answer = await stub.DiffRevisions(asked(stored(revision(spec)), live({})), timeout=10)
    assert [item.pointer for item in answer.changes] == ["/a"]


DEEP = b'{"a":' * 129 + b"1" + b"}" * 129
DOCUMENTS = [
    (b"{", "MALFORMED_JSON"),
    (b'{"a":NaN}', "MALFORMED_JSON"),
    (b'\xef\xbb\xbf{"a":1}', "MALFORMED_JSON"),
    (b'{"a":1,"a":2}', "DUPLICATE_MEMBER"),
    (b'{"a":9007199254740992}', "NUMBER_OUT_OF_RANGE"),
    (b'"text"', "NOT_AN_OBJECT"),
    (b'{"a":"' + b"x" * 1024 * 1024 + b'"}', "DOCUMENT_TOO_LARGE"),
    (DEEP, "DOCUMENT_TOO_DEEP"),
]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("data", "reason"), DOCUMENTS, ids=[f"{row[1]}-{row[0][:8]!r}" for row in DOCUMENTS])
async def test_bad_live_document(stub: Any, failing: Failing, data: bytes, reason: str, side: str) -> None:
    bad = Side(live_spec=data)
    failure = await failing(
        stub.DiffRevisions(asked(bad, live({})) if side == "left" else asked(live({}), bad), timeout=10)
    )
    assert (failure.code, failure.reason) == (grpc.StatusCode.INVALID_ARGUMENT, reason)
    assert [item.field for item in failure.violations] == [f"{side}.live_spec"]


@pytest.mark.parametrize(("data", "reason"), [(b"{", "MALFORMED_JSON"), (b"[]", "NOT_AN_OBJECT")])
async def test_a_snapshot_that_is_no_object_is_a_bad_request(
    stub: Any, failing: Failing, data: bytes, reason: str
) -> None:
    request = asked(live({}), stored({}))
    request.right.snapshot.json = data
    failure = await failing(stub.DiffRevisions(request, timeout=10))
    assert (failure.code, failure.reason) == (grpc.StatusCode.INVALID_ARGUMENT, reason)
    assert [item.field for item in failure.violations] == ["right.snapshot.json"]
