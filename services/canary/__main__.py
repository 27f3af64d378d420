"""Start the canary service: `ome-canary` or `python -m services.canary`."""

from __future__ import annotations

import os
import sys

from pydantic import Field

from services.canary.service import register
from services.kit.process import run_service
from services.kit.settings import HostPort, ServiceSettings, load

NAME = "ome-canary"


class CanarySettings(ServiceSettings):
    """Settings of the canary service."""

    listen: HostPort = Field("127.0.0.1:7102", description="Address for gRPC, HOST:PORT; port 0 takes a free one.")


def main() -> int:
    """Run until SIGTERM or SIGINT; the exit status."""
    return run_service(NAME, load(CanarySettings, NAME, sys.argv[1:], os.environ), register)


if __name__ == "__main__":
    sys.exit(main())
