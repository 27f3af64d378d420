"""Start the canary service: `ome-canary` or `python -m services.canary`."""

from __future__ import annotations

import sys

from pydantic import Field

from services.canary.service import register
from services.kit import process, settings


class CanarySettings(settings.ServiceSettings):
    """Settings of the canary service."""

    listen: settings.HostPort = Field(
        default="127.0.0.1:7102", description="HOST:PORT that is served; port 0 takes a free one"
    )


def main() -> int:
    """Run until SIGTERM; the exit status."""
    name = "ome-canary"
    return process.run_service(name, process.load_settings(CanarySettings, name), register)


if __name__ == "__main__":
    sys.exit(main())
