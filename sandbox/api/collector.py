"""What controllers do about deletion: garbage collection by owner references, and the end of namespaces.

The work is found by listening to the store and done by ``collect``, so that a simulation decides when it happens.
"""

from __future__ import annotations

from sandbox.api.deleter import FOREGROUND, ORPHAN, DeleteOptions, Deleter
from sandbox.api.resources import Registry, Resource
from sandbox.jsontypes import JsonObject
from sandbox.store import Entry, EventType, Store, StoreEvent

Key = tuple[str, str, str]


class Collector:
    """Garbage collector and namespace controller."""

    def __init__(self, store: Store, registry: Registry, deleter: Deleter) -> None:
        self._store = store
        self._registry = registry
        self._deleter = deleter
        self._dirty: dict[Key, None] = {}
        self._ending: dict[str, None] = {}
        store.subscribe(self._on_event)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to look at."""
        return not self._dirty and not self._ending

    def _on_event(self, event: StoreEvent) -> None:
        entry = event.entry
        meta = entry.obj["metadata"]
        if entry.bucket == "namespaces" and meta.get("deletionTimestamp") and event.type is not EventType.DELETED:
            self._ending[entry.name] = None
        if event.type is EventType.DELETED:
            for dependent in self._store.dependents(entry.uid):
                self._mark(dependent)
            for owner in meta.get("ownerReferences") or ():
                held = self._store.by_uid(owner.get("uid", ""))
                if held is not None and FOREGROUND in (held.obj["metadata"].get("finalizers") or ()):
                    self._mark(held)
            if entry.namespace and entry.namespace in self._terminating():
                self._ending[entry.namespace] = None
            return
        waiting = meta.get("deletionTimestamp") and {ORPHAN, FOREGROUND} & set(meta.get("finalizers") or ())
        if waiting or meta.get("ownerReferences"):
            self._mark(entry)

    def _terminating(self) -> set[str]:
        return {e.name for e in self._store.list("namespaces") if e.obj["metadata"].get("deletionTimestamp")}

    def _mark(self, entry: Entry) -> None:
        self._dirty[(entry.bucket, entry.namespace, entry.name)] = None

    def collect(self) -> int:
        """Works until nothing is left to look at; answers how many objects were changed or deleted."""
        before = self._store.revision
        while self._dirty or self._ending:
            while self._dirty:
                key = next(iter(self._dirty))
                del self._dirty[key]
                entry = self._store.get(*key)
                resource = self._registry.stored().get(key[0])
                if entry is not None and resource is not None:
                    self._look(resource, entry)
            for name in list(self._ending):
                del self._ending[name]
                self._end_namespace(name)
        return self._store.revision - before

    def _look(self, resource: Resource, entry: Entry) -> None:
        meta = entry.obj["metadata"]
        finalizers = meta.get("finalizers") or []
        if meta.get("deletionTimestamp"):
            if ORPHAN in finalizers:
                self._orphan(resource, entry)
            elif FOREGROUND in finalizers:
                self._foreground(resource, entry)
            return
        owners = meta.get("ownerReferences") or []
        if not owners:
            return
        solid = [owner for owner in owners if self._owner(entry, owner) is not None]
        if not solid:
            self._deleter.remove(resource, entry, DeleteOptions(propagation="Background"))
            return
        staying = [owner for owner in solid if not self._leaving(entry, owner)]
        if not staying:
            how = "Foreground" if self._blocks(entry) else "Background"
            self._deleter.remove(resource, entry, DeleteOptions(propagation=how))
        elif len(staying) < len(owners):
            self._set_owners(entry, staying)

    def _owner(self, entry: Entry, owner: JsonObject) -> Entry | None:
        held = self._store.by_uid(owner.get("uid", ""))
        if held is None or held.name != owner.get("name") or held.obj.get("kind") != owner.get("kind"):
            return None
        return held if held.namespace in ("", entry.namespace) else None

    def _leaving(self, entry: Entry, owner: JsonObject) -> bool:
        """Whether an owner waits for its dependents to go first."""
        held = self._owner(entry, owner)
        meta = held.obj["metadata"] if held else {}
        return bool(meta.get("deletionTimestamp")) and FOREGROUND in (meta.get("finalizers") or ())

    def _blocks(self, entry: Entry) -> bool:
        return bool(self._store.dependents(entry.uid))

    def _foreground(self, resource: Resource, entry: Entry) -> None:
        waiting = False
        for dependent in self._store.dependents(entry.uid):
            references = dependent.obj["metadata"].get("ownerReferences") or ()
            waiting = waiting or any(o.get("uid") == entry.uid and o.get("blockOwnerDeletion") for o in references)
            if not dependent.obj["metadata"].get("deletionTimestamp"):
                self._mark(dependent)
        if not waiting:
            self._drop_finalizer(resource, entry, FOREGROUND)

    def _orphan(self, resource: Resource, entry: Entry) -> None:
        for dependent in self._store.dependents(entry.uid):
            owners = dependent.obj["metadata"].get("ownerReferences") or ()
            self._set_owners(dependent, [owner for owner in owners if owner.get("uid") != entry.uid])
        self._drop_finalizer(resource, entry, ORPHAN)

    def _set_owners(self, entry: Entry, owners: list[JsonObject]) -> None:
        obj = entry.copy()
        if owners:
            obj["metadata"]["ownerReferences"] = owners
        else:
            obj["metadata"].pop("ownerReferences", None)
        self._store.update(entry.bucket, obj, entry.rv)

    def _drop_finalizer(self, resource: Resource, entry: Entry, name: str) -> None:
        obj = entry.copy()
        left = [item for item in obj["metadata"].get("finalizers") or () if item != name]
        if not left and not (resource.storage == "namespaces" and obj["spec"].get("finalizers")):
            self._store.delete(entry.bucket, *entry.key, entry.rv)
            return
        obj["metadata"]["finalizers"] = left
        self._store.update(entry.bucket, obj, entry.rv)

    def _end_namespace(self, name: str) -> None:
        namespace = self._store.get("namespaces", "", name)
        if namespace is None or not namespace.obj["metadata"].get("deletionTimestamp"):
            return
        left = 0
        for resource in self._registry.stored().values():
            if not resource.namespaced:
                continue
            for entry in self._store.list(resource.storage, name):
                if not entry.obj["metadata"].get("deletionTimestamp"):
                    self._deleter.remove(resource, entry, DeleteOptions(propagation="Background"))
                left += self._store.get(resource.storage, *entry.key) is not None
        if left:
            return
        if not namespace.obj["metadata"].get("finalizers"):
            self._store.delete("namespaces", "", name, namespace.rv)
        elif namespace.obj["spec"].get("finalizers"):
            obj = namespace.copy()
            obj["spec"]["finalizers"] = []
            self._store.update("namespaces", obj, namespace.rv)
