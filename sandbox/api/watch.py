"""Watches: a stream of frames that is filled by the store and emptied by whoever holds it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

import orjson

from sandbox.api import tables, versions
from sandbox.api.forms import Form, Wanted, partial
from sandbox.api.resources import Resource
from sandbox.api.selectors import Predicate
from sandbox.api.status import StatusError, expired
from sandbox.jsontypes import JsonObject
from sandbox.store import Entry, EventType, Store, StoreEvent

INITIAL_END = "k8s.io/initial-events-end"
BACKLOG = 10_000
"""How many frames may wait for a slow reader; then the watch ends, as the API server's does."""
BOOKMARK_EVERY = timedelta(seconds=60)


class Watch:
    """One watch. ``drain`` gives the frames that are ready; ``on_ready`` is called when there are new ones."""

    def __init__(
        self,
        store: Store,
        resource: Resource,
        namespace: str | None,
        matches: Predicate | None,
        wanted: Wanted,
        bookmarks: bool = False,
        timeout: timedelta | None = None,
    ) -> None:
        self.on_ready: Callable[[], None] = lambda: None
        self.content_type = "application/json"
        self.closed = False
        self._store = store
        self._resource = resource
        self._namespace = namespace
        self._matches = matches
        self._wanted = wanted
        self._bookmarks = bookmarks
        self.timeout_seconds = timeout.total_seconds() if timeout else None
        self._ends: datetime | None = store.clock.now() + timeout if timeout else None
        self._bookmark_every = BOOKMARK_EVERY
        self._next_bookmark = store.clock.now() + self._bookmark_every
        self._limit = BACKLOG
        self._pending: deque[bytes] = deque()
        self._stop: Callable[[], None] = lambda: None
        self._columns_sent = False
        self.revision = 0
        """Everything up to this revision has been told."""

    def start(self, since: int | None, initial: bool, initial_end: bool) -> None:
        """Begins: the present objects first (``initial``), or everything after ``since``, then all later changes."""
        self._stop = self._store.subscribe(self._on_event, self._resource.storage)
        if initial:
            present = self._store.list(self._resource.storage, self._namespace)
            self._limit = BACKLOG + len(present)
            for entry in present:
                if self._selects(entry):
                    self._emit(StoreEvent(EventType.ADDED, entry, None), EventType.ADDED)
            self.revision = self._store.revision
            if initial_end:
                self.bookmark({INITIAL_END: "true"})
            return
        self.revision = since if since is not None else self._store.revision
        for event in self._store.events(self._resource.storage, self.revision):
            self._on_event(event)

    def drain(self) -> list[bytes]:
        """The frames (JSON documents ending in a newline) since the last call; a bookmark when one
        is due. Closes the watch when its time is up."""
        if self._ends is not None and self._store.clock.now() >= self._ends:
            self.close()
        if self._store.clock.now() >= self._next_bookmark:
            self.bookmark()
        frames = list(self._pending)
        self._pending.clear()
        return frames

    def events(self) -> list[JsonObject]:
        """The ready frames, decoded."""
        return [orjson.loads(frame) for frame in self.drain()]

    def bookmark(self, annotations: dict[str, str] | None = None) -> None:
        """Tells a client that allows bookmarks how far the watch is."""
        if not self._bookmarks or self.closed:
            return
        self.revision = max(self.revision, self._store.revision)
        self._next_bookmark = self._store.clock.now() + self._bookmark_every
        meta: JsonObject = {"resourceVersion": str(self.revision), "creationTimestamp": None}
        if annotations:
            meta["annotations"] = annotations
        body: JsonObject = {"kind": self._resource.kind, "apiVersion": self._resource.api_version, "metadata": meta}
        if self._wanted.form is Form.TABLE:
            row = {"cells": [], "object": {**partial(body, self._wanted.version)}}
            body = tables.table(self._resource, [], meta, self._wanted, self._store.clock.now(), False)
            body["rows"] = [row]
        elif self._wanted.form:
            body = partial(body, self._wanted.version)
        self._push(orjson.dumps({"type": "BOOKMARK", "object": body}) + b"\n")

    def bookmark_each(self, seconds: float) -> None:
        """Sets the time between bookmarks (60 s unless changed)."""
        self._bookmark_every = timedelta(seconds=seconds)
        self._next_bookmark = self._store.clock.now() + self._bookmark_every

    def fail(self, error: StatusError) -> None:
        """Ends the watch with an ERROR event."""
        self._push(orjson.dumps({"type": "ERROR", "object": error.body()}) + b"\n")
        self.close()

    def close(self) -> None:
        """Ends the watch; frames that are ready stay."""
        self._stop()
        if not self.closed:
            self.closed = True
            self.on_ready()

    def _selects(self, entry: Entry | None) -> bool:
        if entry is None or (self._namespace is not None and entry.namespace != self._namespace):
            return False
        return self._matches is None or self._matches(entry.obj)

    def _on_event(self, event: StoreEvent) -> None:
        if event.rv <= self.revision:
            return
        self.revision = event.rv
        if event.type is EventType.DELETED:
            if self._selects(event.previous):
                self._emit(event, EventType.DELETED)
            return
        before, after = self._selects(event.previous), self._selects(event.entry)
        if after:
            self._emit(event, EventType.MODIFIED if before else EventType.ADDED)
        elif before:
            self._emit(event, EventType.DELETED)

    def _emit(self, event: StoreEvent, kind: EventType) -> None:
        first_table = self._wanted.form is Form.TABLE and not self._columns_sent
        key = f"{kind}/{self._resource.api_version}/{self._wanted.key}"
        frame = None if first_table else event.frames.get(key)
        if frame is None:
            frame = b'{"type":"' + kind.encode() + b'","object":' + self._object(event, kind) + b"}\n"
            if not first_table:
                event.frames[key] = frame
        self._columns_sent = True
        self._push(frame)

    def _object(self, event: StoreEvent, kind: EventType) -> bytes:
        entry = event.entry
        if kind is EventType.DELETED and event.type is not EventType.DELETED and event.previous is not None:
            entry = self._left(event.previous, event.rv)
        if not self._wanted.form:
            return versions.encoded(self._resource, entry)
        obj = versions.in_version(self._resource, entry.obj)
        if self._wanted.form is Form.TABLE:
            meta = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            now = self._store.clock.now()
            return orjson.dumps(tables.table(self._resource, [obj], meta, self._wanted, now, not self._columns_sent))
        return orjson.dumps(partial(obj, self._wanted.version))

    @staticmethod
    def _left(previous: Entry, rv: int) -> Entry:
        """An object that a change moved out of the selection: its last selected state at the new revision."""
        obj = {**previous.obj, "metadata": {**previous.obj["metadata"], "resourceVersion": str(rv)}}
        return Entry(previous.bucket, previous.namespace, previous.name, previous.uid, rv, obj)

    def _push(self, frame: bytes) -> None:
        if self.closed:
            return
        if len(self._pending) >= self._limit:
            self._pending.clear()
            self.close()
            return
        self._pending.append(frame)
        self.on_ready()


def too_old(since: int, oldest: int) -> StatusError:
    """410 for a watch that starts before the window of history."""
    return expired(f"too old resource version: {since} ({oldest})")
