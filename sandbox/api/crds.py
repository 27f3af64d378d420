"""CustomResourceDefinitions at work: what they serve, their conditions and names, and their end."""

from __future__ import annotations

from collections.abc import Callable

from sandbox.api.deleter import DeleteOptions, Deleter
from sandbox.api.resources import Model, Registry, from_crd
from sandbox.jsontypes import JsonObject
from sandbox.store import Entry, EventType, Store, StoreEvent
from services.kit.times import timestamp

BUCKET = "customresourcedefinitions.apiextensions.k8s.io"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


class CrdController:
    """Serves every CRD of the store from the moment it is written; also those that were there before."""

    def __init__(
        self, store: Store, registry: Registry, deleter: Deleter, model: Callable[[JsonObject, str], Model]
    ) -> None:
        self._store = store
        self._registry = registry
        self._deleter = deleter
        self._model = model
        self._served: dict[str, JsonObject] = {}
        store.subscribe(self._on_event, BUCKET)
        store.subscribe(self._on_any)
        for entry in store.list(BUCKET):
            self._look(entry)

    def _on_event(self, event: StoreEvent) -> None:
        if event.type is EventType.DELETED:
            self._served.pop(event.entry.name, None)
            self._registry.set_custom(event.entry.name, [])
            return
        current = self._store.get(BUCKET, "", event.entry.name)
        if current is not None:
            self._look(current)

    def _on_any(self, event: StoreEvent) -> None:
        """The last object of a definition that is going away lets it go."""
        if event.type is EventType.DELETED and event.entry.bucket in self._served:
            crd = self._store.get(BUCKET, "", event.entry.bucket)
            if crd is not None and crd.obj["metadata"].get("deletionTimestamp"):
                self._end(crd)

    def _look(self, entry: Entry) -> None:
        if entry.obj["metadata"].get("deletionTimestamp"):
            self._end(entry)
            return
        spec = entry.obj["spec"]
        taken = self._taken(entry)
        if not taken and self._served.get(entry.name) != spec:
            self._served[entry.name] = spec
            self._registry.set_custom(entry.name, from_crd(entry.obj, self._model))
        obj = entry.copy()
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if CLEANUP not in finalizers:
            finalizers.append(CLEANUP)
        self._set_status(obj, taken)
        if obj != entry.obj:
            self._store.update(BUCKET, obj, entry.rv)

    def _taken(self, entry: Entry) -> str:
        """Why the names of a definition cannot be accepted, empty when they can."""
        spec = entry.obj["spec"]
        for resource in self._registry.all():
            if resource.group != spec["group"] or resource.storage == entry.name:
                continue
            if resource.kind == spec["names"]["kind"]:
                return f'"{resource.kind}" is already in use'
        return ""

    def _set_status(self, obj: JsonObject, taken: str) -> None:
        status = obj.setdefault("status", {})
        spec = obj["spec"]
        kept = [version["name"] for version in spec["versions"] if version.get("storage")]
        versions = status.setdefault("storedVersions", [])
        versions += [name for name in kept if name not in versions]
        conditions = status.setdefault("conditions", [])
        if taken:
            self._condition(conditions, "NamesAccepted", "False", "KindConflict", taken)
            self._condition(conditions, "Established", "False", "NotAccepted", "not all names are accepted")
            status.setdefault("acceptedNames", {"kind": "", "plural": ""})
            return
        status["acceptedNames"] = spec["names"]
        self._condition(conditions, "NamesAccepted", "True", "NoConflicts", "no conflicts found")
        text = "the initial names have been accepted"
        self._condition(conditions, "Established", "True", "InitialNamesAccepted", text)

    def _condition(self, conditions: list[JsonObject], kind: str, value: str, reason: str, message: str) -> None:
        held = next((condition for condition in conditions if condition["type"] == kind), None)
        if held is not None and held["status"] == value:
            return
        if held is not None:
            conditions.remove(held)
        now = timestamp(self._store.clock.now())
        conditions.append(
            {"lastTransitionTime": now, "message": message, "reason": reason, "status": value, "type": kind}
        )

    def _end(self, entry: Entry) -> None:
        """Deletes the objects of a definition that is being deleted, then the definition."""
        resource = self._registry.stored().get(entry.name)
        if resource is not None:
            for instance in self._store.list(entry.name):
                if not instance.obj["metadata"].get("deletionTimestamp"):
                    self._deleter.remove(resource, instance, DeleteOptions(propagation="Background"))
        if self._store.count(entry.name):
            return
        current = self._store.get(BUCKET, "", entry.name)
        if current is None:
            return
        obj = current.copy()
        left = [name for name in obj["metadata"].get("finalizers") or () if name != CLEANUP]
        if left == (current.obj["metadata"].get("finalizers") or []) and left:
            return
        if left:
            obj["metadata"]["finalizers"] = left
            self._store.update(BUCKET, obj, current.rv)
        else:
            self._store.delete(BUCKET, "", entry.name, current.rv)
