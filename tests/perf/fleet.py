"""Many InferenceServices on a running suite, and what gateway and services use for them."""

from __future__ import annotations

import re
import socket
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sandbox.embedded import kubeconfig, write_private
from sandbox.kube import Kube, eventually, path_of
from sandbox.processes import Process
from sandbox.suite import Suite

from ..system.faults import FaultProxy

API = "ome.io/v1beta1"
PER_RUNTIME = 5
SETTLE_SECONDS = 600.0
QUIET_SECONDS = 1.0


class Fleet:
    """A suite whose gateway is counted at a proxy. Namespaces hold InferenceServices in groups that share a runtime."""

    def __init__(self, folder: Path, resync_seconds: float) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.metrics = f"127.0.0.1:{free.getsockname()[1]}"
        arguments = (
            "--resync-seconds", str(resync_seconds), "--log-level", "warning", "--metrics-listen", self.metrics,
        )  # fmt: skip
        quiet = ("--log-level", "warning")
        self.suite = Suite(folder, gateways=0, gateway_arguments=arguments, service_arguments=quiet)
        self.suite.start_cluster()
        self.suite.start_services()
        self.kube = Kube(self.suite.url)
        self.proxy = FaultProxy(self.suite.url).start()
        file = folder / "kubeconfig-gateway"
        write_private(file, kubeconfig(self.proxy.url))
        self.gateway = self.suite.make_gateway(1, file)
        self.gateway.start()
        self.gateway.wait_serving()

    def stop(self) -> None:
        self.suite.stop()
        self.proxy.stop()

    @property
    def deciding(self) -> list[Process]:
        """The processes whose time and memory count."""
        return [self.gateway, *self.suite.services.values()]

    def cpu(self) -> float:
        """Processor seconds that they used so far."""
        return sum(process.cpu_seconds() for process in self.deciding)

    def passes(self) -> int:
        """How many passes the gateway has made."""
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        return int(sum(float(n) for n in re.findall(r"^ome_gateway_reconciles_total\S* (\S+)$", text, re.MULTILINE)))

    def load(self, namespace: str, count: int, auto_sync: bool) -> None:
        """Creates a namespace with ``count`` InferenceServices and their runtimes."""
        self.kube.create(path_of("v1", "namespaces"), _object("v1", "Namespace", namespace))
        for index in range((count + PER_RUNTIME - 1) // PER_RUNTIME):
            body = {**_object(API, "ServingRuntime", f"rt-{index}"), "spec": _runtime("img:v1")}
            self.kube.create(path_of(API, "servingruntimes", namespace), body)

        def create(index: int) -> None:
            runtime = {"kind": "ServingRuntime", "name": f"rt-{index // PER_RUNTIME}", "autoSync": auto_sync}
            spec = {"runtime": runtime, "engine": {"minReplicas": 1, "maxReplicas": 1}}
            body = {**_object(API, "InferenceService", f"svc-{index:05d}"), "spec": spec}
            self.kube.create(path_of(API, "inferenceservices", namespace), body)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(create, range(count)))

    def edit(self, namespace: str, count: int, image: str) -> None:
        """Edits every runtime that ``count`` InferenceServices of a namespace name."""
        for index in range((count + PER_RUNTIME - 1) // PER_RUNTIME):
            path = path_of(API, "servingruntimes", namespace, f"rt-{index}")
            self.kube.merge(path, {"spec": _runtime(image)})

    def wait(self, namespace: str, holds: Callable[[dict[str, Any]], bool], what: str) -> None:
        """Waits until the status of every InferenceService of a namespace holds, and the writes have come to rest."""
        path = path_of(API, "inferenceservices", namespace)
        eventually(
            lambda: all(holds(item.get("status") or {}) for item in self.kube.items(path)), SETTLE_SECONDS,
            f"{namespace}: {what}", every=0.2,
        )  # fmt: skip
        self.rest()

    def rest(self) -> None:
        """Waits until there was no write for a second."""
        seen, since = len(self.proxy.writes), time.monotonic()
        while time.monotonic() - since < QUIET_SECONDS:
            time.sleep(0.05)
            if len(self.proxy.writes) != seen:
                seen, since = len(self.proxy.writes), time.monotonic()

    def flip(self, namespace: str, count: int, rounds: int) -> float:
        """Processor seconds per change: drift comes and goes by edits of the runtimes, ``rounds`` times each."""
        begin = self.cpu()
        for _ in range(rounds):
            self.edit(namespace, count, "img:v2")
            self.wait(namespace, drifted, "drift")
            self.edit(namespace, count, "img:v1")
            self.wait(namespace, lambda status: not drifted(status), "no drift")
        return (self.cpu() - begin) / (count * rounds * 2)


def drifted(status: dict[str, Any]) -> bool:
    """Whether the condition RuntimeDrifted is True."""
    return any(c["type"] == "RuntimeDrifted" and c["status"] == "True" for c in status.get("conditions") or ())


def pinned(status: dict[str, Any]) -> bool:
    """Whether a snapshot is pinned."""
    return bool(status.get("pinnedRevisionName"))


def _object(api_version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}


def _runtime(image: str) -> dict[str, Any]:
    arguments = [f"--flag-{number}=value-{number}" for number in range(40)]
    return {"engineConfig": {"runner": {"name": "ome-container", "image": image, "args": arguments}}}
