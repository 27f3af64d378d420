"""The status of a Deployment, with the conditions ``Available`` and ``Progressing``. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sandbox.jsontypes import JsonObject
from sandbox.workloads.rollout import Limits
from services.kit.times import RFC3339, timestamp

DEFAULT_DEADLINE = 600
UNLIMITED = 2**31 - 1


def complete(obj: JsonObject) -> bool:
    """Whether all replicas are of the present template and available, and no others are left."""
    status, wanted = obj.get("status") or {}, int(obj["spec"].get("replicas", 1))
    numbers = [status.get(key, 0) for key in ("updatedReplicas", "replicas", "availableReplicas")]
    observed = status.get("observedGeneration", 0) >= obj["metadata"].get("generation", 1)
    return observed and numbers == [wanted] * 3


def status(obj: JsonObject, new: JsonObject | None, old: list[JsonObject],
           now: datetime) -> tuple[JsonObject, datetime | None]:
    """The whole status of a Deployment at ``now`` and the moment its progress deadline passes, or None."""
    before = obj.get("status") or {}
    sets = [*([new] if new else []), *old]
    total, ready, available = (_sum(sets, key) for key in ("replicas", "readyReplicas", "availableReplicas"))
    wanted = sum(int(one["spec"].get("replicas", 0)) for one in sets)
    numbers = {
        "replicas": total,
        "updatedReplicas": _sum([new] if new else [], "replicas"),
        "readyReplicas": ready,
        "availableReplicas": available,
        "unavailableReplicas": max(0, wanted - available),
    }
    body: JsonObject = {"observedGeneration": obj["metadata"].get("generation", 1)}
    body.update({key: value for key, value in numbers.items() if value})
    if before.get("collisionCount"):
        body["collisionCount"] = before["collisionCount"]
    known = {c["type"]: c for c in before.get("conditions") or ()}
    known["Available"] = _stamped(known.get("Available"), _available(obj, available), now)
    progress = _progress(obj, new, body, before, known.get("Progressing"), now)
    if progress is not None:
        known["Progressing"] = _stamped(known.get("Progressing"), progress, now, _moved(body, before))
    failure = next((c for one in sets for c in (one.get("status") or {}).get("conditions") or ()
                    if c["type"] == "ReplicaFailure"), None)
    known.pop("ReplicaFailure", None)
    if failure is not None:
        known["ReplicaFailure"] = {**failure, "lastUpdateTime": failure["lastTransitionTime"]}
    body["conditions"] = list(known.values())
    return body, _deadline(obj, known.get("Progressing"), now)


def _sum(sets: list[JsonObject], key: str) -> int:
    return sum(int((one.get("status") or {}).get(key) or 0) for one in sets)


def _available(obj: JsonObject, available: int) -> JsonObject:
    limits = Limits.of(obj["spec"])
    if available >= limits.replicas - limits.unavailable:
        return {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
                "message": "Deployment has minimum availability."}
    return {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable",
            "message": "Deployment does not have minimum availability."}


def _progress(obj: JsonObject, new: JsonObject | None, body: JsonObject, before: JsonObject, old: JsonObject | None,
              now: datetime) -> JsonObject | None:
    if obj["spec"].get("progressDeadlineSeconds") == UNLIMITED:
        return None
    if obj["spec"].get("paused"):
        return {"type": "Progressing", "status": "Unknown", "reason": "DeploymentPaused",
                "message": "Deployment is paused"}
    if new is None:
        return old
    name = new["metadata"]["name"]
    reason = (old or {}).get("reason")
    told = {"type": "Progressing", "status": "True"}
    if complete({**obj, "status": body}):
        return {**told, "reason": "NewReplicaSetAvailable",
                "message": f'ReplicaSet "{name}" has successfully progressed.'}
    if old is None:
        return {**told, "reason": "NewReplicaSetCreated", "message": f'Created new replica set "{name}"'}
    if reason == "DeploymentPaused":
        return {"type": "Progressing", "status": "Unknown", "reason": "DeploymentResumed",
                "message": "Deployment is resumed"}
    if _moved(body, before) or (reason == "NewReplicaSetAvailable" and name not in str(old.get("message"))):
        return {**told, "reason": "ReplicaSetUpdated", "message": f'ReplicaSet "{name}" is progressing.'}
    # A rollout that was complete once does not time out because a pod fails later.
    if reason not in ("NewReplicaSetAvailable", "ProgressDeadlineExceeded") and _overdue(obj, old, now):
        return {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded",
                "message": f'ReplicaSet "{name}" has timed out progressing.'}
    return old


def _moved(body: JsonObject, before: JsonObject) -> bool:
    """Progress: more updated, ready or available replicas, or fewer old ones."""
    def old_ones(status: JsonObject) -> int:
        return int(status.get("replicas", 0)) - int(status.get("updatedReplicas", 0))

    more = any(body.get(key, 0) > before.get(key, 0)
               for key in ("updatedReplicas", "readyReplicas", "availableReplicas"))
    return more or old_ones(body) < old_ones(before)


def _stamped(old: JsonObject | None, wanted: JsonObject, now: datetime, refresh: bool = False) -> JsonObject:
    same = old is not None and (old.get("status"), old.get("reason")) == (wanted["status"], wanted["reason"])
    if old is not None and same and not (refresh and wanted["reason"] != "NewReplicaSetAvailable"):
        return {**old, "message": wanted["message"]}
    kept = old["lastTransitionTime"] if old and old["status"] == wanted["status"] else timestamp(now)
    fields = {key: wanted[key] for key in ("type", "status", "reason", "message")}
    return {**fields, "lastUpdateTime": timestamp(now), "lastTransitionTime": kept}


def _ends(obj: JsonObject, condition: JsonObject) -> datetime:
    seconds = obj["spec"].get("progressDeadlineSeconds")
    since = datetime.strptime(condition["lastUpdateTime"], RFC3339).replace(tzinfo=UTC)
    return since + timedelta(seconds=DEFAULT_DEADLINE if seconds is None else int(seconds))


def _overdue(obj: JsonObject, condition: JsonObject, now: datetime) -> bool:
    return now >= _ends(obj, condition)


def _deadline(obj: JsonObject, condition: JsonObject | None, now: datetime) -> datetime | None:
    waiting = ("NewReplicaSetCreated", "ReplicaSetUpdated", "FoundNewReplicaSet", "DeploymentResumed")
    if condition is None or condition.get("reason") not in waiting or obj["spec"].get("paused"):
        return None
    moment = _ends(obj, condition)
    return moment if moment > now else None
