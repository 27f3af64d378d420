"""Manifests of the real world apply unchanged, and the malformed one is refused (rendering spec sections 1 and 8)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.sandbox.schema.conftest import ROOT

SAMPLES = ROOT.parent / "shared" / "data" / "samples"
MALFORMED = "isvc-exaone-malformed.yaml"

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the folder of sample manifests is not here")


def documents(path: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_sample(judge: Callable[..., list[str]], path: Path) -> None:
    judged = [document for document in documents(path) if document["apiVersion"] == "ome.io/v1beta1"]
    assert judged
    if path.name == MALFORMED:
        pytest.skip("refused, see below")
    for document in judged:
        assert judge(document) == []


def test_malformed_sample_is_refused(judge: Callable[..., list[str]]) -> None:
    [document] = documents(SAMPLES / MALFORMED)
    strict = judge(document)
    unknown = ["spec.deployment", "spec.model.modelName", "spec.model.runtime"]
    assert strict[:3] == [f'unknown field "{field}"' for field in unknown]
    assert judge(document, strict=False)[0] == "spec.model.name: Required value"
