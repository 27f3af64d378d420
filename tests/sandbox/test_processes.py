"""Child processes: serving line, output, signals, restart, and that none is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.processes import Process, ProcessError, Supervisor

CHILD = """
import signal, socket, sys, time
where = sys.argv[sys.argv.index("--listen") + 1] if "--listen" in sys.argv else "127.0.0.1:0"
host, port = where.split(":")
if "--fail" in sys.argv:
    sys.stderr.write("child: no such luck\\n"); sys.exit(3)
if "--silent" in sys.argv:
    time.sleep(60)
server = socket.create_server((host, int(port)))
def stop(*_):
    print("draining", flush=True); sys.exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN if "--stubborn" in sys.argv else stop)
print(f"child serving on {host}:{server.getsockname()[1]}", flush=True)
print("one word on stderr", file=sys.stderr, flush=True)
while True:
    time.sleep(60)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "childprogram.py").write_text(textwrap.dedent(CHILD))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    yield "childprogram"


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie has ended, only nobody has asked for its status yet.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_it_serves_is_restarted_on_its_address_and_ends(module: str, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "child.log"
    process = Process("child", module, ["--listen", "127.0.0.1:0"], log=log)
    process.start()
    address = process.wait_serving()
    process.wait_line("one word on stderr", 5)
    assert process.resident_bytes() > 1_000_000 and process.cpu_seconds() >= 0
    process.kill()
    assert process.status == -signal.SIGKILL and not process.running and process.ended
    assert process.restart() == address
    assert process.terminate() == 0
    assert process.lines()[-1] == "draining"
    assert log.read_text().splitlines() == process.lines()


def test_a_child_that_fails_is_told_with_its_last_lines(module: str) -> None:
    process = Process("child", module, ["--fail"])
    process.start()
    with pytest.raises(ProcessError, match=r"child ended with status 3\n  child: no such luck"):
        process.wait_serving()


def test_a_child_that_does_not_serve_in_time(module: str) -> None:
    with Supervisor() as supervisor:
        process = supervisor.add(Process("child", module, ["--silent"]))
        process.start()
        with pytest.raises(ProcessError, match=r"child does not serve after 0\.3 s"):
            process.wait_serving(0.3)
        with pytest.raises(ProcessError, match="runs already"):
            process.start()


def test_a_child_that_ignores_sigterm_is_killed(module: str) -> None:
    process = Process("child", module, ["--stubborn"])
    process.start()
    process.wait_serving()
    with pytest.raises(ProcessError, match=r"did not end within 0\.2 s of SIGTERM"):
        process.terminate(0.2)
    assert process.status == -signal.SIGKILL


def test_a_supervisor_stops_all_and_names_those_that_ended_by_themselves(module: str) -> None:
    with Supervisor() as supervisor:
        one, two = Process("one", module, []), Process("two", module, [])
        supervisor.start(one, two)
        assert one.address != two.address and supervisor.failed() == []
        os.kill(two.pid, signal.SIGKILL)
        deadline = time.monotonic() + 5
        while not supervisor.failed() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert supervisor.failed() == [two]
        assert supervisor.stop() == {"one": 0}


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent death signal is Linux's")
def test_children_die_with_a_parent_that_is_killed(module: str) -> None:
    script = f"""
        import time
        from sandbox.processes import Process
        process = Process("child", {module!r}, [])
        process.start()
        process.wait_serving()
        print(process.pid, flush=True)
        time.sleep(60)
    """
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert alive(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 5
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(pid)
