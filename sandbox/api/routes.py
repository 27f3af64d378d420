"""Paths of the API and the parameters of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sandbox.api.messages import Request
from sandbox.api.status import StatusError, bad_request, cause, invalid


@dataclass(frozen=True)
class Route:
    """A path of a resource: ``name`` and ``subresource`` are empty for collections."""

    group: str
    version: str
    plural: str
    namespace: str
    name: str
    subresource: str


def parse(path: str) -> Route | None:
    """The resource that ``path`` names, or None when it is not of that form (RequestInfo of the API machinery)."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (len(rest) == 3 and rest[2] in ("status", "finalize")):
        namespace, rest = rest[1], rest[2:]
    if not 1 <= len(rest) <= 3 or "" in rest:
        return None
    plural, name, subresource = (*rest, "", "")[:3]
    return Route(group, version, plural, namespace, name, subresource)


FIELD_VALIDATION = ("Ignore", "Warn", "Strict")


@dataclass(frozen=True)
class WriteOptions:
    """The parameters of create, update and patch."""

    dry_run: bool
    field_manager: str
    field_validation: str
    force: bool


def write_options(request: Request) -> WriteOptions:
    """The write parameters of a request, checked (422 for values that do not exist)."""
    validation = request.query.get("fieldValidation") or "Warn"
    if validation not in FIELD_VALIDATION:
        text = f'Unsupported value: "{validation}": supported values: "", "Ignore", "Strict", "Warn"'
        raise _bad_option(request, "fieldValidation", "FieldValueNotSupported", text)
    agent = request.header("user-agent").split("/", 1)[0]
    manager = request.query.get("fieldManager") or agent or "unknown"
    if len(manager) > 128:
        raise _bad_option(request, "fieldManager", "FieldValueTooLong", "Too long: may not be more than 128 bytes")
    return WriteOptions(dry_run(request, request.query), manager, validation, request.flag("force"))


def dry_run(request: Request, options: Mapping[str, object]) -> bool:
    """Whether ``dryRun`` asks for a trial; 422 for a value other than All."""
    asked = options.get("dryRun")
    values = asked if isinstance(asked, list) else [asked] if asked else []
    for value in values:
        if value != "All":
            raise _bad_option(
                request, "dryRun", "FieldValueNotSupported", f'Unsupported value: "{value}": supported values: "All"'
            )
    return bool(values)


def _bad_option(request: Request, field: str, reason: str, text: str) -> StatusError:
    kind = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}.get(
        request.method, "DeleteOptions"
    )
    return invalid("meta.k8s.io", kind, "", [cause(field, reason, text)])


def integer(request: Request, name: str) -> int | None:
    """A query parameter that must be a whole number of at least 0; None when absent or empty."""
    text = request.query.get(name)
    if not text:
        return None
    try:
        value = int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
    if value < 0:
        raise bad_request(f"{name} must not be negative")
    return value


def revision(text: str) -> int:
    """A resourceVersion parameter; 400 when it is not a number."""
    if not text.isascii() or not text.isdigit():
        raise bad_request(f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text)
