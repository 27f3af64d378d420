"""The CRDs of the repository, compiled once, and helpers that judge objects as the API server would."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.schema import CustomResource

ROOT = Path(__file__).resolve().parents[3]
CRDS = ROOT / "deploy" / "crds"
Judge = Callable[..., list[str]]


def load_crds() -> dict[str, dict[str, Any]]:
    """The CustomResourceDefinitions of the repository, by kind."""
    found = {}
    for path in sorted(CRDS.glob("ome.io_*.yaml")):
        crd = yaml.safe_load(path.read_text())
        found[crd["spec"]["names"]["kind"]] = crd
    return found


@pytest.fixture(scope="session")
def crds() -> dict[str, dict[str, Any]]:
    return load_crds()


@pytest.fixture(scope="session")
def resources(crds: dict[str, dict[str, Any]]) -> dict[str, CustomResource]:
    return {kind: CustomResource.from_crd(crd, "v1beta1") for kind, crd in crds.items()}


@pytest.fixture
def judge(resources: dict[str, CustomResource]) -> Judge:
    """Decodes, defaults and validates an object; the answer are the texts of unknown fields and faults."""

    def run(obj: dict[str, Any], old: dict[str, Any] | None = None, strict: bool = True) -> list[str]:
        resource = resources[obj["kind"]]
        decoded, unknown = resource.decode(copy.deepcopy(obj))
        faults = resource.faults(resource.default(decoded), old)
        return [*(unknown if strict else []), *(f"{fault.field}: {fault.message}" for fault in faults)]

    return run


def isvc(name: str = "chat", **spec: Any) -> dict[str, Any]:
    """An InferenceService with an engine and a model, overlaid by ``spec``; a value of None takes a field away."""
    content = {"model": {"name": "m"}, "engine": {}, **spec}
    return {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {key: value for key, value in content.items() if value is not None},
    }


@pytest.fixture
def make() -> Callable[..., dict[str, Any]]:
    return isvc


