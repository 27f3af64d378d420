"""Time as the gateway sees it: one injected clock, so that tests decide what time it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol


class Timer(Protocol):
    """What `call_later` answers."""

    def cancel(self) -> None:
        """The callback no longer runs; harmless once it has."""


class Clock(Protocol):
    """The two times a process needs and a way to wait."""

    def monotonic(self) -> float:
        """Seconds on a clock that never jumps: for waits and durations."""

    def now(self) -> datetime:
        """Wall time in UTC: for decisions, conditions and events."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Runs `callback` once in the event loop, `seconds` from now."""


class SystemClock:
    """The machine's clock and the running event loop."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(max(0.0, seconds), callback)
