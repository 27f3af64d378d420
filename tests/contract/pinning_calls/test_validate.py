"""Validate over the wire: section 6 of the pinning specification, and requests that cannot be judged."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from ome.common.v1 import common_pb2
from ome.pinning.v1 import pinning_pb2
from tests.contract.pinning_calls.conftest import Failing
from tests.contract.pinning_calls.test_admission import (
    CASES,
    CR,
    GROUP,
    KIND,
    NAME,
    PINNED,
    SILENT,
    R,
    isvc,
    manifest,
    shape,
)

Doc = dict[str, Any]


def asked(new: Doc, old: Doc | None = None) -> pinning_pb2.ValidateRequest:
    request = pinning_pb2.ValidateRequest(ome_namespace="ome")
    request.admission.operation = common_pb2.OPERATION_UPDATE if old else common_pb2.OPERATION_CREATE
    request.admission.object.CopyFrom(manifest(new))
    if old:
        request.admission.old_object.CopyFrom(manifest(old))
    return request


async def judge(stub: Any, new: Doc, old: Doc | None = None) -> tuple[bool, list[tuple[str, str]], list[str]]:
    result = (await stub.Validate(asked(new, old), timeout=10)).result
    return result.allowed, [(item.field, item.message) for item in result.findings], list(result.warnings)


@pytest.mark.parametrize("stored", [None, {"name": "echo"}], ids=["create", "update of a sound one"])
@pytest.mark.parametrize(("runtime", "message", "reason"), CASES, ids=[row[2] for row in CASES])
async def test_services(stub: Any, runtime: Doc | None, message: str, reason: str, stored: Doc | None) -> None:
    old = isvc(stored) if stored else None
    allowed, found, warnings = await judge(stub, isvc(runtime), old)
    assert (allowed, [text for _, text in found], warnings) == (not message, [message] if message else [], []), reason
    assert all(text.startswith(field) for field, text in found)


LONG = "n" * 300
SHAPES = [
    ("cr-echo-0123abcd", None, True, "cluster shape, kind omitted"),
    ("r-team-echo-0123abcd", None, True, "namespaced shape, kind omitted"),
    ("r-other-echo-0123abcd", None, False, "another namespace"),
    ("cr-echo-0123abc", None, False, "seven digits"),
    ("cr-echo-0123abcde", None, False, "nine digits"),
    ("cr-echo-0123abcg", None, False, "no hex digit"),
    ("cr-echo-0123abcd\n", None, False, "a line break at the end"),
    ("cr-echo-٠123abcd", None, False, "a digit beyond ASCII"),
    ("cr-echo-x-0123abcd", None, False, "a longer runtime name"),
    ("cr-echo-0123abcd", "ClusterServingRuntime", True, "its own shape"),
    ("r-team-echo-0123abcd", "ServingRuntime", True, "its own shape, namespaced"),
]


@pytest.mark.parametrize(("name", "kind", "passes", "reason"), SHAPES, ids=[row[3] for row in SHAPES])
async def test_shapes(stub: Any, name: str, kind: str | None, passes: bool, reason: str) -> None:
    allowed, found, _ = await judge(stub, isvc({**PINNED, "kind": kind, "revision": name}))
    expected = [] if passes else [("spec.runtime.revision", shape(name, "kind omitted", f"{CR} or {R}"))]
    assert (allowed, found) == (passes, expected), reason


ODD = {"name": "echo", "autoSync": True, "kind": "Pod", "apiGroup": "apps", "revision": "x"}
UPDATES: list[tuple[Doc, Doc, str, list[str], str]] = [
    (ODD, ODD, "", [KIND, GROUP, SILENT], "everything stands already"),
    ({**PINNED, "kind": "Pod"}, {**PINNED, "kind": "Node"}, KIND.replace("Pod", "Node"), [], "another message"),
    ({**PINNED, "kind": "Pod"}, {**PINNED, "kind": "Pod", "apiGroup": "apps"}, GROUP, [KIND], "a new finding denies"),
    ({"name": "echo", "revision": "x"}, {"revision": "x"}, NAME, [SILENT], "the warning before the denial"),
    (
        {**PINNED, "revision": "x"},
        {**PINNED, "revision": "y"},
        shape("y", "kind omitted", f"{CR} or {R}"),
        [],
        "the text names another revision",
    ),
    ({**PINNED, "revision": "x"}, {**PINNED, "revision": "x", "kind": "Pod"}, KIND, [], "rule 4 is not asked"),
    ({**PINNED, "kind": "Pod"}, PINNED, "", [], "mended"),
]


@pytest.mark.parametrize(("old", "new", "message", "warned", "reason"), UPDATES, ids=[row[4] for row in UPDATES])
async def test_updates(stub: Any, old: Doc, new: Doc, message: str, warned: list[str], reason: str) -> None:
    allowed, found, warnings = await judge(stub, isvc(new), isvc(old))
    assert (allowed, [text for _, text in found]) == (not message, [message] if message else []), reason
    assert set(warned) <= set(warnings), reason
    assert message not in warnings


@pytest.mark.parametrize("old", [None, PINNED], ids=["create", "update"])
async def test_one_being_deleted_passes(stub: Any, old: Doc | None) -> None:
    new = isvc(ODD, deletionTimestamp="2026-01-01T00:00:00Z")
    assert await judge(stub, new, isvc(old) if old else None) == (True, [], [])


BAD = [(b"{", "MALFORMED_JSON"), (b"[]", "NOT_AN_OBJECT"), (b'{"a":1,"a":1}', "DUPLICATE_MEMBER")]


@pytest.mark.parametrize("side", ["object", "old_object"])
@pytest.mark.parametrize(("data", "reason"), BAD, ids=[row[1] for row in BAD])
async def test_malformed(stub: Any, failing: Failing, data: bytes, reason: str, side: str) -> None:
    request = asked(isvc(PINNED), isvc(PINNED))
    getattr(request.admission, side).json = data
    failure = await failing(stub.Validate(request, timeout=10))
    assert (failure.code, failure.reason) == (grpc.StatusCode.INVALID_ARGUMENT, reason)
    assert [item.field for item in failure.violations] == [f"admission.{side}.json"]


async def test_every_wrong_type_is_named(stub: Any, failing: Failing) -> None:
    request = asked(isvc({"name": 1, "autoSync": "false"}))
    failure = await failing(stub.Validate(request, timeout=10))
    assert (failure.code, failure.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
    prefix = "admission.object.json:spec.runtime"
    assert [item.field for item in failure.violations] == [f"{prefix}.name", f"{prefix}.autoSync"]


async def test_long_names_use_the_bounded_prefix(stub: Any) -> None:
    allowed, found, _ = await judge(
        stub, isvc({**PINNED, "name": LONG, "kind": "ClusterServingRuntime", "revision": "x"})
    )
    assert not allowed
    pattern = found[0][1].rsplit(" form ", 1)[1].removesuffix("-<8 lowercase hex chars>")
    assert pattern.startswith("cr-" + "n" * 232 + "-") and len(pattern) == 244
    good = {**PINNED, "name": LONG, "kind": "ClusterServingRuntime", "revision": f"{pattern}-0123abcd"}
    assert await judge(stub, isvc(good)) == (True, [], [])
