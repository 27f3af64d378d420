"""The API server without sockets: one request in, one answer or watch out."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sandbox.api import discovery, patches, reader, scale, versions
from sandbox.api.access import Users, review_access
from sandbox.api.admission import Admission, WebhookAnswer, WebhookCall
from sandbox.api.catalog import builtin_resources, custom_model
from sandbox.api.collector import Collector
from sandbox.api.crds import CrdController
from sandbox.api.deleter import RETURNS_OBJECT, DeleteOptions, Deleter, read_options
from sandbox.api.forms import Wanted, negotiate
from sandbox.api.messages import Request, Response, json_response
from sandbox.api.openapi import OpenApi
from sandbox.api.resources import Registry, Resource
from sandbox.api.routes import Route, integer, parse, revision, write_options
from sandbox.api.selectors import selection
from sandbox.api.status import StatusError, method_not_allowed
from sandbox.api.watch import Watch, too_old
from sandbox.api.writer import Steps, Writer, Written, read_body
from sandbox.jsontypes import JsonObject
from sandbox.store import Expired, Store

Answer = Response | Watch
SYSTEM_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


def refuse_webhooks(call: WebhookCall) -> WebhookAnswer:
    """The webhook caller of a server that has no network: every call fails, and the failure policy decides."""
    return ConnectionError(f'Post "{call.url}": no network in this process')


class ApiServer:
    """A Kubernetes API server over a ``Store``. Not safe for use from several threads."""

    def __init__(
        self,
        store: Store,
        users: Users | None = None,
        seed: int | None = None,
        call_webhook: Callable[[WebhookCall], WebhookAnswer] = refuse_webhooks,
    ) -> None:
        """``users`` None lets all in as admin; ``seed`` fixes generated names; ``call_webhook`` serves ``handle``."""
        self.store = store
        self.users = users
        self.registry = Registry(builtin_resources())
        self.admission = Admission(store)
        self.writer = Writer(store, self.admission, random.Random(seed))
        self.deleter = Deleter(store, self.admission)
        self.crds = CrdController(store, self.registry, self.deleter, custom_model)
        self.collector = Collector(store, self.registry, self.deleter)
        self.openapi = OpenApi(self.registry)
        self._call_webhook = call_webhook
        for name in SYSTEM_NAMESPACES:
            self._bootstrap(name)

    def _bootstrap(self, name: str) -> None:
        if self.store.get("namespaces", "", name) is None:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            self.handle(Request.of("POST", "/api/v1/namespaces?fieldManager=kube-apiserver", body))

    def collect(self) -> int:
        """Runs garbage collection and namespace deletion until nothing is left to do; answers the number of changes."""
        return self.collector.collect()

    def handle(self, request: Request) -> Answer:
        """Answers a request, calling webhooks synchronously through ``call_webhook``."""
        steps = self.steps(request)
        try:
            call = next(steps)
            while True:
                call = steps.send(self._call_webhook(call))
        except StopIteration as end:
            answer: Answer = end.value
            return answer

    def steps(self, request: Request) -> Generator[WebhookCall, WebhookAnswer, Answer]:
        """Answers a request as a generator: yields webhook calls, is sent their answers, returns the answer."""
        try:
            return (yield from self._route(request))
        except StatusError as error:
            return error_response(error)

    def _route(self, request: Request) -> Steps[Answer]:
        if request.path.strip("/").split("/")[0] in discovery.PUBLIC:
            return discovery.answer(self.registry, self.openapi, request)
        user = self._user(request)
        route = parse(request.path)
        if route is None:
            return discovery.answer(self.registry, self.openapi, request)
        review = review_access(self, route, request, user)
        if review is not None:
            return review
        resource = self.registry.find(route.group, route.version, route.plural)
        if resource is None or not _reachable(resource, route, request):
            return discovery.page_not_found()
        if not route.name:
            return (yield from self._collection(resource, route, request, user))
        if route.subresource:
            return (yield from self._subresource(resource, route, request, user))
        return (yield from self._object(resource, route, request, user))

    def _user(self, request: Request) -> JsonObject:
        if self.users is None:
            return {"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]}
        return self.users.authenticate(request.header("authorization"))

    def _collection(self, resource: Resource, route: Route, request: Request, user: JsonObject) -> Steps[Answer]:
        match request.method:
            case "GET" | "HEAD":
                wanted = negotiate(request)
                if request.flag("watch"):
                    return self._watch(resource, route, request, wanted)
                return reader.read_list(self.store, resource, route, request.query, wanted)
            case "POST":
                wanted = negotiate(request, single=True)
                options = write_options(request)
                obj, faults = read_body(resource, request, options)
                written = yield from self.writer.create(resource, route, obj, options, user, faults)
                return self._written(resource, written, wanted)
            case "DELETE":
                return (yield from self._delete_collection(resource, route, request, user))
            case _:
                raise method_not_allowed()

    def _object(self, resource: Resource, route: Route, request: Request, user: JsonObject) -> Steps[Answer]:
        wanted = negotiate(request, single=True)
        match request.method:
            case "GET" | "HEAD":
                if request.flag("watch"):
                    selector = f"metadata.name={route.name}"
                    request = replace(request, query={**request.query, "fieldSelector": selector})
                    return self._watch(resource, replace(route, name=""), request, wanted)
                return reader.read_one(self.store, resource, route, wanted)
            case "PUT":
                return (yield from self._put(resource, route, request, user, wanted))
            case "PATCH":
                written = yield from patches.patch(self.writer, resource, route, request, user)
                return self._written(resource, written, wanted)
            case "DELETE":
                return (yield from self._delete(resource, route, request, user, wanted))
            case _:
                raise method_not_allowed()

    def _put(
        self, resource: Resource, route: Route, request: Request, user: JsonObject, wanted: Wanted
    ) -> Steps[Answer]:
        options = write_options(request)
        obj, faults = read_body(resource, request, options)
        written = yield from self.writer.replace(resource, route, obj, options, user, faults)
        return self._written(resource, written, wanted)

    def _subresource(self, resource: Resource, route: Route, request: Request, user: JsonObject) -> Steps[Answer]:
        if route.subresource == "scale" and resource.scale:
            return (yield from scale.answer(self.writer, resource, route, request, user))
        if route.subresource == "status" and resource.status:
            if request.method == "DELETE":
                raise method_not_allowed()
            return (yield from self._object(resource, route, request, user))
        if route.subresource == "finalize" and resource.storage == "namespaces" and request.method == "PUT":
            return (yield from self._put(resource, route, request, user, Wanted()))
        return discovery.page_not_found()

    def _delete(
        self, resource: Resource, route: Route, request: Request, user: JsonObject, wanted: Wanted
    ) -> Steps[Answer]:
        options = read_options(request)
        deleted = yield from self.deleter.delete(resource, route, options, user)
        obj = versions.in_version(resource, deleted.obj)
        if not deleted.gone or resource.storage in RETURNS_OBJECT:
            accepted = not deleted.gone and options.propagation in ("Background", "Foreground")
            return reader.shaped(self.store, resource, obj, wanted, 202 if accepted else 200)
        details = {"name": route.name, "group": resource.group, "kind": resource.plural, "uid": obj["metadata"]["uid"]}
        if not resource.group:
            del details["group"]
        body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return json_response(body)

    def _delete_collection(self, resource: Resource, route: Route, request: Request, user: JsonObject) -> Steps[Answer]:
        if "deletecollection" not in resource.verbs:
            raise method_not_allowed()
        options: DeleteOptions = read_options(request)
        query = {key: value for key, value in request.query.items() if key not in ("limit", "continue")}
        matches = selection(resource, query)
        entries = [
            e for e in self.store.list(resource.storage, route.namespace or None) if not matches or matches(e.obj)
        ]
        removed = []
        for entry in entries:
            one = replace(route, name=entry.name, namespace=entry.namespace)
            try:
                deleted = yield from self.deleter.delete(resource, one, options, user)
            except StatusError as error:
                if error.code != 404:
                    raise
                continue
            removed.append(versions.in_version(resource, deleted.obj))
        meta = {"resourceVersion": str(self.store.revision)}
        kind, version = resource.list_name, resource.api_version
        return json_response({"kind": kind, "apiVersion": version, "metadata": meta, "items": removed})

    def _written(self, resource: Resource, written: Written, wanted: Wanted) -> Response:
        status = 201 if written.created else 200
        if written.entry is not None and not wanted.form:
            body = versions.encoded(resource, written.entry)
            return json_response(body, status, warnings=tuple(written.warnings))
        obj = versions.in_version(resource, written.obj)
        return reader.shaped(self.store, resource, obj, wanted, status, tuple(written.warnings))

    def _watch(self, resource: Resource, route: Route, request: Request, wanted: Wanted) -> Answer:
        query: dict[str, Any] = dict(request.query)
        matches = selection(resource, query)
        seconds = integer(request, "timeoutSeconds")
        timeout = timedelta(seconds=seconds) if seconds else None
        bookmarks = request.flag("allowWatchBookmarks")
        watch = Watch(self.store, resource, route.namespace or None, matches, wanted, bookmarks, timeout)
        given = query.get("resourceVersion", "")
        since = revision(given) if given else 0
        send_initial = request.flag("sendInitialEvents")
        if "sendInitialEvents" in query:
            _check_initial(query, bookmarks)
        if since > self.store.revision:
            raise reader.too_new(since, self.store.revision)
        try:
            initial = send_initial or (since == 0 and "sendInitialEvents" not in query)
            watch.start(since or None, initial, send_initial)
        except Expired:
            watch.fail(too_old(since, self.store.floor(resource.storage)))
        return watch


def _reachable(resource: Resource, route: Route, request: Request) -> bool:
    """Whether a path with or without a namespace exists for a resource; 405 where only reading all of it does."""
    if not resource.namespaced:
        return not route.namespace
    if route.namespace or (not route.name and request.method in ("GET", "HEAD")):
        return True
    if route.name or resource.custom:
        return False
    raise method_not_allowed()


def _check_initial(query: dict[str, Any], bookmarks: bool) -> None:
    if query.get("resourceVersionMatch") != "NotOlderThan":
        raise reader.bad_list_option(
            "resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        )
    if not bookmarks and str(query["sendInitialEvents"]).lower() not in ("false", "0"):
        raise reader.bad_list_option("sendInitialEvents", "sendInitialEvents requires allowWatchBookmarks")


def error_response(error: StatusError) -> Response:
    """A failure as an answer."""
    response = json_response(error.body(), error.code)
    if error.code in (429, 503):
        return replace(response, headers={**response.headers, "Retry-After": "1"})
    return response
