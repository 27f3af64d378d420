"""One suite of processes per test module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox.collector import TraceCollector

from .world import World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The cluster and four services; gateways are the test's own to start."""
    world = World(tmp_path_factory.mktemp("suite"))
    yield world
    world.stop()


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, TraceCollector]]:
    """The same, with every span collected."""
    collector = TraceCollector()
    collector.start()
    world = World(tmp_path_factory.mktemp("suite"), collector.endpoint)
    yield world, collector
    world.stop()
    collector.stop()
