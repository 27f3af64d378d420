"""The store by itself: revisions, history, listeners and indexes."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.clock import VirtualClock
from sandbox.store import EventType, Expired, Store, StoreConflict, StoreExists, StoreMissing, TooNew
from services.kit.times import micro_timestamp


def thing(name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **({"namespace": namespace} if namespace else {})}, **more}


@pytest.fixture
def store() -> Store:
    return Store(VirtualClock(), history=5)


def test_keys_and_revisions(store: Store) -> None:
    first = store.create("things", thing("a", "n"))
    with pytest.raises(StoreExists):
        store.create("things", thing("a", "n"))
    other = store.create("others", thing("a", "n"))
    assert other.rv == first.rv + 1 == store.revision and first.obj["metadata"]["resourceVersion"] == str(first.rv)
    changed = first.copy()
    changed["x"] = 1
    with pytest.raises(StoreConflict):
        store.update("things", dict(changed), expected=99)
    second = store.update("things", changed, expected=first.rv)
    assert second.rv == 4 and "x" not in first.obj
    with pytest.raises(StoreConflict):
        store.delete("things", "n", "a", expected=first.rv)
    assert store.delete("things", "n", "a").obj["metadata"]["resourceVersion"] == "5"
    with pytest.raises(StoreMissing):
        store.delete("things", "n", "a")


def test_lists_of_the_past(store: Store) -> None:
    store.create("things", thing("b", "n"))
    store.create("things", thing("a", "m"))
    then = store.revision
    store.delete("things", "n", "b")
    store.create("things", thing("c", "n"))
    assert [entry.key for entry in store.list("things")] == [("m", "a"), ("n", "c")]
    assert [entry.key for entry in store.list("things", at=then)] == [("m", "a"), ("n", "b")]
    assert [entry.name for entry in store.list("things", "n", at=then)] == ["b"]
    with pytest.raises(TooNew):
        store.list("things", at=store.revision + 1)
    for _ in range(5):
        store.update("things", store.list("things")[0].copy())
    with pytest.raises(Expired):
        store.list("things", at=then)


def test_history_window(store: Store) -> None:
    start = store.create("things", thing("a")).rv
    for _ in range(5):
        store.update("things", thing("a"))
    assert [event.rv for event in store.events("things", start)] == [3, 4, 5, 6, 7]
    with pytest.raises(Expired):
        store.events("things", start - 1)
    store.compact(5)
    assert store.floor("things") == 5 and [event.rv for event in store.events("things", 5)] == [6, 7]
    with pytest.raises(Expired):
        store.events("things", 4)


def test_listeners_hear_changes_in_order_even_when_they_write(store: Store) -> None:
    heard: list[tuple[str, int]] = []

    def react(event: Any) -> None:
        if event.type is EventType.ADDED and event.entry.bucket == "things":
            store.create("others", thing(event.entry.name + "2"))

    store.subscribe(react)
    end = store.subscribe(lambda event: heard.append((event.type, event.rv)))
    store.create("things", thing("a"))
    assert heard == [("ADDED", 2), ("ADDED", 3)]
    end()
    store.create("things", thing("z"))
    assert len(heard) == 2


def test_owners_and_uids(store: Store) -> None:
    owner = store.create("things", thing("a"))
    child = thing("b")
    child["metadata"]["ownerReferences"] = [{"uid": owner.uid}]
    held = store.create("others", child)
    assert store.by_uid(owner.uid) is owner and store.dependents(owner.uid) == [held]
    store.update("others", {"metadata": {"name": "b", "uid": held.uid}})
    assert store.dependents(owner.uid) == []
    store.delete("things", "", "a")
    assert store.by_uid(owner.uid) is None


def test_virtual_clock() -> None:
    clock = VirtualClock()
    clock.advance(1.5)
    assert micro_timestamp(clock.now()) == "2026-01-01T00:00:01.500000Z"
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1)
    with pytest.raises(ValueError, match="backwards"):
        clock.set(VirtualClock().now())


def test_revisions_of_an_earlier_store_are_expired() -> None:
    earlier = Store(VirtualClock(), origin=1_000)
    then = earlier.create("things", thing("a")).rv
    later = Store(VirtualClock(), origin=2_000)
    assert later.create("things", thing("b")).rv == 2_001
    with pytest.raises(Expired):
        later.events("things", then)
    with pytest.raises(Expired):
        later.list("things", at=then)
