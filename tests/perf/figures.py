"""Figures and their bars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

BARS: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "bars.yaml").read_text("utf-8"))


def report(name: str, value: float, note: str = "") -> None:
    """Prints a figure beside its bar and fails when it is over."""
    bar = BARS[name]["bar"]
    text = f"{name:<10} {value:8.3f}   bar {bar:g}   {BARS[name]['what']}" + (f"   [{note}]" if note else "")
    print(text)
    assert value <= bar, f"{text}\n{BARS[name]['why']}"
