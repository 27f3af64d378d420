"""The string and number formats that a CRD schema may name."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
import uuid
from collections.abc import Callable
from datetime import date, datetime
from urllib.parse import urlsplit

_DATE_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})")
_DURATION = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))*|0")
_LABEL = r"[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*")
_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


def _date_time(text: str) -> bool:
    if not _DATE_TIME.fullmatch(text):
        return False
    seconds = re.sub(r"\.\d+", "", text.upper())
    return _parses(datetime.fromisoformat)(seconds.replace(":60", ":59"))


def _base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


STRINGS: dict[str, Callable[[str], bool]] = {
    "date-time": _date_time,
    "date": _parses(date.fromisoformat),
    "duration": lambda text: _DURATION.fullmatch(text) is not None,
    "byte": _base64,
    "uuid": _parses(uuid.UUID),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "cidr": lambda text: "/" in text and _parses(lambda t: ipaddress.ip_network(t, strict=False))(text),
    "hostname": lambda text: _HOST.fullmatch(text) is not None,
    "uri": _uri,
    "email": lambda text: re.fullmatch(r"[^@\s]+@[^@\s]+", text) is not None,
}


def string_fits(text: str, name: str) -> bool:
    """Whether a string has the format; formats that are not known hold for every string."""
    check = STRINGS.get(name)
    return check is None or check(text)


def integer_fits(value: int, name: str) -> bool:
    """Whether an integer lies in the range of its format (64 bits when none is named)."""
    low, high = _RANGES.get(name, _RANGES["int64"])
    return low <= value <= high
