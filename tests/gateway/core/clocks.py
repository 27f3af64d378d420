"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

START = datetime(2026, 12, 1, tzinfo=UTC)


@dataclass
class VirtualTimer:
    callback: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


class VirtualClock:
    """`Clock` with virtual time; `advance` runs what is due, in order."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self._order = itertools.count()
        self._timers: list[tuple[float, int, VirtualTimer]] = []

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds - 1000.0)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> VirtualTimer:
        timer = VirtualTimer(callback)
        heapq.heappush(self._timers, (self.seconds + max(0.0, seconds), next(self._order), timer))
        return timer

    @property
    def pending(self) -> int:
        return sum(1 for _, _, timer in self._timers if not timer.cancelled)

    def next_in(self) -> float | None:
        """Seconds until something is due."""
        live = [at for at, _, timer in self._timers if not timer.cancelled]
        return min(live) - self.seconds if live else None

    def advance(self, seconds: float) -> None:
        end = self.seconds + seconds
        while self._timers and self._timers[0][0] <= end:
            at, _, timer = heapq.heappop(self._timers)
            self.seconds = max(self.seconds, at)
            if not timer.cancelled:
                timer.callback()
        self.seconds = end


async def settle(rounds: int = 50) -> None:
    """Lets every task run that can, without any time passing."""
    for _ in range(rounds):
        await asyncio.sleep(0)
