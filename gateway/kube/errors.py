"""What can go wrong between the gateway and the API server, as one exception per reaction.

`str(error)` is one line for the user: what was tried, on what, and where possible the remedy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import orjson

MAX_MESSAGE = 500


class KubeError(Exception):
    """An answer that is no success. `code` is the HTTP status (0: no answer), `reason` the Status reason, `message` the
    server's own text, `details` the Status details (empty when there were none)."""

    result: ClassVar[str] = "error"
    """The word for metrics and spans."""

    def __init__(self, code: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(_one_line(message))
        self.code = code
        self.reason = reason
        self.message = str(self)
        self.details: Mapping[str, Any] = details or {}

    @property
    def transient(self) -> bool:
        """The same request may succeed later without anybody changing anything."""
        return self.code == 0 or self.code == 429 or self.code >= 500


class BadRequest(KubeError):
    """400, and requests that the gateway itself refuses to send: no retry helps."""

    result = "invalid"


class Unauthorized(KubeError):
    """401: the credentials are not accepted."""

    result = "unauthorized"


class Forbidden(KubeError):
    """403: a right is missing (or a webhook denied)."""

    result = "forbidden"


class NotFound(KubeError):
    """404: no such object (or no such namespace to create it in)."""

    result = "not_found"


class KindMissing(KubeError):
    """404 on a path: the kind is not served, its CRD is not installed. It says nothing about any object."""

    result = "kind_missing"


class Conflict(KubeError):
    """409: the object is not the one the write was decided on. Drop the decision and look again."""

    result = "conflict"


class AlreadyExists(KubeError):
    """409 on a create."""

    result = "already_exists"


class Gone(KubeError):
    """410, or a resource version this server never reached: list again."""

    result = "gone"


class Invalid(KubeError):
    """422: the content is refused."""

    result = "invalid"


class TooManyRequests(KubeError):
    """429. `retry_after` is in seconds, 0 when the server named none."""

    result = "throttled"

    def __init__(
        self, code: int, reason: str, message: str, details: Mapping[str, Any] | None = None, retry_after: float = 0.0
    ) -> None:
        super().__init__(code, reason, message, details)
        self.retry_after = retry_after


class Unreachable(KubeError):
    """No complete answer: connection refused or lost, TLS failure, time-out. A write may have happened or not."""

    result = "unreachable"

    def __init__(self, message: str, reason: str = "Unreachable") -> None:
        super().__init__(0, reason, message)


class NotLeader(KubeError):
    """The write was not sent, because this process may not write now."""

    result = "not_leader"

    def __init__(self) -> None:
        super().__init__(0, "NotLeader", "not sent: this process does not hold the lease")


class ConfigError(Exception):
    """The kubeconfig, or the pod's own configuration, cannot be used. The text is one line for the user."""


_BY_CODE: dict[int, type[KubeError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
}


def from_status(status: Mapping[str, Any], code: int, action: str, retry_after: str = "") -> KubeError:
    """The exception for a Kubernetes Status (possibly empty) that came with HTTP status `code`; `action` says what was
    tried (`list inferenceservices.ome.io`)."""
    reason = str(status.get("reason") or "")
    text = str(status.get("message") or "") or f"the API server answered {code}"
    found = status.get("details")
    details: Mapping[str, Any] = found if isinstance(found, dict) else {}
    message = f"{action}: {text}"
    if code == 429:
        return TooManyRequests(code, reason, message, details, _seconds(retry_after, details))
    if code == 401:
        message += "; check the token or certificate in the kubeconfig"
    return _class_of(code, reason, details)(code, reason, message, details)


def from_body(body: bytes, code: int, action: str, retry_after: str = "") -> KubeError:
    """The same from an HTTP body, which need not be JSON (proxies, unknown paths)."""
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        status = {"message": body[:MAX_MESSAGE].decode(errors="replace").strip()}
    return from_status(status if isinstance(status, dict) else {}, code, action, retry_after)


def _class_of(code: int, reason: str, details: Mapping[str, Any]) -> type[KubeError]:
    if reason == "AlreadyExists":
        return AlreadyExists
    if reason == "Expired":
        return Gone
    found = details.get("causes")
    causes = [cause for cause in found if isinstance(cause, dict)] if isinstance(found, list) else []
    # A version from before the server's store was restored: it will not come, so a watch from it would wait for ever.
    if any(cause.get("reason") == "ResourceVersionTooLarge" for cause in causes):
        return Gone
    # What a patch with the uid of an earlier object of this name gets.
    if code == 422 and any(cause.get("field") == "metadata.uid" for cause in causes):
        return Conflict
    return _BY_CODE.get(code, KubeError)


def _seconds(retry_after: str, details: Mapping[str, Any]) -> float:
    for value in (retry_after, details.get("retryAfterSeconds")):
        try:
            return max(0.0, min(float(value or ""), 3600.0))
        except (TypeError, ValueError):
            continue
    return 0.0


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_MESSAGE else line[: MAX_MESSAGE - 3] + "..."
