"""The one way to start a process of the suite: settings, logs, traces, metrics, server, signals, drain."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TypeVar

from services.kit import logs, metrics, server, settings, tracing

S = TypeVar("S", bound=settings.ServiceSettings)


def load_settings(cls: type[S], name: str) -> S:
    """Settings of this process from its own arguments and environment; faults end it with status 2."""
    return settings.load(cls, name, sys.argv[1:], os.environ)


def fail(name: str, message: str) -> int:
    """Print one clear line on standard error; the exit status of a process that cannot start."""
    sys.stderr.write(f"{name}: {message}\n")
    return 1


def announce(name: str, listen: str, port: int) -> None:
    """Print the one line that says a process serves, with the port really taken."""
    host = listen.rpartition(":")[0]
    sys.stdout.write(f"{name} serving on {host}:{port}\n")
    sys.stdout.flush()


def stop_event() -> asyncio.Event:
    """An event that SIGTERM or SIGINT sets; call inside the running loop."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, event.set)
    return event


def run_service(name: str, config: settings.ServiceSettings, register: server.Register) -> int:
    """Run a decision service until SIGTERM or SIGINT.

    In: program name, settings, a function that adds the servicers and returns their full service names. Out: exit
    status 0 after a drain, 1 with one line on standard error when it cannot serve.
    """
    logs.setup(name, config.log_level, config.log_format)
    shutdown = tracing.setup(name, config.otlp_endpoint, config.trace_ratio)
    try:
        metrics.serve(config.metrics_listen)
        return asyncio.run(_serve(name, config, register))
    except (OSError, RuntimeError) as error:
        return fail(name, f"cannot serve on {config.listen}: {_first_line(error)}")
    finally:
        shutdown()


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__


async def _serve(name: str, config: settings.ServiceSettings, register: server.Register) -> int:
    instance = server.Server(config, register)
    port = await instance.start()
    stop = stop_event()
    announce(name, config.listen, port)
    await stop.wait()
    await instance.drain()
    return 0
