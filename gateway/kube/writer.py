"""Every write of the gateway: guarded by the fence, with its precondition, in a span, counted.

A write carries the uid and resourceVersion it was decided on, so that a stale decision ends as a Conflict and never
overwrites anything (design 2, rule 4).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from opentelemetry.trace import SpanKind, Status, StatusCode

from gateway.kube import events, metrics
from gateway.kube.client import JSON_PATCH, MERGE_PATCH, KubeClient, WriteOptions
from gateway.kube.errors import AlreadyExists, BadRequest, Conflict, KubeError, NotFound, NotLeader
from gateway.kube.kinds import EVENT, Kind, by_api
from gateway.kube.objects import CachedObject, dumps
from ome.common.v1 import common_pb2
from services.kit import tracing

_VERBS = {
    common_pb2.VERB_CREATE: "create",
    common_pb2.VERB_UPDATE: "update",
    common_pb2.VERB_MERGE_PATCH: "merge_patch",
    common_pb2.VERB_JSON_PATCH: "json_patch",
    common_pb2.VERB_SCALE: "scale",
    common_pb2.VERB_DELETE: "delete",
}
_VALIDATION = {
    common_pb2.FIELD_VALIDATION_STRICT: "Strict",
    common_pb2.FIELD_VALIDATION_WARN: "Warn",
}


@dataclass(frozen=True, slots=True)
class WriteResult:
    """`rv` is the version the write returned (empty after DELETE), `obj` the object as stored; None after DELETE and
    SCALE, which do not answer it."""

    rv: str
    obj: CachedObject | None


class Writer:
    """Raises the KubeErrors of the API server, and NotLeader when the fence is down (nothing was sent then). It never
    repeats a write whose fate is unknown."""

    def __init__(self, client: KubeClient, fence: Callable[[], bool]) -> None:
        """`fence` answers whether this process may write at this very moment (`Election.may_write`)."""
        self._client = client
        self._fence = fence

    async def apply(self, write: common_pb2.Write, rv_override: str = "") -> WriteResult:
        """Does one write of an answer. `rv_override` replaces the precondition's resourceVersion (what an earlier write
        of this pass returned). BadRequest for a write that makes no sense, which is not sent."""
        target = write.target
        kind = by_api(target.api_version, target.kind)
        if kind is None:
            raise BadRequest(400, "Refused", f"{target.api_version} {target.kind}: not a kind the gateway writes")
        if not target.name:
            raise BadRequest(400, "Refused", f"{target.kind}: a write needs a name")
        verb = _VERBS.get(write.verb, "")
        if not verb:
            raise BadRequest(400, "Refused", f"{kind.kind} {target.name}: verb {write.verb} is not known")
        uid = write.precondition.uid
        rv = rv_override or write.precondition.resource_version
        with self._span(verb, kind, target.namespace, target.name, write.reason):
            options = WriteOptions(_VALIDATION.get(write.field_validation, ""), guard=self._guard)
            return await self._send(write, kind, uid, rv, options)

    async def patch_status(self, ref: common_pb2.ObjectRef, status_patch: bytes) -> WriteResult:
        """Writes the status subresource. `status_patch` is a JSON merge patch of the content of `.status`. `ref.uid`
        and `ref.resource_version` must be set and are the precondition: Conflict when the object has moved on."""
        kind = by_api(ref.api_version, ref.kind)
        if kind is None or not (ref.uid and ref.resource_version):
            raise BadRequest(400, "Refused", f"status of {ref.kind} {ref.name}: unknown kind, or no precondition")
        body = {"metadata": _precondition(ref.uid, ref.resource_version), "status": _json(status_patch)}
        with self._span("patch_status", kind, ref.namespace, ref.name, "Status"):
            obj = await self._client.patch(
                kind, ref.namespace, ref.name, dumps(body), MERGE_PATCH, "status", self._options
            )
            return WriteResult(obj.resource_version, obj)

    async def event(
        self, event: common_pb2.Event, regarding: common_pb2.ObjectRef, now: datetime
    ) -> WriteResult | None:
        """Creates an Event about `event.regarding`, or `regarding` where it names none. When one of this key is there:
        with repeat COUNT or ON_CHANGE its count, time and text are brought up to date, with ONCE it is left alone
        (answers None)."""
        body = events.body(event, regarding, now, tracing.trace_id())
        namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
        with self._span("event", EVENT, namespace, name, event.reason):
            try:
                return _result(await self._client.create(EVENT, namespace, dumps(body), self._options))
            except AlreadyExists:
                if event.repeat not in (common_pb2.EVENT_REPEAT_COUNT, common_pb2.EVENT_REPEAT_ON_CHANGE):
                    return None
            return await self._repeat(body)

    async def _repeat(self, body: dict[str, Any]) -> WriteResult:
        """Raises the count of an Event that exists. Lost compare-and-set, or expired meanwhile: once more."""
        namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
        for last in (False, True):
            try:
                stored = await self._client.get(EVENT, namespace, name)
                patch = dumps(events.again(stored.json(), body))
                return _result(await self._client.patch(EVENT, namespace, name, patch, MERGE_PATCH, "", self._options))
            except Conflict:
                if last:
                    raise
            except NotFound:
                if last:
                    raise
                with contextlib.suppress(AlreadyExists):
                    return _result(await self._client.create(EVENT, namespace, dumps(body), self._options))
        raise AssertionError("unreachable")

    async def _send(self, write: common_pb2.Write, kind: Kind, uid: str, rv: str, options: WriteOptions) -> WriteResult:
        namespace, name = write.target.namespace, write.target.name
        if write.verb == common_pb2.VERB_CREATE:
            return _result(await self._client.create(kind, namespace, _whole(write, kind, "", ""), options))
        if write.verb == common_pb2.VERB_UPDATE:
            return _result(await self._client.update(kind, namespace, name, _whole(write, kind, uid, rv), options))
        if write.verb == common_pb2.VERB_MERGE_PATCH:
            patch = _with_metadata(_json(write.json), _precondition(uid, rv))
            return _result(await self._client.patch(kind, namespace, name, patch, MERGE_PATCH, "", options))
        if write.verb == common_pb2.VERB_JSON_PATCH:
            patch = _operations(write.json, uid, rv)
            return _result(await self._client.patch(kind, namespace, name, patch, JSON_PATCH, "", options))
        if write.verb == common_pb2.VERB_SCALE:
            if write.WhichOneof("body") != "replicas" or write.replicas < 0:
                raise BadRequest(400, "Refused", f"scale {kind.kind} {name}: replicas must be 0 or more")
            body = {"metadata": _precondition(uid, rv), "spec": {"replicas": write.replicas}}
            scale = await self._client.patch(kind, namespace, name, dumps(body), MERGE_PATCH, "scale", options)
            return WriteResult(scale.resource_version, None)
        if write.verb == common_pb2.VERB_DELETE:
            await self._client.delete(kind, namespace, name, uid, rv, options)
            return WriteResult("", None)
        raise AssertionError(write.verb)

    @property
    def _options(self) -> WriteOptions:
        return WriteOptions(guard=self._guard)

    def _guard(self) -> None:
        if not self._fence():
            raise NotLeader

    @contextlib.contextmanager
    def _span(self, verb: str, kind: Kind, namespace: str, name: str, reason: str) -> Iterator[None]:
        """The span `kube.write` and the counters around one write."""
        attributes = {
            "k8s.verb": verb,
            "k8s.kind": kind.kind,
            "k8s.namespace.name": namespace,
            "k8s.object.name": name,
            "ome.write.reason": reason,
        }
        result = "error"
        with tracing.tracer().start_as_current_span(
            "kube.write", kind=SpanKind.CLIENT, attributes=attributes, record_exception=False
        ) as span:
            try:
                self._guard()
                yield
                result = "ok"
            except KubeError as error:
                result = error.result
                span.set_status(Status(StatusCode.ERROR, str(error)))
                if isinstance(error, Conflict):
                    metrics.CONFLICTS.labels(kind.kind).inc()
                raise
            finally:
                span.set_attribute("ome.write.result", result)
                metrics.WRITES.labels(verb, result).inc()


def _result(obj: CachedObject) -> WriteResult:
    return WriteResult(obj.resource_version, obj)


def _precondition(uid: str, rv: str) -> dict[str, str]:
    return {key: value for key, value in (("uid", uid), ("resourceVersion", rv)) if value}


def _json(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BadRequest(400, "Refused", f"the body of a write is not JSON: {error}") from error


def _dumps(value: Any) -> bytes:
    try:
        return dumps(value)
    except TypeError as error:
        raise BadRequest(400, "Refused", f"the body of a write cannot be encoded: {error}") from error


def _with_metadata(value: Any, metadata: dict[str, str]) -> bytes:
    """The object or merge patch with its precondition in it."""
    if not isinstance(value, dict) or not isinstance(value.get("metadata", {}), dict):
        raise BadRequest(400, "Refused", "the body of a write is not an object")
    return _dumps(value | {"metadata": value.get("metadata", {}) | metadata} if metadata else value)


def _whole(write: common_pb2.Write, kind: Kind, uid: str, rv: str) -> bytes:
    """The body of a create or update, which must be the object that the write names."""
    value = _json(write.json)
    metadata = value.get("metadata") if isinstance(value, dict) else None
    if not isinstance(metadata, dict):
        raise BadRequest(400, "Refused", "the body of a write is not an object with metadata")
    named = (value.get("apiVersion"), value.get("kind"), metadata.get("namespace") or "", metadata.get("name"))
    if named != (kind.api_version, kind.kind, write.target.namespace, write.target.name):
        raise BadRequest(400, "Refused", f"the body of a write is {named}, not its target {write.target.name}")
    # Bytes that need no precondition go out as the service made them.
    return _with_metadata(value, _precondition(uid, rv)) if uid or rv else write.json


def _operations(data: bytes, uid: str, rv: str) -> bytes:
    """A JSON patch with its precondition. Replacing a version by the expected one is compare-and-set: the API server
    answers a difference with a Conflict, where a `test` would be a mere refusal."""
    value = _json(data)
    if not isinstance(value, list):
        raise BadRequest(400, "Refused", "a JSON patch is not a list of operations")
    first = [
        {"op": "replace", "path": f"/metadata/{key}", "value": text} for key, text in _precondition(uid, rv).items()
    ]
    return _dumps(first + value)
