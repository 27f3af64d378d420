"""Requests to the API server: raw JSON over a transport, no model classes.

Every method raises the exceptions of `gateway.kube.errors`. None retries: the caller knows whether it may.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from gateway.kube import config, errors, spans
from gateway.kube.errors import BadRequest, KindMissing, KubeError
from gateway.kube.kinds import Kind
from gateway.kube.objects import CachedObject, Malformed, from_bytes, from_value
from gateway.kube.transport import AioTransport, Answer, Call, Transport

Obj = CachedObject
Guard = Callable[[], None]
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
JSON = "application/json"
FIELD_MANAGER = "ome-rollouts"
READ_SECONDS = 30.0
LIST_SECONDS = 60.0
WRITE_SECONDS = 5.0
"""Shorter than a lease lasts beyond its renew deadline, so that no write is under way when another may lead."""


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list; `continue_token` is empty on the last one."""

    items: list[CachedObject]
    resource_version: str
    continue_token: str


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """ADDED, MODIFIED, DELETED with the object; BOOKMARK without one; OPENED once the server accepted the watch."""

    type: str
    resource_version: str
    obj: CachedObject | None = None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """`field_validation` is Strict, Warn, Ignore or empty (the server's default). `guard` runs right before the request
    goes out and stops it by raising."""

    field_validation: str = ""
    dry_run: bool = False
    guard: Guard | None = None

    def query(self) -> dict[str, str]:
        """As query parameters."""
        query = {"fieldManager": FIELD_MANAGER}
        if self.field_validation:
            query["fieldValidation"] = self.field_validation
        if self.dry_run:
            query["dryRun"] = "All"
        return query


DEFAULT = WriteOptions()


class KubeClient:
    """One API server. Objects go out as JSON bytes and come back as CachedObject."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(self, kind: Kind, namespace: str, name: str) -> Obj:
        """One object, read from the store itself. NotFound only when the object is known not to exist: a kind that is
        not served is KindMissing."""
        call = Call("GET", _path(kind, namespace, name), {}, timeout=READ_SECONDS)
        return await self._object(kind, call, f"get {_what(kind, namespace, name)}", name)

    async def list(
        self, kind: Kind, namespace: str = "", *, limit: int = 500, continue_token: str = "", labels: str = ""
    ) -> Page:
        """One page of a consistent list (limit 0: all of it). `labels` is a selector. Gone when the token expired."""
        _listed(kind)
        query = {"limit": str(limit)} if limit else {}
        if continue_token:
            query["continue"] = continue_token
        if labels:
            query["labelSelector"] = labels
        action = f"list {_what(kind, namespace)}"
        answer = await self._transport.request(Call("GET", _path(kind, namespace), query, timeout=LIST_SECONDS))
        _check(kind, answer, action)
        try:
            return _page(kind, answer.body)
        except ValueError as error:
            raise KubeError(200, "Malformed", f"{action}: the answer is no list: {error}") from error

    async def create(self, kind: Kind, namespace: str, obj: bytes, options: WriteOptions = DEFAULT) -> Obj:
        """POST; AlreadyExists when the name is taken."""
        call = _write("POST", _path(kind, namespace), obj, JSON, options)
        return await self._object(kind, call, f"create {_what(kind, namespace)}")

    async def update(self, kind: Kind, namespace: str, name: str, obj: bytes, options: WriteOptions = DEFAULT) -> Obj:
        """PUT of the whole object; the precondition stands in its metadata."""
        call = _write("PUT", _path(kind, namespace, name), obj, JSON, options)
        return await self._object(kind, call, f"update {_what(kind, namespace, name)}", name)

    async def patch(
        self, kind: Kind, namespace: str, name: str, patch: bytes, content_type: str = MERGE_PATCH,
        subresource: str = "", options: WriteOptions = DEFAULT,
    ) -> Obj:  # fmt: skip
        """PATCH of the object or a subresource; the precondition stands in the patch. The answer of `scale` is a Scale
        with the object's identity and version."""
        call = _write("PATCH", _path(kind, namespace, name, subresource), patch, content_type, options)
        what = _what(kind, namespace, name) + (f" {subresource}" if subresource else "")
        return await self._object(kind, call, f"patch {what}", name)

    async def delete(
        self, kind: Kind, namespace: str, name: str, uid: str = "", rv: str = "", options: WriteOptions = DEFAULT
    ) -> None:
        """DELETE with preconditions (empty: not tested), dependents in the background. NotFound when it is gone."""
        conditions = {"uid": uid, "resourceVersion": rv}
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid or rv:
            body["preconditions"] = {key: value for key, value in conditions.items() if value}
        query = {"dryRun": "All"} if options.dry_run else {}
        call = Call(
            "DELETE", _path(kind, namespace, name), query, orjson.dumps(body), JSON, WRITE_SECONDS, options.guard
        )
        answer = await self._transport.request(call)
        _check(kind, answer, f"delete {_what(kind, namespace, name)}", name)

    async def watch(self, kind: Kind, namespace: str, rv: str, timeout_seconds: int) -> AsyncIterator[WatchEvent]:
        """Events after `rv`, bookmarks included, until the server ends the watch (after `timeout_seconds`, or sooner).
        Gone when `rv` is too old, also in the form of an ERROR event; Unreachable when the connection breaks."""
        _listed(kind)
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": rv,
            "timeoutSeconds": str(timeout_seconds),
        }
        action = f"watch {_what(kind, namespace)}"
        async with self._transport.stream(Call("GET", _path(kind, namespace), query, timeout=READ_SECONDS)) as stream:
            if stream.status != 200:
                body = b"".join([chunk async for chunk in stream.chunks])
                _check(kind, Answer(stream.status, stream.headers, body), action)
            yield WatchEvent("OPENED", rv)
            async for line in _lines(stream.chunks):
                try:
                    event = _event(kind, line, action)
                except ValueError as error:
                    raise KubeError(200, "Malformed", f"{action}: an event is not understood: {error}") from error
                yield event

    async def close(self) -> None:
        """Ends all connections."""
        await self._transport.close()

    async def _object(self, kind: Kind, call: Call, action: str, name: str = "") -> Obj:
        answer = await self._transport.request(call)
        _check(kind, answer, action, name)
        try:
            return from_bytes(kind, answer.body)
        except Malformed as error:
            raise KubeError(answer.status, "Malformed", f"{action}: {error}") from error


async def connect(kubeconfig: str = "", env: Mapping[str, str] | None = None) -> KubeClient:
    """The client for a kubeconfig; empty: KUBECONFIG, the pod's service account, ~/.kube/config, in this order.
    ConfigError, with one line for the user, when the configuration cannot be used. Nothing is sent yet."""
    connection = await (config.connect(kubeconfig) if env is None else config.connect(kubeconfig, env))
    return KubeClient(AioTransport(connection))


def _path(kind: Kind, namespace: str, name: str = "", subresource: str = "") -> str:
    try:
        return kind.path(namespace, name, subresource)
    except ValueError as error:
        raise BadRequest(400, "Refused", str(error)) from error


def _listed(kind: Kind) -> None:
    if not kind.listed:
        raise BadRequest(400, "Refused", f"{kind.kind} is never listed or watched")


def _write(method: str, path: str, body: bytes, content_type: str, options: WriteOptions) -> Call:
    return Call(method, path, options.query(), body, content_type, WRITE_SECONDS, options.guard)


def _what(kind: Kind, namespace: str, name: str = "") -> str:
    place = "/".join(part for part in (namespace, name) if part)
    return f"{kind.resource} {place}" if place else kind.resource


def _check(kind: Kind, answer: Answer, action: str, name: str = "") -> None:
    """Raises for an answer that is no success."""
    if 200 <= answer.status < 300:
        return
    error = errors.from_body(answer.body, answer.status, action, answer.headers.get("retry-after", ""))
    # Only a Status that names something is about an object (or its namespace); else the path itself is unknown.
    if answer.status == 404 and not error.details.get("name"):
        text = f"{kind.kind} ({kind.api_version}) is not served by the API server; install its CRD"
        raise KindMissing(404, error.reason, text, error.details)
    raise error


def _page(kind: Kind, body: bytes) -> Page:
    """A list. Where its JSON is nested beyond what can be decoded at once, each object is taken for itself. ValueError
    when it is none."""
    try:
        value = orjson.loads(body)
        if not isinstance(value, dict):
            raise ValueError("not an object")
        metadata = value.get("metadata")
        items = [from_value(kind, item) for item in value.get("items") or ()]
    except (orjson.JSONDecodeError, TypeError):
        parts = dict(spans.members(body))
        metadata = orjson.loads(parts.get("metadata", b"null"))
        items = [from_bytes(kind, item) for item in spans.elements(parts.get("items", b"[]"))]
    if not isinstance(metadata, dict):
        raise ValueError("a list without metadata")
    return Page(items, str(metadata.get("resourceVersion") or ""), str(metadata.get("continue") or ""))


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Whole lines of any length; what is left without a line's end is dropped with the connection that broke."""
    pending: builtins.list[bytes] = []
    async for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            pending.append(line)
            joined = b"".join(pending)
            pending.clear()
            if joined.strip():
                yield joined
        if rest:
            pending.append(rest)


def _event(kind: Kind, line: bytes, action: str) -> WatchEvent:
    """One frame of a watch. Raises what an ERROR event tells; ValueError when it is none."""
    try:
        value = orjson.loads(line)
        if not isinstance(value, dict):
            raise ValueError("not an object")
        event, body = value.get("type"), value.get("object")
        if event in ("ADDED", "MODIFIED", "DELETED"):
            held = from_value(kind, body)
            return WatchEvent(str(event), held.resource_version, held)
    except (orjson.JSONDecodeError, TypeError):
        parts = dict(spans.members(line))
        event = orjson.loads(parts.get("type", b"null"))
        if event not in ("ADDED", "MODIFIED", "DELETED"):
            raise ValueError(f"unknown event {event!r}") from None
        held = from_bytes(kind, parts.get("object", b""))
        return WatchEvent(str(event), held.resource_version, held)
    status = body if isinstance(body, dict) else {}
    if event == "ERROR":
        code = status.get("code")
        raise errors.from_status(status, code if isinstance(code, int) else 500, action)
    if event == "BOOKMARK":
        metadata = status.get("metadata")
        return WatchEvent("BOOKMARK", str((metadata or {}).get("resourceVersion") or ""))
    raise ValueError(f"unknown event {event!r}")
