"""Write `docs/settings.md` from the settings classes; run by `make docs`, held current by a test.

In: the classes that each process gives to `services.kit.settings.load`. Out: one table for what every gRPC server
takes, then one per process with what it adds or sets otherwise.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import cast

from pydantic import BaseModel

from services.kit.settings import ServiceSettings, markdown

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "settings.md"
PROCESSES = {
    "ome-pinning": "services.pinning",
    "ome-canary": "services.canary",
    "ome-traffic": "services.traffic",
    "ome-gc": "services.gc",
    "ome-gateway": "gateway",
    "ome-sandbox serve": "sandbox",
    "ome-sandbox demo": "sandbox.demo",
}
MODULES = ["settings", "__main__", "command"]
HEAD = """# Settings

<!-- Made by `make docs` from the settings classes. Do not edit. -->

A flag beats its environment variable, which beats the default. A bad value, an unknown flag or a fault between settings
ends the process at start with status 2 and one line per fault, naming the flag. `--help` prints the same.
"""


def settings_class(package: str) -> type[BaseModel]:
    """Return the settings class that `package` defines; LookupError when there is none."""
    for name in (f"{package}.{module}" for module in MODULES):
        if importlib.util.find_spec(name) is None:
            continue
        for key, value in vars(importlib.import_module(name)).items():
            if key.endswith("Settings") and issubclass(value, BaseModel) and value.__module__ == name:
                return cast(type[BaseModel], value)
    raise LookupError(f"{package} defines no settings class")


def own_rows(cls: type[BaseModel]) -> list[str]:
    """Return the table of `cls` without the rows that every server shares; empty when it adds nothing."""
    lines = markdown(cls).splitlines()
    shared = set(markdown(ServiceSettings).splitlines()[2:])
    rows = [line for line in lines[2:] if line not in shared]
    return [*lines[:2], *rows] if rows else []


def page() -> str:
    """Return the whole page."""
    parts = [HEAD, "## Services and gateway\n", markdown(ServiceSettings)]
    for program, package in PROCESSES.items():
        own = own_rows(settings_class(package))
        parts += [f"## {program}\n", *(own or ["Nothing of its own."]), ""]
    return "\n".join(parts).rstrip() + "\n"


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
