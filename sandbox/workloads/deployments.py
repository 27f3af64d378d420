"""The Deployment controller: one ReplicaSet per pod template, rolled by the strategy, and the status of it all."""

from __future__ import annotations

from datetime import datetime

from sandbox.jsontypes import JsonObject
from sandbox.store import Entry
from sandbox.workloads import deploymentstatus as statuses
from sandbox.workloads import rollout
from sandbox.workloads.cluster import (
    CONTROLLER_MANAGER,
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    Cluster,
    Refused,
    controlled_by,
)
from sandbox.workloads.rollout import HASH_LABEL, Limits, Share

REVISION = "deployment.kubernetes.io/revision"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"
SOURCE = "deployment-controller"
NOT_COPIED = frozenset({
    "kubectl.kubernetes.io/last-applied-configuration", REVISION, DESIRED, MOST,
    "deployment.kubernetes.io/revision-history", "deprecated.deployment.rollback.to",
})


class Deployments:
    """Looks at one Deployment at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def sync(self, entry: Entry) -> datetime | None:
        """Makes, scales and removes ReplicaSets and writes the status; answers when its deadline passes, or None."""
        if not entry.obj["metadata"].get("deletionTimestamp"):
            self._act(entry)
        fresh = self._cluster.get(DEPLOYMENTS, entry.namespace, entry.name)
        if fresh is None or fresh.uid != entry.uid:
            return None
        new, old = self._sets(fresh)
        status, due = statuses.status(fresh.obj, new.obj if new else None, [e.obj for e in old], self._cluster.now())
        self._cluster.put_status(fresh, status, CONTROLLER_MANAGER)
        after = self._cluster.get(DEPLOYMENTS, entry.namespace, entry.name)
        if after is not None and new is not None and statuses.complete(after.obj):
            self._clean_up(after, old)
        return due

    def _act(self, entry: Entry) -> None:
        spec = entry.obj["spec"]
        new, old = self._sets(entry)
        if spec.get("paused"):
            self._scale_all(entry, new, old)
            return
        if new is not None:
            self._set_revision(entry, new, old)
        if new is not None and self._was_scaled(entry, [new, *old]):
            self._scale_all(entry, new, old)
            return
        if (spec.get("strategy") or {}).get("type") == "Recreate":
            self._recreate(entry, new, old)
        else:
            self._roll(entry, new or self._create(entry, old), old)

    def _sets(self, entry: Entry) -> tuple[Entry | None, list[Entry]]:
        """The ReplicaSet of the present template, if there is one, and the others, oldest first."""
        owned = self._cluster.controlled(entry.uid, REPLICA_SETS)
        template = entry.obj["spec"]["template"]
        new = next((e for e in owned if rollout.same_template(e.obj["spec"]["template"], template)), None)
        return new, [e for e in owned if e is not new]

    def _create(self, entry: Entry, old: list[Entry]) -> Entry | None:
        limits = Limits.of(entry.obj["spec"])
        collisions = int((entry.obj.get("status") or {}).get("collisionCount") or 0)
        template = entry.copy()["spec"]["template"]
        while True:
            digest = rollout.template_hash(template, collisions)
            name = f"{entry.name}-{digest}"
            if self._cluster.get(REPLICA_SETS, entry.namespace, name) is None:
                break
            collisions += 1
        size = rollout.grow(limits, Share(name, 0, 0), [_share(e) for e in old])
        made = _replica_set(entry, name, digest, template, size, limits, _next_revision(old))
        try:
            self._cluster.create(REPLICA_SETS, entry.namespace, made, CONTROLLER_MANAGER)
        except Refused as refused:
            text = f'Failed to create new replica set "{name}": {refused}'
            self._cluster.event(entry.obj, "Warning", "ReplicaSetCreateError", text, SOURCE)
            return None
        if size:
            self._told(entry, name, 0, size)
        self._record_revision(entry, _next_revision(old))
        return self._cluster.get(REPLICA_SETS, entry.namespace, name)

    def _set_revision(self, entry: Entry, new: Entry, old: list[Entry]) -> None:
        """A template that comes back gets the next revision number."""
        mine, highest = _revision(new), max((_revision(e) for e in old), default=0)
        if mine <= highest:
            patch = {"metadata": {"annotations": {REVISION: str(highest + 1)}}}
            self._cluster.merge(REPLICA_SETS, new.namespace, new.name, patch, CONTROLLER_MANAGER)
            mine = highest + 1
        self._record_revision(entry, mine)

    def _record_revision(self, entry: Entry, revision: int) -> None:
        if (entry.obj["metadata"].get("annotations") or {}).get(REVISION) != str(revision):
            patch = {"metadata": {"annotations": {REVISION: str(revision)}}}
            self._cluster.merge(DEPLOYMENTS, entry.namespace, entry.name, patch, CONTROLLER_MANAGER)

    def _was_scaled(self, entry: Entry, sets: list[Entry]) -> bool:
        wanted = str(entry.obj["spec"].get("replicas", 1))
        active = [e for e in sets if e.obj["spec"].get("replicas", 0)]
        return any((e.obj["metadata"].get("annotations") or {}).get(DESIRED, wanted) != wanted for e in active)

    def _scale_all(self, entry: Entry, new: Entry | None, old: list[Entry]) -> None:
        """Scaling outside of a rollout's own steps: one ReplicaSet, or in proportion over those that run."""
        limits = Limits.of(entry.obj["spec"])
        sets = ([new] if new else []) + list(reversed(old))
        running = [e for e in sets if e.obj["spec"].get("replicas", 0)]
        if len(running) <= 1:
            target = running[0] if running else next(iter(sets), None)
            if target is not None:
                self._resize(entry, target, limits.replicas)
            return
        if new is not None and _share(new).available >= limits.replicas == new.obj["spec"].get("replicas", 0):
            for other in old:
                self._resize(entry, other, 0)
            return
        sizes = rollout.spread(limits, [_share(e) for e in running])
        for one in running:
            self._resize(entry, one, sizes.get(one.name, int(one.obj["spec"].get("replicas", 0))))

    def _roll(self, entry: Entry, new: Entry | None, old: list[Entry]) -> None:
        if new is None:
            return
        limits = Limits.of(entry.obj["spec"])
        shares = [_share(e) for e in old]
        size = rollout.grow(limits, _share(new), shares)
        if self._resize(entry, new, size):
            return
        for name, replicas in rollout.shrink(limits, _share(new), shares).items():
            self._resize(entry, next(e for e in old if e.name == name), replicas)

    def _recreate(self, entry: Entry, new: Entry | None, old: list[Entry]) -> None:
        changed = [other for other in old if self._resize(entry, other, 0)]
        if changed or any(self._cluster.controlled(other.uid, PODS) for other in old):
            return
        new = new or self._create(entry, old)
        if new is not None:
            self._resize(entry, new, int(entry.obj["spec"].get("replicas", 1)))

    def _resize(self, entry: Entry, target: Entry, replicas: int) -> bool:
        """Scales a ReplicaSet and keeps its two annotations right; answers whether the number changed."""
        limits = Limits.of(entry.obj["spec"])
        before = int(target.obj["spec"].get("replicas", 0))
        marks = {DESIRED: str(limits.replicas), MOST: str(limits.replicas + limits.surge)}
        annotations = target.obj["metadata"].get("annotations") or {}
        if before == replicas and (not replicas or all(annotations.get(key) == value for key, value in marks.items())):
            return False
        patch: JsonObject = {"metadata": {"annotations": marks}}
        if before != replicas:
            patch["spec"] = {"replicas": replicas}
        self._cluster.merge(REPLICA_SETS, target.namespace, target.name, patch, CONTROLLER_MANAGER)
        if before != replicas:
            self._told(entry, target.name, before, replicas)
        return before != replicas

    def _told(self, entry: Entry, name: str, before: int, after: int) -> None:
        way = "up" if after > before else "down"
        text = f"Scaled {way} replica set {name} from {before} to {after}"
        self._cluster.event(entry.obj, "Normal", "ScalingReplicaSet", text, SOURCE)

    def _clean_up(self, entry: Entry, old: list[Entry]) -> None:
        """Old ReplicaSets beyond ``revisionHistoryLimit`` go when the rollout is complete."""
        limit = entry.obj["spec"].get("revisionHistoryLimit")
        idle = [e for e in old if not e.obj["spec"].get("replicas") and not (e.obj.get("status") or {}).get("replicas")]
        idle.sort(key=_revision)
        for one in idle[: max(0, len(idle) - (10 if limit is None else int(limit)))]:
            self._cluster.delete(REPLICA_SETS, one.namespace, one.name, one.uid)


def _share(entry: Entry) -> Share:
    obj = entry.obj
    most = (obj["metadata"].get("annotations") or {}).get(MOST, "")
    available = int((obj.get("status") or {}).get("availableReplicas") or 0)
    return Share(entry.name, int(obj["spec"].get("replicas", 0)), available, int(most) if most.isdecimal() else 0)


def _revision(entry: Entry) -> int:
    text = (entry.obj["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isdecimal() else 0


def _next_revision(old: list[Entry]) -> int:
    return max((_revision(e) for e in old), default=0) + 1


def _replica_set(entry: Entry, name: str, digest: str, template: JsonObject, size: int, limits: Limits,
                 revision: int) -> JsonObject:
    meta, spec = entry.obj["metadata"], entry.obj["spec"]
    template.setdefault("metadata", {}).setdefault("labels", {})[HASH_LABEL] = digest
    annotations = {key: value for key, value in (meta.get("annotations") or {}).items() if key not in NOT_COPIED}
    annotations.update({
        REVISION: str(revision), DESIRED: str(limits.replicas), MOST: str(limits.replicas + limits.surge),
    })
    selector = spec["selector"]
    return {
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": name, "namespace": entry.namespace, "labels": dict(template["metadata"]["labels"]),
            "annotations": annotations, "ownerReferences": [controlled_by(entry.obj)],
        },
        "spec": {
            "replicas": size, "minReadySeconds": spec.get("minReadySeconds", 0),
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: digest}},
            "template": template,
        },
    }
