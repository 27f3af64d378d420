"""Start the pinning service: `ome-pinning` or `python -m services.pinning`."""

from __future__ import annotations

import os
import sys

from pydantic import Field

from services.kit.process import run_service
from services.kit.settings import HostPort, ServiceSettings, load
from services.pinning.service import register

NAME = "ome-pinning"


class PinningSettings(ServiceSettings):
    """Settings of the pinning service."""

    listen: HostPort = Field("127.0.0.1:7101", description="Address for gRPC, HOST:PORT; port 0 takes a free one.")


def main() -> int:
    """Run until SIGTERM or SIGINT; the exit status."""
    return run_service(NAME, load(PinningSettings, NAME, sys.argv[1:], os.environ), register)


if __name__ == "__main__":
    sys.exit(main())
