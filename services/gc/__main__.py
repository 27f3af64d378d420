"""Start the gc service: `ome-gc` or `python -m services.gc`."""

from __future__ import annotations

import sys

from pydantic import Field

from services.gc.service import register
from services.kit import process, settings


class GcSettings(settings.ServiceSettings):
    """Settings of the gc service."""

    listen: settings.HostPort = Field(
        default="127.0.0.1:7104", description="HOST:PORT that is served; port 0 takes a free one"
    )


def main() -> int:
    """Run until SIGTERM; the exit status."""
    name = "ome-gc"
    return process.run_service(name, process.load_settings(GcSettings, name), register)


if __name__ == "__main__":
    sys.exit(main())
