"""Keeps one cache current: a list in pages, then a watch that goes on where the last one ended.

| what happens | reason | what follows |
|---|---|---|
| 410, as a status or as an ERROR event; a version the server never reached | gone | a new list |
| the page token of a list expired | gone | the list from its start; the second time in one piece |
| the connection broke or was refused | unreachable | back-off, then a watch from the last version seen |
| nothing came for `inactivity` seconds | inactive | a watch from the last version seen |
| the server ended the watch | closed | the same; after a back-off if it ended at once and brought nothing |
| the kind is not served (no CRD) | kind_missing | back-off, then a list, so that it works when the CRD comes |
| 401, 403, other 4xx | unauthorized, forbidden, error | back-off, then a list |
| 429, 5xx | throttled, error | back-off (at least what the server asks for), then as before |
| an answer that is not understood | error | back-off, then a list |

Each trouble is logged once and shown as the cache's `error` while it lasts.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import cast

import structlog

from gateway.kube import metrics
from gateway.kube.cache import Cache
from gateway.kube.client import KubeClient, WatchEvent
from gateway.kube.errors import Gone, KindMissing, KubeError, TooManyRequests, Unreachable
from gateway.kube.kinds import Kind
from gateway.kube.objects import CachedObject
from gateway.kube.report import Reporter


@dataclass(frozen=True, slots=True)
class Tuning:
    """Sizes and times, in seconds. A back-off is `base` * 2**n up to `cap`, of which a random half is taken off."""

    page_size: int = 250
    watch_seconds: float = 300.0
    """Least time a watch is asked for; the most is twice as long, so that watches do not end together."""
    inactivity: float = 120.0
    """API servers send a bookmark about once a minute: a connection silent for longer is taken for dead."""
    base: float = 0.5
    cap: float = 30.0
    short: float = 1.0
    """A watch that the server ends sooner than this, having sent nothing, counts as a failure."""


_log = structlog.get_logger(__name__)


class Inactive(Exception):
    """The watch was silent for too long."""


class Reflector:
    """Feeds `cache` with the objects of `kind` in `namespace` (None: the whole cluster)."""

    def __init__(
        self, client: KubeClient, kind: Kind, cache: Cache, namespace: str | None = None, *,
        tuning: Tuning | None = None, reporter: Reporter | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        """`clock` is monotonic, in seconds; `draw` is random in [0, 1). ValueError for a kind that is never listed."""
        if not kind.listed:
            raise ValueError(f"{kind.kind} is never listed or watched")
        self._client, self._kind, self._cache = client, kind, cache
        self._namespace = namespace or ""
        self._tuning = tuning or Tuning()
        self._reporter = reporter or Reporter()
        self._clock, self._sleep, self._draw = clock, sleep, draw
        self._rv = ""
        self._failures = 0
        self._expired = False  # the version before was too old as well
        self._heard = 0.0

    async def run(self) -> None:
        """Until cancelled; nothing that the API server does ends it."""
        while True:
            error: KubeError | None = None
            try:
                if not self._rv:
                    await self._list()
                await self._watch()
                reason = "closed"
            except Inactive:
                reason = "inactive"
            except KubeError as failure:
                reason, error = failure.result, failure
                if isinstance(failure, Gone) or not failure.transient:
                    self._rv = ""
            except Exception as fault:  # a fault of our own, over one odd object, must not end the other kinds
                _log.exception("the reflector failed", kind=self._kind.kind)
                error = KubeError(500, "Internal", f"{self._kind.kind}: {type(fault).__name__}: {fault}")
                reason, self._rv = error.result, ""
            metrics.WATCH_RESTARTS.labels(self._kind.kind, reason).inc()
            await self._pause(error)

    async def _list(self) -> None:
        objects, rv = await self._pages()
        self._cache.replace(objects, rv)
        self._rv = rv
        metrics.LISTS.labels(self._kind.kind).inc()
        metrics.CACHED.labels(self._kind.kind).set(len(self._cache))
        self._well()

    async def _pages(self) -> tuple[list[CachedObject], str]:
        """A complete list and its version. An expired token starts it again, the second time without pages."""
        for limit in (self._tuning.page_size, self._tuning.page_size, 0):
            objects: list[CachedObject] = []
            token = ""
            try:
                while True:
                    page = await self._client.list(self._kind, self._namespace, limit=limit, continue_token=token)
                    objects += page.items
                    token = page.continue_token
                    if not token:
                        return objects, page.resource_version
            except Gone:
                if not token:
                    raise
                metrics.WATCH_RESTARTS.labels(self._kind.kind, Gone.result).inc()
        raise Gone(410, "Expired", f"list {self._kind.resource}: the list expired again and again")

    async def _watch(self) -> None:
        """Reads one watch to its end, guarded against silence."""
        started = self._heard = self._clock()
        reader = asyncio.ensure_future(self._read())
        guard = asyncio.ensure_future(self._guard())
        try:
            await asyncio.wait({reader, guard}, return_when=asyncio.FIRST_COMPLETED)
            if reader.done():
                if not reader.result() and self._clock() - started < self._tuning.short:
                    self._failures += 1
            else:
                raise Inactive
        finally:
            for task in (reader, guard):
                task.cancel()
            await asyncio.gather(reader, guard, return_exceptions=True)
            if self._clock() - started >= self._tuning.short:
                self._failures, self._expired = 0, False

    async def _guard(self) -> None:
        """Ends when nothing has been heard for too long."""
        while (left := self._heard + self._tuning.inactivity - self._clock()) > 0:
            await self._sleep(left)

    async def _read(self) -> int:
        """Takes in the events of one watch; answers how many."""
        seconds = int(self._tuning.watch_seconds * (1 + self._draw()))
        watch = cast(
            AsyncGenerator[WatchEvent, None], self._client.watch(self._kind, self._namespace, self._rv, seconds)
        )
        events = 0
        async with contextlib.aclosing(watch):
            async for event in watch:
                self._heard = self._clock()
                if event.type == "OPENED":
                    self._well()
                    continue
                events += 1
                self._failures, self._expired = 0, False
                self._take(event)
        return events

    def _take(self, event: WatchEvent) -> None:
        if event.obj is None:
            self._cache.advance(event.resource_version)
        elif event.type == "DELETED":
            self._cache.remove(event.obj)
        else:
            self._cache.store(event.obj)
        if event.resource_version:
            self._rv = event.resource_version
        metrics.CACHED.labels(self._kind.kind).set(len(self._cache))

    def _well(self) -> None:
        self._cache.error, self._cache.missing = "", False
        self._reporter.well(self._kind.kind)

    async def _pause(self, error: KubeError | None) -> None:
        """Says what is wrong, in cache and log, and waits before the next attempt where the last one failed."""
        least = 0.0
        if isinstance(error, Gone) and not self._expired:
            self._expired = True  # a new list mends it
            return
        if error is not None:
            # One lost connection is how a watch ends: only what stays is a trouble.
            if not (self._cache.synced and self._failures == 0 and isinstance(error, Unreachable)):
                self._cache.error, self._cache.missing = str(error), isinstance(error, KindMissing)
                self._reporter.trouble(self._kind.kind, str(error))
            self._failures += 1
            if isinstance(error, TooManyRequests):
                least = error.retry_after
        if self._failures == 0:
            return
        longest = min(self._tuning.cap, self._tuning.base * 2.0 ** min(self._failures - 1, 30))
        await self._sleep(max(least, longest * (1 - self._draw() / 2)))
