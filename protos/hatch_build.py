"""Build hook: turn the `.proto` files into importable, typed Python stubs.

In: `ome/<package>/v1/*.proto` beside this file. Out: `stubs/ome/...` with `_pb2.py`, `_pb2.pyi`,
`_pb2_grpc.py`, `_pb2_grpc.pyi`, package files and `py.typed`. Nothing generated is committed.
"""

from __future__ import annotations

import shutil
import sys
from importlib import resources
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def generate(root: Path, out: Path) -> None:
    """Compile every `.proto` below `root/ome` into `out`; raises `RuntimeError` naming what failed."""
    from grpc_tools import protoc

    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    plugin = Path(sys.executable).parent / "protoc-gen-mypy_grpc"
    mypy_plugin = [f"--plugin=protoc-gen-mypy_grpc={plugin}"] if plugin.exists() else []
    files = sorted(str(path.relative_to(root)) for path in (root / "ome").rglob("*.proto"))
    code = protoc.main(
        [
            "protoc",
            f"--proto_path={root}",
            f"--proto_path={resources.files('grpc_tools') / '_proto'}",
            f"--python_out={out}",
            f"--pyi_out={out}",
            f"--grpc_python_out={out}",
            f"--mypy_grpc_out=quiet:{out}",
            *mypy_plugin,
            *files,
        ]
    )
    if code != 0:
        raise RuntimeError(f"protoc failed with status {code} on {', '.join(files)}")
    for folder in [out / "ome", *(path for path in (out / "ome").rglob("*") if path.is_dir())]:
        (folder / "__init__.py").touch()
    (out / "ome" / "py.typed").touch()


class StubsHook(BuildHookInterface[Any]):
    """Generates the stubs before a wheel is assembled."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling; `version` is the build kind (standard or editable)."""
        root = Path(self.root)
        generate(root, root / "stubs")
