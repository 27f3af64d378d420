"""Pods: start, readiness, crash loops, slow ends, and the annotations that ask for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sandbox.workloads.behaviour import Behaviour, read

from .conftest import Lab, ready

PODS = "/api/v1/namespaces/default/pods"


def pod_of(lab: Lab, **annotations: str) -> None:
    lab.call("POST", PODS, {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "annotations": {f"sandbox.ome.io/{k.replace('_', '-')}": v
                                                  for k, v in annotations.items()}},
        "spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]},
    })  # fmt: skip


def state(lab: Lab, container: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = lab.pods()[0]["status"]["containerStatuses"][container]
    return found


def test_a_pod_is_bound_started_and_ready_at_its_times(lab: Lab) -> None:
    pod_of(lab, startup_seconds="4", ready_seconds="3")
    lab.wait()
    pod = lab.pods()[0]
    assert (pod["spec"]["nodeName"], pod["status"]["phase"]) == ("sandbox-1", "Pending")
    assert state(lab)["state"] == {"waiting": {"reason": "ContainerCreating"}}
    lab.wait(3.9)
    assert lab.pods()[0]["status"]["phase"] == "Pending"
    lab.wait(0.1)
    pod = lab.pods()[0]
    assert pod["status"]["phase"] == "Running" and not ready(pod)
    assert pod["status"]["podIP"] == "10.244.0.1" and pod["status"]["hostIP"] == "10.0.0.1"
    lab.wait(3)
    pod = lab.pods()[0]
    assert ready(pod)
    moments = {c["type"]: c["lastTransitionTime"] for c in pod["status"]["conditions"]}
    assert moments["PodScheduled"] == "2026-01-01T00:00:00Z" and moments["Ready"] == "2026-01-01T00:00:07Z"


def test_a_pod_at_rest_is_written_no_more(lab: Lab) -> None:
    pod_of(lab)
    lab.wait(10)
    before = lab.store.revision
    lab.wait(100_000)
    assert lab.store.revision == before


def test_readiness_can_be_taken_and_given_back(lab: Lab) -> None:
    pod_of(lab)
    lab.wait()
    assert ready(lab.pods()[0])
    lab.call("PATCH", f"{PODS}/p", {"metadata": {"annotations": {"sandbox.ome.io/ready": "false"}}})
    lab.wait()
    pod = lab.pods()[0]
    assert not ready(pod) and pod["status"]["phase"] == "Running"
    why = next(c for c in pod["status"]["conditions"] if c["type"] == "Ready")
    assert why["reason"] == "ContainersNotReady" and why["message"] == "containers with unready status: [a b]"
    lab.call("PATCH", f"{PODS}/p", {"metadata": {"annotations": {"sandbox.ome.io/ready": None}}})
    lab.wait()
    assert ready(lab.pods()[0])


def test_a_crash_loop_backs_off_like_the_kubelet(lab: Lab) -> None:
    pod_of(lab, crash="true", crash_after_seconds="2", exit_code="137")
    lab.wait(2)  # the first restart is immediate
    assert state(lab)["restartCount"] == 1 and "running" in state(lab)["state"]
    assert state(lab)["lastState"]["terminated"]["exitCode"] == 137
    lab.wait(2)
    assert state(lab)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert "back-off 10s restarting failed container=a" in state(lab)["state"]["waiting"]["message"]
    assert lab.pods()[0]["status"]["phase"] == "Running" and not ready(lab.pods()[0])
    assert state(lab, 1)["restartCount"] == 0 and state(lab, 1)["ready"] is True
    lab.wait(9)
    assert state(lab)["restartCount"] == 1
    lab.wait(1)
    assert state(lab)["restartCount"] == 2
    lab.wait(2)
    assert "back-off 20s" in state(lab)["state"]["waiting"]["message"]
    lab.wait(24 * 3600)
    assert "back-off 5m0s" in state(lab)["state"]["waiting"]["message"]
    assert lab.events("BackOff")[0]["count"] > 100


def test_a_crash_loop_that_is_called_off_heals_after_its_back_off(lab: Lab) -> None:
    pod_of(lab, crash="b")
    lab.wait()
    assert state(lab, 1)["state"]["waiting"]["reason"] == "CrashLoopBackOff" and state(lab)["restartCount"] == 0
    lab.call("PATCH", f"{PODS}/p", {"metadata": {"annotations": {"sandbox.ome.io/crash": "false"}}})
    lab.wait(9)
    assert not ready(lab.pods()[0])
    lab.wait(1)
    assert ready(lab.pods()[0]) and state(lab, 1)["restartCount"] == 2


def test_a_container_that_must_not_restart_ends_the_pod(lab: Lab) -> None:
    body = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "job", "annotations": {"sandbox.ome.io/crash": "true", "sandbox.ome.io/exit-code": "0",
                                                    "sandbox.ome.io/crash-after-seconds": "5"}},
        "spec": {"restartPolicy": "OnFailure", "containers": [{"name": "a", "image": "a:1"}]},
    }  # fmt: skip
    lab.call("POST", PODS, body)
    lab.wait(5)
    assert lab.pods()[0]["status"]["phase"] == "Succeeded"
    assert state(lab)["state"]["terminated"]["reason"] == "Completed"
    assert lab.model.next_due() is None


def test_image_pull_fails_until_it_is_called_off(lab: Lab) -> None:
    pod_of(lab, image_pull_fails="true", startup_seconds="1")
    lab.wait(3600)
    assert state(lab)["state"]["waiting"]["reason"] == "ImagePullBackOff"
    lab.call("PATCH", f"{PODS}/p", {"metadata": {"annotations": {"sandbox.ome.io/image-pull-fails": None}}})
    lab.wait(1)
    assert ready(lab.pods()[0])


@pytest.mark.parametrize(("asked", "gone_after"), [("0", 0), ("12", 12), ("500", 30)])
def test_termination_takes_its_time_but_no_longer_than_the_grace_period(lab: Lab, asked: str, gone_after: int) -> None:
    pod_of(lab, termination_seconds=asked)
    lab.wait(10)
    lab.call("DELETE", f"{PODS}/p")
    if gone_after:
        lab.wait(gone_after - 0.1)
        assert lab.pods()[0]["metadata"]["deletionTimestamp"]
        assert len(lab.events("Killing")) == 1
    lab.wait(0.2)
    assert lab.pods() == []


def test_a_pod_that_fits_nowhere_waits_for_a_node(lab: Lab) -> None:
    lab.call("PATCH", "/api/v1/nodes/sandbox-1", {"spec": {"unschedulable": True}})
    pod_of(lab)
    lab.wait(600)
    condition = lab.pods()[0]["status"]["conditions"][0]
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert lab.events("FailedScheduling")[0]["count"] == 1
    lab.call("PATCH", "/api/v1/nodes/sandbox-1", {"spec": {"unschedulable": None}})
    lab.wait()
    assert ready(lab.pods()[0])


def test_pods_spread_over_nodes_and_respect_taints_and_selectors(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(nodes=3)
    lab.call("PATCH", "/api/v1/nodes/sandbox-2", {"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}})
    lab.deploy(4)
    lab.wait()
    assert sorted(pod["spec"]["nodeName"] for pod in lab.pods()) == ["sandbox-1"] * 2 + ["sandbox-3"] * 2
    lab.deploy(1, name="gpu", pod={
        "tolerations": [{"key": "gpu", "operator": "Exists"}], "nodeSelector": {"kubernetes.io/hostname": "sandbox-2"},
    })  # fmt: skip
    lab.wait()
    assert [pod["spec"]["nodeName"] for pod in lab.pods() if pod["metadata"]["labels"]["app"] == "gpu"] == ["sandbox-2"]


def test_readiness_gates_hold_a_pod_back(lab: Lab) -> None:
    body = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"readinessGates": [{"conditionType": "x.io/on"}], "containers": [{"name": "a", "image": "a:1"}]},
    }  # fmt: skip
    lab.call("POST", PODS, body)
    lab.wait()
    pod = lab.pods()[0]
    assert next(c for c in pod["status"]["conditions"] if c["type"] == "Ready")["reason"] == "ReadinessGatesNotReady"
    conditions = [*pod["status"]["conditions"], {"type": "x.io/on", "status": "True"}]
    lab.call("PATCH", f"{PODS}/p/status", {"status": {"conditions": conditions}})
    lab.wait()
    assert ready(lab.pods()[0])


def test_annotations_of_deployment_and_namespace_reach_pods_that_run(lab: Lab) -> None:
    lab.deploy(2)
    lab.wait()
    lab.call("PATCH", "/api/v1/namespaces/default", {"metadata": {"annotations": {"sandbox.ome.io/ready": "false"}}})
    lab.wait()
    assert not any(ready(pod) for pod in lab.pods())
    lab.patch({"metadata": {"annotations": {"sandbox.ome.io/ready": "true"}}})  # nearer, so it wins
    lab.wait()
    assert all(ready(pod) for pod in lab.pods())


def test_a_bad_annotation_is_told_once_and_changes_nothing(lab: Lab) -> None:
    pod_of(lab, startup_seconds="soon", strtup="1")
    lab.wait(60)
    assert ready(lab.pods()[0])
    told = sorted(event["message"] for event in lab.events("InvalidSandboxAnnotation"))
    assert len(told) == 2 and all(event["count"] == 1 for event in lab.events("InvalidSandboxAnnotation"))
    assert told[0].startswith('annotation sandbox.ome.io/startup-seconds: invalid value "soon": must be a number')
    assert told[1].startswith("annotation sandbox.ome.io/strtup is not known to the sandbox")


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "1e9", "", "1s"])
def test_odd_durations_are_refused(value: str) -> None:
    behaviour, faults = read(Behaviour(), [{"sandbox.ome.io/startup-seconds": value}])
    assert behaviour == Behaviour() and len(faults) == 1
