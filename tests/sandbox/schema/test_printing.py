"""Columns, cells and ages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from sandbox.schema import CustomResource
from sandbox.schema.jsonpath import compile_path
from sandbox.schema.printing import human_duration

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-10, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (599, "9m59s"),
        (600, "10m"), (3600, "60m"), (10799, "179m"), (10800, "3h"), (11520, "3h12m"), (28800, "8h"),
        (172799, "47h"), (172800, "2d"), (190800, "2d5h"), (691200, "8d"), (63071999, "729d"), (63072000, "2y"),
        (94608000 + 864000, "3y10d"), (252288000, "8y"),
    ],
)  # fmt: skip
def test_ages(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text


DOC: dict[str, Any] = {
    "a": {"b": [{"t": "X", "v": 1}, {"t": "Y", "v": 2}], "x.y": "dot", "x-y": "dash"},
    "on": [{"ready": True, "n": "r"}, {"ready": False, "n": "u"}],
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b[0].v", [1]),
        (".a.b[-1].v", [2]),
        (".a.b[9].v", []),
        (".a.b[*].v", [1, 2]),
        (".a.b[?(@.t=='Y')].v", [2]),
        ('.a.b[?(@.t=="Y")].v', [2]),
        (".a.b[?(@.t!='Y')].v", [1]),
        (".a.b[?(@.v==2)].t", ["Y"]),
        (".on[?(@.ready==true)].n", ["r"]),
        (".a['x.y']", ["dot"]),
        (".a.x\\.y", ["dot"]),
        (".a.x-y", ["dash"]),
        (".nothing.here", []),
        ("{.a.b[0].t}", ["X"]),
    ],
)
def test_paths(path: str, found: list[Any]) -> None:
    assert compile_path(path)(DOC) == found


def test_a_path_that_is_not_understood() -> None:
    with pytest.raises(ValueError, match="unsupported JSON path"):
        compile_path(".a[?(@.b > 1)]")


def test_row_of_an_inference_service(resources: dict[str, CustomResource]) -> None:
    obj = {
        "metadata": {"name": "chat", "creationTimestamp": "2026-12-01T11:00:00Z"},
        "spec": {"model": {"name": "m"}, "runtime": {"name": "r"}},
        "status": {
            "url": "http://chat",
            "pinnedRevisionName": "cr-r-1",
            "conditions": [{"type": "RuntimeReady", "status": "False"}, {"type": "Ready", "status": "True"}],
            "components": {"engine": {"rolloutPhase": "Stable"}, "router": {"rolloutPhase": "Failed"}},
        },
    }
    resource = resources["InferenceService"]
    assert [column["name"] for column in resource.columns()][:3] == ["Name", "URL", "Ready"]
    assert resource.cells(obj, NOW) == ["chat", "http://chat", "True", "m", "r", "Stable", "Failed", "cr-r-1", "60m"]
    bare = {"metadata": {"name": "new"}, "spec": {}}
    assert resource.cells(bare, NOW) == ["new", *[None] * 8]


def test_rows_of_runtimes_and_models(resources: dict[str, CustomResource]) -> None:
    meta = {"name": "x", "creationTimestamp": "2026-12-01T11:59:00Z"}
    formats = [{"modelFormat": {"name": "safetensors"}, "modelFramework": {"name": "t"}, "modelArchitecture": "A"}]
    spec = {"disabled": False, "supportedModelFormats": formats, "modelSizeRange": {"min": "1B", "max": "7B"}}
    row = resources["ServingRuntime"].cells({"metadata": meta, "spec": spec}, NOW)
    assert row == ["x", False, "safetensors", "t", "A", "1B", "7B", "60s"]
    model = {"vendor": "v", "modelArchitecture": "A", "modelParameterSize": "7B", "storage": {"path": "/m"}}
    shown = {"metadata": meta, "spec": model, "status": {"state": "Ready"}}
    assert resources["ClusterBaseModel"].cells(shown, NOW) == ["x", None, "v", "A", "7B", "/m", "Ready", "60s"]


def test_published_schema(resources: dict[str, CustomResource]) -> None:
    resource = resources["InferenceService"]
    schema = resource.schema()
    assert schema["x-kubernetes-group-version-kind"] == [
        {"group": "ome.io", "version": "v1beta1", "kind": "InferenceService"}
    ]
    reference = schema["properties"]["metadata"]["allOf"][0]["$ref"].rsplit("/")[-1]
    assert "ownerReferences" in resource.definitions()[reference]["properties"]
    assert schema["properties"]["spec"]["properties"]["runtime"]["properties"]["autoSync"]["default"] is True
