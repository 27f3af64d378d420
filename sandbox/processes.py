"""Child processes of the sandbox: started on free ports, watched, stopped, and never left behind.

Every child runs in a session of its own (a Ctrl-C on the terminal is the parent's to handle) and dies with its parent,
however that ends: on Linux the kernel kills it, elsewhere the interpreter's exit does.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

START_SECONDS = 30.0
STOP_SECONDS = 15.0
KEPT_LINES = 2_000
SERVING = re.compile(r"^(?P<name>\S+) serving on (?P<address>\S+:\d+)")

# Runs in the child before the program: the kernel is told to kill it when the thread that started it ends, so start
# processes from a thread that lives on. The parent is checked afterwards, since it may have died just before.
_TIE = """
import ctypes, os, sys
parent = int(sys.argv[1])
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != parent:
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""

_alive: weakref.WeakSet[Process] = weakref.WeakSet()


class ProcessError(Exception):
    """A child did not do what it should; the text has its last lines."""


class Process:
    """One child process that says ``<name> serving on <host>:<port>`` on its standard output when it serves."""

    def __init__(self, name: str, module: str, arguments: Sequence[str], env: Mapping[str, str] | None = None,
                 log: Path | None = None) -> None:
        """``module`` is run as ``python -m``; ``env`` adds to this environment; its lines go to ``log`` too."""
        self.name = name
        self.module = module
        self.arguments = list(arguments)
        self.env = dict(env or {})
        self.address = ""
        """Where it serves, once ``wait_serving`` has returned."""
        self._child: subprocess.Popen[bytes] | None = None
        self._log = log
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._news = threading.Condition()
        self._readers: list[threading.Thread] = []

    @property
    def pid(self) -> int:
        """The process id of the latest start."""
        return self._started().pid

    @property
    def status(self) -> int | None:
        """The exit status (negative: the signal), None while it runs."""
        return self._started().poll()

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._child is not None and self._child.poll() is None

    @property
    def ended(self) -> bool:
        """Whether it was started and runs no more."""
        return self._child is not None and self._child.poll() is not None

    def lines(self) -> list[str]:
        """What it wrote so far, both streams, oldest first, across restarts (the last few thousand lines)."""
        with self._news:
            return list(self._lines)

    def start(self) -> None:
        """Starts it; ``wait_serving`` waits until it serves."""
        if self.running:
            raise ProcessError(f"{self.name} runs already")
        python = sys.executable
        tie = [python, "-I", "-S", "-c", _TIE, str(os.getpid())]
        command = [*tie, python, "-u", "-m", self.module, *self.arguments]
        self.address = ""
        if self._log is not None:
            self._log.parent.mkdir(parents=True, exist_ok=True)
        self._child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            env={**os.environ, **self.env},
        )  # fmt: skip
        _alive.add(self)
        self._readers = []
        for stream in (self._child.stdout, self._child.stderr):
            assert stream is not None
            reader = threading.Thread(target=self._read, args=(stream,), daemon=True)
            reader.start()
            self._readers.append(reader)

    def wait_serving(self, seconds: float = START_SECONDS) -> str:
        """Waits for the serving line; answers the address. Raises ``ProcessError`` when it ends or takes too long."""
        deadline = time.monotonic() + seconds
        with self._news:
            while not self.address:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise ProcessError(f"{self.name} does not serve after {seconds:g} s{self._tail()}")
                if self.status is not None and not any(reader.is_alive() for reader in self._readers):
                    raise ProcessError(f"{self.name} ended with status {self.status}{self._tail()}")
                self._news.wait(min(left, 0.1))
            return self.address

    def wait_line(self, text: str, seconds: float, since: int = 0) -> str:
        """Waits for a line that contains ``text``, after the first ``since`` lines. Raises ``ProcessError``."""
        deadline = time.monotonic() + seconds
        with self._news:
            while True:
                found = next((line for line in list(self._lines)[since:] if text in line), None)
                if found is not None:
                    return found
                left = deadline - time.monotonic()
                if left <= 0:
                    raise ProcessError(f"{self.name} did not say {text!r} within {seconds:g} s{self._tail()}")
                self._news.wait(min(left, 0.1))

    def send(self, number: signal.Signals) -> None:
        """Sends a signal; one that has ended is left alone."""
        if self.running:
            self._started().send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and waits for the end."""
        self.send(signal.SIGKILL)
        self._reap(STOP_SECONDS)

    def terminate(self, seconds: float = STOP_SECONDS) -> int:
        """SIGTERM; answers the exit status. Raises ``ProcessError``, after a SIGKILL, when it outlives ``seconds``."""
        self.send(signal.SIGTERM)
        try:
            return self._reap(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ProcessError(f"{self.name} did not end within {seconds:g} s of SIGTERM{self._tail()}") from None

    def restart(self, seconds: float = START_SECONDS) -> str:
        """Starts it again after its end, on the address it had, and waits until it serves."""
        if self.address and "--listen" in self.arguments:
            self.arguments[self.arguments.index("--listen") + 1] = self.address
        self.start()
        return self.wait_serving(seconds)

    def resident_bytes(self) -> int:
        """Its resident memory now (Linux)."""
        pages = Path(f"/proc/{self.pid}/statm").read_text("ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self) -> float:
        """The processor time it has used, user and system (Linux)."""
        fields = Path(f"/proc/{self.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _reap(self, seconds: float) -> int:
        status = self._started().wait(seconds)
        for reader in self._readers:
            reader.join(2.0)
        _alive.discard(self)
        return status

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            raise ProcessError(f"{self.name} was not started")
        return self._child

    def _read(self, stream: IO[bytes]) -> None:
        for raw in stream:
            line = raw.decode("utf-8", "replace").rstrip("\n")
            with self._news:
                if self._log is not None:
                    with self._log.open("a", encoding="utf-8") as file:
                        file.write(line + "\n")
                self._lines.append(line)
                serving = SERVING.match(line)
                if serving and not self.address:
                    self.address = serving["address"]
                self._news.notify_all()
        stream.close()

    def _tail(self) -> str:
        last = list(self._lines)[-8:]
        return "".join(f"\n  {line}" for line in last)


class Supervisor:
    """A set of processes that is stopped as a whole, the last started first."""

    def __init__(self) -> None:
        self._processes: list[Process] = []

    def add(self, process: Process) -> Process:
        """Takes charge of a process, started or not."""
        self._processes.append(process)
        return process

    def start(self, *processes: Process, seconds: float = START_SECONDS) -> None:
        """Starts processes side by side and waits until all serve. Raises ``ProcessError``."""
        for process in processes:
            if process not in self._processes:
                self.add(process)
            process.start()
        for process in processes:
            process.wait_serving(seconds)

    def failed(self) -> list[Process]:
        """The processes that have ended by themselves."""
        return [process for process in self._processes if process.ended]

    def stop(self, seconds: float = STOP_SECONDS) -> dict[str, int]:
        """SIGTERM to all, the last started first, each awaited; answers exit statuses. SIGKILL for one that hangs."""
        statuses: dict[str, int] = {}
        for process in reversed(self._processes):
            if not process.running:
                continue
            with contextlib.suppress(ProcessError):
                process.terminate(seconds)
            statuses[process.name] = process.status or 0
        return statuses

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


@atexit.register
def _kill_all() -> None:
    for process in list(_alive):
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            process.kill()
