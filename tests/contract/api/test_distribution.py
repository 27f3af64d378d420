"""`ome-rollouts-api` is a distribution of its own: complete, typed, and all that the example in docs/ needs."""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import sys
import tarfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "docs" / "examples" / "hash_and_diff.py"
PACKAGES = ["common", "pinning", "canary", "traffic", "gc", "gateway"]
SERVING_SECONDS = 60.0


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Run `command` and return its stdout; what it said is in the failure."""
    # A PYTHONPATH or the environment of the checks must not lend the new environment a module.
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the sdist, made from the sources, and the wheel, made from that sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT / "protos")
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    return next(built.glob("*.whl"))


@pytest.fixture(scope="module")
def clean_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Interpreter of an environment that holds the wheel and what it depends on, nothing else."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    lock = (ROOT / "locks" / "run.txt").read_text(encoding="utf-8")
    bounds = folder / "bounds.txt"
    bounds.write_text("\n".join(re.findall(r"^[A-Za-z0-9_.-]+==[^ ;\\]+", lock, flags=re.MULTILINE)))
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", bounds, wheel)
    return python


def test_wheel_holds_typed_stubs_of_every_package_and_nothing_else(wheel: Path) -> None:
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    expected = {"ome/__init__.py", "ome/py.typed"}
    for package in PACKAGES:
        expected |= {f"ome/{package}/__init__.py", f"ome/{package}/v1/__init__.py"}
        for end in ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi"):
            expected.add(f"ome/{package}/v1/{package}{end}")
    assert set(names) == expected


def test_sdist_holds_sources_and_nothing_generated(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    assert {f"ome/{package}/v1/{package}.proto" for package in PACKAGES} <= names
    assert "hatch_build.py" in names
    assert not [name for name in names if "_pb2" in name]


def test_declared_bounds_are_what_the_generated_code_demands(wheel: Path) -> None:
    project = tomllib.loads((ROOT / "protos" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with zipfile.ZipFile(wheel) as archive:
        messages = archive.read("ome/common/v1/common_pb2.py").decode()
        services = archive.read("ome/pinning/v1/pinning_pb2_grpc.py").decode()
    protobuf = re.search(r"Protobuf Python Version: ([0-9.]+)", messages)
    grpcio = re.search(r"GRPC_GENERATED_VERSION = '([0-9.]+)'", services)
    assert protobuf is not None
    assert grpcio is not None
    assert sorted(project["dependencies"]) == [f"grpcio>={grpcio[1]}", f"protobuf>={protobuf[1]}"]


def test_a_clean_environment_holds_only_what_grpc_needs(clean_python: Path) -> None:
    listed = run(clean_python, "-m", "pip", "list", "--format", "freeze", "--disable-pip-version-check")
    names = {line.split("==")[0].lower().replace("_", "-") for line in listed.split()}
    assert names - {"pip", "setuptools", "wheel"} == {"ome-rollouts-api", "grpcio", "protobuf", "typing-extensions"}


def test_every_module_imports_in_a_clean_environment(clean_python: Path, tmp_path: Path) -> None:
    modules = [f"ome.{package}.v1.{package}{end}" for package in PACKAGES for end in ("_pb2", "_pb2_grpc")]
    run(clean_python, "-I", "-c", "import " + ", ".join(modules), cwd=tmp_path)


def test_the_suites_wheel_holds_its_packages_and_the_crds(tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as archive:
        names = archive.namelist()
        about = next(archive.read(name).decode() for name in names if name.endswith("/METADATA"))
    roots = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert roots == {"services", "gateway", "sandbox", "cli"}
    crds = {path.name for path in (ROOT / "deploy" / "crds").glob("*.yaml")}
    assert crds
    assert {f"sandbox/crds/{crd}" for crd in crds} <= set(names)
    assert "Requires-Dist: ome-rollouts-api" in about


@pytest.fixture(scope="module")
def pinning() -> Iterator[str]:
    """Address of a pinning service started as a process on a free port."""
    command = [sys.executable, "-m", "services.pinning", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield serving_address(process)
    finally:
        process.terminate()
        assert process.wait(timeout=30) == 0


def serving_address(process: subprocess.Popen[str]) -> str:
    """Wait for the one line a service prints when it serves, and return its address."""
    assert process.stdout is not None
    deadline = time.monotonic() + SERVING_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        assert selector.select(deadline - time.monotonic()), "the service printed nothing"
    line = process.stdout.readline()
    match = re.fullmatch(r"ome-pinning serving on (127\.0\.0\.1:\d+)\n", line)
    assert match is not None, line
    return match[1]


def test_the_example_is_at_most_15_lines() -> None:
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) <= 15


def test_the_example_runs_with_the_contracts_alone(clean_python: Path, pinning: str, tmp_path: Path) -> None:
    out = run(clean_python, "-I", EXAMPLE, pinning, cwd=tmp_path)
    assert out.splitlines() == [
        # sha256 of {"engineConfig":{"runner":{"image":"example:v1"}}}, which is its own canonical form
        "162a334318b029a3dd1e216c60ccaab3a1cd85d8aad1d612a10d07903bd54d42",
        '/engineConfig/runner/image "example:v1" -> "example:v2"',
    ]


def readme_command(first_word: str, readme: Path = ROOT / "README.md") -> list[str]:
    """The commands of the README's code blocks that begin with `first_word`, continued lines joined."""
    text = readme.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = re.findall(r"```(?:bash|console|sh)\n(.*?)```", text, flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith(first_word)]


def test_the_buf_commands_of_the_readme_work(pinning: str) -> None:
    commands = readme_command(".venv/bin/buf curl")
    assert len(commands) >= 2
    answers = []
    for command in commands:
        assert "127.0.0.1:7101" in command
        # The venv of the checks need not be the one of this checkout.
        line = command.replace("127.0.0.1:7101", pinning).replace(
            ".venv/bin/buf", str(Path(sys.executable).parent / "buf")
        )
        answers.append(run("bash", "-c", line, cwd=ROOT))
    assert "ome.pinning.v1.PinningService/HashRuntime" in answers[0]
    assert "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" in answers[1]
