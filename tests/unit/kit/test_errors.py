"""Errors as rich status: what is in them, and that they always fit into a peer's metadata."""

from __future__ import annotations

import base64
import string
from urllib.parse import quote

import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2 as rich
from hypothesis import given, settings
from hypothesis import strategies as st

from services.kit import errors


def received(error: errors.RpcError) -> errors.Failure:
    """What a client reads of `error`."""
    trailing = grpc.aio.Metadata((errors.STATUS_METADATA_KEY, error.status().SerializeToString()))
    return errors.read(grpc.aio.AioRpcError(error.code, grpc.aio.Metadata(), trailing, error.message))


def detail(error: errors.RpcError, kind: type[Message]) -> Message:
    found = kind()
    assert any(packed.Unpack(found) for packed in error.status().details), f"no {kind.__name__}"
    return found


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (errors.invalid_argument("R", [errors.Violation("a.b", "is bad")]), "INVALID_ARGUMENT", "R"),
        (errors.failed_precondition("R", "cr-1", "text"), "FAILED_PRECONDITION", "R"),
        (errors.resource_exhausted("R", "revisions", "text"), "RESOURCE_EXHAUSTED", "R"),
        (errors.not_found("R", "Runtime", "x"), "NOT_FOUND", "R"),
        (errors.aborted("RESOURCE_VERSION_CONFLICT", "text"), "ABORTED", "RESOURCE_VERSION_CONFLICT"),
        (errors.unimplemented("text"), "UNIMPLEMENTED", "UNIMPLEMENTED"),
        (errors.unavailable(1.5), "UNAVAILABLE", "UNAVAILABLE"),
        (errors.unauthenticated("text"), "UNAUTHENTICATED", "UNAUTHENTICATED"),
        (errors.permission_denied("text"), "PERMISSION_DENIED", "PERMISSION_DENIED"),
        (errors.deadline_exceeded("text"), "DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED"),
        (errors.internal("abc"), "INTERNAL", "INTERNAL"),
    ],
)
def test_every_error_carries_its_code_domain_and_reason(error: errors.RpcError, code: str, reason: str) -> None:
    status = error.status()
    assert status.code == error.code.value[0] and error.code.name == code
    assert status.message == str(error) or status.message == error.message
    info = detail(error, rich.ErrorInfo)
    assert (info.domain, info.reason) == ("ome.io", reason)  # type: ignore[attr-defined]
    assert received(error).reason == reason


def test_details_by_code() -> None:
    violations = (errors.Violation("a", "x"), errors.Violation("b", "y"))
    assert received(errors.invalid_argument("R", violations)).violations == violations
    assert errors.invalid_argument("R", violations).message == "a: x (and 1 more)"
    assert received(errors.unavailable(1.25)).retry_after == 1.25
    assert received(errors.unavailable(0)).retry_after == 0
    precondition = detail(errors.failed_precondition("R", "s", "d", kind="K"), rich.PreconditionFailure)
    assert [(v.type, v.subject, v.description) for v in precondition.violations] == [("K", "s", "d")]  # type: ignore[attr-defined]
    quota = detail(errors.resource_exhausted("R", "s", "d"), rich.QuotaFailure)
    assert [(v.subject, v.description) for v in quota.violations] == [("s", "d")]  # type: ignore[attr-defined]
    resource = detail(errors.not_found("R", "Runtime", "x"), rich.ResourceInfo)
    assert (resource.resource_type, resource.resource_name) == ("Runtime", "x")  # type: ignore[attr-defined]


def test_a_plain_status_has_no_details() -> None:
    plain = grpc.aio.AioRpcError(grpc.StatusCode.INTERNAL, details="boom")
    assert errors.read(plain) == errors.Failure(grpc.StatusCode.INTERNAL, "boom")
    broken = grpc.aio.Metadata((errors.STATUS_METADATA_KEY, b"\xff\xff"))
    again = grpc.aio.AioRpcError(grpc.StatusCode.INTERNAL, grpc.aio.Metadata(), broken, "boom")
    assert errors.read(again) == errors.Failure(grpc.StatusCode.INTERNAL, "boom")


@settings(max_examples=200)
@given(
    st.lists(st.builds(errors.Violation, st.text(max_size=2000), st.text(max_size=2000)), max_size=60),
    st.text(max_size=20),
)
def test_a_status_never_outgrows_the_metadata(violations: list[errors.Violation], reason: str) -> None:
    error = errors.invalid_argument(reason, violations)
    assert metadata_bytes(error) <= 8000
    shown = received(error).violations
    if len(shown) < len(violations):
        assert shown[-1].description == f"and {len(violations) - len(shown) + 1} more violations"
    else:
        assert len(shown) == len(violations)


def metadata_bytes(error: errors.RpcError) -> int:
    """The size on the wire: the status in base64, the message percent-encoded."""
    return len(base64.b64encode(error.status().SerializeToString())) + len(quote(error.message, safe=string.printable))


@pytest.mark.parametrize("letter", ["d", "ä", "🚀", "\udc80"])
def test_long_texts_are_cut(letter: str) -> None:
    long = letter * 10_000
    for error in (
        errors.aborted("R", long),
        errors.failed_precondition("R", long, long),
        errors.resource_exhausted("R", long, long),
        errors.not_found("R", "Runtime", long),
        errors.unavailable(1, long),
        errors.invalid_argument("R", [errors.Violation(long, long)] * 3),
    ):
        assert metadata_bytes(error) <= 8000
