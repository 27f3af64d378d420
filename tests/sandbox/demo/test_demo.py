"""`ome-sandbox demo` as a process: the whole story, a step that fails, a terminal, an interruption."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import yaml

from sandbox.kube import Kube

DEMO = [sys.executable, "-m", "sandbox", "demo"]


def children_left(folder: Path) -> list[str]:
    """Command lines of processes that still name the folder (Linux)."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line and entry.parent.name != str(os.getpid()):
            found.append(line)
    return found


def test_the_story_is_told_and_ends_with_status_0(tmp_path: Path) -> None:
    ended = subprocess.run([*DEMO, "--dir", str(tmp_path)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           timeout=150)  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr
    assert ended.stderr == ""
    told = ended.stdout
    headings = re.findall(r"^\d+\. .*$", told, re.MULTILINE)
    assert len(headings) == 9 and headings == sorted(headings)
    snapshots = set(re.findall(r"\br-echo-lab-echo-[0-9a-f]{8}\b", told))
    assert len(snapshots) == 2, "A to B to A uses two snapshots"
    for reason in ("RuntimePinned", "RuntimeDrifted", "RuntimePinAdvanced", "RuntimePinExplicit", "RuntimePinReleased"):
        assert reason in told
    assert "live spec differs; bump ome.io/runtime-sync annotation to advance" in told
    assert "$ kubectl -n echo-lab annotate isvc echo ome.io/runtime-sync=1 --overwrite" in told
    tree = told[told.index("The reconcile that rolled forward, across processes") :]
    assert {"ome-gateway", "ome-pinning"} <= set(re.findall(r"ome-\w+", tree))
    assert all(name in tree for name in ("reconcile", "rpc.client", "rpc.server", "kube.write"))
    assert "\033[" not in told, "no colours into a file"
    assert yaml.safe_load((tmp_path / "kubeconfig").read_text())["kind"] == "Config"
    assert (tmp_path / "logs" / "ome-gateway.log").exists()
    assert children_left(tmp_path) == []


def test_a_step_that_does_not_come_true_ends_with_status_1(tmp_path: Path) -> None:
    ended = subprocess.run([*DEMO, "--dir", str(tmp_path), "--step-seconds", "0.0001"], stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, timeout=60)  # fmt: skip
    assert ended.returncode == 1
    assert ended.stderr.startswith("ome-sandbox demo: step 2 (It follows the live runtime): ")
    assert "not within 0.0001 s" in ended.stderr and "Traceback" not in ended.stderr
    assert children_left(tmp_path) == []


def read_until(terminal: int, wanted: str, seconds: float) -> str:
    seen, deadline = "", time.monotonic() + seconds
    while wanted not in seen and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.2)[0]:
            seen += os.read(terminal, 65536).decode(errors="replace")
    assert wanted in seen, seen[-3000:]
    return seen


def test_on_a_terminal_it_stays_up_until_ctrl_c(tmp_path: Path) -> None:
    terminal, inner = pty.openpty()
    demo = subprocess.Popen([*DEMO, "--dir", str(tmp_path)], stdin=inner, stdout=inner, stderr=inner,
                            start_new_session=True)  # fmt: skip
    os.close(inner)
    try:
        told = read_until(terminal, f"--kubeconfig {tmp_path}/kubeconfig", 120)
        assert "until Ctrl-C" in told and "\033[1m" in told
        url = yaml.safe_load((tmp_path / "kubeconfig").read_text())["clusters"][0]["cluster"]["server"]
        isvc = Kube(url).get("/apis/ome.io/v1beta1/namespaces/echo-lab/inferenceservices/echo")
        assert isvc["spec"]["runtime"]["autoSync"] is True
        demo.send_signal(signal.SIGINT)
        assert demo.wait(30) == 0
    finally:
        demo.kill()
        demo.wait()
        os.close(terminal)
    assert children_left(tmp_path) == []


def test_an_interruption_amid_the_story_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [*DEMO, "--dir", str(tmp_path)]
    demo = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert demo.stdout is not None
    for line in demo.stdout:
        if line.startswith("2. "):
            break
    demo.send_signal(signal.SIGTERM)
    assert demo.wait(30) == 130
    demo.stdout.close()
    assert children_left(tmp_path) == []
