"""Lists, pages, selectors, tables and watches."""

from __future__ import annotations

from typing import Any

import pytest

MERGE = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture
def five(call: Any, widgets: str, make_widget: Any) -> str:
    for number in range(5):
        body = make_widget(f"w{number}", mode="fast" if number % 2 else "slow")
        body["metadata"]["labels"] = {"n": str(number), "kind": "odd" if number % 2 else "even"}
        call("POST", widgets, body)
    return widgets


def names(body: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in body["items"]]


def test_pages_are_one_snapshot(call: Any, five: str) -> None:
    first = call("GET", f"{five}?limit=2").json()
    assert names(first) == ["w0", "w1"] and first["metadata"]["remainingItemCount"] == 3
    call("DELETE", f"{five}/w2")
    call("POST", five, {"apiVersion": "demo.example.com/v1", "kind": "Widget", "metadata": {"name": "w1a"}})
    second = call("GET", f"{five}?limit=2&continue={first['metadata']['continue']}").json()
    assert (
        names(second) == ["w2", "w3"] and second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    )
    third = call("GET", f"{five}?limit=2&continue={second['metadata']['continue']}").json()
    assert names(third) == ["w4"] and "continue" not in third["metadata"]


def test_expired_token_offers_another(api: Any, call: Any, five: str) -> None:
    first = call("GET", f"{five}?limit=2").json()
    call("DELETE", f"{five}/w3")
    api.store.compact()
    error = call("GET", f"{five}?limit=2&continue={first['metadata']['continue']}", expect=410).json()
    assert error["reason"] == "Expired" and error["metadata"]["continue"]
    rest = call("GET", f"{five}?continue={error['metadata']['continue']}").json()
    assert names(rest) == ["w2", "w4"]
    assert call("GET", f"{five}?continue=rubbish", expect=400)


def test_resource_version_of_lists(api: Any, call: Any, five: str) -> None:
    then = call("GET", five).json()["metadata"]["resourceVersion"]
    call("DELETE", f"{five}/w0")
    assert len(names(call("GET", f"{five}?resourceVersion={then}").json())) == 4
    exact = call("GET", f"{five}?resourceVersion={then}&resourceVersionMatch=Exact").json()
    assert len(names(exact)) == 5 and exact["metadata"]["resourceVersion"] == then
    assert len(names(call("GET", f"{five}?resourceVersion=0").json())) == 4
    error = call("GET", f"{five}?resourceVersion=99999", expect=504).json()
    assert error["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert call("GET", f"{five}?resourceVersionMatch=Exact", expect=422)
    assert call("GET", f"{five}?resourceVersion=x", expect=400)
    api.store.compact()
    assert call("GET", f"{five}?resourceVersion={then}&resourceVersionMatch=Exact", expect=410)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("kind=odd", ["w1", "w3"]),
        ("kind!=odd", ["w0", "w2", "w4"]),
        ("n in (1,2),kind", ["w1", "w2"]),
        ("n notin (1, 2)", ["w0", "w3", "w4"]),
        ("!kind", []),
        ("!other,n==4", ["w4"]),
        ("n>2", ["w3", "w4"]),
        ("n<1", ["w0"]),
    ],
)
def test_label_selectors(call: Any, five: str, selector: str, found: list[str]) -> None:
    assert names(call("GET", f"{five}?labelSelector={selector.replace(' ', '%20')}").json()) == found


def test_bad_selectors(call: Any, five: str) -> None:
    assert call("GET", f"{five}?labelSelector=a in", expect=400).json()["reason"] == "BadRequest"
    assert call("GET", f"{five}?labelSelector=,", expect=400)
    assert (
        "field label not supported: spec.mode"
        in call("GET", f"{five}?fieldSelector=spec.mode=a", expect=400).json()["message"]
    )


def test_field_selectors(call: Any, five: str) -> None:
    assert names(call("GET", f"{five}?fieldSelector=metadata.name=w1").json()) == ["w1"]
    assert len(names(call("GET", f"{five}?fieldSelector=metadata.name!=w1,metadata.namespace=default").json())) == 4
    pods = "/api/v1/namespaces/default/pods"
    for name, node in (("a", "n1"), ("b", "")):
        spec = {"containers": [{"name": "c", "image": "i"}]}
        call("POST", pods, {"metadata": {"name": name}, "spec": {**spec, **({"nodeName": node} if node else {})}})
    listed = call("GET", f"{pods}?fieldSelector=spec.nodeName=n1").json()
    assert names(listed) == ["a"] and "kind" not in listed["items"][0] and "apiVersion" not in listed["items"][0]
    assert names(call("GET", f"{pods}?fieldSelector=status.phase=Pending,spec.nodeName=").json()) == ["b"]
    assert len(names(call("GET", "/api/v1/pods?fieldSelector=metadata.namespace=default").json())) == 2


def test_tables(call: Any, five: str) -> None:
    table = call("GET", five, accept=f"{TABLE},application/json").json()
    assert table["kind"] == "Table" and table["apiVersion"] == "meta.k8s.io/v1"
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Replicas", "Phase", "Mode", "Age"]
    row = table["rows"][0]
    assert row["cells"][:2] == ["w0", 1] and row["object"]["kind"] == "PartialObjectMetadata"
    full = call("GET", f"{five}/w0?includeObject=Object", accept=TABLE).json()
    assert full["rows"][0]["object"]["spec"]["mode"] == "slow"
    assert "object" not in call("GET", f"{five}?includeObject=None", accept=TABLE).json()["rows"][0]


def test_watch_from_a_list(call: Any, watch: Any, five: str) -> None:
    since = call("GET", five).json()["metadata"]["resourceVersion"]
    call("DELETE", f"{five}/w0")
    stream = watch(f"{five}?watch=true&resourceVersion={since}")
    call("PATCH", f"{five}/w1", {"spec": {"replicas": 2}}, content_type=MERGE)
    events = stream.events()
    assert [(e["type"], e["object"]["metadata"]["name"]) for e in events] == [("DELETED", "w0"), ("MODIFIED", "w1")]
    assert int(events[0]["object"]["metadata"]["resourceVersion"]) > int(since)
    assert stream.events() == []


def test_watch_without_a_version_starts_with_what_is_there(watch: Any, five: str) -> None:
    for url in (f"{five}?watch=1", f"{five}?watch=1&resourceVersion=0"):
        assert [event["type"] for event in watch(url).events()] == ["ADDED"] * 5


def test_selector_transitions(call: Any, watch: Any, five: str) -> None:
    since = call("GET", five).json()["metadata"]["resourceVersion"]
    stream = watch(f"{five}?watch=1&resourceVersion={since}&labelSelector=kind=odd")

    def relabel(name: str, value: str) -> None:
        call("PATCH", f"{five}/{name}", {"metadata": {"labels": {"kind": value}}}, content_type=MERGE)

    relabel("w0", "odd")
    relabel("w1", "even")
    relabel("w2", "none")
    call("DELETE", f"{five}/w0")
    call("DELETE", f"{five}/w1")
    events = stream.events()
    assert [(e["type"], e["object"]["metadata"]["name"]) for e in events] == [
        ("ADDED", "w0"),
        ("DELETED", "w1"),
        ("DELETED", "w0"),
    ]
    assert events[1]["object"]["metadata"]["labels"]["kind"] == "odd"


def test_initial_events_and_bookmarks(call: Any, watch: Any, clock: Any, five: str) -> None:
    ask = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    stream = watch(f"{five}?{ask}")
    events = stream.events()
    assert [event["type"] for event in events] == ["ADDED"] * 5 + ["BOOKMARK"]
    assert events[-1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    call("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "other"}})
    stream.bookmark()
    (mark,) = stream.events()
    newest = call("GET", five).json()["metadata"]["resourceVersion"]
    assert mark["type"] == "BOOKMARK" and mark["object"]["metadata"]["resourceVersion"] == newest
    assert call("GET", f"{five}?watch=1&sendInitialEvents=true&allowWatchBookmarks=true", expect=422)
    clock.advance(60)
    assert [event["type"] for event in stream.events()] == ["BOOKMARK"] and stream.events() == []
    quiet = watch(f"{five}?watch=1")
    quiet.drain()
    quiet.bookmark()
    assert quiet.events() == []


def test_a_watch_from_before_the_window_fails_with_410(api: Any, call: Any, watch: Any, five: str) -> None:
    api.store.compact()
    stream = watch(f"{five}?watch=1&resourceVersion=2")
    (event,) = stream.events()
    assert event["type"] == "ERROR" and event["object"]["code"] == 410 and event["object"]["reason"] == "Expired"
    assert "too old resource version: 2 (" in event["object"]["message"] and stream.closed


def test_timeout_and_end(call: Any, watch: Any, clock: Any, five: str) -> None:
    stream = watch(f"{five}?watch=1&timeoutSeconds=10")
    stream.drain()
    clock.advance(9)
    assert stream.drain() == [] and not stream.closed
    clock.advance(1)
    assert stream.drain() == [] and stream.closed
    call("DELETE", f"{five}/w0")
    assert stream.events() == []


def test_watch_of_tables_and_one_object(call: Any, watch: Any, five: str) -> None:
    stream = watch(f"{five}?watch=1&fieldSelector=metadata.name=w0", accept=TABLE)
    call("PATCH", f"{five}/w0", {"spec": {"replicas": 2}}, content_type=MERGE)
    first, second = stream.events()
    assert first["object"]["columnDefinitions"] and second["object"]["columnDefinitions"] is None
    assert second["object"]["rows"][0]["cells"][:2] == ["w0", 2]


def test_an_event_is_serialised_once_for_all_watchers(call: Any, watch: Any, five: str) -> None:
    streams = [watch(f"{five}?watch=1") for _ in range(3)]
    for stream in streams:
        stream.drain()
    call("PATCH", f"{five}/w0", {"spec": {"replicas": 2}}, content_type=MERGE)
    frames = [stream.drain()[0] for stream in streams]
    assert frames[0] is frames[1] is frames[2]


def test_both_views_of_events(call: Any, watch: Any) -> None:
    body = {
        "metadata": {"name": "e"},
        "reason": "R",
        "message": "m",
        "type": "Normal",
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "source": {"component": "c"},
        "count": 2,
    }
    core, modern = "/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events"
    call("POST", core, body)
    got = call("GET", f"{modern}/e").json()
    assert got["note"] == "m" and got["regarding"]["name"] == "p" and got["deprecatedCount"] == 2
    new = {
        "metadata": {"name": "f"},
        "note": "n",
        "reason": "R",
        "type": "Normal",
        "action": "A",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "c",
        "reportingInstance": "c-1",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    }
    call("POST", modern, new)
    back = call("GET", f"{core}?fieldSelector=involvedObject.name=p,reason=R").json()
    assert [item["message"] for item in back["items"]] == ["m", "n"]
    assert back["items"][1]["reportingComponent"] == "c" and back["apiVersion"] == "v1"
    assert len(watch(f"{modern}?watch=1").events()) == 2


def test_a_reader_that_falls_behind_is_cut_off_but_a_large_start_is_not(
    api: Any, call: Any, watch: Any, five: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox.api.watch.BACKLOG", 3)
    stream = watch(f"{five}?watch=1")
    for replicas in range(2, 5):
        call("PATCH", f"{five}/w0", {"spec": {"replicas": replicas}}, content_type=MERGE)
    assert not stream.closed and len(stream.events()) == 8
    for replicas in range(5, 8):
        call("PATCH", f"{five}/w0", {"spec": {"replicas": replicas}}, content_type=MERGE)
    assert len(stream.events()) == 3
    slow = watch(f"{five}?watch=1&resourceVersion={api.store.revision}")
    for replicas in range(1, 5):
        call("PATCH", f"{five}/w0", {"spec": {"replicas": replicas}}, content_type=MERGE)
    assert slow.closed and slow.events() == []
