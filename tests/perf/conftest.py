"""Benchmarks run when asked for (`-m perf`), never among the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "perf" in (config.option.markexpr or ""):
        return
    here = [item for item in items if HERE in item.path.parents]
    if here:
        items[:] = [item for item in items if item not in here]
        config.hook.pytest_deselected(items=here)
