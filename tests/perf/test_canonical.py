"""C14N: what the canonical digest costs (pinning specification 10)."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from services.kit import canonical

from .figures import report

pytestmark = pytest.mark.perf
ROUNDS, CALLS = 40, 200
RUNTIME: dict[str, Any] = {
    "disabled": False,
    "supportedModelFormats": [
        {"modelFormat": {"name": "safetensors", "version": "1.0.0"}, "autoSelect": True, "priority": n}
        for n in range(3)
    ],
    "modelSizeRange": {"min": "1B", "max": "9B"},
    "engineConfig": {
        "runner": {
            "name": "ome-container",
            "image": "registry.example/engine:v0.4.6",
            "args": [f"--option-{n}=value-{n}" for n in range(80)],
            "env": [{"name": f"VARIABLE_{n}", "value": f"setting number {n}"} for n in range(24)],
            "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "8", "memory": "64Gi"}, "requests": {"cpu": "8", "memory": "64Gi"}},
        },
    },
}


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    for _ in range(CALLS):
        work()
    return (time.perf_counter() - begin) / CALLS


def test_c14n_digest() -> None:
    text = json.dumps(RUNTIME).encode()
    assert 3500 < len(text) < 4500
    decoded = canonical.decode(text)
    works: list[Callable[[], object]] = [
        lambda: hashlib.sha256(orjson.dumps(decoded, option=orjson.OPT_SORT_KEYS)).hexdigest(),
        lambda: canonical.digest(canonical.canonical(decoded)),
        lambda: canonical.digest(canonical.canonical(canonical.decode(text))),
    ]
    rounds = [[seconds(work) for work in works] for _ in range(ROUNDS)]
    plain, from_value, from_bytes = (min(times) for times in zip(*rounds, strict=True))
    report("C14N", from_value / plain, f"{from_value * 1e6:.1f} to {plain * 1e6:.1f} microseconds")
    report("C14N-bytes", from_bytes / plain, f"{from_bytes * 1e6:.1f} to {plain * 1e6:.1f} microseconds")
