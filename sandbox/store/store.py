"""The store: buckets of objects, one revision counter for all, a window of history per bucket.

It knows keys, revisions, uids and owner references; every rule about an object's content is in ``sandbox.api``.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterator

from sandbox.clock import Clock
from sandbox.jsontypes import JsonObject
from sandbox.store.entry import Entry, EventType, StoreEvent

Listener = Callable[[StoreEvent], None]
Entries = list[Entry]
Events = list[StoreEvent]
DEFAULT_HISTORY = 5_000


class StoreError(Exception):
    """Base of the store's errors."""


class StoreExists(StoreError):
    """Create: the key is taken."""


class StoreMissing(StoreError):
    """Update or delete: no such key."""


class StoreConflict(StoreError):
    """Update or delete: the object is no longer at the expected revision."""


class Expired(StoreError):
    """The revision asked for lies before the window of history."""


class TooNew(StoreError):
    """The revision asked for has not happened yet."""


class _Bucket:
    def __init__(self, history: int, floor: int) -> None:
        self.by_namespace: dict[str, dict[str, Entry]] = {}
        self.history: deque[StoreEvent] = deque()
        self.limit = history
        self.floor = floor
        """Every change after this revision is still in ``history``."""
        self.listeners: list[Listener] = []

    def remember(self, event: StoreEvent) -> None:
        self.history.append(event)
        while len(self.history) > self.limit:
            self.floor = self.history.popleft().rv


class Store:
    """An in-memory MVCC store. All methods are synchronous; it is not safe for use from several threads."""

    def __init__(
        self, clock: Clock, history: int = DEFAULT_HISTORY, new_uid: Callable[[], str] | None = None, origin: int = 1
    ) -> None:
        """``history`` is the number of changes per bucket that watches and paged lists can go back, ``origin`` the
        revision before the first change. What comes from before it is another store's, and ``Expired``."""
        self.clock = clock
        self.new_uid = new_uid or (lambda: str(uuid.uuid4()))
        self._history = history
        self._origin = origin
        self._revision = origin
        self._buckets: dict[str, _Bucket] = {}
        self._listeners: list[Listener] = []
        self._undelivered: deque[StoreEvent] = deque()
        self._delivering = False
        self._by_uid: dict[str, Entry] = {}
        self._dependents: dict[str, dict[tuple[str, str, str], None]] = {}

    @property
    def revision(self) -> int:
        """The revision of the latest change of any object."""
        return self._revision

    def buckets(self) -> list[str]:
        """The names of all buckets that ever held an object."""
        return list(self._buckets)

    def get(self, bucket: str, namespace: str, name: str) -> Entry | None:
        """The current version of an object, or None."""
        return self._bucket(bucket).by_namespace.get(namespace, {}).get(name)

    def list(self, bucket: str, namespace: str | None = None, at: int | None = None) -> Entries:
        """All objects of a bucket (or of one namespace), ordered by namespace and name, now or as of revision ``at``.

        Raises ``Expired`` or ``TooNew`` when ``at`` lies outside what is known.
        """
        held = self._bucket(bucket)
        if at is not None and at != self._revision:
            entries = self._past(held, at, namespace)
        else:
            entries = list(self._current(held, namespace))
        entries.sort(key=lambda entry: entry.key)
        return entries

    def count(self, bucket: str) -> int:
        """How many objects a bucket holds."""
        return sum(len(names) for names in self._bucket(bucket).by_namespace.values())

    def create(self, bucket: str, obj: JsonObject) -> Entry:
        """Stores a new object and takes ownership of ``obj``; sets uid (if absent) and resourceVersion.

        Raises ``StoreExists`` when namespace and name are taken.
        """
        meta = obj["metadata"]
        namespace, name = meta.get("namespace") or "", meta["name"]
        if self.get(bucket, namespace, name) is not None:
            raise StoreExists(name)
        meta.setdefault("uid", self.new_uid())
        return self._put(bucket, namespace, name, obj, None, EventType.ADDED)

    def update(self, bucket: str, obj: JsonObject, expected: int | None = None) -> Entry:
        """Replaces an object and takes ownership of ``obj``; sets resourceVersion.

        Raises ``StoreMissing``, or ``StoreConflict`` when ``expected`` is given and is not the current revision.
        """
        meta = obj["metadata"]
        namespace, name = meta.get("namespace") or "", meta["name"]
        current = self._expect(bucket, namespace, name, expected)
        return self._put(bucket, namespace, name, obj, current, EventType.MODIFIED)

    def delete(self, bucket: str, namespace: str, name: str, expected: int | None = None) -> Entry:
        """Removes an object and returns its last state, carrying the revision of the deletion. Raises as ``update``."""
        current = self._expect(bucket, namespace, name, expected)
        return self._put(bucket, namespace, name, current.copy(), current, EventType.DELETED)

    def events(self, bucket: str, since: int) -> Events:
        """The changes of a bucket after revision ``since``, oldest first. Raises ``Expired`` beyond the window."""
        held = self._bucket(bucket)
        if since < held.floor:
            raise Expired(str(since))
        recent: Events = []
        for event in reversed(held.history):
            if event.rv <= since:
                break
            recent.append(event)
        recent.reverse()
        return recent

    def floor(self, bucket: str) -> int:
        """The oldest revision from which the changes of a bucket are still known."""
        return self._bucket(bucket).floor

    def compact(self, revision: int | None = None) -> None:
        """Forgets the history up to ``revision`` (default: all of it), as etcd's compaction does."""
        upto = self._revision if revision is None else revision
        for held in self._buckets.values():
            while held.history and held.history[0].rv <= upto:
                held.history.popleft()
            held.floor = max(held.floor, upto)

    def subscribe(self, listener: Listener, bucket: str | None = None) -> Callable[[], None]:
        """Calls ``listener`` for every later change (of one bucket, or of all); returns the way to end that."""
        listeners = self._listeners if bucket is None else self._bucket(bucket).listeners
        listeners.append(listener)

        def end() -> None:
            if listener in listeners:
                listeners.remove(listener)

        return end

    def by_uid(self, uid: str) -> Entry | None:
        """The object with this uid, of whatever kind."""
        return self._by_uid.get(uid)

    def dependents(self, uid: str) -> Entries:
        """The objects that name ``uid`` in their owner references, in order of creation."""
        found = (self.get(*key) for key in self._dependents.get(uid, ()))
        return [entry for entry in found if entry is not None]

    def _bucket(self, name: str) -> _Bucket:
        held = self._buckets.get(name)
        if held is None:
            held = self._buckets[name] = _Bucket(self._history, self._origin if self._origin > 1 else 0)
        return held

    @staticmethod
    def _current(held: _Bucket, namespace: str | None) -> Iterator[Entry]:
        if namespace is not None:
            yield from held.by_namespace.get(namespace, {}).values()
            return
        for names in held.by_namespace.values():
            yield from names.values()

    def _past(self, held: _Bucket, at: int, namespace: str | None) -> Entries:
        if at > self._revision:
            raise TooNew(str(at))
        if at < held.floor:
            raise Expired(str(at))
        view = {entry.key: entry for entry in self._current(held, None)}
        for event in reversed(held.history):
            if event.rv <= at:
                break
            if event.previous is None:
                view.pop(event.entry.key, None)
            else:
                view[event.entry.key] = event.previous
        return [entry for entry in view.values() if namespace is None or entry.namespace == namespace]

    def _expect(self, bucket: str, namespace: str, name: str, expected: int | None) -> Entry:
        current = self.get(bucket, namespace, name)
        if current is None:
            raise StoreMissing(name)
        if expected is not None and current.rv != expected:
            raise StoreConflict(name)
        return current

    def _put(
        self, bucket: str, namespace: str, name: str, obj: JsonObject, current: Entry | None, kind: EventType
    ) -> Entry:
        self._revision += 1
        meta = obj["metadata"]
        meta["resourceVersion"] = str(self._revision)
        entry = Entry(bucket, namespace, name, meta.get("uid", ""), self._revision, obj)
        held = self._bucket(bucket)
        if kind is EventType.DELETED:
            names = held.by_namespace[namespace]
            del names[name]
            if not names:
                del held.by_namespace[namespace]
        else:
            held.by_namespace.setdefault(namespace, {})[name] = entry
        self._index(entry, current, kind)
        event = StoreEvent(kind, entry, current)
        held.remember(event)
        self._undelivered.append(event)
        self._deliver()
        return entry

    def _deliver(self) -> None:
        """Tells the listeners in order of revision, also when one of them writes again."""
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._undelivered:
                event = self._undelivered.popleft()
                for listener in [*self._bucket(event.entry.bucket).listeners, *self._listeners]:
                    listener(event)
        finally:
            self._delivering = False

    def _index(self, entry: Entry, current: Entry | None, kind: EventType) -> None:
        key = (entry.bucket, entry.namespace, entry.name)
        if current is not None:
            for uid in _owners(current):
                holders = self._dependents.get(uid, {})
                holders.pop(key, None)
                if not holders:
                    self._dependents.pop(uid, None)
            if self._by_uid.get(current.uid) is current:
                del self._by_uid[current.uid]
        if kind is not EventType.DELETED:
            self._by_uid[entry.uid] = entry
            for uid in _owners(entry):
                self._dependents.setdefault(uid, {})[key] = None


def _owners(entry: Entry) -> list[str]:
    references = entry.obj["metadata"].get("ownerReferences") or ()
    return [reference.get("uid", "") for reference in references]
