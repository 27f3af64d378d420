"""An unmodified kubectl follows rollouts of the workload model."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.processes import Process

KUBECTL = shutil.which("kubectl")
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on PATH")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("kubectl")
    process = Process("ome-sandbox", "sandbox", ["serve", "--dir", str(folder), "--startup-seconds", "0.2"])
    process.start()
    process.wait_serving()
    yield folder
    process.terminate()


def kubectl(folder: Path, line: str, status: int = 0) -> str:
    env = {**os.environ, "KUBECONFIG": str(folder / "kubeconfig")}
    ended = subprocess.run([str(KUBECTL), *line.split()], capture_output=True, text=True, timeout=60, env=env)
    assert ended.returncode == status, ended.stderr
    return ended.stdout + ended.stderr


def test_rollout_status_history_undo_and_wait(folder: Path) -> None:
    kubectl(folder, "create deployment web --image=web:v1 --replicas=3")
    told = kubectl(folder, "rollout status deployment/web --timeout=20s")
    assert "Waiting for deployment" in told and 'deployment "web" successfully rolled out' in told
    kubectl(folder, "set image deployment/web web=web:v2")
    assert "successfully rolled out" in kubectl(folder, "rollout status deployment/web --timeout=20s")
    history = kubectl(folder, "rollout history deployment/web")
    assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["1", "2"]
    kubectl(folder, "rollout undo deployment/web")
    kubectl(folder, "rollout status deployment/web --timeout=20s")
    images = kubectl(folder, "get pods -o jsonpath={.items[*].spec.containers[*].image}")
    assert images.split() == ["web:v1"] * 3
    assert "3/3" in kubectl(folder, "get deployment web")


def test_a_broken_rollout_is_seen_and_mended(folder: Path) -> None:
    kubectl(folder, "create deployment bad --image=bad:v1 --replicas=2")
    kubectl(folder, "wait --for=condition=Available deployment/bad --timeout=20s")
    kubectl(folder, "annotate deployment bad sandbox.ome.io/crash=true")
    kubectl(folder, "wait --for=condition=Available=False deployment/bad --timeout=20s")
    assert "CrashLoopBackOff" in kubectl(folder, "get pods -l app=bad")
    assert "timed out waiting" in kubectl(folder, "wait --for=condition=Available deployment/bad --timeout=1s", 1)
    assert "BackOff" in kubectl(folder, "describe pods -l app=bad")
    kubectl(folder, "annotate deployment bad sandbox.ome.io/crash-")
    kubectl(folder, "delete pods -l app=bad --now")
    kubectl(folder, "wait --for=condition=Available deployment/bad --timeout=20s")
    kubectl(folder, "delete deployment bad --cascade=foreground --timeout=20s")
    assert "No resources found" in kubectl(folder, "get pods -l app=bad")
