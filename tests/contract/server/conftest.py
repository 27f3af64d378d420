"""A served sample in process, certificates made on the spot, and sample processes that are always ended."""

from __future__ import annotations

import importlib.util
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import IO

import pytest

from services.kit.server import RpcServer
from services.kit.settings import ServiceSettings

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


@pytest.fixture(scope="session")
def sample() -> ModuleType:
    spec = importlib.util.spec_from_file_location("contract_server_sample", HERE / "sample.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
async def served(sample: ModuleType) -> AsyncIterator[RpcServer]:
    server = RpcServer(ServiceSettings(max_deadline_seconds=30), sample.register, sample.LONG_LIVED)
    await server.start()
    yield server
    await server.stop()


@dataclass
class Process:
    """A started sample process: its address, and its stderr as it grows."""

    popen: subprocess.Popen[str]
    address: str
    first_line: str
    errors: Path

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.popen.send_signal(number)

    def wait(self, seconds: float = 20) -> int:
        return self.popen.wait(seconds)

    def stderr(self) -> str:
        """Everything on stderr so far."""
        return self.errors.read_text()

    def rest_of_stdout(self) -> str:
        assert self.popen.stdout is not None
        return self.popen.stdout.read()

    def rss_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.popen.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


def _line(stream: IO[str], popen: subprocess.Popen[str], seconds: float) -> str:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([stream], [], [], 0.2)[0]:
            return stream.readline()
    raise AssertionError(f"no line within {seconds} s; status {popen.poll()}")


Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the sample (or `module`, by name) on a free port and waits for its serving line."""
    running: list[subprocess.Popen[str]] = []

    def run(*flags: str, module: str = "", listen: str = "127.0.0.1:0") -> Process:
        program = ["-m", module] if module else [str(HERE / "sample.py")]
        errors = tmp_path / f"stderr-{len(running)}"
        with errors.open("w") as stderr:  # a pipe that nobody reads would fill up and stop the process
            popen = subprocess.Popen(
                [sys.executable, *program, "--listen", listen, *flags],
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=environment(),
            )
        running.append(popen)
        assert popen.stdout is not None
        line = _line(popen.stdout, popen, 30)
        if not line:
            raise AssertionError(f"the process ended at once: {errors.read_text()}")
        return Process(popen, line.rsplit(" ", 1)[-1].strip(), line, errors)

    yield run
    for popen in running:
        if popen.poll() is None:
            popen.kill()
        popen.wait()
        assert popen.stdout is not None
        popen.stdout.close()


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run_to_end() -> Run:
    """Runs the sample (or `module`) with the flags and answers the ended process."""

    def run(*flags: str, module: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        program = ["-m", module] if module else [str(HERE / "sample.py")]
        return subprocess.run(
            [sys.executable, *program, *flags],
            capture_output=True,
            text=True,
            timeout=60,
            env=environment() | env,
            check=False,
        )

    return run


def environment() -> dict[str, str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("OME_")}
    return env | {"PYTHONPATH": str(ROOT)}
