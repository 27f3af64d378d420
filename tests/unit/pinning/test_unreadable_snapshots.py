"""Snapshots with content that section 2 refuses, at admission: their other parts may still change (section 6)."""

from __future__ import annotations

import asyncio
import json

import pytest

from ome.common.v1 import common_pb2 as pb
from ome.pinning.v1 import pinning_pb2
from services.kit.errors import RpcError
from services.pinning.service import PinningServicer

OWNED = "ControllerRevision ome/cr-a-1 is owned by OME; "


def body(data: str, *, creator: str = "ome-controller", note: str = "", labels: str = "{}") -> bytes:
    notes = json.dumps({"ome.io/created-by": creator, **({"ome.io/gc-eligible-since": note} if note else {})})
    metadata = f'{{"name":"cr-a-1","namespace":"ome","labels":{labels},"annotations":{notes}}}'
    head = '"apiVersion":"apps/v1","kind":"ControllerRevision"'
    return f'{{{head},"metadata":{metadata},"data":{data},"revision":1}}'.encode()


def judge(old: bytes, new: bytes) -> str:
    ref = pb.ObjectRef(kind="ControllerRevision", namespace="ome", name="cr-a-1")
    request = pinning_pb2.ValidateRequest(ome_namespace="ome")
    request.admission.operation = pb.OPERATION_UPDATE
    request.admission.object.CopyFrom(pb.Manifest(ref=ref, json=new))
    request.admission.old_object.CopyFrom(pb.Manifest(ref=ref, json=old))
    result = asyncio.run(PinningServicer().Validate(request, None)).result
    assert result.allowed == (not result.findings)
    return result.findings[0].message if result.findings else ""


HUGE, DEEP, LARGE = '{"a":9007199254740993}', '{"a":' + "[" * 200 + "]" * 200 + "}", json.dumps({"a": "x" * 2**20})
TWICE = '{"a":1,"a":2}'
ALMOST = json.dumps({"a": "x" * (2**20 - 10)})
MARK = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("data", [HUGE, DEEP, LARGE, TWICE, ALMOST, "null", '"x"', "[]"])
def test_other_annotations_may_change(data: str) -> None:
    assert judge(body(data), body(data, note=MARK)) == ""


@pytest.mark.parametrize(
    ("reason", "old", "new", "message"),
    [
        ("another number", body(HUGE), body('{"a":9007199254740992}'), OWNED + ".data is immutable"),
        ("of thousands of digits", body('{"a":1%s}' % ("0" * 99)), body('{"a":2%s}' % ("0" * 99)),
         OWNED + ".data is immutable"),
        ("made readable", body(TWICE), body('{"a":2}'), OWNED + ".data is immutable"),
        ("its labels", body(HUGE), body(HUGE, labels='{"a":"b"}'), OWNED + ".labels are immutable"),
        ("its creator", body(DEEP), body(DEEP, creator="x"),
         OWNED + "annotation ome.io/created-by cannot be changed or removed"),
        ("somebody else's", body(HUGE, creator="x"), body("{}", creator="x"), ""),
        ("larger as a whole, not in its data", body(ALMOST), body(ALMOST, note=MARK), ""),
    ],
)  # fmt: skip
def test_what_is_immutable(reason: str, old: bytes, new: bytes, message: str) -> None:
    assert judge(old, new) == message, reason


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(RpcError) as caught:
        judge(b"{", body("{}"))
    assert caught.value.reason == "MALFORMED_JSON"
    assert "admission.old_object.json" in str(caught.value)
