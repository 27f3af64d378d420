"""``metav1.Status`` errors with the codes, reasons, details and texts of kube-apiserver."""

from __future__ import annotations

from collections.abc import Sequence

from sandbox.jsontypes import JsonObject


class StatusError(Exception):
    """An answer other than success. ``details`` is the ``details`` member of the Status."""

    def __init__(self, code: int, reason: str, message: str, details: JsonObject | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.list_meta: JsonObject = {}
        """``metadata`` of the Status: an expired continue token comes with a fresh one."""

    def body(self) -> JsonObject:
        """The Status object."""
        body: JsonObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.list_meta,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


def qualified(group: str, plural: str) -> str:
    """``plural.group``, or ``plural`` in the core group."""
    return f"{plural}.{group}" if group else plural


def _details(group: str, kind: str, name: str, causes: Sequence[JsonObject] = ()) -> JsonObject:
    details: JsonObject = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    if causes:
        details["causes"] = list(causes)
    return details


def not_found(group: str, plural: str, name: str) -> StatusError:
    """404: no such object."""
    message = f'{qualified(group, plural)} "{name}" not found'
    return StatusError(404, "NotFound", message, _details(group, plural, name))


def no_resource() -> StatusError:
    """404: the path names no resource that is served."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(group: str, plural: str, name: str) -> StatusError:
    """409: create of a name that is taken."""
    message = f'{qualified(group, plural)} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, _details(group, plural, name))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(group: str, plural: str, name: str, why: str = MODIFIED) -> StatusError:
    """409: the object is not in the state that the request was made for."""
    message = f'Operation cannot be fulfilled on {qualified(group, plural)} "{name}": {why}'
    return StatusError(409, "Conflict", message, _details(group, plural, name))


def bad_request(message: str) -> StatusError:
    """400: the request itself is malformed."""
    return StatusError(400, "BadRequest", message)


def forbidden(group: str, plural: str, name: str, why: str, causes: Sequence[JsonObject] = ()) -> StatusError:
    """403: refused by policy."""
    message = f'{qualified(group, plural)} "{name}" is forbidden: {why}'
    return StatusError(403, "Forbidden", message, _details(group, plural, name, causes))


def unauthorized() -> StatusError:
    """401: no valid credentials."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def method_not_allowed() -> StatusError:
    """405: the resource does not support the verb."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, {})


def expired(message: str) -> StatusError:
    """410: a resourceVersion or continue token that is too old."""
    return StatusError(410, "Expired", message)


TOKEN_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


def cause(field: str, reason: str, message: str) -> JsonObject:
    """A ``StatusCause``: ``message`` without the field's name."""
    return {"reason": reason, "message": message, "field": field}


def invalid(group: str, kind: str, name: str, causes: Sequence[JsonObject]) -> StatusError:
    """422: the object breaks rules of its kind; ``causes`` name the fields."""
    texts = list(dict.fromkeys(f"{c['field']}: {c['message']}" for c in causes))
    joined = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    message = f'{qualified(group, kind)} "{name}" is invalid: {joined}'
    return StatusError(422, "Invalid", message, _details(group, kind, name, causes))


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    """415: a body in a form that is not understood."""
    message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
    return StatusError(415, "UnsupportedMediaType", message)


def not_acceptable(offered: Sequence[str]) -> StatusError:
    """406: none of the forms the caller accepts can be made."""
    message = "only the following media types are accepted: " + ", ".join(offered)
    return StatusError(406, "NotAcceptable", message)


def too_large() -> StatusError:
    """413: the body exceeds the limit."""
    return StatusError(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")


def internal(message: str) -> StatusError:
    """500: the server failed."""
    text = f"Internal error occurred: {message}"
    return StatusError(500, "InternalError", text, {"causes": [{"message": message}]})
