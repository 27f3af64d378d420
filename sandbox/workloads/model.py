"""The workload model: what kube-controller-manager, scheduler and kubelets do on a cluster, over the sandbox's store.

It is driven by the store's changes and by its clock: ``run`` does all that is due now, ``next_due`` says when there is
more. A simulation turns a virtual clock to that moment; a server process waits for it (``serve``).
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from datetime import datetime, timedelta

from sandbox.api.handler import ApiServer
from sandbox.clock import VirtualClock
from sandbox.store import Entry, EventType, StoreEvent
from sandbox.workloads import behaviour as behaviours
from sandbox.workloads.behaviour import Behaviour
from sandbox.workloads.cluster import (
    DEPLOYMENTS,
    NODES,
    PODS,
    REPLICA_SETS,
    Cluster,
    Refused,
    controller_uid,
)
from sandbox.workloads.deployments import Deployments
from sandbox.workloads.kubelet import Kubelet, node_object
from sandbox.workloads.replicasets import ReplicaSets

Key = tuple[str, str, str]
STEPS_AT_ONCE = 200
RUNAWAY = 1_000_000
RETRY = timedelta(seconds=5)


class WorkloadModel:
    """Deployments, ReplicaSets and pods of one API server. Not safe for use from several threads."""

    def __init__(self, api: ApiServer, nodes: int = 1, defaults: Behaviour | None = None) -> None:
        """``nodes`` Node objects are made; ``defaults`` hold where no annotation says otherwise."""
        self._api = api
        self._cluster = Cluster(api)
        self._deployments = Deployments(self._cluster)
        self._replica_sets = ReplicaSets(self._cluster)
        self._kubelet = Kubelet(self._cluster, defaults or Behaviour())
        self._dirty: dict[Key, None] = {}
        self._timers: list[tuple[datetime, int, Key]] = []
        self._due: dict[Key, datetime] = {}
        self._sequence = 0
        self.on_wake: Callable[[], None] = lambda: None
        """Called when a change of the store gives the model something to do."""
        self.on_fault: Callable[[Key, Exception], None] | None = None
        """Told of an object that the model cannot cope with, which is then left alone; None: the fault is raised."""
        for number in range(1, nodes + 1):
            if self._cluster.get(NODES, "", f"sandbox-{number}") is None:
                self._cluster.create(NODES, "", node_object(number, self._cluster.now()), "kubelet")
        for bucket in (DEPLOYMENTS, REPLICA_SETS, PODS):
            for entry in self._cluster.store.list(bucket):
                self._mark((bucket, *entry.key))
        self._end = self._cluster.store.subscribe(self._on_event)

    def close(self) -> None:
        """Stops listening to the store."""
        self._end()

    @property
    def idle(self) -> bool:
        """Whether nothing is to be done before ``next_due``."""
        due = self.next_due()
        return not self._dirty and (due is None or due > self._cluster.now())

    def next_due(self) -> datetime | None:
        """When something happens by itself; None: only after a change."""
        while self._timers and self._due.get(self._timers[0][2]) != self._timers[0][0]:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def run(self, most: int = RUNAWAY) -> int:
        """Does what is due now, one object after the other, at most ``most``; answers how many were looked at."""
        steps = 0
        while steps < most:
            self._expire()
            if not self._dirty:
                return steps
            key = next(iter(self._dirty))
            del self._dirty[key]
            self._look(key)
            steps += 1
        if most >= RUNAWAY:
            raise RuntimeError("the workload model does not come to rest")
        return steps

    async def serve(self) -> None:
        """Runs on the clock of the machine until it is cancelled, in small portions between requests."""
        woken = asyncio.Event()
        self.on_wake = woken.set
        try:
            while True:
                woken.clear()
                if self.run(STEPS_AT_ONCE) >= STEPS_AT_ONCE:
                    await asyncio.sleep(0)
                    continue
                due = self.next_due()
                seconds = None if due is None else max(0.0, (due - self._cluster.now()).total_seconds())
                try:
                    async with asyncio.timeout(seconds):
                        await woken.wait()
                except TimeoutError:
                    continue
        finally:
            self.on_wake = lambda: None

    def _expire(self) -> None:
        now = self._cluster.now()
        while (due := self.next_due()) is not None and due <= now:
            _, _, key = heapq.heappop(self._timers)
            del self._due[key]
            self._dirty[key] = None

    def _look(self, key: Key) -> None:
        entry = self._cluster.get(*key)
        self._due.pop(key, None)
        if entry is None:
            return
        sync = {DEPLOYMENTS: self._deployments.sync, REPLICA_SETS: self._replica_sets.sync, PODS: self._kubelet.sync}
        try:
            due = sync[key[0]](entry)
        except Refused as refused:
            # A conflict means that there is a newer version, whose event asks for another look.
            if refused.code in (404, 409):
                return
            due = self._cluster.now() + RETRY
        except Exception as fault:
            if self.on_fault is None:
                raise
            self.on_fault(key, fault)
            return
        if due is not None:
            self._sequence += 1
            self._due[key] = due
            heapq.heappush(self._timers, (due, self._sequence, key))

    def _mark(self, key: Key) -> None:
        self._dirty[key] = None
        self.on_wake()

    def _on_event(self, event: StoreEvent) -> None:
        entry = event.entry
        match entry.bucket:
            case "pods":
                self._on_pod(event)
            case "replicasets.apps":
                self._mark_owner(entry, DEPLOYMENTS)
                self._mark((entry.bucket, *entry.key))
            case "deployments.apps":
                self._mark((entry.bucket, *entry.key))
                if _behaves_differently(event):
                    for owned in self._cluster.controlled(entry.uid, REPLICA_SETS):
                        self._mark_pods(self._cluster.controlled(owned.uid, PODS))
            case "namespaces":
                if _behaves_differently(event):
                    self._mark_pods(self._cluster.store.list(PODS, entry.name))
            case "nodes":
                self._mark_pods([e for e in self._cluster.store.list(PODS) if not e.obj["spec"].get("nodeName")])

    def _on_pod(self, event: StoreEvent) -> None:
        entry = event.entry
        if event.type is EventType.DELETED:
            self._kubelet.forget(entry.uid)
            self._cluster.forget_events(entry.uid)
        else:
            self._mark((entry.bucket, *entry.key))
        owner = self._mark_owner(entry, REPLICA_SETS)
        if owner is not None and event.type is EventType.DELETED:
            self._mark_owner(owner, DEPLOYMENTS)

    def _mark_owner(self, entry: Entry, bucket: str) -> Entry | None:
        owner = self._cluster.store.by_uid(controller_uid(entry.obj))
        if owner is None or owner.bucket != bucket:
            return None
        self._mark((owner.bucket, *owner.key))
        return owner

    def _mark_pods(self, pods: list[Entry]) -> None:
        for pod in pods:
            self._mark((pod.bucket, *pod.key))


def _behaves_differently(event: StoreEvent) -> bool:
    before = event.previous.obj["metadata"].get("annotations") if event.previous else None
    return behaviours.differs(before or {}, event.entry.obj["metadata"].get("annotations") or {})


def settle(api: ApiServer, model: WorkloadModel, clock: VirtualClock, seconds: float = 0.0) -> None:
    """Turns a virtual clock by ``seconds``, stopping wherever something happens, until all is at rest."""
    end = clock.now() + timedelta(seconds=seconds)
    while True:
        while model.run() + api.collect():
            pass
        due = model.next_due()
        if due is None or due > end:
            break
        clock.set(max(due, clock.now()))
    clock.set(end)



