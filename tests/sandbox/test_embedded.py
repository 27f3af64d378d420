"""``ome-sandbox serve`` as a process: kubeconfig, workloads on the machine's clock, faults at the start, its end."""

from __future__ import annotations

import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from sandbox.kube import Kube, KubeFault, eventually, path_of
from sandbox.processes import Process

DEPLOYMENTS = path_of("apps/v1", "deployments", "default")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "sandbox", *arguments], capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, Path]]:
    folder = tmp_path_factory.mktemp("served") / "deep" / "folder"
    process = Process("ome-sandbox", "sandbox", ["serve", "--dir", str(folder), "--nodes", "2"])
    process.start()
    process.wait_serving()
    yield process, folder
    assert process.terminate() == 0


def test_the_kubeconfig_leads_to_the_cluster(served: tuple[Process, Path]) -> None:
    process, folder = served
    file = folder / "kubeconfig"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    config = yaml.safe_load(file.read_text())
    url = config["clusters"][0]["cluster"]["server"]
    assert url == f"http://{process.address}"
    kube = Kube(url)
    assert {node["metadata"]["name"] for node in kube.items("/api/v1/nodes")} == {"sandbox-1", "sandbox-2"}
    assert kube.get("/api/v1/namespaces/ome")["status"]["phase"] == "Active"
    kinds = {item["kind"] for item in kube.get("/apis/ome.io/v1beta1")["resources"]}
    assert {"InferenceService", "ServingRuntime", "ClusterServingRuntime"} <= kinds


def test_workloads_live_on_the_clock_of_the_machine(served: tuple[Process, Path]) -> None:
    kube = Kube(f"http://{served[0].address}")
    annotations = {"sandbox.ome.io/startup-seconds": "0.2"}
    kube.create(DEPLOYMENTS, {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}, "annotations": annotations},
            "spec": {"containers": [{"name": "main", "image": "img:v1"}]},
        }},
    })  # fmt: skip
    path = f"{DEPLOYMENTS}/web"
    eventually(lambda: kube.get(path)["status"].get("availableReplicas") == 3, 10, "three pods are available")
    kube.merge(path, {"spec": {"replicas": 1}})
    eventually(lambda: len(kube.items("/api/v1/namespaces/default/pods")) == 1, 10, "two pods are gone")
    kube.delete(path)
    eventually(lambda: kube.items("/api/v1/namespaces/default/pods") == [], 10, "all pods are gone")


def test_errors_of_the_server_reach_the_client(served: tuple[Process, Path]) -> None:
    kube = Kube(f"http://{served[0].address}")
    with pytest.raises(KubeFault) as caught:
        kube.get(f"{DEPLOYMENTS}/none")
    assert (caught.value.code, caught.value.reason) == (404, "NotFound")
    assert kube.find(f"{DEPLOYMENTS}/none") is None


def test_a_port_in_use_is_one_line_and_status_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run("serve", "--dir", str(tmp_path), "--port", str(port))
    assert ended.returncode == 1 and ended.stdout == ""
    assert ended.stderr.count("\n") == 1 and ended.stderr.startswith(f"ome-sandbox: cannot serve on 127.0.0.1:{port}: ")


def test_a_folder_that_cannot_be_made_is_one_line_and_status_1(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = run("serve", "--dir", str(tmp_path / "file" / "below"))
    assert ended.returncode == 1 and ended.stderr.count("\n") == 1
    assert "file" in ended.stderr and ended.stderr.startswith("ome-sandbox: ")


@pytest.mark.parametrize(("arguments", "told"), [
    (["serve", "--prot", "1"], "ome-sandbox serve: unknown flag --prot; did you mean --port?"),
    (["serve", "--nodes", "0"], "ome-sandbox serve: invalid value"),
    (["demo", "--stay", "maybe"], "ome-sandbox demo: invalid value"),
    (["dmeo"], 'ome-sandbox: unknown command "dmeo"; use serve or demo'),
    ([], "usage: ome-sandbox COMMAND"),
])  # fmt: skip
def test_a_bad_command_line_ends_with_status_2(arguments: list[str], told: str) -> None:
    ended = run(*arguments)
    assert ended.returncode == 2 and ended.stderr.startswith(told) and "Traceback" not in ended.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"], ["demo", "--help"]])
def test_help(arguments: list[str]) -> None:
    ended = run(*arguments)
    assert ended.returncode == 0 and "ome-sandbox" in ended.stdout and ended.stderr == ""
