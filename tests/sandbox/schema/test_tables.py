"""Tables of built-in kinds, as ``kubectl get`` shows them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from sandbox.builtin import BUILTINS, find

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
BORN = "2026-12-01T11:55:00Z"


def row(api_version: str, kind: str, obj: dict[str, Any], wide: bool = False) -> dict[str, Any]:
    """The cells by column name."""
    group, _, version = api_version.rpartition("/")
    resource = find(group, version, kind)
    assert resource is not None and resource.model is not None
    obj.setdefault("metadata", {"name": "x"}).setdefault("creationTimestamp", BORN)
    columns = resource.model.columns()
    cells = resource.model.cells(obj, NOW)
    assert len(cells) == len(columns)
    return {c["name"]: cell for c, cell in zip(columns, cells, strict=True) if wide or not c["priority"]}


@pytest.mark.parametrize("resource", BUILTINS, ids=lambda resource: f"{resource.group}/{resource.kind}")
def test_a_bare_object_has_a_row(resource: Any) -> None:
    cells = resource.model.cells({"metadata": {"name": "x"}}, NOW)
    assert len(cells) == len(resource.model.columns())
    assert "x" in cells


def status(**fields: Any) -> dict[str, Any]:
    return {"phase": "Running", **fields}


RUNNING = {"ready": True, "state": {"running": {}}, "restartCount": 0}


def ended(reason: str = "", code: int = 0, **fields: Any) -> dict[str, Any]:
    return {"state": {"terminated": {"reason": reason, "exitCode": code, **fields}}}


def waiting(reason: str) -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason}}}


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ({"phase": "Pending"}, "Pending"),
        (status(containerStatuses=[RUNNING]), "Running"),
        (status(containerStatuses=[waiting("ContainerCreating")]), "ContainerCreating"),
        (status(containerStatuses=[waiting("CrashLoopBackOff")]), "CrashLoopBackOff"),
        (status(containerStatuses=[ended("OOMKilled", 137)]), "OOMKilled"),
        (status(containerStatuses=[ended("", 3)]), "ExitCode:3"),
        (status(containerStatuses=[ended("", 0, signal=9)]), "Signal:9"),
        (status(phase="Failed", reason="Evicted"), "Evicted"),
        ({"phase": "Succeeded", "containerStatuses": [ended("Completed")]}, "Completed"),
        (status(initContainerStatuses=[waiting("PodInitializing")]), "Init:0/1"),
        (status(initContainerStatuses=[waiting("ImagePullBackOff")]), "Init:ImagePullBackOff"),
        (status(initContainerStatuses=[ended("Error", 1)]), "Init:Error"),
        (status(initContainerStatuses=[ended("Completed", 0)], containerStatuses=[RUNNING]), "Running"),
        ({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
         "SchedulingGated"),
    ],
)  # fmt: skip
def test_status_of_a_pod(state: dict[str, Any], word: str) -> None:
    spec = {"containers": [{}], "initContainers": [{}]}
    assert row("v1", "Pod", {"spec": spec, "status": state})["Status"] == word


def test_a_pod_that_goes() -> None:
    meta = {"name": "x", "deletionTimestamp": BORN}
    assert row("v1", "Pod", {"metadata": dict(meta), "status": status()})["Status"] == "Terminating"
    assert row("v1", "Pod", {"metadata": dict(meta), "status": {"phase": "Succeeded"}})["Status"] == "Succeeded"


def test_pods() -> None:
    last = {"terminated": {"finishedAt": "2026-12-01T11:59:00Z"}}
    states = [{**RUNNING, "restartCount": 2, "lastState": last}, {**waiting("CrashLoopBackOff"), "restartCount": 1}]
    gates = [{"conditionType": "a"}, {"conditionType": "b"}]
    pod = {
        "spec": {"containers": [{}, {}], "nodeName": "n1", "readinessGates": gates},
        "status": status(containerStatuses=states, podIP="10.0.0.7", conditions=[{"type": "a", "status": "True"}]),
    }
    assert row("v1", "Pod", pod, wide=True) == {
        "Name": "x", "Ready": "1/2", "Status": "CrashLoopBackOff", "Restarts": "3 (60s ago)", "Age": "5m",
        "IP": "10.0.0.7", "Node": "n1", "Nominated Node": "<none>", "Readiness Gates": "1/2",
    }  # fmt: skip


WORKLOAD = {"template": {"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j:2"}]}}}


def test_deployments_and_replica_sets() -> None:
    spec = {"replicas": 3, "selector": {"matchLabels": {"b": "2", "a": "1"}}, **WORKLOAD}
    done = {"readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2, "replicas": 4}
    assert row("apps/v1", "Deployment", {"spec": spec, "status": done}, wide=True) == {
        "Name": "x", "Ready": "2/3", "Up-to-date": 1, "Available": 2, "Age": "5m", "Containers": "a,b",
        "Images": "i:1,j:2", "Selector": "a=1,b=2",
    }  # fmt: skip
    assert row("apps/v1", "ReplicaSet", {"spec": spec, "status": done}) == {
        "Name": "x", "Desired": 3, "Current": 4, "Ready": 2, "Age": "5m",
    }  # fmt: skip
    assert row("apps/v1", "Deployment", {"spec": {}})["Ready"] == "0/0"


def test_services() -> None:
    spec = {"type": "NodePort", "clusterIP": "10.96.0.9", "selector": {"app": "a"},
            "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30001}, {"port": 53, "protocol": "UDP"}]}  # fmt: skip
    assert row("v1", "Service", {"spec": spec}, wide=True) == {
        "Name": "x", "Type": "NodePort", "Cluster-IP": "10.96.0.9", "External-IP": "<none>",
        "Port(s)": "80:30001/TCP,53/UDP", "Age": "5m", "Selector": "app=a",
    }  # fmt: skip
    assert row("v1", "Service", {"spec": {"type": "LoadBalancer"}})["External-IP"] == "<pending>"
    balanced = {"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}
    assert row("v1", "Service", balanced)["External-IP"] == "1.2.3.4"


def test_nodes() -> None:
    node = {
        "metadata": {"name": "x", "labels": {"node-role.kubernetes.io/worker": ""}},
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1.36.0"},
            "addresses": [{"type": "InternalIP", "address": "10.1.1.1"}],
        },
    }
    cells = row("v1", "Node", node, wide=True)
    assert (cells["Status"], cells["Roles"], cells["Version"]) == ("Ready,SchedulingDisabled", "worker", "v1.36.0")
    assert (cells["Internal-IP"], cells["External-IP"]) == ("10.1.1.1", "<none>")


def test_events_of_both_groups_read_alike() -> None:
    core = {
        "type": "Warning", "reason": "Failed", "message": "why\n", "count": 3,
        "involvedObject": {"kind": "Pod", "name": "p"}, "lastTimestamp": "2026-12-01T11:59:30Z",
        "firstTimestamp": BORN, "source": {"component": "kubelet", "host": "n1"},
    }  # fmt: skip
    shown = row("v1", "Event", core, wide=True)
    assert shown == {
        "Last Seen": "30s", "Type": "Warning", "Reason": "Failed", "Object": "pod/p", "Subobject": "",
        "Source": "kubelet, n1", "Message": "why", "First Seen": "5m", "Count": 3, "Name": "x",
    }  # fmt: skip
    modern = {"type": "Normal", "reason": "R", "note": "n", "regarding": {"kind": "Pod", "name": "p"},
              "eventTime": "2026-12-01T11:59:50.000000Z", "reportingController": "ome"}  # fmt: skip
    cells = row("events.k8s.io/v1", "Event", modern, wide=True)
    assert (cells["Last Seen"], cells["Object"], cells["Message"], cells["Source"]) == ("10s", "pod/p", "n", "ome")


@pytest.mark.parametrize(
    ("api_version", "kind", "obj", "cells"),
    [
        ("v1", "Namespace", {"status": {"phase": "Active"}}, {"Status": "Active"}),
        ("v1", "ConfigMap", {"data": {"a": ""}, "binaryData": {"b": ""}}, {"Data": 2}),
        ("v1", "Secret", {"type": "Opaque", "data": {"a": ""}}, {"Type": "Opaque", "Data": 1}),
        ("v1", "ServiceAccount", {}, {"Secrets": 0}),
        ("coordination.k8s.io/v1", "Lease", {"spec": {"holderIdentity": "me"}}, {"Holder": "me"}),
        ("apps/v1", "ControllerRevision",
         {"revision": 4, "metadata": {"name": "x", "ownerReferences": [
             {"controller": True, "apiVersion": "ome.io/v1beta1", "kind": "InferenceService", "name": "chat"}]}},
         {"Controller": "inferenceservice.ome.io/chat", "Revision": 4}),
        ("apps/v1", "ControllerRevision", {"revision": 1}, {"Controller": "<none>", "Revision": 1}),
    ],
)  # fmt: skip
def test_small_tables(api_version: str, kind: str, obj: dict[str, Any], cells: dict[str, Any]) -> None:
    assert row(api_version, kind, obj) == {"Name": "x", **cells, "Age": "5m"}


def test_kinds_without_a_table_of_their_own() -> None:
    definition = row("apiextensions.k8s.io/v1", "CustomResourceDefinition", {})
    assert definition == {"Name": "x", "Created At": BORN}
