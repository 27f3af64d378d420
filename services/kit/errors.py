"""gRPC errors with details: one exception type that servicers raise and the server turns into a rich status.

Every error carries `google.rpc.ErrorInfo` with domain `ome.io` and a machine-readable reason; further details
depend on the code (`design.md` section 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

DOMAIN = "ome.io"
DETAILS_KEY = "grpc-status-details-bin"


@dataclass(frozen=True, slots=True)
class Violation:
    """One faulty field: its path in the request (`observation.isvc.json`) and what to do about it."""

    field: str
    description: str


class RpcError(Exception):
    """An answer that is an error. In: code, reason (UPPER_SNAKE or a condition reason), text, further details."""

    def __init__(self, code: grpc.StatusCode, reason: str, message: str, details: Sequence[Message] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = tuple(details)

    def status(self) -> status_pb2.Status:
        """The `google.rpc.Status` that travels in the trailing metadata."""
        info = error_details_pb2.ErrorInfo(reason=self.reason, domain=DOMAIN)
        packed = []
        for detail in (info, *self.details):
            box = any_pb2.Any()
            box.Pack(detail)
            packed.append(box)
        return status_pb2.Status(code=self.code.value[0], message=self.message, details=packed)


def invalid_argument(reason: str, violations: Sequence[Violation]) -> RpcError:
    """INVALID_ARGUMENT with a `BadRequest` naming every faulty field; the message is the violations in one line."""
    detail = error_details_pb2.BadRequest(
        field_violations=[
            error_details_pb2.BadRequest.FieldViolation(field=item.field, description=item.description)
            for item in violations
        ]
    )
    text = "; ".join(f"{item.field}: {item.description}" if item.field else item.description for item in violations)
    return RpcError(grpc.StatusCode.INVALID_ARGUMENT, reason, text, [detail])


def failed_precondition(reason: str, subject: str, description: str) -> RpcError:
    """FAILED_PRECONDITION with a `PreconditionFailure` of type `reason` on `subject`."""
    detail = error_details_pb2.PreconditionFailure(
        violations=[
            error_details_pb2.PreconditionFailure.Violation(type=reason, subject=subject, description=description)
        ]
    )
    return RpcError(grpc.StatusCode.FAILED_PRECONDITION, reason, description, [detail])


def resource_exhausted(reason: str, subject: str, description: str) -> RpcError:
    """RESOURCE_EXHAUSTED with a `QuotaFailure` on `subject`."""
    detail = error_details_pb2.QuotaFailure(
        violations=[error_details_pb2.QuotaFailure.Violation(subject=subject, description=description)]
    )
    return RpcError(grpc.StatusCode.RESOURCE_EXHAUSTED, reason, description, [detail])


def not_found(reason: str, description: str) -> RpcError:
    """NOT_FOUND: the named thing is not there."""
    return RpcError(grpc.StatusCode.NOT_FOUND, reason, description)


def aborted(reason: str, description: str) -> RpcError:
    """ABORTED: a compare-and-set was lost; read again and retry."""
    return RpcError(grpc.StatusCode.ABORTED, reason, description)


def unimplemented(method: str) -> RpcError:
    """UNIMPLEMENTED: this build has no such decision yet; `method` is the RPC's name."""
    return RpcError(grpc.StatusCode.UNIMPLEMENTED, "UNIMPLEMENTED", f"{method} is not implemented by this version")


def unavailable(reason: str, description: str, retry_after_seconds: float) -> RpcError:
    """UNAVAILABLE with a `RetryInfo`; nothing was done, the call may be sent again after that time."""
    delay = duration_pb2.Duration()
    delay.FromMilliseconds(int(retry_after_seconds * 1000))
    return RpcError(grpc.StatusCode.UNAVAILABLE, reason, description, [error_details_pb2.RetryInfo(retry_delay=delay)])
