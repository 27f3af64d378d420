"""Durations as Kubernetes and Go spell them: units ns us ms s m h, normal form `5m0s`."""

from __future__ import annotations

import re
from fractions import Fraction

UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_LIMIT = 2**63
MAX_TEXT = 256
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]+)")


class DurationError(ValueError):
    """Text that is no duration; the message says why."""


class UnknownUnitError(DurationError):
    """A duration with a unit nobody knows; `unit` is that unit."""

    def __init__(self, unit: str) -> None:
        super().__init__(f'unknown unit "{unit}"')
        self.unit = unit


def parse(text: str) -> int:
    """Nanoseconds of a duration: optional sign, then `0` or digits with a unit, repeated. Raises DurationError."""
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    if not rest:
        raise DurationError("not a duration")
    if len(rest) > MAX_TEXT:
        raise DurationError("not a duration: too long")
    total = Fraction(0)
    while rest:
        match = _PART.match(rest)
        if match is None or not (match[1] or match[2]):
            raise DurationError("not a duration")
        if match[3] not in UNITS:
            raise UnknownUnitError(match[3])
        number = Fraction(int(match[1] or "0"))
        if match[2]:
            number += Fraction(int(match[2]), 10 ** len(match[2]))
        total += int(number * UNITS[match[3]])
        if total > _LIMIT - (sign > 0):
            raise DurationError("not a duration: out of range")
        rest = rest[match.end() :]
    return sign * int(total)


def format(nanoseconds: int) -> str:
    """Normal form of a duration in nanoseconds: `5m0s`, `1.5s`, `300ms`, `0s`."""
    if nanoseconds == 0:
        return "0s"
    sign, value = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if value < 10**9:
        for unit, size in (("ms", 10**6), ("µs", 10**3), ("ns", 1)):
            if value >= size:
                return f"{sign}{_decimal(value, size)}{unit}"
    hours, rest = divmod(value, UNITS["h"])
    minutes, rest = divmod(rest, UNITS["m"])
    seconds = f"{_decimal(rest, 10**9)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def _decimal(value: int, size: int) -> str:
    whole, part = divmod(value, size)
    if not part:
        return str(whole)
    digits = str(part).rjust(len(str(size)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}"
