"""What the gateway knows of one kind: the objects, two indexes, and how far the cluster's history has been seen.

Only a reflector changes a cache. It lives in one event loop; reads are immediate.
"""

from __future__ import annotations

import asyncio
import bisect
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import structlog

from gateway.kube.kinds import Kind
from gateway.kube.objects import CachedObject, version

__all__ = ["Cache", "CachedObject", "Change"]

Change = Callable[[CachedObject | None, CachedObject | None], None]
"""Gets the object before and after: None before an addition, None after a deletion."""

TOMBSTONES = 4096
_log = structlog.get_logger(__name__)


class Cache:
    """The objects of one kind, by namespace and name.

    `synced` is False until the first complete list; until then nothing may be read as absent. `error` says, in words
    for the user, why the reflector cannot keep it current now (empty: it can), `missing` that the kind is not served.
    """

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.synced = False
        self.missing = False
        self.error = ""
        self.seen_rv = 0
        self._voided = 0
        self._count = 0
        self._spaces: dict[str, _Space] = {}
        self._dead: OrderedDict[str, None] = OrderedDict()
        self._changes: list[Change] = []
        self._syncs: list[Callable[[], None]] = []
        self._waiters: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[CachedObject]:
        """All objects, by namespace, then name."""
        for namespace in sorted(self._spaces):
            space = self._spaces[namespace]
            yield from [space.objects[name] for name in space.names]

    def get(self, namespace: str, name: str) -> CachedObject | None:
        """The object of that name (namespace empty for cluster-scoped kinds)."""
        space = self._spaces.get(namespace)
        return space.objects.get(name) if space else None

    def select(
        self, namespace: str, labels: Mapping[str, str] | None = None, prefix: str = ""
    ) -> Sequence[CachedObject]:
        """The objects of a namespace that carry all `labels` and whose name begins with `prefix`, in order of name.
        The work is that of the smallest indexed set, not of the namespace."""
        space = self._spaces.get(namespace)
        return space.select(labels or {}, prefix) if space else []

    def caught_up(self, namespace: str, name: str, rv: str) -> bool:
        """The cache holds that object at version `rv` or later, or has seen the kind's history up to `rv`, so that what
        it says of the object includes that write. A version that is no number counts only when it is held."""
        held = self.get(namespace, name)
        if held is not None and held.resource_version == rv:
            return True
        wanted = version(rv)
        if not wanted:
            return False
        reached = max(self.seen_rv, self._voided, version(held.resource_version) if held else 0)
        return reached >= wanted

    async def wait_synced(self) -> None:
        """Returns after the first complete list."""
        await self._wait(lambda: self.synced)

    def on_change(self, callback: Change) -> None:
        """`callback` runs after each change that went in, in order; a fault of its own is logged and ends nothing."""
        self._changes.append(callback)

    def on_sync(self, callback: Callable[[], None]) -> None:
        """`callback` runs once, after the first complete list, when all its changes have been told."""
        self._syncs.append(callback)

    # What follows is the reflector's side.

    def replace(self, objects: Iterable[CachedObject], rv: str) -> None:
        """The kind's complete state at `rv`. It is the truth, also where it is older than what was held: the API
        server's store may have been restored."""
        listed = {(each.namespace, each.name): each for each in objects}
        gone = [each for each in self if (each.namespace, each.name) not in listed]
        if version(rv) < self.seen_rv:
            self._voided = max(self._voided, self.seen_rv)
        self.seen_rv = version(rv)
        for each in gone:
            self._remove(each)
        for each in listed.values():
            self._dead.pop(each.uid, None)
            held = self.get(each.namespace, each.name)
            if held is None or held.sha256 != each.sha256:
                self._store(held, each)
        first, self.synced, self.missing, self.error = not self.synced, True, False, ""
        if first:
            for callback in self._syncs:
                self._tell(callback)
        self._wake()

    def store(self, new: CachedObject) -> bool:
        """An ADDED or MODIFIED event. False when it tells nothing new: a duplicate, one that an event of a later
        version overtook, or one of an object whose deletion was seen."""
        held = self.get(new.namespace, new.name)
        if new.uid in self._dead:
            return False
        if held is not None and _not_newer(new, held):
            self.advance(new.resource_version)
            return False
        self._store(held, new)
        self.advance(new.resource_version)
        return True

    def remove(self, last: CachedObject) -> bool:
        """A DELETED event with the object's last state. False when the object is not held, or another one has taken its
        name since."""
        held = self.get(last.namespace, last.name)
        self._bury(last.uid)
        removed = held if held is not None and held.uid == last.uid else None
        if removed is not None:
            self._remove(removed)
        self.advance(last.resource_version)
        return removed is not None

    def advance(self, rv: str) -> None:
        """The kind's history has been seen up to `rv` (an event's, or a bookmark's)."""
        self.seen_rv = max(self.seen_rv, version(rv))
        self._wake()

    def _store(self, held: CachedObject | None, new: CachedObject) -> None:
        space = self._spaces.get(new.namespace)
        if space is None:
            space = self._spaces[new.namespace] = _Space()
        if held is not None and held.uid != new.uid:
            self._bury(held.uid)
        self._count += held is None
        space.put(held, new)
        self._changed(held, new)

    def _remove(self, held: CachedObject) -> None:
        self._bury(held.uid)
        space = self._spaces[held.namespace]
        self._count -= 1
        space.drop(held)
        if not space.objects:
            del self._spaces[held.namespace]
        self._changed(held, None)

    def _bury(self, uid: str) -> None:
        if uid:
            self._dead[uid] = None
            if len(self._dead) > TOMBSTONES:
                self._dead.popitem(last=False)

    def _changed(self, old: CachedObject | None, new: CachedObject | None) -> None:
        for callback in self._changes:
            self._tell(lambda callback=callback: callback(old, new))  # type: ignore[misc]

    def _tell(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception:
            _log.exception("a listener of the cache failed", kind=self.kind.kind)

    async def _wait(self, condition: Callable[[], bool]) -> None:
        while not condition():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


def _not_newer(new: CachedObject, held: CachedObject) -> bool:
    if new.resource_version == held.resource_version:
        return True
    mine, theirs = version(held.resource_version), version(new.resource_version)
    return bool(mine and theirs) and theirs < mine


class _Space:
    """One namespace: objects by name, names in order, names by label."""

    __slots__ = ("by_label", "names", "objects")

    def __init__(self) -> None:
        self.objects: dict[str, CachedObject] = {}
        self.names: list[str] = []
        # Most labels are on one object or on many: a lone name costs less than a set.
        self.by_label: dict[tuple[str, str], str | set[str]] = {}

    def put(self, held: CachedObject | None, new: CachedObject) -> None:
        if held is None:
            bisect.insort(self.names, new.name)
        if held is None or held.labels != new.labels:
            if held is not None:
                self._unlabel(held)
            for pair in new.labels.items():
                known = self.by_label.get(pair)
                if known is None:
                    self.by_label[pair] = new.name
                elif isinstance(known, str):
                    self.by_label[pair] = {known, new.name}
                else:
                    known.add(new.name)
        self.objects[new.name] = new

    def drop(self, held: CachedObject) -> None:
        del self.objects[held.name]
        del self.names[bisect.bisect_left(self.names, held.name)]
        self._unlabel(held)

    def _unlabel(self, held: CachedObject) -> None:
        for pair in held.labels.items():
            known = self.by_label.get(pair)
            if isinstance(known, set):
                known.discard(held.name)
                if not known:
                    del self.by_label[pair]
            elif known == held.name:
                del self.by_label[pair]

    def select(self, labels: Mapping[str, str], prefix: str) -> list[CachedObject]:
        smallest: set[str] | None = None
        for pair in labels.items():
            known = self.by_label.get(pair)
            if known is None:
                return []
            names = {known} if isinstance(known, str) else known
            if smallest is None or len(names) < len(smallest):
                smallest = names
        if smallest is None:
            return [self.objects[name] for name in self._with_prefix(prefix)]
        found = (self.objects[name] for name in sorted(smallest) if name.startswith(prefix))
        return [each for each in found if all(each.labels.get(key) == value for key, value in labels.items())]

    def _with_prefix(self, prefix: str) -> list[str]:
        start = bisect.bisect_left(self.names, prefix) if prefix else 0
        end = start
        while end < len(self.names) and self.names[end].startswith(prefix):
            end += 1
        return self.names[start:end]
