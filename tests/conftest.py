"""What every test shares: a test that configures the logs leaves no trace in the next one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import structlog


@pytest.fixture(autouse=True)
def logs_as_they_were(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loggers bind anew at each line, and the defaults are back after the test."""
    configure = structlog.configure

    def uncached(**settings: Any) -> None:
        configure(**{**settings, "cache_logger_on_first_use": False})

    monkeypatch.setattr(structlog, "configure", uncached)
    yield
    structlog.reset_defaults()
