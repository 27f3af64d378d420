"""The ReplicaSet controller: as many pods of the template as asked for, and the count of them in the status."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sandbox.jsontypes import JsonObject
from sandbox.store import Entry
from sandbox.workloads.cluster import CONTROLLER_MANAGER, PODS, Cluster, Refused, controlled_by
from services.kit.times import RFC3339, timestamp

SOURCE = "replicaset-controller"
BURST = 500


def condition_of(obj: JsonObject, kind: str) -> JsonObject | None:
    """A condition of an object's status by type, or None."""
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind:
            found: JsonObject = condition
            return found
    return None


def is_ready(pod: JsonObject) -> bool:
    """Whether the pod's condition ``Ready`` is True."""
    condition = condition_of(pod, "Ready")
    return condition is not None and condition.get("status") == "True"


def available_at(pod: JsonObject, min_ready_seconds: int) -> datetime | None:
    """When a ready pod counts as available; None for one that is not ready."""
    condition = condition_of(pod, "Ready")
    if condition is None or condition.get("status") != "True":
        return None
    since = datetime.strptime(condition["lastTransitionTime"], RFC3339).replace(tzinfo=UTC)
    return since + timedelta(seconds=min_ready_seconds)


def is_active(pod: JsonObject) -> bool:
    """Whether a pod counts: it has not ended and is not being deleted."""
    phase = (pod.get("status") or {}).get("phase")
    return phase not in ("Succeeded", "Failed") and not pod["metadata"].get("deletionTimestamp")


def _rank(pod: JsonObject) -> tuple[bool, int, bool, float, int, float]:
    """Sort key of pods to delete, the first to go first (as the ReplicaSet controller ranks them)."""
    status = pod.get("status") or {}
    ready = is_ready(pod)
    since = available_at(pod, 0)
    restarts = max((c.get("restartCount", 0) for c in status.get("containerStatuses") or ()), default=0)
    created = datetime.strptime(pod["metadata"]["creationTimestamp"], RFC3339).timestamp()
    return (
        bool(pod["spec"].get("nodeName")),
        {"Pending": 0, "Unknown": 1}.get(status.get("phase", "Pending"), 2),
        ready,
        -(since.timestamp() if since else 0.0),
        -restarts,
        -created,
    )


class ReplicaSets:
    """Looks at one ReplicaSet at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def sync(self, entry: Entry) -> datetime | None:
        """Creates or deletes pods and writes the status; answers when a pod becomes available by itself, or None."""
        active = [pod for pod in self._cluster.controlled(entry.uid, PODS) if is_active(pod.obj)]
        failure = None
        if not entry.obj["metadata"].get("deletionTimestamp"):
            failure = self._scale(entry, active)
        fresh = self._cluster.get(entry.bucket, entry.namespace, entry.name)
        if fresh is None or fresh.uid != entry.uid:
            return None
        active = [pod for pod in self._cluster.controlled(entry.uid, PODS) if is_active(pod.obj)]
        return self._write_status(fresh, active, failure)

    def _scale(self, entry: Entry, active: list[Entry]) -> Refused | None:
        wanted = int(entry.obj["spec"].get("replicas", 1))
        missing = wanted - len(active)
        if missing > 0:
            for _ in range(min(missing, BURST)):
                try:
                    self._create(entry)
                except Refused as refused:
                    self._cluster.event(entry.obj, "Warning", "FailedCreate", f"Error creating: {refused}", SOURCE)
                    return refused
        elif missing < 0:
            spare = sorted(active, key=lambda pod: (_rank(pod.obj), pod.name))[:-missing]
            for pod in spare:
                self._cluster.delete(PODS, pod.namespace, pod.name, pod.uid)
                self._cluster.event(entry.obj, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}", SOURCE)
        return None

    def _create(self, entry: Entry) -> None:
        template = entry.copy()["spec"]["template"]
        meta = dict(template.get("metadata") or {})
        meta.pop("name", None)
        meta.pop("creationTimestamp", None)
        meta["generateName"] = f"{entry.name}-"
        meta["ownerReferences"] = [controlled_by(entry.obj)]
        pod: JsonObject = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
        made = self._cluster.create(PODS, entry.namespace, pod, CONTROLLER_MANAGER)
        name = made["metadata"]["name"]
        self._cluster.event(entry.obj, "Normal", "SuccessfulCreate", f"Created pod: {name}", SOURCE)

    def _write_status(self, entry: Entry, active: list[Entry], failure: Refused | None) -> datetime | None:
        spec, now = entry.obj["spec"], self._cluster.now()
        least = int(spec.get("minReadySeconds") or 0)
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        moments = [available_at(pod.obj, least) for pod in active]
        counts = {
            "fullyLabeledReplicas": sum(
                labels.items() <= (pod.obj["metadata"].get("labels") or {}).items() for pod in active
            ),
            "readyReplicas": sum(moment is not None for moment in moments),
            "availableReplicas": sum(moment is not None and moment <= now for moment in moments),
        }
        status: JsonObject = {"replicas": len(active), **{key: value for key, value in counts.items() if value}}
        status["observedGeneration"] = entry.obj["metadata"].get("generation", 1)
        if failure is not None:
            old = condition_of(entry.obj, "ReplicaFailure")
            since = old["lastTransitionTime"] if old else timestamp(now)
            status["conditions"] = [{
                "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": failure.message,
                "lastTransitionTime": since,
            }]
        self._cluster.put_status(entry, status, CONTROLLER_MANAGER)
        return min((moment for moment in moments if moment is not None and moment > now), default=None)
