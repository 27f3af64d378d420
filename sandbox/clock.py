"""The sandbox's sense of time: everything that stamps or waits asks a ``Clock``, so that tests can turn it by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol

RFC3339 = "%Y-%m-%dT%H:%M:%SZ"
RFC3339_MICRO = "%Y-%m-%dT%H:%M:%S.%fZ"


class Clock(Protocol):
    """A source of the current time."""

    def now(self) -> datetime:
        """The current time, aware, in UTC."""
        ...


class SystemClock:
    """The machine's wall clock."""

    def now(self) -> datetime:
        """The current time in UTC."""
        return datetime.now(UTC)


class VirtualClock:
    """A clock that stands still until it is moved; it never goes backwards."""

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """The time the clock was last moved to."""
        return self._now

    def advance(self, seconds: float) -> datetime:
        """Moves the clock by ``seconds`` (not negative) and returns the new time."""
        if seconds < 0:
            raise ValueError("a virtual clock cannot go backwards")
        self._now += timedelta(seconds=seconds)
        return self._now

    def set(self, moment: datetime) -> None:
        """Moves the clock to ``moment``, which must not lie before the current time."""
        if moment < self._now:
            raise ValueError("a virtual clock cannot go backwards")
        self._now = moment


def timestamp(moment: datetime) -> str:
    """``metav1.Time``: RFC 3339 in UTC with whole seconds."""
    return moment.astimezone(UTC).strftime(RFC3339)


def micro_timestamp(moment: datetime) -> str:
    """``metav1.MicroTime``: RFC 3339 in UTC with six digits of a second."""
    return moment.astimezone(UTC).strftime(RFC3339_MICRO)
