"""JSON, merge and strategic merge patches, and server-side apply."""

from __future__ import annotations

from typing import Any

import orjson

MERGE, JSON, STRATEGIC, APPLY = (
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def deployment(name: str, **pod: Any) -> dict[str, Any]:
    labels = {"app": name}
    containers = [{"name": "a", "image": "a:1", "env": [{"name": "X", "value": "1"}]}, {"name": "b", "image": "b:1"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers, **pod}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def test_merge_patch(call: Any, widgets: str, make_widget: Any) -> None:
    call("POST", widgets, make_widget("a", mode="slow", tags=["x"], extra={"deep": {"a": 1, "b": 2}}))
    patch = {"spec": {"mode": None, "tags": ["y"], "extra": {"deep": {"a": None, "c": 3}}}}
    spec = call("PATCH", f"{widgets}/a", patch, content_type=MERGE).json()["spec"]
    assert spec == {"replicas": 1, "tags": ["y"], "extra": {"deep": {"b": 2, "c": 3}}}
    stale = {"metadata": {"resourceVersion": "1"}, "spec": {"mode": "fast"}}
    assert call("PATCH", f"{widgets}/a", stale, expect=409, content_type=MERGE).json()["reason"] == "Conflict"
    uid = {"metadata": {"uid": "other"}}
    assert call("PATCH", f"{widgets}/a", uid, expect=409, content_type=MERGE).json()["reason"] == "Conflict"
    assert call("PATCH", f"{widgets}/a", b"{", expect=400, content_type=MERGE)
    assert call("PATCH", f"{widgets}/a", [], expect=400, content_type=MERGE)
    assert call("PATCH", f"{widgets}/b", {}, expect=404, content_type=MERGE)


def test_json_patch(call: Any, widgets: str, make_widget: Any) -> None:
    call("POST", widgets, make_widget("a", tags=["x", "y"]))
    ops = [
        {"op": "test", "path": "/spec/tags/0", "value": "x"},
        {"op": "remove", "path": "/spec/tags/1"},
        {"op": "add", "path": "/spec/mode", "value": "fast"},
    ]
    assert call("PATCH", f"{widgets}/a", ops, content_type=JSON).json()["spec"] == {
        "replicas": 1,
        "tags": ["x"],
        "mode": "fast",
    }
    failing = [{"op": "test", "path": "/spec/mode", "value": "slow"}]
    assert call("PATCH", f"{widgets}/a", failing, expect=422, content_type=JSON).json()["reason"] == "Invalid"
    missing = [{"op": "remove", "path": "/spec/none"}]
    assert call("PATCH", f"{widgets}/a", missing, expect=422, content_type=JSON)
    assert call("PATCH", f"{widgets}/a", {"op": "add"}, expect=400, content_type=JSON)
    odd = [{"op": "jump", "path": "/x"}]
    assert call("PATCH", f"{widgets}/a", odd, expect=400, content_type=JSON)


def test_strategic_merge_is_for_builtins_only(call: Any, widgets: str, make_widget: Any) -> None:
    call("POST", widgets, make_widget("a"))
    error = call("PATCH", f"{widgets}/a", {}, expect=415, content_type=STRATEGIC).json()
    assert error["reason"] == "UnsupportedMediaType" and APPLY in error["message"]


def test_strategic_merge(call: Any) -> None:
    call("POST", DEPLOYMENTS, deployment("d"))

    def patched(pod: Any) -> dict[str, Any]:
        body = {"spec": {"template": {"spec": pod}}}
        return dict(call("PATCH", f"{DEPLOYMENTS}/d", body, content_type=STRATEGIC).json()["spec"]["template"]["spec"])

    merged = patched({"containers": [{"name": "b", "image": "b:2"}, {"name": "c", "image": "c:1"}]})
    assert [(c["name"], c["image"]) for c in merged["containers"]] == [("a", "a:1"), ("b", "b:2"), ("c", "c:1")]
    merged = patched({"containers": [{"name": "b", "$patch": "delete"}]})
    assert [c["name"] for c in merged["containers"]] == ["a", "c"]
    order = [{"name": "c"}, {"name": "a"}]
    merged = patched(
        {"$setElementOrder/containers": order, "containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}]}
    )
    assert [c["name"] for c in merged["containers"]] == ["c", "a"]
    assert merged["containers"][1]["env"] == [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]
    merged = patched({"containers": [{"$patch": "replace"}, {"name": "z", "image": "z:1"}]})
    assert [c["name"] for c in merged["containers"]] == ["z"]


def test_strategic_merge_retain_keys_and_primitives(call: Any) -> None:
    call("POST", DEPLOYMENTS, deployment("d"))
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert call("PATCH", f"{DEPLOYMENTS}/d", patch, content_type=STRATEGIC).json()["spec"]["strategy"] == {
        "type": "Recreate"
    }
    path = "/api/v1/namespaces/default/configmaps"
    call("POST", path, {"metadata": {"name": "a", "finalizers": ["x.io/a", "x.io/b"]}})
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.io/a"], "finalizers": ["x.io/c"]}}
    left = call("PATCH", f"{path}/a", patch, content_type=STRATEGIC).json()["metadata"]["finalizers"]
    assert left == ["x.io/b", "x.io/c"]


def manager(obj: dict[str, Any], name: str) -> dict[str, Any]:
    return next(entry for entry in obj["metadata"]["managedFields"] if entry["manager"] == name)


def test_update_records_managers(call: Any, widgets: str, make_widget: Any) -> None:
    made = call("POST", f"{widgets}?fieldManager=one", make_widget("a", mode="slow")).json()
    assert manager(made, "one")["fieldsV1"] == {"f:spec": {".": {}, "f:mode": {}, "f:replicas": {}}}
    body = {"spec": {"mode": "fast", "extra": {"k": [1]}}}
    changed = call("PATCH", f"{widgets}/a?fieldManager=two", body, content_type=MERGE).json()
    assert manager(changed, "one")["fieldsV1"] == {"f:spec": {".": {}, "f:replicas": {}}}
    assert manager(changed, "two")["fieldsV1"]["f:spec"]["f:mode"] == {}
    up = call(
        "PATCH", f"{widgets}/a/status", {"status": {"phase": "Up"}}, content_type=MERGE, user_agent="kube/1 (x)"
    ).json()
    assert manager(up, "kube")["subresource"] == "status" and "f:status" in manager(up, "kube")["fieldsV1"]


def test_apply_creates_merges_and_prunes(call: Any, widgets: str, make_widget: Any) -> None:
    def apply(who: str, expect: int = 200, force: bool = False, **spec: Any) -> dict[str, Any]:
        url = f"{widgets}/a?fieldManager={who}" + ("&force=true" if force else "")
        return dict(call("PATCH", url, make_widget("a", **spec), expect=expect, content_type=APPLY).json())

    made = apply("one", expect=201, mode="slow", parts=[{"name": "p", "value": "1"}], tags=["x"])
    assert manager(made, "one")["operation"] == "Apply"
    assert manager(made, "one")["fieldsV1"]["f:spec"]["f:parts"] == {
        'k:{"name":"p"}': {".": {}, "f:name": {}, "f:value": {}}
    }
    again = apply("one", mode="slow", parts=[{"name": "p", "value": "1"}], tags=["x"])
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    both = apply("two", parts=[{"name": "q", "value": "2"}], tags=["y"])
    assert [part["name"] for part in both["spec"]["parts"]] == ["p", "q"] and set(both["spec"]["tags"]) == {"x", "y"}
    error = apply("two", expect=409, mode="fast")
    assert error["message"] == 'Apply failed with 1 conflict: conflict with "one": .spec.mode'
    assert error["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".spec.mode"}
    ]
    assert apply("two", mode="slow", parts=[{"name": "q", "value": "2"}])["spec"]["tags"] == ["x"]
    forced = apply("two", force=True, mode="fast")
    assert forced["spec"]["mode"] == "fast" and [part["name"] for part in forced["spec"]["parts"]] == ["p"]
    assert "f:mode" not in manager(forced, "one")["fieldsV1"]["f:spec"]
    left = apply("one")
    assert left["spec"] == {"mode": "fast", "replicas": 1}


def test_apply_against_an_updater(call: Any, widgets: str, make_widget: Any) -> None:
    call("POST", f"{widgets}?fieldManager=cli", make_widget("a", mode="slow", replicas=2))
    body = make_widget("a", mode="fast", replicas=3)
    error = call("PATCH", f"{widgets}/a?fieldManager=x", body, expect=409, content_type=APPLY).json()
    assert error["message"] == (
        'Apply failed with 2 conflicts: conflicts with "cli" using demo.example.com/v1:\n- .spec.mode\n- .spec.replicas'
    )


def test_apply_of_status_and_refusals(call: Any, widgets: str, make_widget: Any) -> None:
    call("POST", widgets, make_widget("a"))
    status = {**make_widget("a"), "status": {"phase": "Up"}}
    del status["spec"]
    applied = call("PATCH", f"{widgets}/a/status?fieldManager=s", status, content_type=APPLY).json()
    assert applied["status"] == {"phase": "Up"} and manager(applied, "s")["subresource"] == "status"
    error = call("PATCH", f"{widgets}/a", make_widget("a"), expect=422, content_type=APPLY).json()
    assert "fieldManager: Required value" in error["message"]
    error = call(
        "PATCH", f"{widgets}/a?fieldManager=s", make_widget("a", nope=1), expect=500, content_type=APPLY
    ).json()
    assert ".spec.nope: field not declared in schema" in error["message"]
    url = f"{widgets}/a?fieldManager=s&force=true"
    assert call("PATCH", url, {}, expect=422, content_type=MERGE).json()["details"]["causes"][0]["field"] == "force"
    stale = make_widget("a")
    stale["metadata"]["resourceVersion"] = "1"
    assert call("PATCH", f"{widgets}/a?fieldManager=s", stale, expect=409, content_type=APPLY)
    gone = make_widget("b")
    gone["metadata"]["uid"] = "x"
    assert (
        "uid mismatch"
        in call("PATCH", f"{widgets}/b?fieldManager=s", gone, expect=409, content_type=APPLY).json()["message"]
    )


def test_apply_of_builtin_lists_by_key(call: Any) -> None:
    url = f"{DEPLOYMENTS}/d?fieldManager="
    call("PATCH", url + "one", deployment("d"), expect=201, content_type=APPLY)
    more = orjson.loads(orjson.dumps(deployment("d")))
    more["spec"]["template"]["spec"]["containers"] = [{"name": "a", "env": [{"name": "Z", "value": "9"}]}]
    merged = call("PATCH", url + "two", more, content_type=APPLY).json()["spec"]["template"]["spec"]["containers"]
    assert [c["name"] for c in merged] == ["a", "b"]
    assert merged[0]["image"] == "a:1" and [e["name"] for e in merged[0]["env"]] == ["X", "Z"]


def test_managers_can_be_edited_and_forgotten(call: Any, widgets: str, make_widget: Any) -> None:
    made = call("POST", f"{widgets}?fieldManager=one", make_widget("a", mode="slow")).json()
    edit = [{"op": "replace", "path": "/metadata/managedFields/0/manager", "value": "other"}]
    edited = call("PATCH", f"{widgets}/a", edit, content_type=JSON).json()
    assert [entry["manager"] for entry in edited["metadata"]["managedFields"]] == ["other"]
    without = {**edited, "metadata": {k: v for k, v in edited["metadata"].items() if k != "managedFields"}}
    assert (
        call("PUT", f"{widgets}/a", without).json() == edited and made["metadata"]["uid"] == edited["metadata"]["uid"]
    )
    forgotten = call("PATCH", f"{widgets}/a", {"metadata": {"managedFields": [{}]}}, content_type=MERGE).json()
    assert "managedFields" not in forgotten["metadata"]


def test_apply_without_metadata(call: Any, widgets: str, make_widget: Any) -> None:
    body = {**make_widget("a", mode="fast"), "metadata": None}
    assert (
        call("PATCH", f"{widgets}/a?fieldManager=m", body, expect=201, content_type=APPLY).json()["spec"]["mode"]
        == "fast"
    )
    assert call("PATCH", f"{widgets}/a?fieldManager=m", body, content_type=APPLY).json()["metadata"]["name"] == "a"
