"""Every process of the suite: a start that cannot succeed is one clear line and a status, never a traceback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.embedded import kubeconfig
from sandbox.kube import Kube, eventually, path_of
from sandbox.processes import Process

from .world import FAST, World

SERVICES = ["services.pinning", "services.canary", "services.traffic", "services.gc"]
ALL = [*SERVICES, "gateway"]


def run(module: str, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments], capture_output=True, text=True, timeout=60,
        env={**os.environ, **(env or {})},
    )  # fmt: skip


def one_line(ended: subprocess.CompletedProcess[str], status: int, *words: str) -> None:
    assert ended.returncode == status, ended.stderr
    lines = ended.stderr.splitlines()
    assert len(lines) == 1, ended.stderr
    assert all(word in lines[0] for word in words), lines[0]
    assert ended.stdout == ""


@pytest.mark.parametrize("module", ALL)
def test_an_unknown_flag(module: str) -> None:
    one_line(run(module, "--lisen", "127.0.0.1:0"), 2, "unknown flag --lisen", "did you mean --listen?")


@pytest.mark.parametrize("module", ALL)
def test_every_fault_of_the_settings_is_a_line_of_its_own(module: str) -> None:
    ended = run(module, "--listen", "nowhere", "--drain-seconds", "soon", env={"OME_TRACE_RATIO": "7"})
    assert ended.returncode == 2
    lines = ended.stderr.splitlines()
    named = [name for name in ("--listen", "--drain-seconds", "OME_TRACE_RATIO") if name in ended.stderr]
    assert len(lines) == len(named) == 3


@pytest.mark.parametrize("module", SERVICES)
def test_a_port_in_use(module: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        one_line(run(module, "--listen", where), 1, where, "in use")


def test_the_gateways_port_in_use(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        one_line(run("gateway", "--listen", where, "--kubeconfig", str(world.suite.kubeconfig)), 1, where, "in use")


def test_a_kubeconfig_that_is_absent_or_broken(tmp_path: Path) -> None:
    listen = ("--listen", "127.0.0.1:0")
    absent = tmp_path / "none"
    one_line(run("gateway", *listen, "--kubeconfig", str(absent)), 1, str(absent))
    broken = tmp_path / "broken"
    broken.write_text("clusters: [")
    one_line(run("gateway", *listen, "--kubeconfig", str(broken)), 1, str(broken))


def test_an_api_server_that_is_not_there_yet(world: World, tmp_path: Path) -> None:
    """The gateway tells it, waits, and works once the API server answers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig(f"http://127.0.0.1:{port}"))
    gateway = world.suite.supervisor.add(
        Process("waiting", "gateway", ["--listen", "127.0.0.1:0", "--kubeconfig", str(file), *FAST])
    )
    gateway.start()
    gateway.wait_line(f"127.0.0.1:{port}", 20)
    assert not any("Traceback" in line for line in gateway.lines())
    cluster = world.suite.supervisor.add(
        Process("late", "sandbox", ["serve", "--dir", str(tmp_path / "late"), "--port", str(port)])
    )
    cluster.start()
    cluster.wait_serving()
    kube = Kube(f"http://127.0.0.1:{port}")
    lease = path_of("coordination.k8s.io/v1", "leases", "ome", "ome-gateway")
    eventually(lambda: kube.find(lease), 20, "the gateway leads")
    assert gateway.terminate() == 0
    cluster.terminate()


def test_a_missing_crd_is_told_by_name(world: World) -> None:
    name = "clusterservingruntimes.ome.io"
    crds = path_of("apiextensions.k8s.io/v1", "customresourcedefinitions")
    crd = world.kube.get(f"{crds}/{name}")
    world.kube.delete(f"{crds}/{name}")
    eventually(lambda: world.kube.find(f"{crds}/{name}") is None, 10, "the CRD is gone")
    gateway = world.suite.make_gateway(9, extra=["--sync-seconds", "1"])
    gateway.start()
    told = "ClusterServingRuntime (ome.io/v1beta1) is not served by the API server; install its CRD"
    line = gateway.wait_line(told, 20)
    assert "Traceback" not in "\n".join(gateway.lines()), line
    fresh = {key: crd[key] for key in ("apiVersion", "kind", "spec")}
    world.kube.create(crds, {**fresh, "metadata": {"name": name}})
    if gateway.running:
        assert gateway.terminate() == 0
