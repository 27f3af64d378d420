"""A cluster in memory and services that are plain functions: the boundary that the gateway's core is tested at."""

from __future__ import annotations

import copy
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from google.protobuf.message import Message
from prometheus_client import CollectorRegistry

from gateway.cluster import Target, target_of
from gateway.controller import Controller
from gateway.kube.cache import Cache
from gateway.kube.errors import AlreadyExists, Conflict, NotFound, NotLeader, Unreachable
from gateway.kube.kinds import CLUSTER_SERVING_RUNTIME, CONTROLLER_REVISION, ISVC, SERVING_RUNTIME, Kind, by_api
from gateway.kube.objects import CachedObject, from_value
from gateway.kube.writer import WriteResult
from gateway.metrics import Metrics
from gateway.pipeline import Facts, Pipeline, Stage
from gateway.queue import Backoff, Item, Key, Lane, WorkQueue
from gateway.reconcile import Parts, Reconciler, Verdict
from gateway.snapshot import Supplier
from gateway.worker import Workers
from ome.common.v1 import common_pb2 as pb
from ome.pinning.v1 import pinning_pb2
from services.kit.mergepatch import merge_patch
from tests.gateway.core.clocks import VirtualClock, settle

KINDS = (ISVC, SERVING_RUNTIME, CLUSTER_SERVING_RUNTIME, CONTROLLER_REVISION)
Answer = Callable[[Any], Message | Awaitable[Message]]


def isvc(name: str = "a", namespace: str = "team", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": ISVC.api_version,
        "kind": "InferenceService",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def runtime(name: str = "rt", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "ome.io/v1beta1", "kind": "ClusterServingRuntime", "metadata": {"name": name}, "spec": spec}


def revision(name: str, namespace: str = "ome", labels: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata, **more}


class Store:
    """Objects with versions, and the caches that see them, at once or when `flow` is set again."""

    def __init__(self) -> None:
        self.objects: dict[Target, dict[str, Any]] = {}
        self.version = 100
        self.caches: list[dict[Kind, Cache]] = []
        self.flow = True
        self._held: list[tuple[bool, CachedObject]] = []

    def attach(self) -> dict[Kind, Cache]:
        """New caches, synced with what is there."""
        caches = {kind: Cache(kind) for kind in KINDS}
        self.caches = [caches]
        self._held.clear()
        return caches

    def sync(self, caches: dict[Kind, Cache], *kinds: Kind) -> None:
        for kind in kinds or KINDS:
            mine = [self.cached(target) for target in self.objects if target[:2] == (kind.api_version, kind.kind)]
            caches[kind].replace(mine, str(self.version))

    def cached(self, target: Target) -> CachedObject:
        kind = by_api(*target[:2])
        assert kind is not None
        return from_value(kind, copy.deepcopy(self.objects[target]))

    def put(self, obj: dict[str, Any]) -> CachedObject:
        """Creates the object or replaces it, as a user would; the generation counts changes of the spec."""
        metadata = obj["metadata"]
        target = (obj["apiVersion"], obj["kind"], metadata.get("namespace", ""), metadata["name"])
        old = self.objects.get(target)
        self.version += 1
        new = copy.deepcopy(obj)
        new["metadata"]["resourceVersion"] = str(self.version)
        new["metadata"]["uid"] = old["metadata"]["uid"] if old else f"uid-{self.version}"
        generation = old["metadata"]["generation"] if old else 0
        new["metadata"]["generation"] = generation + (old is None or old.get("spec") != new.get("spec"))
        self.objects[target] = new
        self._deliver(False, self.cached(target))
        return self.cached(target)

    def edit(self, target: Target, change: Callable[[dict[str, Any]], None]) -> CachedObject:
        obj = copy.deepcopy(self.objects[target])
        change(obj)
        return self.put(obj)

    def delete(self, target: Target) -> None:
        last = self.cached(target)
        self.version += 1
        del self.objects[target]
        self._deliver(True, last)

    def release(self) -> None:
        """Lets what was held back flow, and everything after it."""
        self.flow = True
        held, self._held = self._held, []
        for gone, obj in held:
            self._deliver(gone, obj)

    def _deliver(self, gone: bool, obj: CachedObject) -> None:
        if not self.flow:
            self._held.append((gone, obj))
            return
        for caches in self.caches:
            cache = next(c for k, c in caches.items() if (k.api_version, k.kind) == (obj.api_version, obj.kind))
            if gone:
                cache.remove(obj)
            else:
                cache.store(obj)
            cache.advance(str(self.version))


@dataclass
class FakeCluster:
    """`Cluster` over a store. `writes` lists what went through, events aside."""

    store: Store
    writes: list[str] = field(default_factory=list)
    events: list[pb.Event] = field(default_factory=list)
    reads: list[Target] = field(default_factory=list)
    before: Callable[[str], None] = lambda what: None
    after: Callable[[str], None] = lambda what: None

    async def apply(self, write: pb.Write, rv_override: str = "") -> WriteResult:
        target = target_of(write.target)
        what = f"{pb.Verb.Name(write.verb).removeprefix('VERB_')} {target[3]}"
        self.before(what)
        old = self.store.objects.get(target)
        if write.verb == pb.VERB_CREATE:
            if old is not None:
                raise AlreadyExists(409, "AlreadyExists", f"{target[3]} already exists")
            new = json.loads(write.json)
        else:
            if old is None:
                raise NotFound(404, "NotFound", f"{target[3]} not found")
            self._check(old, write.precondition.uid, rv_override or write.precondition.resource_version)
            if write.verb == pb.VERB_DELETE:
                self.store.delete(target)
                self.writes.append(what)
                self.after(what)
                return WriteResult("", None)
            new = merge_patch(old, json.loads(write.json))
        stored = self.store.put(new)
        self.writes.append(what)
        self.after(what)
        return WriteResult(stored.resource_version, stored)

    async def patch_status(self, ref: pb.ObjectRef, status_patch: bytes) -> WriteResult:
        what = f"STATUS {ref.name}"
        self.before(what)
        old = self.store.objects.get(target_of(ref))
        if old is None:
            raise NotFound(404, "NotFound", f"{ref.name} not found")
        self._check(old, ref.uid, ref.resource_version)
        stored = self.store.put(merge_patch(old, {"status": json.loads(status_patch)}))
        self.writes.append(what)
        self.after(what)
        return WriteResult(stored.resource_version, stored)

    async def event(self, event: pb.Event, regarding: pb.ObjectRef, now: datetime) -> WriteResult | None:
        self.before(f"EVENT {event.reason}")
        self.events.append(event)
        self.after(f"EVENT {event.reason}")
        return WriteResult("1", None)

    async def read(self, target: Target) -> CachedObject | None:
        self.reads.append(target)
        return self.store.cached(target) if target in self.store.objects else None

    @staticmethod
    def _check(old: dict[str, Any], uid: str, version: str) -> None:
        if (uid and uid != old["metadata"]["uid"]) or (version and version != old["metadata"]["resourceVersion"]):
            raise Conflict(409, "Conflict", "the object has been modified")


class FakeService:
    """A service that is a function of its request; every request is kept."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[Any] = []

    async def ask(self, request: Message) -> Any:
        self.requests.append(request)
        answer = self.answer(request)
        return await answer if isinstance(answer, Awaitable) else answer


def respond(**outcome: Any) -> pinning_pb2.ReconcileResponse:
    """An answer with that outcome."""
    return pinning_pb2.ReconcileResponse(meta=pb.ResponseMeta(decision_id="d"), outcome=pb.Outcome(**outcome))


def pinning_request(facts: Facts, meta: pb.RequestMeta, observation: pb.Observation) -> Message:
    return pinning_pb2.ReconcileRequest(meta=meta, observation=observation)


def named(kind: Kind, name: str, namespace: str = "", metadata_only: bool = False) -> pb.Interest:
    return pb.Interest(
        api_version=kind.api_version, kind=kind.kind, namespace=namespace, name=name, metadata_only=metadata_only
    )


class World:
    """A gateway's core over a store. `restart` gives a new process over the same cluster."""

    def __init__(self, answer: Answer | None = None, *more: Stage, store: Store | None = None, **options: Any) -> None:
        self.clock = VirtualClock()
        self.store = store or Store()
        self.service = FakeService(answer or (lambda request: respond()))
        self.more = more
        self.options = options
        self.cluster = FakeCluster(self.store)
        self.start()

    def start(self, synced: bool = True) -> None:
        self.caches = self.store.attach()
        stage = Stage("pinning", self.service, pinning_request, lambda facts, answer: None, required=True)
        self.pipeline = Pipeline([stage, *self.more], self.clock)
        self.queue = WorkQueue(self.clock, Backoff(1.0, 60.0, 0.0))
        self.metrics = Metrics(CollectorRegistry())
        self.parts = Parts(
            isvcs=self.caches[ISVC],
            supplier=Supplier(self.caches.values(), "ome", "cluster.local"),
            pipeline=self.pipeline,
            cluster=self.cluster,
            clock=self.clock,
            metrics=self.metrics,
            reask_seconds=self.options.get("reask_seconds", 3600.0),
        )
        self.reconciler = Reconciler(self.parts)
        count = self.options.get("workers", 4)
        self.workers = Workers(self.queue, self.reconciler, self.clock, self.metrics, count)
        self.controller = Controller(
            self.caches[ISVC],
            self.caches.values(),
            self.parts.index,
            self.queue,
            self.reconciler,
            self.workers,
            self.clock,
            self.metrics,
            self.options.get("resync_seconds", 600.0),
        )
        if synced:
            self.store.sync(self.caches)

    def restart(self) -> None:
        """The process is gone, and another starts over the same cluster."""
        self.controller.follow()
        self.cluster = FakeCluster(self.store)
        self.start()

    async def once(self, name: str = "a", lane: Lane = Lane.CHANGE) -> Verdict:
        """One pass, without queue or workers."""
        return await self.reconciler.run(Item(Key("team", name), lane, self.clock.monotonic(), 0), "r", 1.0)

    async def idle(self) -> None:
        """Runs until nothing can happen without time passing."""
        await settle(200)

    async def rest(self, limit: float = 300.0) -> None:
        """Lets time pass until nothing is due but the resync."""
        for _ in range(200):
            await self.idle()
            step = self.clock.next_in()
            if step is None or step > limit:
                return
            self.clock.advance(step)
        raise AssertionError("it never comes to rest")


class Dead:
    """Cuts a process off at its n-th write, counted from 1 and events included: `before` loses the write, `after` lets
    it through and loses the answer. From then on nothing gets through."""

    def __init__(self, cluster: FakeCluster, at: int, lost: bool) -> None:
        self.count, self.at, self.lost, self.fired = 0, at, lost, False
        cluster.before = self._before
        cluster.after = self._after

    def _before(self, what: str) -> None:
        if self.fired:
            raise NotLeader
        self.count += 1
        if self.count == self.at and self.lost:
            self.fired = True
            raise Unreachable("connection lost")

    def _after(self, what: str) -> None:
        if self.count == self.at and not self.lost:
            self.fired = True
            raise Unreachable("connection lost")
