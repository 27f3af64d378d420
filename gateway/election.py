"""Leader election by a Lease of coordination.k8s.io, with the rules of client-go, so that replicas of both understand
one another.

Two times never mix. Whether *another* holder's lease has run out is judged by how long ago this process saw the record
change, so clocks that disagree do no harm. Whether *this* process may write is judged by when it sent its last
successful renewal, on a clock that goes on while the machine sleeps: a leader that was stopped and woken up cannot
write, because the others count from a later moment and for longer.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import orjson
import structlog

from gateway.kube import metrics
from gateway.kube.client import KubeClient
from gateway.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from gateway.kube.kinds import LEASE
from gateway.kube.objects import CachedObject
from gateway.kube.report import Reporter
from services.kit.times import micro_timestamp

_log = structlog.get_logger(__name__)
T = TypeVar("T")


def boot_time() -> float:
    """Seconds since boot, sleep included; nobody can set it."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """In seconds. `duration`: how long others leave a silent holder its lease. `renew_deadline`: how long the holder
    writes after its last renewal. `retry_period`: time between attempts. ValueError unless duration > renew_deadline >
    1.2 * retry_period > 0 and the duration is a whole number."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > 1.2 * self.retry_period > 0:
            raise ValueError("lease times: duration > renew deadline > 1.2 * retry period > 0 must hold")
        if self.duration < 1 or self.duration != int(self.duration):
            raise ValueError("lease duration: a Lease holds whole seconds, 1 or more")


class Election:
    """One candidate. `identity` must differ between processes, also between two lives of one pod."""

    def __init__(
        self, client: KubeClient, identity: str, namespace: str, name: str = "ome-gateway", *,
        times: LeaseTimes | None = None, reporter: Reporter | None = None,
        clock: Callable[[], float] = boot_time, now: Callable[[], datetime] = _utc_now,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep, draw: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        """`clock`, in seconds, must not stop while the machine or the process does."""
        self._client, self._identity, self._namespace, self._name = client, identity, namespace, name
        self._times = times or LeaseTimes()
        self._reporter = reporter or Reporter()
        self._clock, self._now, self._sleep, self._draw = clock, now, sleep, draw
        self._leads = False
        self._valid_until = 0.0
        self._seen: CachedObject | None = None
        self._seen_at = 0.0
        self._doubtful = False  # an attempt failed: what was seen last may not be what is there
        self._seen_record: tuple[object, ...] = ()
        self._started: list[Callable[[], None]] = []
        self._stopped: list[Callable[[], None]] = []
        self._ending = asyncio.Event()
        self._running: asyncio.Future[None] | None = None

    @property
    def is_leader(self) -> bool:
        """This process leads, as far as it has noticed. Before a write ask `may_write`."""
        return self._leads

    @property
    def holder(self) -> str:
        """Who held the lease when it was last seen; empty for nobody."""
        return str(_spec(self._seen).get("holderIdentity") or "")

    def may_write(self) -> bool:
        """The lease is this process's at this very moment: less than `renew_deadline` has passed since the last
        successful renewal was *sent*."""
        return self._leads and self._clock() < self._valid_until

    def on_started(self, callback: Callable[[], None]) -> None:
        """`callback` runs whenever this process begins to lead."""
        self._started.append(callback)

    def on_stopped(self, callback: Callable[[], None]) -> None:
        """`callback` runs whenever it ceases to: the lease ran out, was taken, or was released."""
        self._stopped.append(callback)

    async def run(self) -> None:
        """Takes part until `stop` or cancellation. A lease that cannot be renewed in time is given up, and taken again
        when that works; no trouble with the API server ends it."""
        running = self._running = asyncio.ensure_future(self._campaign())
        try:
            await asyncio.wait({running})
            if not running.cancelled():
                running.result()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            self._demote("ending")

    async def stop(self) -> None:
        """Graceful end, after the caller finished its writes: writes nothing any more, releases the lease so that
        another can take it at once, and ends `run`."""
        held = self._leads
        self._ending.set()
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})
        self._demote("released")
        if held:
            try:
                await self._within(self._release(), self._times.retry_period)
            except (KubeError, TimeoutError) as error:
                _log.info("the lease was not released; it runs out by itself", error=str(error))

    async def _campaign(self) -> None:
        while not self._ending.is_set():
            await self._step()
            # Jitter only while waiting: a leader renews regularly.
            jitter = 0.0 if self._leads else 0.2 * self._draw()
            await self._sleep(self._times.retry_period * (1 + jitter))

    async def _step(self) -> None:
        """One attempt to take or renew the lease."""
        if self._leads and self._clock() >= self._valid_until:
            self._demote("the lease could not be renewed in time")
        limit = self._valid_until - self._clock() if self._leads else self._times.renew_deadline
        try:
            held = await self._within(self._take_or_renew(), limit)
        except (KubeError, TimeoutError) as error:
            text = str(error) or "leader election: no answer in time"
            self._reporter.trouble("election", text)
            self._doubtful = True
            if self._leads and self._clock() >= self._valid_until:
                self._demote("the lease could not be renewed in time")
            return
        self._reporter.well("election")
        if not held:
            self._demote("another holds the lease")

    async def _take_or_renew(self) -> bool:
        """True when the lease is ours afterwards."""
        if not self._leads or self._seen is None or self._doubtful:
            try:
                self._see(await self._client.get(LEASE, self._namespace, self._name))
            except NotFound:
                return await self._write(None)
        taken = self.holder != self._identity if self._leads else self._held_by_another()
        if taken:
            return False
        return await self._write(self._seen)

    async def _write(self, seen: CachedObject | None) -> bool:
        sent = self._clock()
        body = self._body(seen)
        try:
            if seen is None:
                stored = await self._client.create(LEASE, self._namespace, body)
            else:
                stored = await self._client.update(LEASE, self._namespace, self._name, body)
        except (Conflict, AlreadyExists):
            # Somebody else wrote it. Whether we still lead is seen from what is there now.
            return await self._look_again()
        except NotFound:
            if seen is None:
                raise  # the namespace is not there
            return await self._look_again()
        self._see(stored)
        self._hold(sent)
        return True

    async def _look_again(self) -> bool:
        """After a lost compare-and-set. Our own name in it means that an earlier write of ours, whose answer was lost,
        got through: the next attempt renews it. What is held until then stays as valid as it was."""
        try:
            self._see(await self._client.get(LEASE, self._namespace, self._name))
        except NotFound:
            self._seen = None
            return False
        return self._leads and self.holder == self._identity

    def _hold(self, sent: float) -> None:
        if self._ending.is_set():
            return
        self._valid_until = sent + self._times.renew_deadline
        if not self._leads and self._clock() < self._valid_until:
            self._leads = True
            metrics.LEADER.set(1)
            metrics.TRANSITIONS.inc()
            _log.info("leading", identity=self._identity)
            self._tell(self._started)

    def _demote(self, why: str) -> None:
        if not self._leads:
            return
        self._leads, self._valid_until = False, 0.0
        metrics.LEADER.set(0)
        _log.info("no longer leading", why=why, identity=self._identity)
        self._tell(self._stopped)

    def _tell(self, callbacks: Sequence[Callable[[], None]]) -> None:
        for callback in callbacks:
            try:
                callback()
            except Exception:
                _log.exception("a listener of the election failed")

    def _see(self, lease: CachedObject) -> None:
        spec = _spec(lease)
        record = tuple(spec.get(key) for key in ("holderIdentity", "renewTime", "acquireTime", "leaseTransitions"))
        if record != self._seen_record or self._seen is None or self._seen.uid != lease.uid:
            self._seen_record, self._seen_at = record, self._clock()
        self._seen, self._doubtful = lease, False

    def _held_by_another(self) -> bool:
        spec = _spec(self._seen)
        if self.holder in ("", self._identity):
            return False
        said = spec.get("leaseDurationSeconds")
        lasts = float(said) if isinstance(said, int) and said > 0 else self._times.duration
        return self._clock() < self._seen_at + lasts

    def _body(self, seen: CachedObject | None) -> bytes:
        now = micro_timestamp(self._now())
        whole = seen.json() if seen is not None else {"metadata": {"name": self._name, "namespace": self._namespace}}
        spec = dict(_spec(seen))
        if spec.get("holderIdentity") != self._identity or not self._leads:
            transitions = spec.get("leaseTransitions")
            spec["leaseTransitions"] = (transitions if isinstance(transitions, int) else 0) + (seen is not None)
            spec["acquireTime"] = now
        spec |= {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._times.duration),
            "renewTime": now,
        }
        return orjson.dumps({"apiVersion": LEASE.api_version, "kind": LEASE.kind} | whole | {"spec": spec})

    async def _release(self) -> None:
        """Gives the lease back. A renewal whose answer was not awaited may have made our view of it stale: then it is
        read again, once."""
        if self._seen is None or self.holder != self._identity:
            return
        try:
            await self._give_back(self._seen)
        except Conflict:
            lease = await self._client.get(LEASE, self._namespace, self._name)
            if _spec(lease).get("holderIdentity") == self._identity:
                await self._give_back(lease)

    async def _give_back(self, lease: CachedObject) -> None:
        now = micro_timestamp(self._now())
        # An empty holder is refused; a lease that nobody holds has none.
        spec = {key: value for key, value in _spec(lease).items() if key != "holderIdentity"} | {
            "leaseDurationSeconds": 1,
            "renewTime": now,
            "acquireTime": now,
        }
        body = orjson.dumps(lease.json() | {"spec": spec})
        await self._client.update(LEASE, self._namespace, self._name, body)

    async def _within(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """The result of `work`; TimeoutError, and `work` is cancelled, when it takes longer."""
        task = asyncio.ensure_future(work)
        limit = asyncio.ensure_future(self._sleep(seconds))
        try:
            await asyncio.wait({task, limit}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise TimeoutError(f"leader election: no answer of the API server within {seconds:.1f} s")
        finally:
            for each in (task, limit):
                each.cancel()
            await asyncio.gather(task, limit, return_exceptions=True)


def _spec(lease: CachedObject | None) -> Mapping[str, Any]:
    spec = lease.json().get("spec") if lease is not None else None
    return spec if isinstance(spec, dict) else {}
