"""Faults of built-in kinds, in the words of ``k8s.io/apimachinery``'s field errors."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sandbox.jsontypes import JsonObject, JsonValue
from sandbox.schema.validation import Fault
from sandbox.schema.values import quote, shown

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


def required(field: str, why: str = "") -> Fault:
    """A value that is missing."""
    return Fault(field, "FieldValueRequired", f"Required value: {why}" if why else "Required value")


def invalid(field: str, value: JsonValue, why: str) -> Fault:
    """A value that is not allowed."""
    return Fault(field, "FieldValueInvalid", f"Invalid value: {shown(value)}: {why}")


def forbidden(field: str, why: str) -> Fault:
    """A value that may not be given here."""
    return Fault(field, "FieldValueForbidden", f"Forbidden: {why}")


def duplicate(field: str, value: JsonValue) -> Fault:
    """A value that is given twice."""
    return Fault(field, "FieldValueDuplicate", f"Duplicate value: {shown(value)}")


def not_found(field: str, value: JsonValue) -> Fault:
    """A name that nothing has."""
    return Fault(field, "FieldValueNotFound", f"Not found: {shown(value)}")


def too_long(field: str, most: int) -> Fault:
    """A text above its limit in bytes."""
    return Fault(field, "FieldValueTooLong", f"Too long: may not be more than {most} bytes")


def one_of(field: str, value: JsonValue, allowed: Iterable[str]) -> list[Fault]:
    """Nothing when the value is allowed, else what is."""
    names = list(allowed)
    if value in names:
        return []
    text = f"Unsupported value: {shown(value)}: supported values: " + ", ".join(quote(name) for name in names)
    return [Fault(field, "FieldValueNotSupported", text)]


def at_least_zero(obj: JsonObject, path: str, *names: str) -> list[Fault]:
    """Members that may not be negative."""
    text = "must be greater than or equal to 0"
    return [invalid(f"{path}.{name}", obj[name], text) for name in names if obj.get(name) is not None and obj[name] < 0]


def label(field: str, value: str) -> list[Fault]:
    """A DNS label, required."""
    if not value:
        return [required(field)]
    found = []
    if len(value) > 63:
        found.append(invalid(field, value, "must be no more than 63 characters"))
    if not LABEL.fullmatch(value):
        found.append(invalid(field, value, LABEL_TEXT))
    return found


def port_name(field: str, value: str) -> list[Fault]:
    """An ``IANA_SVC_NAME``."""
    found = []
    if len(value) > 15:
        found.append(invalid(field, value, "must be no more than 15 characters"))
    if not re.fullmatch(r"[-a-z0-9]+", value):
        found.append(invalid(field, value, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"))
    elif not re.search(r"[a-z]", value):
        found.append(invalid(field, value, "must contain at least one letter (a-z)"))
    if "--" in value:
        found.append(invalid(field, value, "must not contain consecutive hyphens"))
    if value.startswith("-") or value.endswith("-"):
        found.append(invalid(field, value, "must not begin or end with a hyphen"))
    return found


def port(field: str, value: JsonValue) -> list[Fault]:
    """A port number."""
    if isinstance(value, int) and 1 <= value <= 65535:
        return []
    return [invalid(field, value, "must be between 1 and 65535, inclusive")]
