"""From watch events to wakes, and from leadership to work."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from gateway.clock import Clock, Timer
from gateway.interests import InterestIndex
from gateway.kube.cache import Cache
from gateway.kube.kinds import ISVC
from gateway.kube.objects import CachedObject
from gateway.metrics import Metrics
from gateway.queue import Key, Lane, WorkQueue
from gateway.reconcile import Reconciler
from gateway.worker import Workers
from services.kit import logs

_log = logs.get(__name__)


class Controller:
    """Wakes InferenceServices while this process leads. A standby keeps its caches and does nothing else."""

    def __init__(
        self,
        isvcs: Cache,
        caches: Iterable[Cache],
        index: InterestIndex,
        queue: WorkQueue,
        reconciler: Reconciler,
        workers: Workers,
        clock: Clock,
        metrics: Metrics,
        resync_seconds: float,
    ) -> None:
        """`caches` are all of them, `isvcs` included."""
        self._isvcs = isvcs
        self._index = index
        self._queue = queue
        self._reconciler = reconciler
        self._workers = workers
        self._clock = clock
        self._resync_seconds = resync_seconds
        self._resync: Timer | None = None
        self._leading = self._stopped = False
        queue.close()
        for lane in Lane:
            metrics.watch_queue(lane.name.lower(), lambda lane=lane: queue.depth(lane))  # type: ignore[misc]
        isvcs.on_change(self._isvc_changed)
        for cache in caches:
            cache.on_change(self._object_changed)
            cache.on_sync(lambda cache=cache: self._synced(cache))  # type: ignore[misc]

    @property
    def leading(self) -> bool:
        """Passes run in this process."""
        return self._leading

    def lead(self) -> None:
        """Begins to work: everything is looked at once, what changes meanwhile comes first."""
        if self._leading or self._stopped:
            return
        self._leading = True
        self._reconciler.forget_all()
        self._queue.open()
        self._look_at_all()
        self._workers.start()
        _log.info("leading", inferenceservices=len(self._isvcs))

    def follow(self) -> None:
        """Ceases to work at once: nothing more is taken, and what passes still write is stopped by the fence."""
        if not self._leading:
            return
        self._leading = False
        self._queue.close()
        if self._resync is not None:
            self._resync.cancel()
            self._resync = None
        _log.info("standing by")

    async def stop(self, seconds: float) -> None:
        """Takes no more work, ever, and lets running passes finish, at most `seconds`."""
        self._stopped = True
        self.follow()
        if not await self._workers.finish(seconds):
            _log.warning("passes cut off on shutdown")

    def _look_at_all(self) -> None:
        self._queue.add_all((Key(obj.namespace, obj.name) for obj in self._isvcs), Lane.RESYNC)
        self._resync = self._clock.call_later(self._resync_seconds, self._look_at_all)

    def _isvc_changed(self, old: CachedObject | None, new: CachedObject | None) -> None:
        """Its own change wakes an InferenceService, its status included, but not a new resourceVersion alone."""
        obj = new or old
        if obj is not None and (old is None or new is None or old.content != new.content):
            self._queue.add(Key(obj.namespace, obj.name), Lane.CHANGE)

    def _object_changed(self, old: CachedObject | None, new: CachedObject | None) -> None:
        if not self._leading:
            return
        self._queue.add_all(self._index.woken_by(old, new), Lane.CHANGE)
        if old is None or new is None or old.content != new.content:
            self._queue.add_all({*_owners(old), *_owners(new)}, Lane.CHANGE)

    def _synced(self, cache: Cache) -> None:
        """What was not known of this kind is known now."""
        if self._leading:
            self._queue.add_all(self._index.of_kind(cache.kind.api_version, cache.kind.kind), Lane.CHANGE)


def _owners(obj: CachedObject | None) -> Iterable[Key]:
    for owner in obj.owners if obj is not None else ():
        if owner.kind == ISVC.kind and owner.api_version == ISVC.api_version and obj is not None:
            yield Key(obj.namespace, owner.name)


async def wait_for_caches(caches: Iterable[Cache], required: Cache, seconds: float) -> None:
    """Returns when all caches have synced; after `seconds`, when at least `required` has, naming the others."""
    rest = [asyncio.ensure_future(cache.wait_synced()) for cache in caches if cache is not required]
    try:
        await required.wait_synced()
        if rest:
            await asyncio.wait(rest, timeout=seconds)
    finally:
        for waiting in rest:
            waiting.cancel()
    for cache in caches:
        if not cache.synced:
            # Why it cannot be read is told by its reflector.
            _log.info("going on without the list of a kind", kind=cache.kind.kind)
