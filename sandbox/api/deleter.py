"""Delete: preconditions, propagation, grace and finalizers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sandbox.api.admission import Admission, Attempt
from sandbox.api.bodies import read_object
from sandbox.api.messages import Request
from sandbox.api.resources import Resource
from sandbox.api.routes import Route, dry_run, integer
from sandbox.api.status import bad_request, cause, conflict, forbidden, invalid, not_found
from sandbox.api.writer import PROTECTED_NAMESPACES, Steps
from sandbox.jsontypes import JsonObject
from sandbox.store import Entry, Store
from services.kit.times import timestamp

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
DEFAULT_GRACE = 30
RETURNS_OBJECT = frozenset({"pods", "services", "serviceaccounts", "persistentvolumeclaims", "resourcequotas"})


@dataclass(frozen=True)
class DeleteOptions:
    """``metav1.DeleteOptions``; grace in seconds, None for the kind's default."""

    uid: str = ""
    resource_version: str = ""
    propagation: str = ""
    grace: int | None = None
    dry_run: bool = False


def read_options(request: Request) -> DeleteOptions:
    """The options of a delete, from the body or else from the query."""
    body = read_object(request, "DeleteOptions") if request.body.strip() else {}
    body = {**{name: request.query[name] for name in ("propagationPolicy", "dryRun") if name in request.query}, **body}
    propagation = body.get("propagationPolicy") or ""
    orphan = body.get("orphanDependents")
    if orphan is not None and not propagation:
        propagation = "Orphan" if orphan else "Background"
    if propagation not in ("", "Orphan", "Background", "Foreground"):
        text = f'Unsupported value: "{propagation}": supported values: "Background", "Foreground", "Orphan"'
        raise invalid("meta.k8s.io", "DeleteOptions", "", [cause("propagationPolicy", "FieldValueNotSupported", text)])
    grace = body.get("gracePeriodSeconds")
    if grace is None:
        grace = integer(request, "gracePeriodSeconds")
    wanted = body.get("preconditions") or {}
    if not isinstance(wanted, dict) or not (grace is None or (isinstance(grace, int) and grace >= 0)):
        raise bad_request("json: cannot unmarshal into Go value of type v1.DeleteOptions")
    return DeleteOptions(
        wanted.get("uid") or "", wanted.get("resourceVersion") or "", propagation, grace, dry_run(request, body)
    )


@dataclass(frozen=True)
class Deleted:
    """What a delete ends in: the last state, and whether the object is gone already."""

    obj: JsonObject
    gone: bool


class Deleter:
    """The delete side of the API over a store."""

    def __init__(self, store: Store, admission: Admission) -> None:
        self.store = store
        self._admission = admission

    def delete(self, resource: Resource, route: Route, options: DeleteOptions, user: JsonObject) -> Steps[Deleted]:
        """Deletes an object, or marks it when finalizers, dependents or grace hold it."""
        entry = self._expect(resource, route, options)
        attempt = Attempt("DELETE", resource, "", None, entry.copy(), options.dry_run, user)
        yield from self._admission.review(attempt)
        entry = self._expect(resource, route, options)
        if resource.storage == "namespaces" and route.name in PROTECTED_NAMESPACES:
            raise forbidden("", "namespaces", route.name, "this namespace may not be deleted")
        return self.remove(resource, entry, options)

    def _expect(self, resource: Resource, route: Route, options: DeleteOptions) -> Entry:
        entry = self.store.get(resource.storage, route.namespace, route.name)
        if entry is None:
            raise not_found(resource.group, resource.plural, route.name)
        if options.uid and options.uid != entry.uid:
            why = f"the UID in the precondition ({options.uid}) does not match the UID in record ({entry.uid}). "
            why += "The object might have been deleted and then recreated"
            raise conflict(resource.group, resource.kind, route.name, why)
        if options.resource_version and options.resource_version != str(entry.rv):
            why = (
                f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
                f"ResourceVersion in record ({entry.rv}). The object might have been modified"
            )
            raise conflict(resource.group, resource.kind, route.name, why)
        return entry

    def remove(self, resource: Resource, entry: Entry, options: DeleteOptions) -> Deleted:
        """The deletion itself, once it is allowed."""
        obj = entry.copy()
        meta = obj["metadata"]
        finalizers = _finalizers(meta, options.propagation)
        grace = self._grace(resource, obj, options)
        held = bool(finalizers) or grace > 0 or (resource.storage == "namespaces" and obj["spec"].get("finalizers"))
        if not held:
            if options.dry_run:
                return Deleted(obj, True)
            return Deleted(self.store.delete(resource.storage, *entry.key, entry.rv).obj, True)
        if finalizers:
            meta["finalizers"] = finalizers
        else:
            meta.pop("finalizers", None)
        already = meta.get("deletionTimestamp")
        if not already or grace < meta.get("deletionGracePeriodSeconds", 0):
            meta["deletionTimestamp"] = timestamp(self.store.clock.now() + timedelta(seconds=grace))
            meta["deletionGracePeriodSeconds"] = grace
        if not already:
            if meta.get("generation"):
                meta["generation"] += 1
            if resource.storage == "namespaces":
                obj.setdefault("status", {})["phase"] = "Terminating"
        if options.dry_run or obj == entry.obj:
            return Deleted(obj, False)
        return Deleted(self.store.update(resource.storage, obj, entry.rv).obj, False)

    @staticmethod
    def _grace(resource: Resource, obj: JsonObject, options: DeleteOptions) -> int:
        """Pods alone have a grace period, and only while a kubelet runs them."""
        if resource.storage != "pods":
            return 0
        meta = obj["metadata"]
        phase = (obj.get("status") or {}).get("phase")
        if not (obj.get("spec") or {}).get("nodeName") or phase in ("Succeeded", "Failed"):
            return 0
        grace = options.grace
        if grace is None:
            grace = (obj.get("spec") or {}).get("terminationGracePeriodSeconds")
        grace = DEFAULT_GRACE if grace is None else int(grace)
        if meta.get("deletionTimestamp"):
            return min(grace, int(meta.get("deletionGracePeriodSeconds") or 0))
        return grace


def _finalizers(meta: JsonObject, propagation: str) -> list[str]:
    kept = [name for name in meta.get("finalizers") or () if not propagation or name not in (ORPHAN, FOREGROUND)]
    if propagation == "Orphan":
        kept.append(ORPHAN)
    elif propagation == "Foreground":
        kept.append(FOREGROUND)
    return kept
