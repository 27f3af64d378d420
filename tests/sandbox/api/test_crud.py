"""Create, read, update: metadata rules, conflicts, status and scale, status codes and texts."""

from __future__ import annotations

from typing import Any

import pytest

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"


def config(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def test_create_sets_what_the_server_owns(call: Any, clock: Any) -> None:
    clock.advance(5)
    body = config("a", x="1")
    body["metadata"] |= {"uid": "mine", "creationTimestamp": "2020-01-01T00:00:00Z", "generation": 9}
    made = call("POST", CONFIGMAPS, body).json()
    meta = made["metadata"]
    assert made["kind"] == "ConfigMap" and made["apiVersion"] == "v1"
    assert meta["uid"] != "mine" and meta["creationTimestamp"] == "2026-01-01T00:00:05Z" and "generation" not in meta
    assert meta["namespace"] == "default" and int(meta["resourceVersion"]) > 0
    assert call("GET", f"{CONFIGMAPS}/a").json() == made


def test_refusals_of_create(call: Any) -> None:
    call("POST", CONFIGMAPS, config("a"))
    error = call("POST", CONFIGMAPS, config("a"), expect=409).json()
    assert error["reason"] == "AlreadyExists" and error["message"] == 'configmaps "a" already exists'
    assert error["details"] == {"name": "a", "kind": "configmaps"}
    error = call("POST", "/api/v1/namespaces/none/configmaps", config("a"), expect=404).json()
    assert error["message"] == 'namespaces "none" not found'
    error = call("POST", CONFIGMAPS, {"metadata": {}}, expect=422).json()
    text = 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'
    assert error["message"] == text
    assert error["details"]["causes"][0]["reason"] == "FieldValueRequired"
    assert "RFC 1123 subdomain" in call("POST", CONFIGMAPS, config("A_b"), expect=422).json()["message"]
    wrong = {"metadata": {"name": "a", "namespace": "other"}}
    text = "the namespace of the provided object does not match the namespace sent on the request"
    assert call("POST", CONFIGMAPS, wrong, expect=400).json()["message"] == text
    wrong = {"metadata": {"name": "b", "resourceVersion": "1"}}
    assert "resourceVersion should not be set" in call("POST", CONFIGMAPS, wrong, expect=400).json()["message"]
    wrong = {"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "b"}}
    assert "does not match the expected API version" in call("POST", CONFIGMAPS, wrong, expect=400).json()["message"]
    wrong = {"metadata": {"name": "b", "labels": {"a b": "c"}}}
    assert "metadata.labels" in call("POST", CONFIGMAPS, wrong, expect=422).json()["message"]


def test_bodies(call: Any) -> None:
    assert call("POST", CONFIGMAPS, b"{", expect=400).json()["reason"] == "BadRequest"
    assert call("POST", CONFIGMAPS, b"[]", expect=400).json()["reason"] == "BadRequest"
    assert (
        call("POST", CONFIGMAPS, b"a", expect=415, content_type="text/plain").json()["reason"] == "UnsupportedMediaType"
    )
    large = call("POST", CONFIGMAPS, b" " * (3 * 1024 * 1024 + 1), expect=413).json()
    assert large["reason"] == "RequestEntityTooLarge"
    made = call(
        "POST",
        CONFIGMAPS,
        b"metadata: {name: y, annotations: {d: 2026-01-01}}\ndata: {a: b}\n",
        content_type="application/yaml",
    ).json()
    assert made["data"] == {"a": "b"} and made["metadata"]["annotations"] == {"d": "2026-01-01"}
    assert call("GET", CONFIGMAPS, expect=406, accept="application/vnd.kubernetes.protobuf").json()["code"] == 406
    both = "application/vnd.kubernetes.protobuf,application/json"
    assert call("GET", CONFIGMAPS, accept=both).json()["kind"] == "ConfigMapList"


def test_generate_name(call: Any) -> None:
    names = {
        call("POST", CONFIGMAPS, {"metadata": {"generateName": "g-"}}).json()["metadata"]["name"] for _ in range(9)
    }
    assert len(names) == 9 and all(len(name) == 7 and name.startswith("g-") for name in names)
    made = call("POST", CONFIGMAPS, {"metadata": {"generateName": "x" * 70}}).json()
    assert len(made["metadata"]["name"]) == 63


def test_not_found_and_methods(call: Any) -> None:
    error = call("GET", "/apis/apps/v1/namespaces/default/deployments/x", expect=404).json()
    assert error["message"] == 'deployments.apps "x" not found'
    assert error["details"] == {"name": "x", "group": "apps", "kind": "deployments"}
    assert call("GET", "/apis/apps/v1/namespaces/default/nothing", expect=404).body == b"404 page not found\n"
    assert call("GET", "/nothing", expect=404).body == b"404 page not found\n"
    assert call("POST", f"{CONFIGMAPS}/a", config("a"), expect=405).json()["reason"] == "MethodNotAllowed"
    assert call("PUT", CONFIGMAPS, config("a"), expect=405).json()["reason"] == "MethodNotAllowed"


def test_update_conflict_and_preconditions(call: Any, widgets: str, make_widget: Any) -> None:
    first = call("POST", widgets, make_widget("a")).json()
    second = call("PUT", f"{widgets}/a", {**first, "spec": {"mode": "fast"}}).json()
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    error = call("PUT", f"{widgets}/a", first, expect=409).json()
    assert error["message"] == (
        'Operation cannot be fulfilled on widgets.demo.example.com "a": the object has been modified; please apply '
        "your changes to the latest version and try again"
    )
    assert error["reason"] == "Conflict" and error["details"]["kind"] == "widgets"
    bare = make_widget("a", mode="slow")
    error = call("PUT", f"{widgets}/a", bare, expect=422).json()
    assert "metadata.resourceVersion: Invalid value: 0x0: must be specified for an update" in error["message"]
    other = {**second, "metadata": {**second["metadata"], "uid": "other"}}
    assert (
        "Precondition failed: UID in precondition: other"
        in call("PUT", f"{widgets}/a", other, expect=409).json()["message"]
    )
    named = {**second, "metadata": {**second["metadata"], "name": "b"}}
    text = "the name of the object (b) does not match the name on the URL (a)"
    assert call("PUT", f"{widgets}/a", named, expect=400).json()["message"] == text
    assert call("PUT", f"{widgets}/missing", make_widget("missing"), expect=404)


def test_update_without_change_keeps_the_version(call: Any, widgets: str, make_widget: Any, clock: Any) -> None:
    first = call("POST", widgets, make_widget("a")).json()
    clock.advance(60)
    assert call("PUT", f"{widgets}/a", first).json() == first
    assert call("PATCH", f"{widgets}/a", {}, content_type=MERGE).json() == first


def test_generation(call: Any, widgets: str, make_widget: Any) -> None:
    made = call("POST", widgets, {**make_widget("a"), "status": {"phase": "Forged"}}).json()
    assert made["metadata"]["generation"] == 1 and "status" not in made

    def patch(body: Any, where: str = "") -> dict[str, Any]:
        return dict(call("PATCH", f"{widgets}/a{where}", body, content_type=MERGE).json())

    assert patch({"metadata": {"labels": {"a": "b"}}})["metadata"]["generation"] == 1
    assert patch({"spec": {"mode": "fast"}})["metadata"]["generation"] == 2
    changed = patch(
        {"status": {"phase": "Up"}, "spec": {"mode": "slow"}, "metadata": {"labels": {"z": "z"}}}, "/status"
    )
    assert changed["metadata"]["generation"] == 2 and changed["status"] == {"phase": "Up"}
    assert changed["spec"]["mode"] == "fast" and changed["metadata"]["labels"] == {"a": "b"}
    assert patch({"status": {"phase": "Down"}})["status"] == {"phase": "Up"}


def test_status_of_builtins_and_immutability(call: Any) -> None:
    path = "/apis/apps/v1/namespaces/default/controllerrevisions"
    call("POST", path, {"metadata": {"name": "r"}, "data": {"a": 1}, "revision": 1})
    call("PATCH", f"{path}/r", {"metadata": {"annotations": {"x": "y"}}}, content_type=MERGE)
    error = call("PATCH", f"{path}/r", {"data": {"a": 2}}, expect=422, content_type=MERGE).json()
    assert 'ControllerRevision.apps "r" is invalid: data: ' in error["message"] and "immutable" in error["message"]
    assert call("PATCH", f"{path}/r", {"revision": 2}, content_type=MERGE).json()["revision"] == 2


def test_scale(call: Any, widgets: str, make_widget: Any) -> None:
    call("POST", widgets, make_widget("a", replicas=2))
    call("PATCH", f"{widgets}/a/status", {"status": {"replicas": 1, "selector": "x=y"}}, content_type=MERGE)
    scale = call("GET", f"{widgets}/a/scale").json()
    assert scale["kind"] == "Scale" and scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 1, "selector": "x=y"}
    scaled = call("PUT", f"{widgets}/a/scale", {**scale, "spec": {"replicas": 3}}).json()
    assert scaled["spec"]["replicas"] == 3
    assert call("GET", f"{widgets}/a").json()["metadata"]["generation"] == 2
    assert call("PUT", f"{widgets}/a/scale", scale, expect=409).json()["reason"] == "Conflict"
    assert call("PATCH", f"{widgets}/a/scale", {"spec": {"replicas": -1}}, expect=422, content_type=MERGE)
    assert (
        call("PATCH", f"{widgets}/a/scale", {"spec": {"replicas": 4}}, content_type=MERGE).json()["spec"]["replicas"]
        == 4
    )


def test_field_validation(call: Any, widgets: str, make_widget: Any) -> None:
    odd = make_widget("a", nope=1)
    made = call("POST", f"{widgets}?fieldValidation=Warn", odd)
    assert made.warning_headers() == ['299 - "unknown field \\"spec.nope\\""'] and "nope" not in made.json()["spec"]
    assert call("POST", f"{widgets}?fieldValidation=Ignore", make_widget("b", nope=1)).warnings == ()
    error = call("POST", f"{widgets}?fieldValidation=Strict", make_widget("c", nope=1), expect=400).json()
    text = 'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec.nope"'
    assert error["message"] == text
    double = b'{"apiVersion":"demo.example.com/v1","kind":"Widget","metadata":{"name":"d"},'
    double += b'"spec":{"mode":"fast","mode":"slow"}}'
    error = call("POST", f"{widgets}?fieldValidation=Strict", double, expect=400).json()
    assert 'duplicate field "spec.mode"' in error["message"]
    error = call(
        "PATCH", f"{widgets}/a?fieldValidation=Strict", {"spec": {"no": 1}}, expect=422, content_type=MERGE
    ).json()
    assert 'strict decoding error: unknown field "spec.no"' in error["message"] and error["reason"] == "Invalid"
    error = call("POST", f"{widgets}?fieldValidation=Maybe", make_widget("e"), expect=422).json()
    assert "fieldValidation" in error["message"]


def test_schema_rules(call: Any, widgets: str, make_widget: Any) -> None:
    error = call("POST", widgets, make_widget("a", replicas=11, mode="odd"), expect=422).json()
    assert error["message"].startswith('Widget.demo.example.com "a" is invalid: [')
    assert {cause["field"] for cause in error["details"]["causes"]} == {"spec.replicas", "spec.mode"}


def test_dry_run_stores_nothing(api: Any, call: Any, widgets: str, make_widget: Any) -> None:
    before = api.store.revision
    assert call("POST", f"{widgets}?dryRun=All", make_widget("a")).json()["metadata"]["uid"]
    assert call("GET", f"{widgets}/a", expect=404) and api.store.revision == before
    call("POST", widgets, make_widget("a"))
    before = api.store.revision
    changed = call("PATCH", f"{widgets}/a?dryRun=All", {"spec": {"mode": "fast"}}, content_type=MERGE).json()
    assert changed["spec"]["mode"] == "fast" and changed["metadata"]["generation"] == 2
    call("DELETE", f"{widgets}/a?dryRun=All")
    assert api.store.revision == before and "mode" not in call("GET", f"{widgets}/a").json()["spec"]
    assert call("POST", f"{widgets}?dryRun=Some", make_widget("b"), expect=422).json()["reason"] == "Invalid"


@pytest.mark.parametrize("accept", ["application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"])
def test_partial_metadata(call: Any, widgets: str, make_widget: Any, accept: str) -> None:
    call("POST", widgets, make_widget("a"))
    got = call("GET", f"{widgets}/a", accept=accept).json()
    assert set(got) == {"kind", "apiVersion", "metadata"} and got["kind"] == "PartialObjectMetadata"
    listed = call("GET", widgets, accept=accept.replace("Metadata;", "MetadataList;")).json()
    assert listed["kind"] == "PartialObjectMetadataList" and listed["items"][0]["metadata"]["name"] == "a"


def test_services_keep_their_address(call: Any) -> None:
    path = "/api/v1/namespaces/default/services"
    made = call("POST", path, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}).json()
    other = call("POST", path, {"metadata": {"name": "t"}, "spec": {"ports": [{"port": 80}]}}).json()
    address = made["spec"]["clusterIP"]
    assert address != other["spec"]["clusterIP"]
    changed = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 81}]}}
    assert call("PUT", f"{path}/s", changed).json()["spec"]["clusterIP"] == address
    headless = {"metadata": {"name": "h"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}}
    assert call("POST", path, headless).json()["spec"]["clusterIP"] == "None"


def test_a_broken_definition_is_refused(call: Any) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    names = {"plural": "gears", "kind": "Gear"}
    spec = {"group": "demo.example.com", "scope": "Cluster", "names": names, "versions": [version]}
    error = call("POST", path, {"metadata": {"name": "wrong"}, "spec": spec}, expect=422).json()
    assert "must be spec.names.plural" in error["message"]
    rules = [{"rule": "self.("}]
    version["schema"] = {"openAPIV3Schema": {"type": "object", "x-kubernetes-validations": rules}}
    error = call("POST", path, {"metadata": {"name": "gears.demo.example.com"}, "spec": spec}, expect=422).json()
    assert "spec.versions[0].schema" in error["message"]


def test_lease_is_taken_by_one(call: Any) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}
    lease = call("POST", path, {"metadata": {"name": "l"}, "spec": spec}).json()
    assert "generation" not in lease["metadata"] and lease["spec"] == spec
    first = call("PUT", f"{path}/l", {**lease, "spec": {**spec, "holderIdentity": "b"}}).json()
    assert call("PUT", f"{path}/l", {**lease, "spec": {**spec, "holderIdentity": "c"}}, expect=409)
    assert call("GET", f"{path}/l").json() == first
    bare = {"metadata": {"name": "l"}, "spec": spec}
    assert "must be specified for an update" in call("PUT", f"{path}/l", bare, expect=422).json()["message"]
    assert call("PUT", f"{path}/new", {"metadata": {"name": "new"}, "spec": spec}, expect=201)
