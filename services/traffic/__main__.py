"""Start the traffic service: `ome-traffic` or `python -m services.traffic`."""

from __future__ import annotations

import sys

from pydantic import Field

from services.kit import process, settings
from services.traffic.service import register


class TrafficSettings(settings.ServiceSettings):
    """Settings of the traffic service."""

    listen: settings.HostPort = Field(
        default="127.0.0.1:7103", description="HOST:PORT that is served; port 0 takes a free one"
    )


def main() -> int:
    """Run until SIGTERM; the exit status."""
    name = "ome-traffic"
    return process.run_service(name, process.load_settings(TrafficSettings, name), register)


if __name__ == "__main__":
    sys.exit(main())
