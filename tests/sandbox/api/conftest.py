"""A server with a CRD of its own: in process on a virtual clock, and over HTTP for kubectl."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.api.handler import ApiServer
from sandbox.api.messages import Request, Response
from sandbox.api.watch import Watch
from sandbox.clock import SystemClock, VirtualClock
from sandbox.http import HttpServer
from sandbox.store import Store

Json = dict[str, Any]
Call = Callable[..., Response]

WIDGET_CRD = yaml.safe_load("""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.demo.example.com}
spec:
  group: demo.example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wg], categories: [all, demo]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale:
        specReplicasPath: .spec.replicas
        statusReplicasPath: .status.replicas
        labelSelectorPath: .status.selector
    additionalPrinterColumns:
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
    - {name: Phase, type: string, jsonPath: .status.phase}
    - {name: Mode, type: string, jsonPath: .spec.mode, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    schema:
      openAPIV3Schema:
        type: object
        description: A widget turns.
        properties:
          spec:
            type: object
            description: What is wanted of the widget.
            properties:
              replicas: {type: integer, minimum: 0, maximum: 10, default: 1, description: How many of them.}
              mode: {type: string, enum: [slow, fast]}
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties: {name: {type: string}, value: {type: string}}
              tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              order: {type: array, items: {type: string}}
              extra: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status:
            type: object
            properties:
              replicas: {type: integer}
              selector: {type: string}
              phase: {type: string}
              conditions:
                type: array
                items:
                  type: object
                  properties: {type: {type: string}, status: {type: string}, reason: {type: string}}
""")


def widget(name: str, **spec: Any) -> Json:
    """A widget manifest."""
    return {"apiVersion": "demo.example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def api(clock: VirtualClock) -> ApiServer:
    server = ApiServer(Store(clock), seed=1)
    made = server.handle(Request.of("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGET_CRD))
    assert isinstance(made, Response) and made.status == 201, made
    return server


@pytest.fixture
def call(api: ApiServer) -> Call:
    """Sends one request and expects the status ``expect`` (None: whatever comes)."""

    def send(method: str, url: str, body: Any = b"", expect: int | None = None, **headers: str) -> Response:
        answer = api.handle(Request.of(method, url, body, **headers))
        assert isinstance(answer, Response)
        wanted = expect or (201 if method == "POST" else 200)
        assert answer.status == wanted, (answer.status, answer.body)
        return answer

    return send


@pytest.fixture
def watch(api: ApiServer) -> Callable[..., Watch]:
    def begin(url: str, **headers: str) -> Watch:
        answer = api.handle(Request.of("GET", url, **headers))
        assert isinstance(answer, Watch), answer
        return answer

    return begin


WIDGETS = "/apis/demo.example.com/v1/namespaces/default/widgets"


@pytest.fixture
def widgets() -> str:
    return WIDGETS


@pytest.fixture
def make_widget() -> Callable[..., Json]:
    return widget


class Served:
    """A server in a thread of its own, and kubectl pointed at it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.api = ApiServer(Store(SystemClock()))
        self.loop = asyncio.new_event_loop()
        self.server = HttpServer(self.api)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def start(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.server.start(), self.loop).result(10)
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "sandbox", "cluster": {"server": self.server.url}}],
            "users": [{"name": "admin", "user": {"token": "admin"}}],
            "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "admin"}}],
            "current-context": "sandbox",
        }
        (self.folder / "kubeconfig").write_text(yaml.safe_dump(config))

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self.server.stop(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()

    def do(self, method: str, url: str, body: Any = b"", **headers: str) -> Json:
        """A request past HTTP, on the server's own thread."""

        async def send() -> Any:
            return self.api.handle(Request.of(method, url, body, **headers))

        answer = asyncio.run_coroutine_threadsafe(send(), self.loop).result(10)
        assert answer.status < 300, answer.body
        value: Json = answer.json()
        return value

    def environment(self, **extra: str) -> dict[str, str]:
        home = str(self.folder)
        return {
            **os.environ,
            "KUBECONFIG": f"{home}/kubeconfig",
            "HOME": home,
            "KUBECACHEDIR": f"{home}/cache",
            **extra,
        }

    def kubectl(self, *arguments: str, stdin: str = "", expect: int = 0, **extra: str) -> str:
        """Runs kubectl and answers its stdout, or stdout and stderr when a failure is expected."""
        done = subprocess.run(
            ["kubectl", *arguments], input=stdin, capture_output=True, text=True, timeout=40,
            env=self.environment(**extra), check=False,
        )  # fmt: skip
        assert done.returncode == expect, (done.returncode, done.stdout, done.stderr)
        return done.stdout if expect == 0 else done.stdout + done.stderr

    def background(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["kubectl", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment()
        )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on PATH")
    running = Served(tmp_path_factory.mktemp("kube"))
    running.start()
    try:
        running.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(WIDGET_CRD))
        running.kubectl("wait", "--for=condition=Established", "crd/widgets.demo.example.com", "--timeout=10s")
        yield running
    finally:
        running.stop()
