"""Create, update, patch and apply: one pipeline for every way an object changes.

Its methods are generators: they yield the calls of admission webhooks and are sent the answers, so that the same code
runs with and without an event loop. Nothing is written before the last yield.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from typing import TypeVar

import orjson

from sandbox.api import addresses, bodies, managedfields, metadata, strategy, versions
from sandbox.api.admission import Admission, Attempt, WebhookAnswer, WebhookCall
from sandbox.api.messages import Request
from sandbox.api.resources import Resource
from sandbox.api.routes import Route, WriteOptions
from sandbox.api.status import already_exists, bad_request, cause, conflict, forbidden, invalid, not_found
from sandbox.jsontypes import JsonObject
from sandbox.store import Entry, Store, StoreConflict, StoreExists, StoreMissing

T = TypeVar("T")
Steps = Generator[WebhookCall, WebhookAnswer, T]
Change = Callable[[JsonObject], JsonObject]
RETRIES = 5
GENERATE_TRIES = 8
PROTECTED_NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})


class Written:
    """What a write ends in: the object (stored or, in a dry run, not) and the warnings for the caller."""

    def __init__(self, obj: JsonObject, warnings: list[str], entry: Entry | None = None, created: bool = False) -> None:
        self.obj = obj
        self.warnings = warnings
        self.entry = entry
        self.created = created


class Writer:
    """The write side of the API over a store."""

    def __init__(self, store: Store, admission: Admission, rand: random.Random) -> None:
        self.store = store
        self.admission = admission
        self._rand = rand

    def create(
        self,
        resource: Resource,
        route: Route,
        obj: JsonObject,
        options: WriteOptions,
        user: JsonObject,
        unknown: list[str] | None = None,
        manage: bool = True,
    ) -> Steps[Written]:
        """Creates ``obj``. ``unknown`` are faults of the body's decoding, ``manage`` records the manager's fields."""
        meta = metadata.metadata_of(obj)
        bodies.check_type(resource, obj)
        metadata.check_namespace(resource, meta, route.namespace)
        if meta.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        self._check_namespace_exists(resource, meta)
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = self._free_name(resource, meta)
        obj, warnings = _decode(resource, obj, options, unknown or [])
        if not obj["metadata"].get("name"):
            metadata.refuse(resource, "", metadata.meta_causes(resource, obj["metadata"]))
        strategy.prepare_create(resource, obj, self.store.clock.now())
        obj = _default(resource, obj)
        if resource.storage == addresses.BUCKET:
            addresses.allot(self.store, obj)
        causes = metadata.meta_causes(resource, obj["metadata"])
        attempt = Attempt("CREATE", resource, "", obj, None, options.dry_run, user)
        metadata.refuse(resource, obj["metadata"].get("name", ""), causes)
        _validate(resource, obj, None)
        if manage:
            managedfields.record_update(resource, {}, obj, options.field_manager, "", self.store.clock.now())
        warnings += yield from self.admission.review(attempt)
        return self._store_new(resource, obj, options, warnings)

    def _free_name(self, resource: Resource, meta: JsonObject) -> str:
        for _ in range(GENERATE_TRIES):
            name = metadata.generate_name(meta["generateName"], self._rand)
            if self.store.get(resource.storage, meta.get("namespace", ""), name) is None:
                break
        return name

    def _store_new(self, resource: Resource, obj: JsonObject, options: WriteOptions, warnings: list[str]) -> Written:
        meta = obj["metadata"]
        self._check_namespace_exists(resource, meta)
        name = meta["name"]
        if self.store.get(resource.storage, meta.get("namespace", ""), name) is not None:
            raise already_exists(resource.group, resource.plural, name)
        if options.dry_run:
            meta["uid"] = self.store.new_uid()
            return Written(obj, warnings, created=True)
        obj = versions.to_storage(resource, obj, resource.stored_as or resource.api_version)
        try:
            entry = self.store.create(resource.storage, obj)
        except StoreExists:
            raise already_exists(resource.group, resource.plural, name) from None
        return Written(entry.obj, warnings, entry, created=True)

    def _check_namespace_exists(self, resource: Resource, meta: JsonObject) -> None:
        if not resource.namespaced:
            return
        namespace = meta.get("namespace", "")
        entry = self.store.get("namespaces", "", namespace)
        if entry is None:
            raise not_found("", "namespaces", namespace)
        if entry.obj["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            told = cause("metadata.namespace", "NamespaceTerminating", f"namespace {namespace} is being terminated")
            raise forbidden(resource.group, resource.plural, meta.get("name", ""), why, [told])

    def modify(
        self,
        resource: Resource,
        route: Route,
        change: Change,
        options: WriteOptions,
        user: JsonObject,
        unknown: list[str] | None = None,
        manage: bool = True,
    ) -> Steps[Written]:
        """Applies ``change`` to a copy of the current object and stores the result, or finds nothing to store.

        When another write comes between, the change is tried again on its result: a change that carries a
        resourceVersion then conflicts, any other applies.
        """
        for _ in range(RETRIES):
            entry = self.store.get(resource.storage, route.namespace, route.name)
            if entry is None:
                raise not_found(resource.group, resource.plural, route.name)
            current = versions.in_version(resource, entry.copy())
            proposed = change(versions.in_version(resource, entry.copy()))
            self._check_identity(resource, route, proposed, current)
            obj, warnings = _decode(resource, proposed, options, unknown or [])
            obj = self._prepare(resource, route, obj, current, options, manage)
            attempt = Attempt("UPDATE", resource, route.subresource, obj, current, options.dry_run, user)
            warnings += yield from self.admission.review(attempt)
            try:
                return self._commit(resource, entry, obj, options, warnings)
            except StoreConflict:
                continue
            except StoreMissing:
                raise not_found(resource.group, resource.plural, route.name) from None
        raise conflict(resource.group, resource.plural, route.name)

    def replace(
        self,
        resource: Resource,
        route: Route,
        obj: JsonObject,
        options: WriteOptions,
        user: JsonObject,
        unknown: list[str] | None = None,
    ) -> Steps[Written]:
        """PUT: replaces an object; a few kinds are created when absent."""
        absent = self.store.get(resource.storage, route.namespace, route.name) is None
        if absent and resource.storage in strategy.CREATE_ON_UPDATE and not route.subresource:
            metadata.metadata_of(obj).setdefault("name", route.name)
            return (yield from self.create(resource, route, obj, options, user, unknown))
        text = orjson.dumps(obj)
        return (yield from self.modify(resource, route, lambda _: orjson.loads(text), options, user, unknown))

    def _check_identity(self, resource: Resource, route: Route, obj: JsonObject, current: JsonObject) -> None:
        """Names, uid and resourceVersion of an update."""
        bodies.check_type(resource, obj)
        meta = metadata.metadata_of(obj)
        metadata.check_namespace(resource, meta, route.namespace)
        if not meta.get("name"):
            meta["name"] = route.name
        if meta["name"] != route.name:
            raise bad_request(
                f"the name of the object ({meta['name']}) does not match the name on the URL ({route.name})"
            )
        old = current["metadata"]
        if meta.get("uid") and meta["uid"] != old.get("uid"):
            kind = resource.plural if not resource.custom else f"{resource.group}/{resource.plural}"
            key = "/".join(filter(None, ("/registry", kind, route.namespace, route.name)))
            why = (
                f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
                f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {old.get('uid')}"
            )
            raise conflict(resource.group, resource.plural, route.name, why)
        given = meta.get("resourceVersion")
        if given in (None, "", "0"):
            if resource.custom or resource.storage in strategy.UNCONDITIONAL_REFUSED:
                text = "Invalid value: 0x0: must be specified for an update"
                told = cause("metadata.resourceVersion", "FieldValueInvalid", text)
                raise invalid(resource.group, resource.kind, route.name, [told])
            return
        if given != old["resourceVersion"]:
            if not str(given).isdigit():
                text = f'Invalid value: "{given}": strconv.ParseUint: parsing "{given}": invalid syntax'
                raise invalid(
                    resource.group,
                    resource.kind,
                    route.name,
                    [cause("metadata.resourceVersion", "FieldValueInvalid", text)],
                )
            raise conflict(resource.group, resource.plural, route.name)

    def _prepare(
        self,
        resource: Resource,
        route: Route,
        obj: JsonObject,
        current: JsonObject,
        options: WriteOptions,
        manage: bool,
    ) -> JsonObject:
        causes = metadata.check_update(resource, obj["metadata"], current["metadata"])
        metadata.refuse(resource, route.name, causes + metadata.meta_causes(resource, obj["metadata"]))
        obj = strategy.prepare_update(resource, _default(resource, obj), current, route.subresource)
        strategy.check_immutable(resource, obj, current)
        _validate(resource, obj, current, route.subresource)
        if manage:
            now = self.store.clock.now()
            managedfields.record_update(resource, current, obj, options.field_manager, route.subresource, now)
        return obj

    def _commit(
        self, resource: Resource, entry: Entry, obj: JsonObject, options: WriteOptions, warnings: list[str]
    ) -> Written:
        obj = versions.to_storage(resource, obj, entry.obj["apiVersion"])
        meta = obj["metadata"]
        meta["resourceVersion"] = str(entry.rv)
        current = self.store.get(resource.storage, entry.namespace, entry.name)
        if current is None:
            raise StoreMissing(entry.name)
        if current is not entry:
            raise StoreConflict(entry.name)
        if _same(obj, entry.obj) or options.dry_run:
            return Written(obj, warnings, None if options.dry_run else entry)
        done = meta.get("deletionTimestamp") and not meta.get("finalizers")
        if done and not _lingers(resource, obj):
            gone = self.store.delete(resource.storage, entry.namespace, entry.name, entry.rv)
            return Written(obj, warnings, gone)
        stored = self.store.update(resource.storage, obj, entry.rv)
        return Written(stored.obj, warnings, stored)


def _lingers(resource: Resource, obj: JsonObject) -> bool:
    """Namespaces go by their own finalizers; a pod in its grace period waits for its kubelet."""
    if resource.storage == "namespaces":
        return bool((obj.get("spec") or {}).get("finalizers"))
    return bool(obj["metadata"].get("deletionGracePeriodSeconds"))


def _same(obj: JsonObject, stored: JsonObject) -> bool:
    """Whether a write changes nothing: times of managed fields alone do not count, and the stored ones are kept."""
    mine, theirs = obj["metadata"].get("managedFields"), stored["metadata"].get("managedFields")
    if not managedfields.same(mine, theirs):
        return False
    kept = {key: value for key, value in stored["metadata"].items() if key != "managedFields"}
    given = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    if kept != given or any(obj.get(key) != stored.get(key) for key in {*obj, *stored} - {"metadata", "apiVersion"}):
        return False
    if theirs is None:
        obj["metadata"].pop("managedFields", None)
    else:
        obj["metadata"]["managedFields"] = theirs
    return True


def _decode(
    resource: Resource, obj: JsonObject, options: WriteOptions, faults: list[str]
) -> tuple[JsonObject, list[str]]:
    """Prunes and checks unknown fields by ``fieldValidation``; answers the object and warnings."""
    decoded, unknown = resource.model.decode(obj) if resource.model else (obj, [])
    found = [*faults, *unknown]
    if not found or options.field_validation == "Ignore":
        return decoded, []
    if options.field_validation == "Strict":
        why = "strict decoding error: " + ", ".join(found)
        raise bodies.cannot_handle(resource, resource.kind, why)
    return decoded, found


def _default(resource: Resource, obj: JsonObject) -> JsonObject:
    return resource.model.default(obj) if resource.model else obj


def _validate(resource: Resource, obj: JsonObject, old: JsonObject | None, subresource: str = "") -> None:
    if resource.model:
        resource.model.validate(obj, old, subresource)


def read_body(resource: Resource, request: Request, options: WriteOptions) -> tuple[JsonObject, list[str]]:
    """The object of a create or update request, with the faults that strict decoding finds in its text."""
    obj = bodies.read_object(request, resource.kind)
    if options.field_validation == "Ignore" or bodies.media_type(request) != "application/json":
        return obj, []
    return obj, [f'duplicate field "{path}"' for path in bodies.duplicate_fields(request.body)]
