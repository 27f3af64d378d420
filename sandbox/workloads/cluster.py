"""The workload model's hands: reads from the store, writes through the API server like any other client."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from sandbox.api.handler import ApiServer
from sandbox.api.messages import Request, Response
from sandbox.jsontypes import JsonObject
from sandbox.store import Entry
from services.kit.times import timestamp

PODS, REPLICA_SETS, DEPLOYMENTS = "pods", "replicasets.apps", "deployments.apps"
NODES, NAMESPACES, EVENTS = "nodes", "namespaces", "events"

_PREFIXES = {
    PODS: "/api/v1/namespaces/{ns}/pods",
    REPLICA_SETS: "/apis/apps/v1/namespaces/{ns}/replicasets",
    DEPLOYMENTS: "/apis/apps/v1/namespaces/{ns}/deployments",
    NODES: "/api/v1/nodes",
    EVENTS: "/api/v1/namespaces/{ns}/events",
}

CONTROLLER_MANAGER, SCHEDULER, KUBELET = "kube-controller-manager", "kube-scheduler", "kubelet"


@dataclass
class Refused(Exception):
    """The API server refused a write of the model."""

    code: int
    reason: str
    message: str

    def __str__(self) -> str:
        return self.message


class Cluster:
    """Reads give the store's shared objects, which must not be changed."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self.store = api.store
        self._event_counts: dict[tuple[str, str, str], tuple[str, int]] = {}

    def now(self) -> datetime:
        """The time of the store's clock."""
        return self.store.clock.now()

    def get(self, bucket: str, namespace: str, name: str) -> Entry | None:
        """An object, or None."""
        return self.store.get(bucket, namespace, name)

    def controlled(self, uid: str, bucket: str) -> list[Entry]:
        """The objects of a bucket that have ``uid`` as their controller, oldest first."""
        found = [e for e in self.store.dependents(uid) if e.bucket == bucket and controller_uid(e.obj) == uid]
        return sorted(found, key=lambda e: (e.obj["metadata"].get("creationTimestamp", ""), e.name))

    def create(self, bucket: str, namespace: str, obj: JsonObject, manager: str) -> JsonObject:
        """Creates an object and answers what was stored. Raises ``Refused``."""
        return self._call("POST", _path(bucket, namespace), obj, manager)

    def merge(self, bucket: str, namespace: str, name: str, patch: JsonObject, manager: str) -> JsonObject:
        """Applies a JSON merge patch. Raises ``Refused``."""
        path = _path(bucket, namespace, name)
        return self._call("PATCH", path, patch, manager, "application/merge-patch+json")

    def put_status(self, entry: Entry, status: JsonObject, manager: str) -> None:
        """Replaces the status of the version that was looked at, unless nothing changes. Raises ``Refused``."""
        if entry.obj.get("status") == status:
            return
        obj = {**entry.obj, "status": status}
        self._call("PUT", _path(entry.bucket, entry.namespace, entry.name) + "/status", obj, manager)

    def bind(self, entry: Entry, node: str, condition: JsonObject) -> None:
        """What the scheduler's Binding does: sets the node and the condition ``PodScheduled`` in one version."""
        obj = entry.copy()
        obj["spec"]["nodeName"] = node
        status = obj.setdefault("status", {})
        others = [c for c in status.get("conditions") or () if c.get("type") != condition["type"]]
        status["conditions"] = [*others, condition]
        self.store.update(entry.bucket, obj, entry.rv)

    def delete(self, bucket: str, namespace: str, name: str, uid: str, grace: int | None = None) -> None:
        """Deletes an object; one that is gone, or is another by now, counts as deleted. Raises ``Refused``."""
        body: JsonObject = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        try:
            self._call("DELETE", _path(bucket, namespace, name), body, "")
        except Refused as refused:
            if refused.code not in (404, 409):
                raise

    def event(self, obj: JsonObject, kind: str, reason: str, message: str, source: str) -> None:
        """Records an event on ``obj``; a repetition counts up the one that is there. A refused event is dropped."""
        meta = obj["metadata"]
        namespace = meta.get("namespace") or "default"
        key = (meta.get("uid", ""), reason, message)
        moment = timestamp(self.now())
        name, count = self._event_counts.get(key, ("", 0))
        try:
            if name and self.get(EVENTS, namespace, name) is not None:
                patch = {"count": count + 1, "lastTimestamp": moment}
                self.merge(EVENTS, namespace, name, patch, source)
                self._event_counts[key] = (name, count + 1)
                return
            name = f"{meta['name'][:200]}.{self.store.revision:016x}"
            self.create(EVENTS, namespace, _event(obj, name, namespace, kind, reason, message, source, moment), source)
            self._event_counts[key] = (name, 1)
        except Refused:
            self._event_counts.pop(key, None)

    def forget_events(self, uid: str) -> None:
        """Drops what is remembered of an object that is gone."""
        for key in [key for key in self._event_counts if key[0] == uid]:
            del self._event_counts[key]

    def _call(self, method: str, path: str, body: JsonObject, manager: str,
              content_type: str = "application/json") -> JsonObject:
        url = f"{path}?fieldManager={quote(manager)}" if manager else path
        answer = self._api.handle(Request.of(method, url, body, content_type=content_type, user_agent=manager))
        if not isinstance(answer, Response):
            raise Refused(500, "InternalError", f"{method} {path} answered a watch")
        found = answer.json()
        if answer.status >= 400:
            raise Refused(answer.status, str(found.get("reason", "")), str(found.get("message", "")))
        return found


def _path(bucket: str, namespace: str, name: str = "") -> str:
    base = _PREFIXES[bucket].format(ns=namespace)
    return f"{base}/{name}" if name else base


def _event(obj: JsonObject, name: str, namespace: str, kind: str, reason: str, message: str, source: str,
           moment: str) -> JsonObject:
    meta = obj["metadata"]
    involved = {
        "apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": meta["name"], "uid": meta.get("uid", ""),
        "resourceVersion": meta.get("resourceVersion", ""),
    }
    if meta.get("namespace"):
        involved["namespace"] = meta["namespace"]
    return {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": namespace},
        "involvedObject": involved, "type": kind, "reason": reason, "message": message, "count": 1,
        "source": {"component": source}, "reportingComponent": source,
        "firstTimestamp": moment, "lastTimestamp": moment,
    }


def controller_uid(obj: JsonObject) -> str:
    """The uid of an object's controller, or an empty string."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner.get("uid", ""))
    return ""


def controlled_by(obj: JsonObject) -> JsonObject:
    """The owner reference by which a dependent names ``obj`` as its controller."""
    meta = obj["metadata"]
    return {
        "apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": meta["name"], "uid": meta["uid"],
        "controller": True, "blockOwnerDeletion": True,
    }
