"""Deployments: rollouts, bounds at every moment, scaling, conditions, history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sandbox.workloads.rollout import Limits, Share, amount, grow, shrink, spread

from .conftest import Lab, ready

SLOW = {"sandbox.ome.io/startup-seconds": "5"}


def numbers(lab: Lab) -> tuple[int, ...]:
    status = lab.status()
    keys = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")
    return tuple(status.get(key, 0) for key in keys)


def test_a_new_deployment_comes_up(lab: Lab) -> None:
    lab.deploy(3, SLOW)
    lab.wait()
    assert numbers(lab) == (3, 3, 0, 0, 3)
    assert lab.condition("Available") == ("False", "MinimumReplicasUnavailable")
    assert lab.condition("Progressing")[0] == "True"
    lab.wait(5)
    assert numbers(lab) == (3, 3, 3, 3, 0)
    assert lab.status()["observedGeneration"] == 1
    assert lab.condition("Available") == ("True", "MinimumReplicasAvailable")
    assert lab.condition("Progressing") == ("True", "NewReplicaSetAvailable")
    (name, made), = lab.sets().items()
    pod = lab.pods()[0]
    assert pod["metadata"]["labels"]["pod-template-hash"] == made["metadata"]["labels"]["pod-template-hash"]
    assert pod["metadata"]["ownerReferences"][0]["name"] == name
    assert made["metadata"]["ownerReferences"][0]["uid"] == lab.deployment()["metadata"]["uid"]
    assert lab.deployment()["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"


@pytest.mark.parametrize(("surge", "unavailable", "most", "least"), [
    (1, 0, 5, 4), (0, 1, 4, 3), ("50%", "50%", 6, 2), (0, 0, 4, 3), ("100%", 0, 8, 4),
])  # fmt: skip
def test_a_rolling_update_keeps_its_bounds_at_every_change(
    lab: Lab, surge: Any, unavailable: Any, most: int, least: int
) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    if surge == unavailable == 0:  # refused by validation, yet stored objects must not stall the model
        assert Limits.of({"replicas": 4, "strategy": strategy}) == Limits(4, 0, 1)
        return
    lab.deploy(4, SLOW, strategy=strategy)
    lab.wait(10)
    seen: list[tuple[int, int]] = []

    def look(_: object) -> None:
        alive = [pod for pod in lab.pods() if not pod["metadata"].get("deletionTimestamp")]
        asked = sum(made["spec"]["replicas"] for made in lab.sets().values())
        seen.append((asked, sum(ready(pod) for pod in alive)))

    end = lab.store.subscribe(look)
    lab.image("img:v2")
    lab.wait(60)
    end()
    assert max(total for total, _ in seen) == most
    assert min(serving for _, serving in seen) == least
    assert {pod["spec"]["containers"][0]["image"] for pod in lab.pods()} == {"img:v2"}
    assert numbers(lab) == (4, 4, 4, 4, 0)


def test_a_rollout_that_never_gets_ready_stops_and_times_out(lab: Lab) -> None:
    lab.deploy(4, progressDeadlineSeconds=60)
    lab.wait(5)
    bad = {"metadata": {"annotations": {"sandbox.ome.io/ready": "false"}}}
    lab.patch({"spec": {"template": bad}})
    lab.wait(59)
    assert lab.condition("Progressing") == ("True", "ReplicaSetUpdated")
    lab.wait(1)
    assert lab.condition("Progressing") == ("False", "ProgressDeadlineExceeded")
    assert lab.condition("Available")[0] == "True"
    assert sum(ready(pod) for pod in lab.pods()) == 3
    lab.patch({"spec": {"template": {"metadata": {"annotations": None}}}})
    lab.wait(5)
    assert lab.condition("Progressing") == ("True", "NewReplicaSetAvailable")
    assert sum(ready(pod) for pod in lab.pods()) == 4 == len(lab.pods())


def test_going_back_reuses_the_replica_set_with_a_new_revision(lab: Lab) -> None:
    lab.deploy(2)
    lab.wait(5)
    first = set(lab.sets())
    lab.image("img:v2")
    lab.wait(5)
    lab.image("img:v1")
    lab.wait(5)
    assert len(lab.sets()) == 2
    running = {name for name, made in lab.sets().items() if made["spec"]["replicas"]}
    assert running == first
    assert lab.deployment()["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"


def test_old_replica_sets_beyond_the_history_limit_go(lab: Lab) -> None:
    lab.deploy(1, revisionHistoryLimit=2)
    for number in range(2, 7):
        lab.wait(5)
        lab.image(f"img:v{number}")
    lab.wait(5)
    images = {made["spec"]["template"]["spec"]["containers"][0]["image"] for made in lab.sets().values()}
    assert images == {"img:v4", "img:v5", "img:v6"}


def test_recreate_ends_the_old_pods_before_new_ones_start(lab: Lab) -> None:
    lab.deploy(3, {"sandbox.ome.io/termination-seconds": "7"}, strategy={"type": "Recreate"})
    lab.wait(5)
    lab.image("img:v2")
    lab.wait(6.9)
    assert {pod["spec"]["containers"][0]["image"] for pod in lab.pods()} == {"img:v1"}
    assert not any(made["spec"]["replicas"] for made in lab.sets().values())
    lab.wait(1)
    assert [pod["spec"]["containers"][0]["image"] for pod in lab.pods()] == ["img:v2"] * 3


def test_min_ready_seconds_delay_availability(lab: Lab) -> None:
    lab.deploy(2, minReadySeconds=10)
    lab.wait(9)
    assert numbers(lab) == (2, 2, 2, 0, 2)
    lab.wait(1)
    assert numbers(lab) == (2, 2, 2, 2, 0)


def test_scaling_up_and_down_and_to_zero(lab: Lab) -> None:
    lab.deploy(2)
    lab.wait(5)
    for wanted in (5, 1, 0, 3):
        lab.patch({"spec": {"replicas": wanted}})
        lab.wait(5)
        assert len(lab.pods()) == wanted and numbers(lab) == (wanted,) * 4 + (0,)
    assert len(lab.sets()) == 1


def test_unready_pods_are_scaled_away_first(lab: Lab) -> None:
    lab.deploy(3)
    lab.wait(5)
    names = [pod["metadata"]["name"] for pod in lab.pods()]
    lab.call("PATCH", f"/api/v1/namespaces/default/pods/{names[0]}",
             {"metadata": {"annotations": {"sandbox.ome.io/ready": "false"}}})  # fmt: skip
    lab.wait()
    lab.patch({"spec": {"replicas": 2}})
    lab.wait(1)
    assert [pod["metadata"]["name"] for pod in lab.pods()] == names[1:]


def test_a_paused_deployment_scales_but_does_not_roll(lab: Lab) -> None:
    lab.deploy(2)
    lab.wait(5)
    lab.patch({"spec": {"paused": True}})
    lab.image("img:v2")
    lab.patch({"spec": {"replicas": 4}})
    lab.wait(5)
    assert {pod["spec"]["containers"][0]["image"] for pod in lab.pods()} == {"img:v1"} and len(lab.pods()) == 4
    assert lab.condition("Progressing") == ("Unknown", "DeploymentPaused")
    lab.patch({"spec": {"paused": False}})
    lab.wait(5)
    assert {pod["spec"]["containers"][0]["image"] for pod in lab.pods()} == {"img:v2"}
    assert lab.condition("Progressing") == ("True", "NewReplicaSetAvailable")


def test_a_deleted_pod_is_replaced(lab: Lab) -> None:
    lab.deploy(2)
    lab.wait(5)
    gone = lab.pods()[0]["metadata"]["name"]
    lab.call("DELETE", f"/api/v1/namespaces/default/pods/{gone}")
    lab.wait(5)
    assert len(lab.pods()) == 2 and gone not in {pod["metadata"]["name"] for pod in lab.pods()}


def test_deleting_a_deployment_takes_its_pods_along(lab: Lab) -> None:
    lab.deploy(2)
    lab.wait(5)
    lab.call("DELETE", "/apis/apps/v1/namespaces/default/deployments/web")
    lab.wait(5)
    assert lab.sets() == {} and lab.pods() == []


def test_the_same_story_twice_gives_the_same_objects(make_lab: Callable[..., Lab]) -> None:
    def story() -> list[Any]:
        lab = make_lab(nodes=2)
        lab.deploy(3, SLOW)
        lab.wait(7)
        lab.image("img:v2")
        lab.wait(8)
        lab.patch({"spec": {"replicas": 6}})
        lab.wait(60)
        return [entry.obj for bucket in lab.store.buckets() for entry in lab.store.list(bucket)]

    assert story() == story()


def test_an_object_that_cannot_be_understood_stops_no_other(lab: Lab) -> None:
    lab.deploy(1)
    lab.wait(1)
    entry = lab.store.get("deployments.apps", "default", "web")
    assert entry is not None
    broken = entry.copy()
    broken["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "some"}}
    told: list[tuple[object, str]] = []
    lab.model.on_fault = lambda key, fault: told.append((key, type(fault).__name__))
    lab.store.update("deployments.apps", broken)
    lab.deploy(2, name="other")
    lab.wait(5)
    assert told and set(told) == {(("deployments.apps", "default", "web"), "ValueError")}
    assert lab.status("other")["availableReplicas"] == 2


def test_the_arithmetic_of_a_rollout() -> None:
    assert amount("25%", 10, up=True) == 3 and amount("25%", 10, up=False) == 2 and amount(4, 10, up=True) == 4
    limits = Limits(10, 3, 2)
    assert grow(limits, Share("new", 0, 0), [Share("old", 10, 10)]) == 3
    # 13 pods, 3 of them new and not ready: 2 old ones may go.
    assert shrink(limits, Share("new", 3, 0), [Share("old", 10, 10)]) == {"old": 8}
    # Pods of the old ReplicaSet that do not serve cost nothing.
    assert shrink(limits, Share("new", 3, 0), [Share("old", 10, 6)]) == {"old": 8}
    assert shrink(limits, Share("new", 3, 3), [Share("old", 10, 10)]) == {"old": 5}
    assert spread(Limits(10, 2, 0), [Share("new", 3, 3, 6), Share("old", 3, 3, 6)]) == {"new": 6, "old": 6}
    assert spread(Limits(0, 0, 0), [Share("new", 3, 3, 6), Share("old", 2, 2, 6)]) == {"new": 0, "old": 0}
