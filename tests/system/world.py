"""What the system tests share: cases in namespaces of their own, their triggers, and their state without times."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.embedded import kubeconfig, write_private
from sandbox.kube import Kube, NotYet, eventually, path_of
from sandbox.processes import Process
from sandbox.suite import Suite

from .faults import FaultProxy

Json = dict[str, Any]
API = "ome.io/v1beta1"
REVISIONS = path_of("apps/v1", "controllerrevisions", "ome")
LEASE = path_of("coordination.k8s.io/v1", "leases", "ome", "ome-gateway")
# A gateway that was killed leaves its lease behind, and the next one waits for its end.
FAST = (
    "--lease-duration-seconds", "2", "--lease-renew-deadline-seconds", "1.5", "--lease-retry-seconds", "0.2",
    "--backoff-base-seconds", "0.05", "--backoff-max-seconds", "0.5",
)  # fmt: skip
SECONDS = 20.0
_numbers = itertools.count(1)


@dataclass
class Case:
    """One InferenceService ``svc`` with its runtimes ``first`` and ``second`` in a namespace of its own."""

    kube: Kube
    namespace: str

    @staticmethod
    def make(kube: Kube, prefix: str = "case") -> Case:
        case = Case(kube, f"{prefix}-{next(_numbers):04d}")
        kube.create(path_of("v1", "namespaces"), {
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": case.namespace},
        })  # fmt: skip
        for name in ("first", "second"):
            kube.create(path_of(API, "servingruntimes", case.namespace), {
                "apiVersion": API, "kind": "ServingRuntime", "metadata": {"name": name},
                "spec": {"engineConfig": {"runner": {"name": "ome-container", "image": f"{name}:v1"}}},
            })  # fmt: skip
        return case

    @property
    def path(self) -> str:
        return path_of(API, "inferenceservices", self.namespace, "svc")

    def create(self, auto_sync: bool = False) -> None:
        self.kube.create(path_of(API, "inferenceservices", self.namespace), {
            "apiVersion": API, "kind": "InferenceService", "metadata": {"name": "svc"},
            "spec": {
                "runtime": {"kind": "ServingRuntime", "name": "first", "autoSync": auto_sync},
                "engine": {"minReplicas": 1, "maxReplicas": 1},
            },
        })  # fmt: skip

    def edit_runtime(self, image: str, name: str = "first") -> None:
        path = path_of(API, "servingruntimes", self.namespace, name)
        self.kube.merge(path, {"spec": {"engineConfig": {"runner": {"name": "ome-container", "image": image}}}})

    def move(self) -> None:
        self.kube.merge(self.path, {"spec": {"runtime": {"name": "second"}}})

    def sync(self, token: str = "1") -> None:
        self.kube.merge(self.path, {"metadata": {"annotations": {"ome.io/runtime-sync": token}}})

    def status(self) -> Json:
        status: Json = self.kube.get(self.path).get("status") or {}
        return status

    def pin(self) -> str:
        return str(self.status().get("pinnedRevisionName") or "")

    def drift(self) -> str:
        for condition in self.status().get("conditions") or ():
            if condition["type"] == "RuntimeDrifted" and condition["status"] == "True":
                return str(condition["reason"])
        return ""

    def events(self) -> list[Json]:
        return self.kube.items(path_of("v1", "events", self.namespace))

    def reasons(self) -> list[str]:
        return sorted(event["reason"] for event in self.events())

    def snapshots(self) -> list[Json]:
        selector = f"ome.io/runtime-of-namespace={self.namespace}"
        return self.kube.items(REVISIONS, labelSelector=selector)

    def wait(self, holds: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
        eventually(holds, seconds, f"{self.namespace}: {what}", seen=lambda: json.dumps(self.state())[:2000])

    def wait_pin(self, runtime: str = "first", but: str = "") -> str:
        prefix = f"r-{self.namespace}-{runtime}-"
        self.wait(lambda: self.pin().startswith(prefix) and self.pin() != but, f"a pin of {runtime} other than {but!r}")
        return self.pin()

    def wait_event(self, reason: str) -> None:
        self.wait(lambda: reason in self.reasons(), f"event {reason}")

    def wait_settled(self, reason: str) -> None:
        """The event was written, and the pass after it has seen the present generation."""
        self.wait_event(reason)
        self.wait(self._observed, "the present generation is observed")

    def _observed(self) -> bool:
        isvc = self.kube.get(self.path)
        return bool((isvc.get("status") or {}).get("observedGeneration") == isvc["metadata"]["generation"])

    def state(self) -> Json:
        """Specification, status and snapshots, without times, uids and the name of the namespace."""
        isvc = self.kube.find(self.path) or {}
        body = {
            "spec": isvc.get("spec"),
            "status": isvc.get("status"),
            "snapshots": [_snapshot(one) for one in sorted(self.snapshots(), key=lambda s: s["metadata"]["name"])],
        }
        state: Json = json.loads(json.dumps(_without_times(body)).replace(self.namespace, "NAMESPACE"))
        return state


def _snapshot(revision: Json) -> Json:
    meta = revision["metadata"]
    kept = {key: meta.get(key) for key in ("name", "labels", "annotations", "ownerReferences", "finalizers")}
    return {"metadata": kept, "data": revision.get("data"), "revision": revision["revision"]}


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(item) for key, item in value.items() if not key.endswith("Time")}
    if isinstance(value, list):
        return [_without_times(item) for item in value]
    return value


def first_pin(case: Case) -> Iterator[None]:
    """Created with autoSync off: row F1."""
    yield
    case.create()


def move(case: Case) -> Iterator[None]:
    """Pinned, then ``spec.runtime.name`` is edited: row M."""
    case.create()
    case.wait_settled("RuntimePinned")
    yield
    case.move()


def roll_forward(case: Case) -> Iterator[None]:
    """Pinned and drifted, then a new token: row P6."""
    case.create()
    case.wait_settled("RuntimePinned")
    case.edit_runtime("first:v2")
    case.wait_event("RuntimeDrifted")
    yield
    case.sync()


Scenario = Callable[[Case], Iterator[None]]
SCENARIOS: dict[str, tuple[Scenario, str]] = {
    "first-pin": (first_pin, "RuntimePinned"),
    "move": (move, "RuntimePinMoved"),
    "roll-forward": (roll_forward, "RuntimePinAdvanced"),
}


class World:
    """A running suite whose gateway reaches the API server through a proxy."""

    def __init__(self, folder: Path, otlp_endpoint: str = "") -> None:
        self.suite = Suite(folder, otlp_endpoint, gateways=0, gateway_arguments=FAST)
        self.suite.start_cluster()
        self.suite.start_services()
        self.kube = Kube(self.suite.url)
        self.proxies: list[FaultProxy] = []

    def gateway(self, number: int = 1) -> tuple[Process, FaultProxy]:
        """Starts a gateway behind a proxy of its own."""
        proxy = FaultProxy(self.suite.url).start()
        self.proxies.append(proxy)
        file = self.suite.folder / f"kubeconfig-{number}"
        write_private(file, kubeconfig(proxy.url))
        gateway = self.suite.make_gateway(number, file)
        gateway.start()
        gateway.wait_serving()
        return gateway, proxy

    def holder(self) -> str:
        """Who holds the lease; empty when nobody does."""
        lease = self.kube.find(LEASE) or {}
        return str((lease.get("spec") or {}).get("holderIdentity") or "")

    def expire_lease(self) -> None:
        """Does what two seconds of waiting do after a leader was killed."""
        if self.kube.find(LEASE):
            self.kube.delete(LEASE)

    def stop(self) -> None:
        self.suite.stop()
        for proxy in self.proxies:
            proxy.stop()


__all__ = ["SCENARIOS", "Case", "NotYet", "World"]
