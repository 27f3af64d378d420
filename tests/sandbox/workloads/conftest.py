"""A cluster without sockets on a virtual clock, with the workload model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sandbox.api.handler import ApiServer
from sandbox.api.messages import Request, Response
from sandbox.clock import VirtualClock
from sandbox.store import Store
from sandbox.workloads import Behaviour, WorkloadModel, settle

Json = dict[str, Any]


class Lab:
    """One cluster: call it, turn its clock, look at what is there."""

    def __init__(self, nodes: int = 1, defaults: Behaviour | None = None) -> None:
        self.clock = VirtualClock()
        numbers = iter(range(1_000_000))
        self.store = Store(self.clock, new_uid=lambda: f"uid-{next(numbers):06d}")
        self.api = ApiServer(self.store, seed=7)
        self.model = WorkloadModel(self.api, nodes, defaults)

    def call(self, method: str, path: str, body: Json | None = None, ok: bool = True) -> Json:
        content = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = self.api.handle(Request.of(method, path, body or b"", content_type=content))
        assert isinstance(answer, Response)
        assert (answer.status < 400) is ok, answer.body
        return answer.json()

    def wait(self, seconds: float = 0.0) -> None:
        settle(self.api, self.model, self.clock, seconds)

    def pods(self) -> list[Json]:
        return [entry.obj for entry in self.store.list("pods")]

    def sets(self) -> dict[str, Json]:
        return {entry.name: entry.obj for entry in self.store.list("replicasets.apps")}

    def deployment(self, name: str = "web") -> Json:
        entry = self.store.get("deployments.apps", "default", name)
        assert entry is not None
        return entry.obj

    def status(self, name: str = "web") -> Json:
        status: Json = self.deployment(name)["status"]
        return status

    def condition(self, kind: str, name: str = "web") -> tuple[str, str]:
        found = next(c for c in self.status(name)["conditions"] if c["type"] == kind)
        return found["status"], found["reason"]

    def events(self, reason: str) -> list[Json]:
        return [entry.obj for entry in self.store.list("events") if entry.obj["reason"] == reason]

    def deploy(self, replicas: int = 3, annotations: Json | None = None, name: str = "web", **spec: Any) -> Json:
        pod = {"containers": [{"name": "main", "image": "img:v1"}], **spec.pop("pod", {})}
        body = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "annotations": spec.pop("on_deployment", {})},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}, "annotations": annotations or {}}, "spec": pod},
                **spec,
            },
        }
        return self.call("POST", "/apis/apps/v1/namespaces/default/deployments", body)

    def patch(self, body: Json, name: str = "web") -> Json:
        return self.call("PATCH", f"/apis/apps/v1/namespaces/default/deployments/{name}", body)

    def image(self, image: str) -> None:
        template = {"spec": {"containers": [{"name": "main", "image": image}]}}
        self.patch({"spec": {"template": template}})


def ready(pod: Json) -> bool:
    """Whether a pod's condition Ready is True."""
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or ())


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture
def make_lab() -> Callable[..., Lab]:
    return Lab
