"""The work queue: which InferenceService gets its next pass, and when.

One pass per key at a time; wakes that come meanwhile are folded into one further pass. Two lanes: real changes go
before the initial list and resyncs. A failing key waits longer each time, on its own, without a worker.
"""

from __future__ import annotations

import asyncio
import enum
import heapq
import itertools
import random
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from gateway.clock import Clock, Timer


class Key(NamedTuple):
    """An InferenceService."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Lane(enum.IntEnum):
    """Which waits first; the lower number is served first."""

    CHANGE = 0
    """Something changed, or a stated time has come."""
    RESYNC = 1
    """The initial list, and the look at everything from time to time."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a key waits after its n-th failure in a row: `base` * 2**(n-1) seconds, at most `cap`, of which a
    random share up to `jitter` is taken off so that keys that failed together do not return together."""

    base: float = 0.25
    cap: float = 60.0
    jitter: float = 0.25

    def delay(self, failures: int, draw: float) -> float:
        """Seconds to wait after `failures` failures; `draw` is random in [0, 1)."""
        longest = min(self.cap, self.base * 2.0 ** min(max(failures, 1) - 1, 60))
        return longest * (1.0 - self.jitter * draw)


@dataclass(frozen=True, slots=True)
class Item:
    """A key whose pass begins. `waited_from` is the clock's time since when it was ready, in seconds; `failures` how
    many passes failed in a row before."""

    key: Key
    lane: Lane
    waited_from: float
    failures: int


class QueueClosed(Exception):
    """No more work is handed out."""


@dataclass(slots=True)
class _Entry:
    """State of a key that is known to the queue. It is in at most one lane; `due` names the time, if any, at which it
    returns by itself."""

    failures: int = 0
    running: bool = False
    dirty: Lane | None = None
    lane: Lane | None = None
    since: float = 0.0
    due: int | None = None
    due_lane: Lane = Lane.CHANGE
    penalised: bool = False


class WorkQueue:
    """Keys in, items out. Not thread-safe: it lives in one event loop, and every method but `get` is immediate."""

    def __init__(self, clock: Clock, backoff: Backoff | None = None, draw: Callable[[], float] = random.random) -> None:
        self._clock = clock
        self._backoff = backoff or Backoff()
        self._draw = draw
        self._entries: dict[Key, _Entry] = {}
        self._lanes: dict[Lane, OrderedDict[Key, None]] = {lane: OrderedDict() for lane in Lane}
        self._due: list[tuple[float, int, Key]] = []
        self._numbers = itertools.count()
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._waiters: set[asyncio.Future[None]] = set()
        self._closed = False

    def add(self, key: Key, lane: Lane = Lane.CHANGE) -> None:
        """Wakes a key. While its pass runs, one more pass follows; a key that already waits keeps its place, or moves
        to the better lane. A change ends a back-off early, a resync does not."""
        if self._closed:
            return
        entry = self._entries.setdefault(key, _Entry())
        if entry.running:
            entry.dirty = lane if entry.dirty is None else min(entry.dirty, lane)
        elif lane is Lane.CHANGE or not entry.penalised:
            self._ready(key, entry, lane)

    def add_all(self, keys: Iterable[Key], lane: Lane) -> None:
        """Wakes many keys."""
        for key in keys:
            self.add(key, lane)

    async def get(self) -> Item:
        """The next item, of the best lane that has one; waits for it. QueueClosed after `close`."""
        while True:
            if self._closed:
                raise QueueClosed
            for lane in Lane:
                if self._lanes[lane]:
                    key, _ = self._lanes[lane].popitem(last=False)
                    return self._start(key, lane)
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if not waiter.cancelled():
                    self._notify()  # it had been woken for a key, which another waiter must take now
                raise
            finally:
                self._waiters.discard(waiter)

    def done(self, item: Item, again_in: float | None = None) -> None:
        """The pass of `item` ended well: its failures are forgotten, and it returns in `again_in` seconds, if given,
        unless something wakes it before."""
        self._finish(item, 0, again_in, Lane.CHANGE)

    def retry(self, item: Item, at_least: float = 0.0, at_most: float | None = None) -> float:
        """The pass of `item` failed for now: it returns after its back-off, in the lane it had, not before `at_least`
        seconds, but not after `at_most`, when it has something to decide. Returns the seconds."""
        failures = item.failures + 1
        delay = max(at_least, self._backoff.delay(failures, self._draw()))
        if at_most is not None:
            delay = min(delay, at_most)
        self._finish(item, failures, delay, item.lane, penalised=True)
        return delay

    def postpone(self, item: Item, seconds: float) -> None:
        """The pass of `item` could not begin yet: it returns in `seconds`, its failures stay as they are."""
        self._finish(item, item.failures, seconds, item.lane)

    def hurry(self) -> None:
        """Ends every back-off now, in the lane it has: what most of them waited for is back. The counts stay."""
        for key, entry in self._entries.items():
            if entry.penalised and not entry.running and not self._closed:
                self._ready(key, entry, entry.due_lane)

    def forget(self, key: Key) -> None:
        """Drops a key that is gone. A pass that runs ends by itself."""
        entry = self._entries.get(key)
        if entry is None:
            return
        for lane in Lane:
            self._lanes[lane].pop(key, None)
        if entry.running:
            entry.dirty = entry.lane = entry.due = None
            entry.failures = 0
        else:
            del self._entries[key]

    def interval(self, key: Key) -> float:
        """Seconds of the back-off the key is in, without jitter; the shortest one when it is in none."""
        entry = self._entries.get(key)
        return self._backoff.delay(entry.failures if entry else 0, 0.0)

    def depth(self, lane: Lane) -> int:
        """Keys that wait for a worker."""
        return len(self._lanes[lane])

    def clear(self) -> None:
        """Drops all that waits, failures included. Passes that run end by themselves."""
        for key in list(self._entries):
            self.forget(key)
        self._due.clear()
        self._rearm()

    def open(self) -> None:
        """Takes work again after `close`."""
        self.clear()
        self._closed = False

    def close(self) -> None:
        """Drops all that waits, takes no more and hands out no more; everyone in `get` leaves with QueueClosed."""
        self._closed = True
        self.clear()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _start(self, key: Key, lane: Lane) -> Item:
        entry = self._entries[key]
        entry.running, entry.lane, entry.due, entry.penalised = True, None, None, False
        return Item(key, lane, entry.since, entry.failures)

    def _finish(self, item: Item, failures: int, delay: float | None, lane: Lane, penalised: bool = False) -> None:
        entry = self._entries.get(item.key)
        if entry is None or not entry.running:
            return
        entry.running, entry.failures, entry.penalised = False, failures, penalised
        if self._closed:
            del self._entries[item.key]
            return
        if delay is not None:
            entry.due, entry.due_lane = next(self._numbers), lane
            heapq.heappush(self._due, (self._clock.monotonic() + delay, entry.due, item.key))
            if len(self._due) > 2 * len(self._entries) + 64:  # overtaken times would pile up until they come
                self._due = [planned for planned in self._due if self._current(planned)]
                heapq.heapify(self._due)
            self._rearm()
        dirty, entry.dirty = entry.dirty, None
        if dirty is not None:
            self.add(item.key, dirty)
        elif delay is None and not failures:
            del self._entries[item.key]

    def _ready(self, key: Key, entry: _Entry, lane: Lane) -> None:
        if entry.lane is None:
            entry.since = self._clock.monotonic()
        elif entry.lane <= lane:
            return
        else:
            del self._lanes[entry.lane][key]
        entry.lane = lane
        self._lanes[lane][key] = None
        self._notify()

    def _notify(self) -> None:
        # A waiter that was woken is done but still listed until it runs: one more wake goes to another.
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
                return

    def _rearm(self) -> None:
        """Keeps one timer, for the earliest key that is due; entries that were overtaken are dropped on the way."""
        while self._due and not self._current(self._due[0]):
            heapq.heappop(self._due)
        if not self._due:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            return
        at = self._due[0][0]
        if self._timer is not None:
            if self._timer_at == at:
                return
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._clock.call_later(at - self._clock.monotonic(), self._wake_due)

    def _current(self, planned: tuple[float, int, Key]) -> bool:
        entry = self._entries.get(planned[2])
        return entry is not None and entry.due == planned[1]

    def _wake_due(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        while self._due and self._due[0][0] <= now:
            planned = heapq.heappop(self._due)
            if self._current(planned):
                key = planned[2]
                entry = self._entries[key]
                entry.due = None
                if not entry.running:
                    self._ready(key, entry, entry.due_lane)
        self._rearm()
