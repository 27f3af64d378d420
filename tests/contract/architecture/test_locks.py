"""The locks cover what is declared, by hash, and say nothing of where it comes from."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LOCKS = ["run", "dev", "build", "kubectl"]


def key(requirement: str) -> str:
    """Name of a requirement in normal form, without extras and versions."""
    return re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0].lower().replace("_", "-").replace(".", "-")


def blocks(lock: str) -> dict[str, str]:
    """Each entry of a lock with its lines joined, by name."""
    text = (ROOT / "locks" / f"{lock}.txt").read_text(encoding="utf-8").replace("\\\n", " ")
    return {key(line): line for line in text.splitlines() if line and not line.startswith("#")}


def declared() -> dict[str, set[str]]:
    suite = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    api = tomllib.loads((ROOT / "protos" / "pyproject.toml").read_text(encoding="utf-8"))
    build = {key(line) for project in (suite, api) for line in project["build-system"]["requires"]}
    run = {key(line) for line in suite["project"]["dependencies"] + api["project"]["dependencies"]}
    run -= {"ome-rollouts-api"}
    dev = run | build | {key(line) for line in suite["project"]["optional-dependencies"]["dev"]}
    return {"run": run, "build": build, "dev": dev}


@pytest.mark.parametrize("lock", LOCKS)
def test_every_entry_is_one_version_with_hashes(lock: str) -> None:
    entries = blocks(lock)
    assert entries
    for entry in entries.values():
        assert re.fullmatch(r"[a-z0-9_.-]+==\S+(\s+--hash=sha256:[0-9a-f]{64})+", entry, flags=re.IGNORECASE), entry


@pytest.mark.parametrize("lock", ["run", "dev", "build"])
def test_every_declared_dependency_is_locked(lock: str) -> None:
    assert declared()[lock] - set(blocks(lock)) == set()


@pytest.mark.parametrize("lock", ["run", "build"])
def test_a_version_is_the_same_everywhere(lock: str) -> None:
    dev = blocks("dev")
    assert {name: entry for name, entry in blocks(lock).items() if dev.get(name) != entry} == {}


@pytest.mark.parametrize("lock", LOCKS)
def test_no_index_no_path(lock: str) -> None:
    text = (ROOT / "locks" / f"{lock}.txt").read_text(encoding="utf-8")
    assert not re.search(r"://|--index-url|--find-links|@ file|(^|\s)/", text)
