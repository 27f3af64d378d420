"""Logs of passes under virtual time say nothing a failing test needs."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
import structlog

from services.kit import logs


@pytest.fixture(autouse=True)
def lines() -> Iterator[io.StringIO]:
    """What is logged during the test, as JSON lines."""
    stream = io.StringIO()
    logs.setup("test", "debug", "json", stream)
    yield stream
    structlog.reset_defaults()
