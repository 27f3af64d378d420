"""The one way to run a service process: logs, traces, metrics, the server, signals, the exit status."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Collection, Iterator

from services.kit import logs, metrics, tracing
from services.kit.server import Register, RpcServer, StartError, listen_fault
from services.kit.settings import ServiceSettings

__all__ = ["Register", "StartError", "observability", "run_service", "stop_signals"]


def run_service(name: str, settings: ServiceSettings, register: Register, long_lived: Collection[str] = ()) -> int:
    """Runs the service `name` (`ome-pinning`) until SIGTERM or SIGINT; returns the process's exit status.

    `register` adds the servicers and returns the full names of their services; `long_lived` names the methods
    (`/package.Service/Method`) whose streams a drain ends at once. One line on stdout says when and where it serves.
    A start that fails writes one line on stderr: status 1, or 2 where a setting is at fault. A second signal ends
    the drain at once, status 1.
    """
    try:
        with observability(name, settings):
            return asyncio.run(_serve(name, settings, register, long_lived))
    except StartError as error:
        sys.stderr.write(f"{name}: {error}\n")
        return error.status
    except KeyboardInterrupt:  # before the loop took over the signals
        return 130


@contextlib.contextmanager
def observability(name: str, settings: ServiceSettings) -> Iterator[None]:
    """Logs, traces and metrics of a process while the block runs; StartError if the metrics address is taken."""
    logs.setup(name, settings.log_level, settings.log_format)
    stop_metrics: Callable[[], None] | None = None
    if settings.metrics_listen:
        try:
            address, stop_metrics = metrics.serve(settings.metrics_listen)
        except OSError as error:
            fault = listen_fault(error)
            raise StartError(f"cannot serve metrics on {settings.metrics_listen}: {fault}") from None
        logs.get(__name__).info("serving metrics", url=f"http://{address}/metrics")
    stop_tracing = tracing.setup(name, settings)
    try:
        yield
    finally:
        stop_tracing()
        if stop_metrics:
            stop_metrics()


@contextlib.contextmanager
def stop_signals() -> Iterator[tuple[asyncio.Event, asyncio.Event]]:
    """Events set by the first and the second SIGTERM or SIGINT while the block runs, in the running loop."""
    first, second = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def received() -> None:
        (second if first.is_set() else first).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received)
    try:
        yield first, second
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def _serve(name: str, settings: ServiceSettings, register: Register, long_lived: Collection[str]) -> int:
    with stop_signals() as (stop, hurry):
        server = RpcServer(settings, register, long_lived)
        await server.start()
        sys.stdout.write(f"{name} serving on {server.address}\n")
        sys.stdout.flush()
        await stop.wait()
        logs.get(__name__).info("draining", calls=server.calls.in_flight, seconds=settings.drain_seconds)
        drain = asyncio.ensure_future(server.drain(settings.drain_seconds))
        hurried = asyncio.ensure_future(hurry.wait())
        await asyncio.wait((drain, hurried), return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if drain.done():
            drain.result()
            return 0
        drain.cancel()
        await server.stop()
        return 1
