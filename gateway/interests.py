"""Who wakes when an object changes: the index from objects to the InferenceServices whose answers named them.

The gateway knows no rule of who depends on what; it keeps what the services' last answers said (design 4, Interests).
Looking up an event costs the same however many InferenceServices there are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator

from gateway.kube.objects import CachedObject
from gateway.queue import Key
from ome.common.v1 import common_pb2 as pb

_Slot = tuple[Hashable, ...]


def identity(interest: pb.Interest) -> bytes:
    """The interest as a key: equal interests have equal bytes."""
    return interest.SerializeToString(deterministic=True)


def matches(interest: pb.Interest, obj: CachedObject) -> bool:
    """The object is the one the interest names, or belongs to its set."""
    if (interest.kind, interest.api_version, interest.namespace) != (obj.kind, obj.api_version, obj.namespace):
        return False
    if interest.name:
        return interest.name == obj.name
    labels = obj.labels
    return obj.name.startswith(interest.name_prefix) and all(
        labels.get(wanted.key) == wanted.value for wanted in interest.match_labels
    )


def refusal(interest: pb.Interest, namespaced: bool | None, isvc_namespace: str, ome_namespace: str) -> str:
    """Why the gateway does not honour an interest, in words; empty when it does. `namespaced` is None for a kind that
    is not on the fixed list."""
    what = f"{interest.kind} ({interest.api_version})"
    if interest.data_key:
        return f"{what}: single keys of Secrets are not supplied"
    if namespaced is None:
        return f"{what} is not a kind the gateway supplies"
    if not namespaced:
        return f"{what} is cluster-scoped, but the interest names a namespace" if interest.namespace else ""
    if interest.namespace not in (isvc_namespace, ome_namespace):
        return (
            f'{what} is only supplied from namespaces {isvc_namespace} and {ome_namespace}, not "{interest.namespace}"'
        )
    if any(not label.HasField("value") for label in interest.match_labels):
        return f"{what}: a label to match needs a value"
    return ""


class InterestIndex:
    """The interests of every InferenceService."""

    def __init__(self) -> None:
        self._by_key: dict[Key, dict[bytes, pb.Interest]] = {}
        self._keys: dict[bytes, set[Key]] = {}
        self._slots: defaultdict[_Slot, dict[bytes, pb.Interest]] = defaultdict(dict)
        self._prefix_lengths: defaultdict[_Slot, Counter[int]] = defaultdict(Counter)

    def replace(self, key: Key, interests: Iterable[pb.Interest]) -> None:
        """Replaces what `key` depends on."""
        new = {identity(interest): interest for interest in interests}
        old = self._by_key.get(key, {})
        if old.keys() == new.keys():
            return
        for name, interest in old.items():
            if name not in new:
                self._remove(key, name, interest)
        for name, interest in new.items():
            if name not in old:
                self._insert(key, name, interest)
        if new:
            self._by_key[key] = new
        else:
            self._by_key.pop(key, None)

    def forget(self, key: Key) -> None:
        """Drops a key that is gone."""
        self.replace(key, ())

    def clear(self) -> None:
        """Drops everything."""
        for key in list(self._by_key):
            self.replace(key, ())

    def of_kind(self, api_version: str, kind: str) -> list[Key]:
        """Everyone with an interest in the kind."""
        return [
            key
            for key, interests in self._by_key.items()
            if any(i.kind == kind and i.api_version == api_version for i in interests.values())
        ]

    def woken_by(self, old: CachedObject | None, new: CachedObject | None) -> set[Key]:
        """The keys whose given content changes with this event; `old` or `new` is None when the object came or went.

        Nobody wakes for a new resourceVersion alone, nor for content under an interest in metadata only.
        """
        woken: set[Key] = set()
        for name, interest in self._touched(old, new).items():
            was = old is not None and matches(interest, old)
            now = new is not None and matches(interest, new)
            if was != now or (was and now and old and new and _given(interest, old) != _given(interest, new)):
                woken |= self._keys[name]
        return woken

    def _touched(self, old: CachedObject | None, new: CachedObject | None) -> dict[bytes, pb.Interest]:
        found: dict[bytes, pb.Interest] = {}
        for obj in (old, new):
            if obj is not None:
                for slot in self._slots_of(obj):
                    found.update(self._slots.get(slot, {}))
        return found

    def _slots_of(self, obj: CachedObject) -> Iterator[_Slot]:
        base = (obj.api_version, obj.kind, obj.namespace)
        yield (*base, "name", obj.name)
        yield (*base, "all")
        for key, value in obj.labels.items():
            yield (*base, "label", key, value)
        for length in self._prefix_lengths.get(base, ()):
            if length <= len(obj.name):
                yield (*base, "prefix", obj.name[:length])

    def _insert(self, key: Key, name: bytes, interest: pb.Interest) -> None:
        keys = self._keys.get(name)
        if keys is None:
            keys = self._keys[name] = set()
            self._slots[_slot(interest)][name] = interest
            if _by_prefix(interest):
                self._prefix_lengths[_base(interest)][len(interest.name_prefix)] += 1
        keys.add(key)

    def _remove(self, key: Key, name: bytes, interest: pb.Interest) -> None:
        keys = self._keys[name]
        keys.discard(key)
        if keys:
            return
        del self._keys[name]
        slot = _slot(interest)
        del self._slots[slot][name]
        if not self._slots[slot]:
            del self._slots[slot]
        if _by_prefix(interest):
            base, length = _base(interest), len(interest.name_prefix)
            lengths = self._prefix_lengths[base]
            lengths[length] -= 1
            if not lengths[length]:
                del lengths[length]
            if not lengths:
                del self._prefix_lengths[base]


def _given(interest: pb.Interest, obj: CachedObject) -> bytes:
    """The digest of what is given of the object; its uid is in it, for under one name another may stand than before."""
    return obj.meta_content if interest.metadata_only else obj.content


def _base(interest: pb.Interest) -> _Slot:
    return (interest.api_version, interest.kind, interest.namespace)


def _by_prefix(interest: pb.Interest) -> bool:
    return not interest.name and not interest.match_labels and bool(interest.name_prefix)


def _slot(interest: pb.Interest) -> _Slot:
    """Where the interest is found from an object: one of the slots of every object that matches it."""
    base = _base(interest)
    if interest.name:
        return (*base, "name", interest.name)
    if interest.match_labels:
        first = interest.match_labels[0]
        return (*base, "label", first.key, first.value)
    if interest.name_prefix:
        return (*base, "prefix", interest.name_prefix)
    return (*base, "all")
