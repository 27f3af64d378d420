"""``ome-sandbox``: the embedded cluster (``serve``), and the story told on it (``demo``)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from sandbox.embedded import ClusterError, EmbeddedCluster, serve
from sandbox.workloads import Behaviour
from services.kit import settings as kit

PROG = "ome-sandbox"
USAGE = f"""usage: {PROG} COMMAND [FLAGS]

  serve   the embedded cluster alone: API server and workload model, until SIGTERM
  demo    the embedded cluster, four services and the gateway, and the story of a pin told step by step

{PROG} COMMAND --help lists the flags of a command.
"""


class ServeSettings(BaseModel):
    """Settings of ome-sandbox serve."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dir: str = Field(default=".sandbox", description="folder that gets the kubeconfig; made when absent")
    host: str = Field(default="127.0.0.1", description="address that is listened on; there is no authentication")
    port: int = Field(default=0, ge=0, le=65535, description="port that is listened on; 0 takes a free one")
    nodes: int = Field(default=1, ge=1, le=250, description="number of Node objects")
    startup_seconds: float = Field(
        default=0.0, ge=0, le=86_400, description="seconds until a pod runs, where no annotation says otherwise"
    )


def _serve(argv: Sequence[str]) -> int:
    settings = kit.load(ServeSettings, f"{PROG} serve", argv, os.environ)
    cluster = EmbeddedCluster(
        settings.host, settings.port, settings.nodes, Behaviour(startup_seconds=settings.startup_seconds)
    )

    def ended() -> asyncio.Event:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        return stop

    try:
        asyncio.run(serve(cluster, Path(settings.dir), ended))
    except OSError as error:
        sys.stderr.write(f"{PROG}: cannot serve on {settings.host}:{settings.port}: {error.strerror or error}\n")
        return 1
    except ClusterError as error:
        sys.stderr.write(f"{PROG}: {error}\n")
        return 1
    return 0


def main() -> None:
    """Runs the command and ends with its status: 0, 1 for a failure, 2 for a bad command line."""
    command, *argv = sys.argv[1:] or [""]
    if command in ("-h", "--help"):
        sys.stdout.write(USAGE)
        raise SystemExit(0)
    if command == "serve":
        raise SystemExit(_serve(argv))
    if command == "demo":
        from sandbox.demo.command import run  # noqa: PLC0415  the server process does not pay for the demo's imports

        raise SystemExit(run(argv))
    sys.stderr.write(f'{PROG}: unknown command "{command}"; use serve or demo\n' if command else USAGE)
    raise SystemExit(2)


if __name__ == "__main__":
    main()
