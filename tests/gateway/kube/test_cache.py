"""The cache: what it takes in, what it ignores, how it is asked."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kube.cache import Cache
from gateway.kube.kinds import CONTROLLER_REVISION, ISVC
from gateway.kube.objects import CachedObject, Malformed, from_bytes, from_value
from tests.gateway.kube.world import obj, settle


def held(name: str, rv: int, uid: str = "", **extra: Any) -> CachedObject:
    return from_value(ISVC, obj(name, rv, uid, **extra))


def filled(*objects: CachedObject, rv: int = 10) -> Cache:
    cache = Cache(ISVC)
    cache.replace(objects, str(rv))
    return cache


def test_an_object_keeps_its_bytes_without_managed_fields() -> None:
    value = obj("a", 7, spec={"x": 1.0, "big": 9007199254740993}, metadata={"managedFields": [{"f": 1}], "labels": {}})
    each = from_bytes(ISVC, orjson.dumps(value))
    assert each.json()["spec"] == {"x": 1.0, "big": 9007199254740993}
    assert b"managedFields" not in each.raw
    assert b'"x":1.0' in each.raw
    assert (each.namespace, each.name, each.uid, each.resource_version) == ("team", "a", "uid-a", "7")


def test_list_items_without_kind_equal_the_same_object_from_a_watch() -> None:
    value = obj("a", 7, spec={"x": 1})
    bare = {key: part for key, part in obj("a", 7, spec={"x": 1}).items() if key not in ("apiVersion", "kind")}
    assert from_value(ISVC, bare).sha256 == from_value(ISVC, value).sha256


def test_digests_tell_what_changed() -> None:
    base = held("a", 1, spec={"x": 1}, status={"y": 1}, metadata={"generation": 1})
    later = held("a", 2, spec={"x": 1}, status={"y": 1}, metadata={"generation": 1})
    spec = held("a", 3, spec={"x": 2}, status={"y": 1}, metadata={"generation": 2})
    label = held("a", 4, spec={"x": 1}, status={"y": 1}, metadata={"generation": 1, "labels": {"k": "v"}})
    status = held("a", 5, spec={"x": 1}, status={"y": 2}, metadata={"generation": 1})
    assert later.sha256 != base.sha256
    assert (later.content, later.meta_content) == (base.content, base.meta_content)
    assert spec.content != base.content and spec.meta_content == base.meta_content
    assert status.content != base.content and status.meta_content == base.meta_content
    assert label.content != base.content and label.meta_content != base.meta_content


def test_metadata_alone() -> None:
    each = held("a", 1, spec={"x": 1}, metadata={"labels": {"k": "v"}})
    assert orjson.loads(each.metadata_json()) == {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "a", "namespace": "team", "uid": "uid-a", "resourceVersion": "1", "labels": {"k": "v"}},
    }


@pytest.mark.parametrize("depth", [100, 300, 900, 1500, 20_000])
def test_any_depth_can_be_held(depth: int) -> None:
    """The JSON library stops at 254 levels to write and 1024 to read; one user's object must not stop a kind."""
    deep = b'{"a":' * depth + b'"]}\\""' + b"}" * depth
    managed = b'[{"fieldsV1":' + deep + b"}]"
    data = (
        b'{"apiVersion":"ome.io/v1beta1","kind":"InferenceService","metadata":{"name":"a","namespace":"team",'
        b'"managedFields":' + managed + b',"resourceVersion":"4","uid":"u","labels":{"k":"v"}},"spec":' + deep + b"}"
    )
    each = from_bytes(ISVC, data)
    assert (each.name, each.resource_version, dict(each.labels)) == ("a", "4", {"k": "v"})
    assert deep in each.raw and b"managedFields" not in each.raw
    later = from_bytes(ISVC, data.replace(b'"4"', b'"5"'))
    assert later.content == each.content and later.sha256 != each.sha256
    assert orjson.loads(each.metadata_json())["metadata"]["uid"] == "u"


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{}", b'{"metadata":{}}', b'{"metadata":[]}', b"<html>"])
def test_no_object(data: bytes) -> None:
    with pytest.raises(Malformed):
        from_bytes(ISVC, data)


def test_a_duplicate_event_tells_nobody() -> None:
    cache = filled(held("a", 5))
    told: list[Any] = []
    cache.on_change(lambda old, new: told.append((old, new)))
    assert not cache.store(held("a", 5))
    assert cache.store(held("a", 11, spec={"x": 1}))
    assert not cache.store(held("a", 11, spec={"x": 1}))
    assert len(told) == 1


def test_an_overtaken_event_is_ignored() -> None:
    cache = filled(held("a", 5))
    cache.store(held("a", 12, spec={"x": 12}))
    assert not cache.store(held("a", 11, spec={"x": 11}))
    held_now = cache.get("team", "a")
    assert held_now is not None and held_now.json()["spec"] == {"x": 12}
    assert cache.seen_rv == 12


def test_an_event_of_another_object_is_not_lost_for_coming_late() -> None:
    cache = filled()
    cache.store(held("b", 13))
    assert cache.store(held("a", 12))
    assert cache.get("team", "a") is not None


def test_a_late_event_does_not_bring_back_the_dead() -> None:
    cache = filled(held("a", 5))
    assert cache.remove(held("a", 11))
    assert not cache.store(held("a", 6))
    assert not cache.remove(held("a", 11))
    assert cache.get("team", "a") is None
    assert cache.store(held("a", 12, "reborn"))


def test_a_late_deletion_does_not_take_the_namesake() -> None:
    cache = filled(held("a", 5, "first"))
    cache.store(held("a", 12, "second"))
    assert not cache.remove(held("a", 11, "first"))
    assert cache.get("team", "a") is not None
    assert not cache.store(held("a", 13, "first"))


def test_a_new_list_is_the_truth() -> None:
    cache = filled(held("a", 5), held("b", 6), held("c", 7))
    told: list[tuple[str, str]] = []

    def note(old: CachedObject | None, new: CachedObject | None) -> None:
        told.append((old.resource_version if old else "", new.resource_version if new else ""))

    cache.on_change(note)
    cache.replace([held("b", 6), held("c", 21, spec={"x": 1}), held("d", 22)], "30")
    assert sorted(told) == [("", "22"), ("5", ""), ("7", "21")]
    assert [each.name for each in cache] == ["b", "c", "d"]
    assert len(cache) == 3 and cache.seen_rv == 30


def test_a_restored_store_is_believed_and_nobody_waits_for_its_lost_future() -> None:
    cache = filled(held("a", 500), rv=500)
    cache.replace([held("a", 20, spec={"old": True})], "40")
    held_now = cache.get("team", "a")
    assert held_now is not None and held_now.resource_version == "20"
    assert cache.seen_rv == 40
    assert cache.caught_up("team", "a", "500")
    cache.remove(held("a", 41))
    cache.replace([held("a", 20)], "50")
    assert cache.get("team", "a") is not None, "a restored object lives, whatever was seen of its future"


def test_caught_up() -> None:
    cache = filled(held("a", 5), rv=10)
    assert cache.caught_up("team", "a", "5")
    assert cache.caught_up("team", "a", "10"), "the list was at 10, so it would show that write"
    assert not cache.caught_up("team", "a", "11")
    cache.store(held("b", 12))
    assert cache.caught_up("team", "a", "11"), "the kind's history is seen beyond 11"
    assert not cache.caught_up("team", "a", "13")
    cache.advance("20")
    assert cache.caught_up("team", "a", "13")
    assert not cache.caught_up("team", "a", "opaque")


def test_nothing_is_caught_up_before_the_first_list() -> None:
    assert not Cache(ISVC).caught_up("team", "a", "1")


async def test_waiting_for_the_first_list() -> None:
    cache = Cache(ISVC)
    told: list[str] = []
    cache.on_change(lambda old, new: told.append("change"))
    cache.on_sync(lambda: told.append("sync"))
    waiting = asyncio.ensure_future(cache.wait_synced())
    cache.store(held("a", 1))
    await settle()
    assert not waiting.done() and not cache.synced
    cache.replace([held("a", 1), held("b", 2)], "3")
    cache.replace([held("a", 1), held("b", 2)], "4")
    await settle()
    assert waiting.done() and told == ["change", "change", "sync"]


def test_a_listener_that_fails_stops_nothing() -> None:
    cache = Cache(ISVC)
    told: list[str] = []

    def fails(old: CachedObject | None, new: CachedObject | None) -> None:
        raise RuntimeError("no")

    cache.on_change(fails)
    cache.on_change(lambda old, new: told.append("told"))
    cache.replace([held("a", 1)], "1")
    assert told == ["told"] and cache.synced


def test_select_needs_no_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 snapshots of 100 runtimes: a select touches what it answers."""
    cache = Cache(CONTROLLER_REVISION)
    cache.replace(
        [
            from_value(
                CONTROLLER_REVISION,
                obj(
                    f"cr-rt{number % 100}-{number:08x}", number + 1, namespace="ome",
                    metadata={"labels": {"ome.io/runtime-of": f"rt{number % 100}", "all": "same"}},
                ),
            )
            for number in range(10_000)
        ],
        "10001",
    )  # fmt: skip
    space = cache._spaces["ome"]
    touched = 0

    class Counting(dict[str, CachedObject]):
        def __getitem__(self, name: str) -> CachedObject:
            nonlocal touched
            touched += 1
            return super().__getitem__(name)

    monkeypatch.setattr(space, "objects", Counting(space.objects))
    found = cache.select("ome", {"all": "same", "ome.io/runtime-of": "rt7"})
    assert len(found) == 100 and touched == 100
    assert [each.name for each in found] == sorted(each.name for each in found)
    touched = 0
    assert len(cache.select("ome", prefix="cr-rt7-")) == 100 and touched == 100
    touched = 0
    assert cache.select("ome", {"ome.io/runtime-of": "none"}) == [] and touched == 0
    assert cache.select("elsewhere", prefix="cr-") == []


LABELS = st.dictionaries(st.sampled_from("kl"), st.sampled_from("vw"), max_size=2)


@given(
    st.lists(st.tuples(st.sampled_from(["a", "ab", "abc", "b"]), st.booleans(), LABELS), max_size=40),
    LABELS, st.sampled_from(["", "a", "ab", "x"]), st.integers(),
)  # fmt: skip
def test_select_equals_a_scan(
    events: list[tuple[str, bool, dict[str, str]]], labels: dict[str, str], prefix: str, seed: int
) -> None:
    cache, model, lives = filled(), {}, random.Random(seed)
    for number, (name, gone, carried) in enumerate(events, start=11):
        uid = model[name][0] if name in model and lives.random() < 0.7 else f"uid-{number}"
        each = held(name, number, uid, metadata={"labels": carried})
        if gone:
            cache.remove(each)
            if name in model and model[name][0] == uid:
                del model[name]
        else:
            cache.store(each)
            model[name] = (uid, carried)
    wanted = sorted(
        name for name, (_, carried) in model.items() if name.startswith(prefix) and labels.items() <= carried.items()
    )
    assert [each.name for each in cache.select("team", labels, prefix)] == wanted
    assert [each.name for each in cache] == sorted(model) and len(cache) == len(model)


def test_an_object_is_held_in_little_more_than_its_bytes() -> None:
    """Buffers that are larger than their text would hide in no digest and no length."""
    import tracemalloc

    values = [orjson.dumps(obj(f"i{number}", number + 1, spec={"a": ["x" * 30] * 60})) for number in range(300)]
    from_bytes(ISVC, values[0])
    cache = Cache(ISVC)
    tracemalloc.start()
    try:
        cache.replace([from_bytes(ISVC, value) for value in values], "400")
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes < 2 * sum(map(len, values))
