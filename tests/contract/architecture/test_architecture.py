"""Rules about the sources themselves: arrows between packages, sizes, and nothing of one machine in them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ["services", "gateway", "sandbox", "cli", "tools"]
MODULE_LINES = 400
FUNCTION_LINES = 50

SOURCES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_arrows_between_packages() -> None:
    linter = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


# The layers inside each service: an arrow may only go to the right; the domain stands at the right end.
LAYERS = ["__main__", "service", "codec"]


def imported(tree: ast.AST) -> set[str]:
    """Full names that a module imports, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def layer(module: str) -> int:
    return LAYERS.index(module) if module in LAYERS else len(LAYERS)


def upward(service: str, module: str, tree: ast.AST) -> list[str]:
    """Imports of `module` of `service` that go to a layer to its left."""
    start = f"services.{service}."
    others = {full[len(start) :].split(".")[0] for full in imported(tree) if full.startswith(start)}
    return sorted(other for other in others if layer(other) < layer(module))


@pytest.mark.parametrize("service", ["pinning", "canary", "traffic", "gc"])
def test_layers_of_a_service(service: str) -> None:
    for path in (ROOT / "services" / service).rglob("*.py"):
        module = path.relative_to(ROOT / "services" / service).parts[0].removesuffix(".py")
        assert upward(service, module, ast.parse(path.read_text(encoding="utf-8"))) == [], name(path)


PURE = {"grpc", "kubernetes", "aiohttp", "asyncio", "socket", "subprocess", "os", "time", "random", "ome"}


@pytest.mark.parametrize("service", ["pinning", "gc"])
def test_domain_modules_are_pure(service: str) -> None:
    for path in (ROOT / "services" / service).rglob("*.py"):
        module = path.relative_to(ROOT / "services" / service).parts[0].removesuffix(".py")
        if module not in [*LAYERS, "settings"]:
            roots = {full.split(".")[0] for full in imported(ast.parse(path.read_text(encoding="utf-8")))}
            assert roots & PURE == set(), name(path)


def test_the_layer_check_finds_an_arrow_to_the_left() -> None:
    tree = ast.parse("from services.gc import codec\nimport services.gc.service\nfrom services.gc.plan import Plan\n")
    assert upward("gc", "plan", tree) == ["codec", "service"]
    assert upward("gc", "codec", tree) == ["service"]
    assert upward("gc", "service", tree) == []


def test_modules_are_short() -> None:
    lengths = {name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {path: lines for path, lines in lengths.items() if lines >= MODULE_LINES} == {}


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    last = function.end_lineno or function.lineno
    told = 0
    if ast.get_docstring(function) is not None:
        told = (function.body[0].end_lineno or 0) - function.body[0].lineno + 1
    return last - function.lineno + 1 - told


def test_functions_are_short() -> None:
    long = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and code_lines(node) >= FUNCTION_LINES:
                long[f"{name(path)}:{node.name}"] = code_lines(node)
    assert long == {}


def test_public_things_have_docstrings() -> None:
    silent = []
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if path.name != "__init__.py" and ast.get_docstring(tree) is None:
            silent.append(name(path))
        for node in tree.body:
            public = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            if public and not node.name.startswith("_") and ast.get_docstring(node) is None:
                silent.append(f"{name(path)}:{node.name}")
    assert silent == []


# Spelled in parts, so that this file does not hold what it looks for.
HOSTS = ["py" + "pi.org", "python" + "hosted.org", "crates" + ".io", "npmjs" + ".", "proxy.golang" + ".org"]
PLACES = ["/" + "work/", "/" + "root/", "/opt/" + "wheels", "/home/" + "user"]
FORBIDDEN = re.compile("|".join(re.escape(text) for text in HOSTS + PLACES))


def tracked() -> list[Path]:
    """Files under version control; every file of the tree when it is no checkout."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        return [ROOT / part for part in listed.stdout.split("\0") if part and (ROOT / part).is_file()]
    return [path for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts]


def test_nothing_names_a_registry_or_a_place_on_one_machine() -> None:
    found = []
    for path in tracked():
        text = path.read_bytes().decode("utf-8", errors="replace")
        found += [f"{name(path)}: {match.group()}" for match in FORBIDDEN.finditer(text)]
    assert found == []
