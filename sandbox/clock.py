"""The sandbox's sense of time: everything that stamps or waits asks a ``Clock``, so that tests can turn it by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol


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
