"""Start the gateway: `ome-gateway` or `python -m gateway`."""

from __future__ import annotations

import asyncio
import os
import sys

from services.kit.process import StartError, observability  # first: it sets what gRPC reads when it loads

# isort: split

from gateway.settings import PROG, load_settings
from gateway.wiring import serve


def main() -> int:
    """Run until SIGTERM; the exit status: 0 after a drain, 1 when it cannot start, 2 for a bad setting."""
    settings = load_settings(sys.argv[1:], os.environ)
    try:
        with observability(PROG, settings):
            return asyncio.run(serve(settings, os.environ))
    except StartError as error:
        sys.stderr.write(f"{PROG}: {error}\n")
        return error.status


if __name__ == "__main__":
    sys.exit(main())
