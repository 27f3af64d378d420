"""Deletion: preconditions, finalizers, grace, propagation, garbage collection, namespaces and definitions."""

from __future__ import annotations

from typing import Any

import pytest

MERGE = "application/merge-patch+json"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


def owned(name: str, owner: dict[str, Any], *more: dict[str, Any], block: bool = True) -> dict[str, Any]:
    references = [
        {
            "apiVersion": one["apiVersion"],
            "kind": one["kind"],
            "name": one["metadata"]["name"],
            "uid": one["metadata"]["uid"],
            "blockOwnerDeletion": block,
        }
        for one in (owner, *more)
    ]
    return {"metadata": {"name": name, "ownerReferences": references}}


def test_answer_and_preconditions(call: Any, widgets: str, make_widget: Any) -> None:
    made = call("POST", widgets, make_widget("a")).json()["metadata"]
    wrong = {"preconditions": {"uid": "other"}}
    error = call("DELETE", f"{widgets}/a", wrong, expect=409).json()
    assert error["message"] == (
        'Operation cannot be fulfilled on Widget.demo.example.com "a": the UID in the precondition (other) does not '
        f"match the UID in record ({made['uid']}). The object might have been deleted and then recreated"
    )
    wrong = {"preconditions": {"resourceVersion": "1"}}
    error = call("DELETE", f"{widgets}/a", wrong, expect=409).json()
    assert (
        "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (" in error["message"]
    )
    right = {"preconditions": {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}}
    done = call("DELETE", f"{widgets}/a", right).json()
    assert done["status"] == "Success"
    assert done["details"] == {"name": "a", "group": "demo.example.com", "kind": "widgets", "uid": made["uid"]}
    assert call("DELETE", f"{widgets}/a", expect=404).json()["reason"] == "NotFound"
    assert call("DELETE", f"{widgets}/a", {"propagationPolicy": "Sideways"}, expect=422)


def test_finalizers_hold_an_object(call: Any, widgets: str, make_widget: Any, clock: Any) -> None:
    body = make_widget("a")
    body["metadata"]["finalizers"] = ["x.io/hold", "x.io/other"]
    call("POST", widgets, body)
    clock.advance(3)
    marked = call("DELETE", f"{widgets}/a").json()
    assert marked["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:03Z"
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0 and marked["metadata"]["generation"] == 2
    clock.advance(3)
    assert call("DELETE", f"{widgets}/a").json() == marked
    added = {"metadata": {"finalizers": ["x.io/hold", "x.io/new"]}}
    error = call("PATCH", f"{widgets}/a", added, expect=422, content_type=MERGE).json()
    assert "no new finalizers can be added if the object is being deleted" in error["message"]
    call("PATCH", f"{widgets}/a", {"metadata": {"finalizers": ["x.io/hold"]}}, content_type=MERGE)
    call("GET", f"{widgets}/a")
    call("PATCH", f"{widgets}/a", {"metadata": {"finalizers": []}}, content_type=MERGE)
    call("GET", f"{widgets}/a", expect=404)


def test_grace_of_pods(call: Any, api: Any, clock: Any) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    call("POST", PODS, {"metadata": {"name": "unplaced"}, "spec": spec})
    call("DELETE", f"{PODS}/unplaced")
    call("GET", f"{PODS}/unplaced", expect=404)
    call("POST", PODS, {"metadata": {"name": "placed"}, "spec": {**spec, "nodeName": "n"}})
    marked = call("DELETE", f"{PODS}/placed").json()["metadata"]
    assert marked["deletionGracePeriodSeconds"] == 30 and marked["deletionTimestamp"] == "2026-01-01T00:00:30Z"
    call("PATCH", f"{PODS}/placed/status", {"status": {"message": "going"}}, content_type=MERGE)
    call("GET", f"{PODS}/placed")
    call("DELETE", f"{PODS}/placed", {"gracePeriodSeconds": 0})
    call("GET", f"{PODS}/placed", expect=404)


def test_background_collection(call: Any, api: Any, widgets: str, make_widget: Any) -> None:
    owner = call("POST", widgets, make_widget("owner")).json()
    child = call("POST", CONFIGMAPS, owned("child", owner)).json()
    call("POST", CONFIGMAPS, owned("grandchild", child))
    call("POST", CONFIGMAPS, {"metadata": {"name": "stranger"}})
    assert api.collect() == 0
    call("DELETE", f"{widgets}/owner")
    call("GET", f"{CONFIGMAPS}/child")
    api.collect()
    call("GET", f"{CONFIGMAPS}/child", expect=404)
    call("GET", f"{CONFIGMAPS}/grandchild", expect=404)
    call("GET", f"{CONFIGMAPS}/stranger")


def test_an_owner_of_another_life_does_not_count(call: Any, api: Any, widgets: str, make_widget: Any) -> None:
    old = call("POST", widgets, make_widget("owner")).json()
    call("DELETE", f"{widgets}/owner")
    new = call("POST", widgets, make_widget("owner")).json()
    call("POST", CONFIGMAPS, owned("late", old))
    call("POST", CONFIGMAPS, owned("shared", old, new))
    call("POST", CONFIGMAPS, owned("fine", new))
    api.collect()
    call("GET", f"{CONFIGMAPS}/late", expect=404)
    left = call("GET", f"{CONFIGMAPS}/shared").json()["metadata"]["ownerReferences"]
    assert [reference["uid"] for reference in left] == [new["metadata"]["uid"]]
    call("GET", f"{CONFIGMAPS}/fine")


def test_foreground(call: Any, api: Any, widgets: str, make_widget: Any) -> None:
    owner = call("POST", widgets, make_widget("owner")).json()
    held = owned("held", owner)
    held["metadata"]["finalizers"] = ["x.io/hold"]
    call("POST", CONFIGMAPS, held)
    call("POST", CONFIGMAPS, owned("loose", owner, block=False))
    marked = call("DELETE", f"{widgets}/owner", {"propagationPolicy": "Foreground"}, expect=202).json()
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
    api.collect()
    call("GET", f"{CONFIGMAPS}/loose", expect=404)
    call("GET", f"{widgets}/owner")
    call("PATCH", f"{CONFIGMAPS}/held", {"metadata": {"finalizers": None}}, content_type=MERGE)
    api.collect()
    call("GET", f"{widgets}/owner", expect=404)


@pytest.mark.parametrize("how", [{"propagationPolicy": "Orphan"}, {"orphanDependents": True}])
def test_orphan(call: Any, api: Any, widgets: str, make_widget: Any, how: dict[str, Any]) -> None:
    owner = call("POST", widgets, make_widget("owner")).json()
    call("POST", CONFIGMAPS, owned("child", owner))
    call("DELETE", f"{widgets}/owner", how)
    api.collect()
    call("GET", f"{widgets}/owner", expect=404)
    assert "ownerReferences" not in call("GET", f"{CONFIGMAPS}/child").json()["metadata"]


def test_owner_rules(call: Any, widgets: str, make_widget: Any) -> None:
    owner = call("POST", widgets, make_widget("owner")).json()
    body = owned("a", owner, owner)
    for reference in body["metadata"]["ownerReferences"]:
        reference["controller"] = True
    error = call("POST", CONFIGMAPS, body, expect=422).json()
    assert "Only one reference can have Controller set to true" in error["message"]
    body = owned("a", owner)
    body["metadata"]["ownerReferences"][0]["uid"] = ""
    assert "metadata.ownerReferences.uid" in call("POST", CONFIGMAPS, body, expect=422).json()["message"]


def test_delete_collection(call: Any) -> None:
    for name, tier in (("a", "x"), ("b", "x"), ("c", "y")):
        call("POST", CONFIGMAPS, {"metadata": {"name": name, "labels": {"tier": tier}}})
    gone = call("DELETE", f"{CONFIGMAPS}?labelSelector=tier=x").json()
    assert [item["metadata"]["name"] for item in gone["items"]] == ["a", "b"]
    assert [item["metadata"]["name"] for item in call("GET", CONFIGMAPS).json()["items"]] == ["c"]


def test_namespaces_empty_themselves(call: Any, api: Any) -> None:
    call("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    inside = "/api/v1/namespaces/team/configmaps"
    call("POST", inside, {"metadata": {"name": "held", "finalizers": ["x.io/hold"]}})
    call("POST", inside, {"metadata": {"name": "free"}})
    marked = call("DELETE", "/api/v1/namespaces/team").json()
    assert marked["status"]["phase"] == "Terminating"
    error = call("POST", inside, {"metadata": {"name": "late"}}, expect=403).json()
    assert error["message"] == (
        'configmaps "late" is forbidden: unable to create new content in namespace team because it is being terminated'
    )
    assert error["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    api.collect()
    call("GET", f"{inside}/free", expect=404)
    call("GET", "/api/v1/namespaces/team")
    call("PATCH", f"{inside}/held", {"metadata": {"finalizers": []}}, content_type=MERGE)
    api.collect()
    call("GET", "/api/v1/namespaces/team", expect=404)
    assert call("DELETE", "/api/v1/namespaces/kube-system", expect=403).json()["reason"] == "Forbidden"


def test_a_definition_takes_its_objects_along(call: Any, api: Any, widgets: str, make_widget: Any) -> None:
    body = make_widget("a")
    body["metadata"]["finalizers"] = ["x.io/hold"]
    call("POST", widgets, body)
    call("POST", widgets, make_widget("b"))
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.demo.example.com"
    kinds = {condition["type"] for condition in call("GET", crd).json()["status"]["conditions"]}
    assert kinds == {"NamesAccepted", "Established"}
    call("DELETE", crd)
    call("GET", f"{widgets}/b", expect=404)
    assert call("GET", f"{widgets}/a").json()["metadata"]["deletionTimestamp"]
    call("PATCH", f"{widgets}/a", {"metadata": {"finalizers": []}}, content_type=MERGE)
    call("GET", crd, expect=404)
    assert call("GET", widgets, expect=404).body == b"404 page not found\n"


def test_a_namespace_with_a_finalizer_of_its_own_waits_for_it(call: Any, api: Any) -> None:
    call("POST", "/api/v1/namespaces", {"metadata": {"name": "team", "finalizers": ["x.io/hold"]}})
    call("DELETE", "/api/v1/namespaces/team")
    api.collect()
    assert call("GET", "/api/v1/namespaces/team").json()["spec"]["finalizers"] == []
    assert api.collect() == 0
    call("PATCH", "/api/v1/namespaces/team", {"metadata": {"finalizers": None}}, content_type=MERGE)
    api.collect()
    call("GET", "/api/v1/namespaces/team", expect=404)


def test_foreground_lets_go_of_what_another_owner_keeps(call: Any, api: Any, widgets: str, make_widget: Any) -> None:
    leaving = call("POST", widgets, make_widget("leaving")).json()
    staying = call("POST", widgets, make_widget("staying")).json()
    call("POST", CONFIGMAPS, owned("shared", leaving, staying))
    call("DELETE", f"{widgets}/leaving", {"propagationPolicy": "Foreground"}, expect=202)
    api.collect()
    call("GET", f"{widgets}/leaving", expect=404)
    (left,) = call("GET", f"{CONFIGMAPS}/shared").json()["metadata"]["ownerReferences"]
    assert left["uid"] == staying["metadata"]["uid"]


@pytest.mark.parametrize(
    "body", [[1], {"preconditions": [{}]}, {"gracePeriodSeconds": "x"}, {"gracePeriodSeconds": -1}]
)
def test_malformed_options(call: Any, body: Any) -> None:
    call("POST", CONFIGMAPS, {"metadata": {"name": "a"}})
    assert call("DELETE", f"{CONFIGMAPS}/a", body, expect=400).json()["reason"] == "BadRequest"


def test_malformed_managers_and_names_are_no_fault(call: Any) -> None:
    body = {"metadata": {"name": "a"}}
    call("POST", CONFIGMAPS, body)
    entry = {
        "manager": "m",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:a": [1]},
    }
    call("PUT", f"{CONFIGMAPS}/a", {"metadata": {"name": "a", "managedFields": [entry]}, "data": {"x": "1"}})
    assert call("POST", "/api/v1/namespaces", {"metadata": {}}, expect=422).json()["reason"] == "Invalid"
