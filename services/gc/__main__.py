"""Start the gc service: `ome-gc` or `python -m services.gc`."""

from __future__ import annotations

import os
import sys

from pydantic import Field

from services.gc.service import register
from services.kit.process import run_service
from services.kit.settings import HostPort, ServiceSettings, load

NAME = "ome-gc"


class GcSettings(ServiceSettings):
    """Settings of the gc service."""

    listen: HostPort = Field("127.0.0.1:7104", description="Address for gRPC, HOST:PORT; port 0 takes a free one.")


def main() -> int:
    """Run until SIGTERM or SIGINT; the exit status."""
    return run_service(NAME, load(GcSettings, NAME, sys.argv[1:], os.environ), register)


if __name__ == "__main__":
    sys.exit(main())
