"""buf finds the contracts clean, compatible with the committed baseline, and would notice a break."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROTOS = Path(__file__).resolve().parents[3] / "protos"
BUF = Path(sys.executable).parent / "buf"


def buf(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BUF, *arguments], capture_output=True, text=True, timeout=120, check=False)


def breaking(folder: Path) -> subprocess.CompletedProcess[str]:
    return buf("breaking", folder, "--against", PROTOS / "baseline.binpb")


def copy(target: Path) -> Path:
    shutil.copytree(PROTOS / "ome", target / "ome")
    shutil.copy(PROTOS / "buf.yaml", target / "buf.yaml")
    return target


def test_lint() -> None:
    done = buf("lint", PROTOS)
    assert (done.returncode, done.stdout) == (0, "")


def test_nothing_breaks_the_baseline() -> None:
    done = breaking(PROTOS)
    assert (done.returncode, done.stdout) == (0, "")


def renumber(text: str) -> str:
    return text.replace("string uid = 5;", "string uid = 105;")


def remove_a_field(text: str) -> str:
    return text.replace("  string uid = 5;\n", "", 1)


def retype(text: str) -> str:
    return text.replace("int64 generation = 7;", "int32 generation = 7;")


def remove_a_value(text: str) -> str:
    return text.replace("  STAGE_FOLLOW_UP = 2;\n", "", 1)


@pytest.mark.parametrize("change", [renumber, remove_a_field, retype, remove_a_value])
def test_a_break_is_found(tmp_path: Path, change: Callable[[str], str]) -> None:
    folder = copy(tmp_path)
    proto = folder / "ome" / "common" / "v1" / "common.proto"
    before = proto.read_text(encoding="utf-8")
    after = change(before)
    assert after != before
    proto.write_text(after, encoding="utf-8")
    done = breaking(folder)
    assert done.returncode == 100
    assert "common.proto" in done.stdout


def test_an_added_field_is_no_break(tmp_path: Path) -> None:
    folder = copy(tmp_path)
    proto = folder / "ome" / "common" / "v1" / "common.proto"
    text = proto.read_text(encoding="utf-8")
    proto.write_text(text.replace("  int64 generation = 7;\n", "  int64 generation = 7;\n  string more = 800;\n"))
    assert breaking(folder).returncode == 0
