"""Errors of a call: what a servicer raises and the rich status (google.rpc.Status) that a caller receives.

Every error carries ErrorInfo with domain `ome.io` and a reason in UPPER_SNAKE_CASE; the constructors below add the
detail that belongs to their code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2 as rich
from google.rpc.status_pb2 import Status

DOMAIN = "ome.io"
STATUS_METADATA_KEY = "grpc-status-details-bin"
# Peers refuse metadata above 8 KiB, and would then report its size instead of the error. The status travels in base64,
# its message once more in plain with up to three characters for a byte. All limits are bytes of UTF-8.
MAX_STATUS_BYTES = 3072
MAX_MESSAGE_BYTES = 800
MAX_TEXT_BYTES = 400


@dataclass(frozen=True, slots=True)
class Violation:
    """One bad field of a request: its path (`observation.isvc.json`) and what is wrong with it and how to mend it."""

    field: str
    description: str


class RpcError(Exception):
    """An error that a servicer raises and the server turns into a rich status."""

    code: grpc.StatusCode = grpc.StatusCode.UNKNOWN

    def __init__(self, reason: str, message: str, details: Sequence[Message] = ()) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = _cut(message, MAX_MESSAGE_BYTES)
        self.details: tuple[Message, ...] = tuple(details)

    def status(self) -> Status:
        """The google.rpc.Status; ErrorInfo first, then the details that fit into MAX_STATUS_BYTES."""
        status = Status(code=self.code.value[0], message=self.message)
        _pack(status, rich.ErrorInfo(reason=self.reason, domain=DOMAIN))
        for detail in self.details:
            room = MAX_STATUS_BYTES - status.ByteSize() - 128
            _pack(status, _fit(detail, room))
        return status


class InvalidArgument(RpcError):
    """INVALID_ARGUMENT with BadRequest."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class FailedPrecondition(RpcError):
    """FAILED_PRECONDITION with PreconditionFailure."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class ResourceExhausted(RpcError):
    """RESOURCE_EXHAUSTED with QuotaFailure."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class NotFound(RpcError):
    """NOT_FOUND with ResourceInfo."""

    code = grpc.StatusCode.NOT_FOUND


class Aborted(RpcError):
    """ABORTED: a lost compare-and-set; read again and retry at the caller's level."""

    code = grpc.StatusCode.ABORTED


class Unimplemented(RpcError):
    """UNIMPLEMENTED."""

    code = grpc.StatusCode.UNIMPLEMENTED


class Unavailable(RpcError):
    """UNAVAILABLE with RetryInfo."""

    code = grpc.StatusCode.UNAVAILABLE


class DeadlineExceeded(RpcError):
    """DEADLINE_EXCEEDED."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED


class Unauthenticated(RpcError):
    """UNAUTHENTICATED."""

    code = grpc.StatusCode.UNAUTHENTICATED


class PermissionDenied(RpcError):
    """PERMISSION_DENIED."""

    code = grpc.StatusCode.PERMISSION_DENIED


class Internal(RpcError):
    """INTERNAL: a fault of ours; the message never carries internals."""

    code = grpc.StatusCode.INTERNAL


def invalid_argument(reason: str, violations: Sequence[Violation]) -> InvalidArgument:
    """INVALID_ARGUMENT naming every bad field; the message repeats the first."""
    fields = [
        rich.BadRequest.FieldViolation(field=_cut(v.field), description=_cut(v.description), reason=reason)
        for v in violations
    ]
    first = f"{violations[0].field}: {violations[0].description}" if violations else reason
    more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
    return InvalidArgument(
        reason, _cut(first, MAX_MESSAGE_BYTES - 20) + more, [rich.BadRequest(field_violations=fields)]
    )


def failed_precondition(reason: str, subject: str, description: str, *, kind: str = "") -> FailedPrecondition:
    """FAILED_PRECONDITION; `kind` is the violation's type (the reason where left out), `subject` what it is about."""
    violation = rich.PreconditionFailure.Violation(
        type=kind or reason, subject=_cut(subject), description=_cut(description)
    )
    return FailedPrecondition(reason, description, [rich.PreconditionFailure(violations=[violation])])


def resource_exhausted(reason: str, subject: str, description: str) -> ResourceExhausted:
    """RESOURCE_EXHAUSTED with QuotaFailure: `subject` is the limited field or resource."""
    violation = rich.QuotaFailure.Violation(subject=_cut(subject), description=_cut(description))
    return ResourceExhausted(reason, description, [rich.QuotaFailure(violations=[violation])])


def not_found(reason: str, resource_type: str, name: str, description: str = "") -> NotFound:
    """NOT_FOUND with ResourceInfo."""
    text = description or f'{resource_type} "{name}" not found'
    return NotFound(
        reason, text, [rich.ResourceInfo(resource_type=resource_type, resource_name=_cut(name), description=_cut(text))]
    )


def aborted(reason: str, description: str) -> Aborted:
    """ABORTED for a lost compare-and-set."""
    return Aborted(reason, description)


def unimplemented(description: str, reason: str = "UNIMPLEMENTED") -> Unimplemented:
    """UNIMPLEMENTED; the description says what is not offered."""
    return Unimplemented(reason, description)


def unavailable(retry_after: float, description: str = "unavailable", reason: str = "UNAVAILABLE") -> Unavailable:
    """UNAVAILABLE with RetryInfo of `retry_after` seconds."""
    return Unavailable(reason, description, [rich.RetryInfo(retry_delay=_duration(retry_after))])


def unauthenticated(description: str, reason: str = "UNAUTHENTICATED") -> Unauthenticated:
    """UNAUTHENTICATED."""
    return Unauthenticated(reason, description)


def permission_denied(description: str, reason: str = "PERMISSION_DENIED") -> PermissionDenied:
    """PERMISSION_DENIED."""
    return PermissionDenied(reason, description)


def deadline_exceeded(description: str) -> DeadlineExceeded:
    """DEADLINE_EXCEEDED."""
    return DeadlineExceeded("DEADLINE_EXCEEDED", description)


def internal(trace_id: str) -> Internal:
    """INTERNAL whose message names nothing but the trace to look for in the logs."""
    return Internal("INTERNAL", f"internal error; trace {trace_id}")


@dataclass(frozen=True, slots=True)
class Failure:
    """A caller's view of an error status. `retry_after` is in seconds, None without RetryInfo."""

    code: grpc.StatusCode
    message: str
    reason: str = ""
    violations: tuple[Violation, ...] = ()
    retry_after: float | None = None
    details: tuple[Message, ...] = field(default=(), repr=False)


def read(error: grpc.aio.AioRpcError) -> Failure:
    """The rich status that came with `error`; one without details (or with broken ones) has just code and message."""
    code, message = error.code(), error.details() or ""
    raw = next((value for key, value in error.trailing_metadata() or () if key == STATUS_METADATA_KEY), None)
    if not isinstance(raw, bytes):
        return Failure(code, message)
    try:
        details = tuple(_unpack(Status.FromString(raw)))
    except DecodeError:
        return Failure(code, message)
    reason, retry, violations = "", None, []
    for detail in details:
        if isinstance(detail, rich.ErrorInfo):
            reason = detail.reason
        elif isinstance(detail, rich.RetryInfo):
            retry = detail.retry_delay.seconds + detail.retry_delay.nanos / 1e9
        elif isinstance(detail, rich.BadRequest):
            violations += [Violation(v.field, v.description) for v in detail.field_violations]
    return Failure(code, message, reason, tuple(violations), retry, details)


_DETAILS: tuple[type[Message], ...] = (
    rich.ErrorInfo,
    rich.RetryInfo,
    rich.BadRequest,
    rich.PreconditionFailure,
    rich.QuotaFailure,
    rich.ResourceInfo,
)


def _unpack(status: Status) -> list[Message]:
    found: list[Message] = []
    for packed in status.details:
        for kind in _DETAILS:
            message = kind()
            if packed.Unpack(message):
                found.append(message)
                break
    return found


def _pack(status: Status, detail: Message) -> None:
    packed = AnyMessage()
    packed.Pack(detail)
    status.details.append(packed)


def _fit(detail: Any, room: int) -> Any:
    """`detail` within `room` bytes; only BadRequest can be large, and says how many violations it leaves out."""
    if not isinstance(detail, rich.BadRequest):
        return detail
    fitted = rich.BadRequest()
    for index, violation in enumerate(detail.field_violations):
        if fitted.ByteSize() + violation.ByteSize() + 8 > room:
            left = len(detail.field_violations) - index
            fitted.field_violations.add(field="", description=f"and {left} more violations", reason=violation.reason)
            break
        fitted.field_violations.append(violation)
    return fitted


def _duration(seconds: float) -> Duration:
    nanos = round(seconds * 1e9)
    return Duration(seconds=nanos // 10**9, nanos=nanos % 10**9)


def _cut(text: str, limit: int = MAX_TEXT_BYTES) -> str:
    data = text.encode(errors="replace")
    return data.decode() if len(data) <= limit else data[: limit - 3].decode(errors="ignore") + "…"
