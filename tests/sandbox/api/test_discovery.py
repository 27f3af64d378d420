"""Discovery, health, version and the OpenAPI documents."""

from __future__ import annotations

import hashlib
from typing import Any

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def test_legacy_discovery(call: Any) -> None:
    assert call("GET", "/api").json()["versions"] == ["v1"]
    groups = {group["name"]: group for group in call("GET", "/apis").json()["groups"]}
    assert groups["demo.example.com"]["preferredVersion"]["groupVersion"] == "demo.example.com/v1"
    assert call("GET", "/apis/apps").json()["kind"] == "APIGroup"
    listed = {resource["name"]: resource for resource in call("GET", "/apis/demo.example.com/v1").json()["resources"]}
    assert set(listed) == {"widgets", "widgets/status", "widgets/scale"}
    assert listed["widgets"]["shortNames"] == ["wg"] and listed["widgets"]["categories"] == ["all", "demo"]
    assert listed["widgets/scale"]["kind"] == "Scale" and "watch" in listed["widgets"]["verbs"]
    assert "/apis/apps/v1" in call("GET", "/").json()["paths"]
    call("GET", "/apis/nothing", expect=404)
    call("GET", "/apis/apps/v9", expect=404)


def test_aggregated_discovery(call: Any) -> None:
    answer = call("GET", "/apis", accept=f"{AGGREGATED},application/json")
    assert answer.headers["Content-Type"] == AGGREGATED
    body = answer.json()
    assert body["kind"] == "APIGroupDiscoveryList" and body["apiVersion"] == "apidiscovery.k8s.io/v2"
    group = next(item for item in body["items"] if item["metadata"]["name"] == "demo.example.com")
    (widgets,) = group["versions"][0]["resources"]
    assert widgets["responseKind"]["kind"] == "Widget" and widgets["scope"] == "Namespaced"
    assert {part["subresource"] for part in widgets["subresources"]} == {"status", "scale"}
    core = call("GET", "/api", accept=AGGREGATED).json()["items"][0]["versions"][0]["resources"]
    assert {"pods", "namespaces", "events"} <= {resource["resource"] for resource in core}
    tag = answer.headers["ETag"]
    assert call("GET", "/apis", expect=304, accept=AGGREGATED, if_none_match=tag).body == b""
    old = AGGREGATED.replace("v=v2;", "v=v2beta1;")
    assert call("GET", "/apis", accept=old).json()["apiVersion"] == "apidiscovery.k8s.io/v2beta1"
    assert call("GET", "/apis", accept="application/json").json()["kind"] == "APIGroupList"


def test_health_and_version(call: Any) -> None:
    for path in ("/healthz", "/readyz", "/livez", "/readyz/ping"):
        assert call("GET", path).body == b"ok"
    assert b"check passed" in call("GET", "/readyz?verbose").body
    assert call("GET", "/version").json()["major"] == "1"


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(references(item) for item in value.values()))
    if isinstance(value, list):
        return set().union(*(references(item) for item in value)) if value else set()
    return set()


def test_openapi_v3(call: Any) -> None:
    index = call("GET", "/openapi/v3").json()["paths"]
    path, _, tag = index["apis/demo.example.com/v1"]["serverRelativeURL"].partition("?hash=")
    document = call("GET", path)
    assert hashlib.sha256(document.body).hexdigest().upper() == tag
    body = document.json()
    kinds = [
        s["x-kubernetes-group-version-kind"][0]["kind"]
        for s in body["components"]["schemas"].values()
        if "x-kubernetes-group-version-kind" in s
    ]
    assert "Widget" in kinds and "WidgetList" in kinds
    patch = body["paths"]["/apis/demo.example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"]
    assert {"fieldValidation", "fieldManager", "force", "dryRun"} <= {
        parameter["name"] for parameter in patch["parameters"]
    }
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]
    for name in index:
        document = call("GET", f"/openapi/v3/{name}").json()
        known = {f"#/components/schemas/{schema}" for schema in document["components"]["schemas"]}
        assert references(document) <= known, name
    call("GET", "/openapi/v3/apis/none/v1", expect=404)


def test_openapi_v2_and_its_references(call: Any) -> None:
    body = call("GET", "/openapi/v2").json()
    assert references(body) <= {f"#/definitions/{name}" for name in body["definitions"]}
    assert any("Widget" in name for name in body["definitions"])
    proto = call("GET", "/openapi/v2", accept="application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
    assert proto.body.startswith(b"\n\x032.0") and "protobuf" in proto.headers["Content-Type"]


def test_documents_follow_definitions(call: Any) -> None:
    before = call("GET", "/openapi/v3").json()["paths"]["apis/demo.example.com/v1"]
    call("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.demo.example.com")
    after = call("GET", "/openapi/v3").json()["paths"]
    assert before and "apis/demo.example.com/v1" not in after
    assert "demo.example.com" not in {group["name"] for group in call("GET", "/apis").json()["groups"]}
