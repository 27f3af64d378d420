"""The workers: each takes a pass off the queue, runs it under its own trace, and says when the next one is due."""

from __future__ import annotations

import asyncio
import os
import time

import structlog
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import Status, StatusCode

from gateway.clock import Clock
from gateway.metrics import Metrics
from gateway.queue import Item, QueueClosed, WorkQueue
from gateway.reconcile import Reconciler, Result, Verdict
from services.kit import logs, tracing

_log = logs.get(__name__)


class Workers:
    """A fixed number of passes at a time. One that waits for an answer holds up no other."""

    def __init__(self, queue: WorkQueue, reconciler: Reconciler, clock: Clock, metrics: Metrics, count: int) -> None:
        self._queue = queue
        self._reconciler = reconciler
        self._clock = clock
        self._metrics = metrics
        self._count = count
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begins to take work; the queue is open. Workers that were still busy when it closed go on."""
        for _ in range(self._count - sum(not task.done() for task in self._tasks)):
            task = asyncio.ensure_future(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def finish(self, seconds: float) -> bool:
        """Waits until the passes that run have ended, after the queue was closed; those that take longer are cut off.
        False if there were any."""
        if not self._tasks:
            return True
        _, late = await asyncio.wait(set(self._tasks), timeout=seconds)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
        return not late

    async def _work(self) -> None:
        while True:
            try:
                item = await self._queue.get()
            except QueueClosed:
                return
            try:
                await self._one(item)
            except Exception:
                _log.exception("a worker failed", object=str(item.key))

    async def _one(self, item: Item) -> None:
        """One pass with its trace: `reconcile`, from when it was ready, and in it `queue.wait`."""
        waited = max(0.0, self._clock.monotonic() - item.waited_from)
        self._metrics.waited(item.lane.name.lower(), waited)
        reconcile_id = os.urandom(8).hex()
        ready = time.time_ns() - int(waited * 1e9)
        tracer = tracing.tracer()
        fresh = otel_context.Context()
        span = tracer.start_span("reconcile", fresh, start_time=ready)
        span.set_attributes({"object": str(item.key), "reconcile_id": reconcile_id})
        parent = trace.set_span_in_context(span, fresh)
        tracer.start_span("queue.wait", parent, start_time=ready, attributes={"lane": item.lane.name.lower()}).end()
        started = time.perf_counter()
        verdict = Verdict(Result.RETRY, cause="cut off")
        with (
            trace.use_span(span, end_on_exit=True, record_exception=False),
            structlog.contextvars.bound_contextvars(reconcile_id=reconcile_id, object=str(item.key)),
        ):
            try:
                verdict = await self._reconciler.run(item, reconcile_id, self._queue.interval(item.key))
            finally:
                self._finish(item, verdict, span)
                self._metrics.passed(verdict.result.value, time.perf_counter() - started)

    def _finish(self, item: Item, verdict: Verdict, span: trace.Span) -> None:
        delay = self._schedule(item, verdict)
        span.set_attributes({"outcome": verdict.result.value, "decision_id": verdict.decision_id})
        if verdict.result in (Result.RETRY, Result.TERMINAL):
            span.set_status(Status(StatusCode.ERROR, verdict.cause))
        facts = {"outcome": verdict.result.value, "writes": verdict.writes, "decision_id": verdict.decision_id}
        if verdict.result is Result.TERMINAL:
            _log.warning("pass ended", cause=verdict.cause, **facts)
        elif verdict.result is Result.RETRY:
            level = _log.warning if item.failures in (0, 4) and not verdict.shared else _log.debug
            level("pass ended", cause=verdict.cause, again_in=round(delay or 0.0, 3), **facts)
        elif verdict.writes:
            _log.info("pass ended", **facts)
        else:
            _log.debug("pass ended", cause=verdict.cause, **facts)

    def _schedule(self, item: Item, verdict: Verdict) -> float | None:
        if verdict.result is Result.RETRY:
            return self._queue.retry(item, verdict.at_least, verdict.again_in)
        if verdict.result is Result.WAITING:
            self._queue.postpone(item, verdict.again_in or 0.0)
        else:
            self._queue.done(item, verdict.again_in)
        return verdict.again_in
