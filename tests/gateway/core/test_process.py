"""The gateway as a process before an embedded API server: its start, its faults, its end."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ome.gateway.v1 import gateway_pb2, gateway_pb2_grpc

ROOT = Path(__file__).parents[3]
PINNER = Path(__file__).with_name("pinner.py")
SECONDS = 30.0
ENV = {
    **{k: v for k, v in os.environ.items() if not k.startswith("OME_") and k != "KUBECONFIG"},
    "PYTHONPATH": str(ROOT),
}


class Process:
    """A child process with its output in files."""

    def __init__(self, folder: Path, *command: str, **env: str) -> None:
        name = f"{command[-1] if len(command) == 1 else command[1]}-{time.monotonic_ns()}".replace("/", "_")
        self.out, self.err = folder / f"{name}.out", folder / f"{name}.err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, *command], stdout=out, stderr=err, cwd=ROOT, env={**ENV, **env}
            )

    def address(self) -> str:
        """Where it serves, once it does."""
        until(lambda: "\n" in self.out.read_text() or self.process.poll() is not None, self)
        found = re.fullmatch(r"\S+ serving on (\S+)\n", self.out.read_text())
        assert found, self.out.read_text() + self.err.read_text()
        return found[1]

    def lines(self) -> list[dict[str, Any]]:
        """What it logged so far."""
        text = self.err.read_text()
        return [json.loads(line) for line in text.splitlines() if text.endswith("\n") or line.endswith("}")]

    def events(self) -> list[str]:
        return [str(line["event"]) for line in self.lines()]

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(SECONDS)


def until(done: Callable[[], object], *shown: Process) -> None:
    """Waits for a condition, with a deadline."""
    end = time.monotonic() + SECONDS
    while not done():
        if time.monotonic() > end:
            raise AssertionError("\n".join(process.err.read_text() for process in shown) or "too late")
        time.sleep(0.05)


Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    processes: list[Process] = []

    def starting(*command: str, **env: str) -> Process:
        processes.append(Process(tmp_path, *command, **env))
        return processes[-1]

    yield starting
    for process in reversed(processes):
        if process.process.poll() is None:
            process.process.kill()
        process.process.wait(SECONDS)


@pytest.fixture
def gateway(start: Start) -> Start:
    def starting(*flags: str, **env: str) -> Process:
        return start("-m", "gateway", "--listen", "127.0.0.1:0", "--log-format", "json", *flags, **env)

    return starting


@pytest.fixture
def kubeconfig(start: Start, tmp_path: Path) -> Path:
    """An embedded API server's kubeconfig."""
    start("-m", "sandbox", "serve", "--dir", str(tmp_path / "sandbox")).address()
    return tmp_path / "sandbox" / "kubeconfig"


def kubectl(kubeconfig: Path, method: str, path: str, body: Any = None, content: str = "application/json") -> Any:
    """A request as a user's; the decoded answer."""
    import http.client
    import ssl
    from urllib.parse import urlsplit

    config = yaml.safe_load(kubeconfig.read_text())
    server = urlsplit(config["clusters"][0]["cluster"]["server"])
    host, port = server.hostname or "", server.port or 0
    if server.scheme == "https":
        context = ssl._create_unverified_context()
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(host, port, context=context, timeout=10)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=10)
    headers = {"Content-Type": content, "Accept": "application/json"}
    token = config["users"][0]["user"].get("token")
    if token:
        headers["Authorization"] = f"Bearer {token}"
    connection.request(method, path, json.dumps(body) if body is not None else None, headers)
    answer = connection.getresponse()
    value = json.loads(answer.read())
    connection.close()
    assert answer.status < 300, value
    return value


ISVCS = "/apis/ome.io/v1beta1/namespaces/default/inferenceservices"
RUNTIMES = "/apis/ome.io/v1beta1/clusterservingruntimes"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/ome/leases/ome-gateway"
REVISIONS = "/apis/apps/v1/namespaces/ome/controllerrevisions"


def runtime(image: str) -> dict[str, Any]:
    runner = {"name": "ome-container", "image": image}
    spec = {"engineConfig": {"runner": runner}}
    return {"apiVersion": "ome.io/v1beta1", "kind": "ClusterServingRuntime", "metadata": {"name": "rt"}, "spec": spec}


def isvc(name: str) -> dict[str, Any]:
    spec = {"runtime": {"name": "rt", "autoSync": False}, "engine": {}}
    return {"apiVersion": "ome.io/v1beta1", "kind": "InferenceService", "metadata": {"name": name}, "spec": spec}


def pins(kubeconfig: Path) -> list[str]:
    items = kubectl(kubeconfig, "GET", ISVCS)["items"]
    return [item.get("status", {}).get("pinnedRevisionName", "") for item in items]


def test_an_object_is_pinned_and_the_lease_given_back(gateway: Start, start: Start, kubeconfig: Path) -> None:
    pinner = start(str(PINNER), "--listen", "127.0.0.1:0")
    process = gateway("--kubeconfig", str(kubeconfig), "--pinning", pinner.address())
    address = process.address()
    with grpc.insecure_channel(address) as channel:
        health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
        assert health.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as refused:
            stub = gateway_pb2_grpc.GatewayServiceStub(channel)
            stub.GetInferenceService(gateway_pb2.GetInferenceServiceRequest(), timeout=5)
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    kubectl(kubeconfig, "POST", RUNTIMES, runtime("img:v1"))
    for name in ("a", "b"):
        kubectl(kubeconfig, "POST", ISVCS, isvc(name))
    until(lambda: all(pins(kubeconfig)), process)
    assert len(set(pins(kubeconfig))) == len(kubectl(kubeconfig, "GET", REVISIONS)["items"]) == 1
    told = kubectl(kubeconfig, "GET", "/api/v1/namespaces/default/events")["items"]
    pinned = [event for event in told if event["reason"] == "RuntimePinned"]
    assert sorted(event["involvedObject"]["name"] for event in pinned) == ["a", "b"]
    assert all(
        event["count"] == 1 and len(event["metadata"]["annotations"]["ome.io/trace-id"]) == 32 for event in pinned
    )
    assert kubectl(kubeconfig, "GET", LEASE)["spec"]["holderIdentity"]
    assert process.end() == 0
    assert process.out.read_text().count("\n") == 1
    assert not kubectl(kubeconfig, "GET", LEASE)["spec"].get("holderIdentity")


def test_a_second_one_stands_by_and_takes_over(gateway: Start, start: Start, kubeconfig: Path) -> None:
    flags = ("--kubeconfig", str(kubeconfig), "--pinning", start(str(PINNER), "--listen", "127.0.0.1:0").address())
    times = ("--lease-duration-seconds", "3", "--lease-renew-deadline-seconds", "2", "--lease-retry-seconds", "0.3")
    kubectl(kubeconfig, "POST", RUNTIMES, runtime("img:v1"))
    first = gateway(*flags, *times)
    until(lambda: "leading" in first.events(), first)
    second = gateway(*flags, *times)
    second.address()
    kubectl(kubeconfig, "POST", ISVCS, isvc("a"))
    until(lambda: all(pins(kubeconfig)), first, second)
    assert "leading" not in second.events()
    first.end(signal.SIGKILL)
    kubectl(kubeconfig, "POST", ISVCS, isvc("b"))
    until(lambda: len(pins(kubeconfig)) == 2 and all(pins(kubeconfig)), second)
    assert second.end() == 0


def test_a_service_that_is_away_is_named_once_and_the_status_left_alone(
    gateway: Start, start: Start, kubeconfig: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    kubectl(kubeconfig, "POST", RUNTIMES, runtime("img:v1"))
    for name in ("a", "b"):
        kubectl(kubeconfig, "POST", ISVCS, isvc(name))
    before = [item["metadata"]["resourceVersion"] for item in kubectl(kubeconfig, "GET", ISVCS)["items"]]
    process = gateway("--kubeconfig", str(kubeconfig), "--pinning", address)
    until(lambda: [line for line in process.lines() if line.get("peer") == "pinning"], process)
    time.sleep(1.5)  # a few more failures
    warnings = [line for line in process.lines() if line["level"] in ("warning", "error")]
    assert [(line["peer"], line["target"]) for line in warnings] == [("pinning", address)]
    assert [item["metadata"]["resourceVersion"] for item in kubectl(kubeconfig, "GET", ISVCS)["items"]] == before
    pinner = start(str(PINNER), "--listen", address)
    until(lambda: all(pins(kubeconfig)), process, pinner)


def test_a_missing_crd_is_one_clear_line_and_heals(gateway: Start, start: Start, kubeconfig: Path) -> None:
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    name = "clusterservingruntimes.ome.io"
    crd = kubectl(kubeconfig, "GET", f"{crds}/{name}")
    kubectl(kubeconfig, "DELETE", f"{crds}/{name}")
    pinner = start(str(PINNER), "--listen", "127.0.0.1:0")
    process = gateway("--kubeconfig", str(kubeconfig), "--pinning", pinner.address(), "--sync-seconds", "1")
    until(lambda: any("ClusterServingRuntime" in event and "CRD" in event for event in process.events()), process)
    kubectl(kubeconfig, "POST", ISVCS, isvc("a"))
    until(lambda: "leading" in process.events(), process)
    assert pins(kubeconfig) == [""]
    assert "Traceback" not in process.err.read_text()
    fresh = {key: crd["metadata"][key] for key in ("name",)}
    kubectl(kubeconfig, "POST", crds, {**{k: crd[k] for k in ("apiVersion", "kind", "spec")}, "metadata": fresh})
    until(lambda: _tried(lambda: kubectl(kubeconfig, "POST", RUNTIMES, runtime("img:v1"))))
    until(lambda: all(pins(kubeconfig)), process)
    assert process.end() == 0


def _tried(action: Callable[[], object]) -> bool:
    try:
        action()
    except AssertionError:
        return False
    return True


def test_an_api_server_that_is_away_is_one_clear_line(gateway: Start, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "x", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    process = gateway("--kubeconfig", str(path))
    process.address()
    until(lambda: process.lines(), process)
    time.sleep(2)
    warnings = [line["event"] for line in process.lines() if line["level"] in ("warning", "error")]
    assert len(warnings) == 1
    assert f"127.0.0.1:{port}" in warnings[0]
    assert process.end() == 0
    assert "Traceback" not in process.err.read_text()


@pytest.mark.parametrize("path", ["/does/not/exist", __file__])
def test_a_kubeconfig_that_cannot_be_used_is_one_line(start: Start, path: str) -> None:
    process = start("-m", "gateway", "--listen", "127.0.0.1:0", "--kubeconfig", path)
    assert process.process.wait(SECONDS) == 1
    assert process.out.read_text() == ""
    (line,) = process.err.read_text().splitlines()
    assert line.startswith("ome-gateway: ")
    assert path in line


def test_a_port_in_use_is_one_line(start: Start, kubeconfig: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        process = start("-m", "gateway", "--kubeconfig", str(kubeconfig), "--listen", address)
        assert process.process.wait(SECONDS) == 1
    (line,) = process.err.read_text().splitlines()
    assert line.startswith(f"ome-gateway: cannot listen on {address}")
