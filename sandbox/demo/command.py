"""``ome-sandbox demo``: starts everything, tells the story, draws a trace; stays up on a terminal until Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from sandbox.collector import Span, TraceCollector, draw
from sandbox.demo.printer import Teller
from sandbox.demo.story import Story, StoryError
from sandbox.kube import Kube, KubeFault, NotYet, eventually
from sandbox.processes import ProcessError
from sandbox.suite import Suite
from services.kit.settings import load

PROG = "ome-sandbox demo"
PIN_WRITES = 3
"""Snapshot, status, event."""


class DemoSettings(BaseModel):
    """Settings of ome-sandbox demo."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dir: str = Field(default=".sandbox", description="folder that gets the kubeconfig and the logs; made when absent")
    port: int = Field(default=0, ge=0, le=65535, description="port of the API server; 0 takes a free one")
    step_seconds: float = Field(default=30.0, gt=0, le=3600, description="longest time in seconds for one step")
    stay: Literal["auto", "yes", "no"] = Field(
        default="auto", description="stay up after the story until Ctrl-C; auto: on a terminal only"
    )


def run(argv: Sequence[str]) -> int:
    """Runs the demo; answers the exit status: 0 when the story came true, 1 when not."""
    settings = load(DemoSettings, PROG, argv, os.environ)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: _interrupt(stop))
    try:
        return _tell(settings, stop)
    except (StoryError, ProcessError, NotYet, KubeFault, OSError) as error:
        sys.stdout.flush()
        sys.stderr.write(f"{PROG}: {error}\n{PROG}: the processes' logs are in {Path(settings.dir) / 'logs'}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def _interrupt(stop: threading.Event) -> None:
    if not stop.is_set():
        stop.set()
        raise KeyboardInterrupt


def _tell(settings: DemoSettings, stop: threading.Event) -> int:
    teller = Teller()
    folder = Path(settings.dir)
    collector = TraceCollector()
    collector.start()
    _clear(folder / "logs")
    try:
        with Suite(folder, collector.endpoint, settings.port) as suite:
            teller.heading("OME Rollouts on this machine: an embedded cluster, four services and the gateway")
            suite.start()
            served = [suite.cluster, *suite.services.values(), *suite.gateway_processes]
            teller.output([f"{process.name:<12} {process.address}" for process in served])
            teller.prose(f"kubectl works on it meanwhile: export KUBECONFIG={suite.kubeconfig}")
            kube, seconds = Kube(suite.url), settings.step_seconds
            Story(kube, teller, seconds, suite.supervisor, lambda: len(collector.find("reconcile"))).tell()
            _draw(teller, collector, settings.step_seconds)
            if settings.stay == "yes" or (settings.stay == "auto" and sys.stdin.isatty() and sys.stdout.isatty()):
                _stay(teller, suite)
    finally:
        collector.stop()
    return 0


def _clear(logs: Path) -> None:
    for path in logs.glob("*.log"):
        path.unlink()


def _draw(teller: Teller, collector: TraceCollector, seconds: float) -> None:
    """The latest reconcile that made a snapshot and persisted the pin: the roll forward."""

    def look() -> list[Span] | None:
        for root in reversed(collector.find("reconcile")):
            spans = collector.trace(root.trace_id)
            writes = [span for span in spans if span.name == "kube.write"]
            if "ome-pinning" in {span.service for span in spans} and len(writes) >= PIN_WRITES:
                return spans
        return None

    spans = eventually(look, seconds, "a trace of gateway and pinning with the writes of a pin was received")
    teller.heading("The reconcile that rolled forward, across processes")
    teller.prose(f"trace {spans[0].trace_id}")
    teller.output(draw(spans))


def _stay(teller: Teller, suite: Suite) -> None:
    teller.heading("Everything stays up until Ctrl-C")
    teller.prose(f"  kubectl --kubeconfig {suite.kubeconfig} -n echo-lab get isvc,events")
    try:
        while not suite.supervisor.failed():
            time.sleep(0.5)
    except KeyboardInterrupt:
        teller.prose("\nstopping")
        return
    for process in suite.supervisor.failed():
        raise ProcessError(f"{process.name} ended with status {process.status}")
