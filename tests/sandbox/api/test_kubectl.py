"""An unmodified kubectl against the server, command by command."""

from __future__ import annotations

import json
import time
from typing import Any

import yaml


def manifest(name: str, **spec: Any) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "demo.example.com/v1",
            "kind": "Widget",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": spec,
        }
    )


def test_api_resources_and_versions(served: Any) -> None:
    resources = served.kubectl("api-resources")
    assert "widgets" in resources and "wg" in resources and "deployments" in resources
    assert "demo.example.com/v1" in served.kubectl("api-versions")
    assert "widgets" in served.kubectl("api-resources", "--categories=demo", "-o", "name")
    version = json.loads(served.kubectl("version", "-o", "json"))
    assert version["serverVersion"]["gitVersion"].startswith("v1.")
    assert served.kubectl("get", "--raw", "/readyz") == "ok"


def test_create_get_in_every_form(served: Any) -> None:
    out = served.kubectl("create", "-f", "-", stdin=manifest("form", mode="fast"))
    assert out == "widget.demo.example.com/form created\n"
    table = served.kubectl("get", "wg", "form")
    assert table.split()[:4] == ["NAME", "REPLICAS", "PHASE", "AGE"] and "form" in table
    assert "fast" in served.kubectl("get", "wg", "form", "-o", "wide") and "MODE" in served.kubectl(
        "get", "wg", "-o", "wide"
    )
    assert yaml.safe_load(served.kubectl("get", "wg", "form", "-o", "yaml"))["spec"] == {"mode": "fast", "replicas": 1}
    assert json.loads(served.kubectl("get", "wg", "form", "-o", "json"))["metadata"]["generation"] == 1
    assert served.kubectl("get", "wg", "form", "-o", "jsonpath={.spec.replicas}") == "1"
    assert served.kubectl("get", "wg", "form", "-o", "name") == "widget.demo.example.com/form\n"
    assert "default" in served.kubectl("get", "wg", "-A")
    assert "form" in served.kubectl("get", "wg", "-l", "app=form") and "form" not in served.kubectl(
        "get", "wg", "-l", "app!=form"
    )
    assert "form" in served.kubectl("get", "wg", "--field-selector", "metadata.name=form")
    assert "AlreadyExists" in served.kubectl("create", "-f", "-", stdin=manifest("form"), expect=1)
    assert 'widgets.demo.example.com "none" not found' in served.kubectl("get", "wg", "none", expect=1)


def test_typed_creators_and_builtin_tables(served: Any) -> None:
    served.kubectl("create", "configmap", "typed", "--from-literal=x=1")
    served.kubectl("create", "secret", "generic", "typed", "--from-literal=p=q")
    assert served.kubectl("get", "secret", "typed", "-o", "jsonpath={.data.p}") == "cQ=="
    served.kubectl("create", "deployment", "typed", "--image=nginx:1", "--replicas=2", "--port=80")
    assert served.kubectl("get", "deploy").split()[:5] == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert "0/2" in served.kubectl("get", "deploy", "typed")
    assert served.kubectl("get", "ns").split()[:3] == ["NAME", "STATUS", "AGE"]
    assert "DATA" in served.kubectl("get", "cm", "typed")


def test_watch(served: Any) -> None:
    process = served.background("get", "wg", "watched", "-w", "--output-watch-events")
    process2 = served.background("get", "wg", "-w", "-l", "app=watched", "-o", "name")
    try:
        time.sleep(1.0)
        process.kill()
        served.kubectl("apply", "-f", "-", stdin=manifest("watched"))
        assert process2.stdout.readline() == "widget.demo.example.com/watched\n"
        served.kubectl("annotate", "wg", "watched", "a=b")
        assert process2.stdout.readline() == "widget.demo.example.com/watched\n"
    finally:
        for one in (process, process2):
            one.kill()
            one.communicate()


def test_apply_client_side(served: Any) -> None:
    served.kubectl("apply", "-f", "-", stdin=manifest("client", mode="slow", tags=["a"]))
    out = served.kubectl("apply", "-f", "-", stdin=manifest("client", tags=["a", "b"]))
    assert out == "widget.demo.example.com/client configured\n"
    assert "unchanged" in served.kubectl("apply", "-f", "-", stdin=manifest("client", tags=["a", "b"]))
    assert json.loads(served.kubectl("get", "wg", "client", "-o", "json"))["spec"] == {
        "replicas": 1,
        "tags": ["a", "b"],
    }
    assert "-  replicas: 1" in served.kubectl(
        "diff", "-f", "-", stdin=manifest("client", tags=["a", "b"], replicas=3), expect=1
    )
    assert 'unknown field "spec.nope"' in served.kubectl("apply", "-f", "-", stdin=manifest("client", nope=1), expect=1)


def test_apply_of_an_unknown_kind(served: Any) -> None:
    stray = yaml.safe_dump({"apiVersion": "none.example.com/v1", "kind": "Stray", "metadata": {"name": "x"}})
    refused = served.kubectl("apply", "-f", "-", stdin=stray, expect=1)
    assert 'no matches for kind "Stray" in version "none.example.com/v1"' in refused


def test_apply_builtin_with_strategic_merge(served: Any) -> None:
    def deployment(*containers: tuple[str, str]) -> str:
        labels = {"app": "smp"}
        spec = {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": name, "image": image} for name, image in containers]},
            },
        }
        return yaml.safe_dump(
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "smp"}, "spec": spec}
        )

    served.kubectl("apply", "-f", "-", stdin=deployment(("a", "x:1"), ("b", "y:1")))
    served.kubectl("apply", "-f", "-", stdin=deployment(("c", "z:1"), ("a", "x:2")))
    stored = json.loads(served.kubectl("get", "deploy", "smp", "-o", "json"))
    assert [(c["name"], c["image"]) for c in stored["spec"]["template"]["spec"]["containers"]] == [
        ("c", "z:1"),
        ("a", "x:2"),
    ]
    assert stored["metadata"]["generation"] == 2
    assert "unchanged" in served.kubectl("apply", "-f", "-", stdin=deployment(("c", "z:1"), ("a", "x:2")))
    assert served.kubectl("diff", "-f", "-", stdin=deployment(("c", "z:1"), ("a", "x:2"))) == ""
    served.kubectl("set", "image", "deploy/smp", "a=x:3")
    assert "x:3" in served.kubectl("get", "deploy", "smp", "-o", "wide")


def test_apply_server_side(served: Any) -> None:
    def side(text: str, *more: str, expect: int = 0) -> str:
        return str(served.kubectl("apply", "--server-side", *more, "-f", "-", stdin=text, expect=expect))

    assert "serverside-applied" in side(manifest("server", mode="slow"), "--field-manager=one")
    refused = side(manifest("server", mode="fast"), "--field-manager=two", expect=1)
    assert 'conflict with "one": .spec.mode' in refused
    side(manifest("server", mode="fast"), "--field-manager=two", "--force-conflicts")
    side(manifest("server"), "--field-manager=one")
    assert served.kubectl("get", "wg", "server", "-o", "jsonpath={.spec.mode}") == "fast"
    assert "two" in served.kubectl("get", "wg", "server", "-o", "yaml", "--show-managed-fields")


def test_from_client_side_to_server_side_apply(served: Any) -> None:
    served.kubectl("apply", "-f", "-", stdin=manifest("moved", mode="slow", tags=["a"]))
    served.kubectl("apply", "--server-side", "-f", "-", stdin=manifest("moved", tags=["b"]))
    assert json.loads(served.kubectl("get", "wg", "moved", "-o", "json"))["spec"] == {"replicas": 1, "tags": ["b"]}
    assert served.kubectl("diff", "--server-side", "-f", "-", stdin=manifest("moved", tags=["b"])) == ""


def test_replace_dry_run_and_delete_all(served: Any) -> None:
    served.kubectl("create", "namespace", "many")
    for name in ("p", "q"):
        served.kubectl("-n", "many", "apply", "-f", "-", stdin=manifest(name))
    served.kubectl("-n", "many", "apply", "--dry-run=server", "-f", "-", stdin=manifest("z"))
    served.kubectl("-n", "many", "replace", "-f", "-", stdin=manifest("p", mode="fast"))
    assert served.kubectl("-n", "many", "get", "wg", "p", "-o", "jsonpath={.spec.mode}") == "fast"
    assert served.kubectl("-n", "many", "get", "wg", "-o", "name").split() == [
        "widget.demo.example.com/p",
        "widget.demo.example.com/q",
    ]
    served.kubectl("-n", "many", "delete", "wg", "--all")
    assert served.kubectl("-n", "many", "get", "wg", "-o", "name") == ""


def test_patch_annotate_label_scale_edit(served: Any) -> None:
    served.kubectl("apply", "-f", "-", stdin=manifest("change", mode="slow"))
    served.kubectl("patch", "wg", "change", "--type=merge", "-p", '{"spec":{"mode":"fast"}}')
    served.kubectl("patch", "wg", "change", "--type=json", "-p", '[{"op":"replace","path":"/spec/replicas","value":2}]')
    refused = served.kubectl("patch", "wg", "change", "-p", '{"spec":{"mode":"fast"}}', expect=1)
    assert "strategic-merge-patch+json is not supported" in refused
    served.kubectl("annotate", "wg", "change", "note=x")
    served.kubectl("label", "wg", "change", "tier=gold")
    served.kubectl("scale", "wg", "change", "--replicas=4")
    served.kubectl("edit", "wg", "change", EDITOR="sed -i s/fast/slow/")
    stored = json.loads(served.kubectl("get", "wg", "change", "-o", "json"))
    assert stored["spec"] == {"mode": "slow", "replicas": 4}
    assert stored["metadata"]["annotations"]["note"] == "x" and stored["metadata"]["labels"]["tier"] == "gold"
    served.kubectl("patch", "wg", "change", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Up"}}')
    assert "Up" in served.kubectl("get", "wg", "change")
    refused = served.kubectl("scale", "wg", "change", "--replicas=11", expect=1)
    assert "spec.replicas in body should be less than or equal to 10" in refused


def test_wait(served: Any) -> None:
    served.kubectl("apply", "-f", "-", stdin=manifest("waited"))
    process = served.background("wait", "--for=condition=Ready", "wg/waited", "--timeout=20s")
    other = served.background("wait", "--for=jsonpath={.status.phase}=Up", "wg/waited", "--timeout=20s")
    gone = served.background("wait", "--for=delete", "wg/waited", "--timeout=20s")
    time.sleep(0.5)
    status = {"status": {"phase": "Up", "conditions": [{"type": "Ready", "status": "True"}]}}
    served.kubectl("patch", "wg", "waited", "--subresource=status", "--type=merge", "-p", json.dumps(status))
    assert process.wait(20) == 0 and other.wait(20) == 0
    served.kubectl("delete", "wg", "waited")
    assert gone.wait(20) == 0
    for one in (process, other, gone):
        one.communicate()


def test_describe_and_events(served: Any) -> None:
    served.kubectl("apply", "-f", "-", stdin=manifest("told"))
    uid = served.kubectl("get", "wg", "told", "-o", "jsonpath={.metadata.uid}")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "told.1"},
        "type": "Normal",
        "reason": "Turned",
        "message": "it turned",
        "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "involvedObject": {
            "apiVersion": "demo.example.com/v1",
            "kind": "Widget",
            "name": "told",
            "namespace": "default",
            "uid": uid,
        },
        "source": {"component": "test"},
    }
    served.do("POST", "/api/v1/namespaces/default/events", event)
    described = served.kubectl("describe", "wg", "told")
    assert "Turned" in described and "it turned" in described and "API Version:  demo.example.com/v1" in described
    assert "Turned" in served.kubectl("events", "--for", "widget/told")
    assert "it turned" in served.kubectl("get", "events", "--field-selector", "involvedObject.name=told")
    assert "it turned" in served.kubectl("get", "events.v1.events.k8s.io", "told.1", "-o", "jsonpath={.note}")
    served.kubectl("create", "deployment", "told", "--image=nginx")
    assert "StrategyType:" in served.kubectl("describe", "deploy", "told")
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {"capacity": {"cpu": "4", "memory": "8Gi"}},
    }
    served.do("POST", "/api/v1/nodes", node)
    assert "n1" in served.kubectl("describe", "node", "n1")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p1"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    served.do("POST", "/api/v1/namespaces/default/pods", pod)
    assert "Pending" in served.kubectl("describe", "pod", "p1")
    assert "p1" in served.kubectl("get", "pods", "--field-selector", "status.phase=Pending", "-o", "wide")


def test_explain(served: Any) -> None:
    assert "What is wanted of the widget." in served.kubectl("explain", "widget.spec")
    assert "How many of them." in served.kubectl("explain", "wg.spec.replicas")
    recursive = served.kubectl("explain", "wg", "--recursive")
    assert "conditions" in recursive and "parts" in recursive
    assert "containers" in served.kubectl("explain", "deploy.spec.template.spec")


def test_delete_and_cascade(served: Any) -> None:
    served.kubectl("create", "deployment", "owner", "--image=nginx")
    uid = served.kubectl("get", "deploy", "owner", "-o", "jsonpath={.metadata.uid}")

    def dependent(name: str, **more: Any) -> None:
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "owner", "uid": uid, **more}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": [owner]}}
        served.do("POST", "/api/v1/namespaces/default/configmaps", body)

    dependent("child", blockOwnerDeletion=True)
    served.kubectl("delete", "deploy", "owner", "--cascade=foreground", "--wait")
    assert "NotFound" in served.kubectl("get", "cm", "child", expect=1)
    served.kubectl("create", "deployment", "owner", "--image=nginx")
    uid = served.kubectl("get", "deploy", "owner", "-o", "jsonpath={.metadata.uid}")
    dependent("orphan")
    served.kubectl("delete", "deploy", "owner", "--cascade=orphan")
    assert served.kubectl("get", "cm", "orphan", "-o", "jsonpath={.metadata.ownerReferences}") == ""
    served.kubectl("create", "namespace", "short")
    served.kubectl("-n", "short", "create", "configmap", "inside")
    served.kubectl("delete", "namespace", "short", "--timeout=15s")
    assert "NotFound" in served.kubectl("get", "ns", "short", expect=1)


def test_rollout_status(served: Any) -> None:
    served.kubectl("create", "deployment", "roll", "--image=nginx")
    process = served.background("rollout", "status", "deployment/roll", "--timeout=20s")
    time.sleep(0.3)
    status = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "readyReplicas": 1}
    served.kubectl(
        "patch", "deploy", "roll", "--subresource=status", "--type=merge", "-p", json.dumps({"status": status})
    )
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 0 and "successfully rolled out" in out


def test_auth(served: Any) -> None:
    assert served.kubectl("auth", "can-i", "create", "widgets.demo.example.com") == "yes\n"
    assert "kubernetes-admin" in served.kubectl("auth", "whoami")
    assert "*" in served.kubectl("auth", "can-i", "--list")


def test_crd_comes_and_goes(served: Any) -> None:
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gears.demo.example.com"},
        "spec": {
            "group": "demo.example.com",
            "scope": "Cluster",
            "names": {"plural": "gears", "kind": "Gear"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
            ],
        },
    }
    served.kubectl("create", "-f", "-", stdin=json.dumps(crd))
    served.kubectl("wait", "--for=condition=Established", "crd/gears.demo.example.com", "--timeout=10s")
    served.kubectl(
        "create",
        "-f",
        "-",
        stdin=json.dumps({"apiVersion": "demo.example.com/v1", "kind": "Gear", "metadata": {"name": "g"}}),
    )
    assert "g" in served.kubectl("get", "gears")
    served.kubectl("delete", "crd", "gears.demo.example.com", "--timeout=10s")
    served.kubectl("get", "--raw", "/apis/demo.example.com/v1/gears", expect=1)
