"""Callers that know the services by reflection alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., Any]


@pytest.fixture(scope="module")
def buf() -> str:
    found = shutil.which("buf", path=str(Path(sys.executable).parent)) or shutil.which("buf")
    assert found, "buf comes with the development dependencies (buf-bin)"
    return found


def curl(buf: str, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [buf, "curl", "--protocol", "grpc", "--http2-prior-knowledge", *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60, check=False)


def test_buf_curl_lists_and_calls(start: Start, buf: str, tmp_path: Path) -> None:
    url = f"http://{start().address}"
    listed = curl(buf, tmp_path, "--list-services", url)
    assert "ome.gc.v1.GcService" in listed.stdout.split(), listed.stderr
    called = curl(buf, tmp_path, "--timeout", "10s", "-d", "{}", f"{url}/ome.gc.v1.GcService/Plan")
    assert json.loads(called.stdout) == {"incomplete": ["ok"]}, called.stderr


def test_buf_curl_without_a_deadline_is_told_how(start: Start, buf: str, tmp_path: Path) -> None:
    refused = curl(buf, tmp_path, "-d", "{}", f"http://{start().address}/ome.gc.v1.GcService/Plan")
    assert refused.returncode != 0
    error = json.loads(refused.stderr)
    assert error["code"] == "invalid_argument"
    assert "buf curl --timeout 5s" in error["message"]
