"""Who wakes: exact names, sets by label and prefix, metadata only, and nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.interests import InterestIndex, matches, refusal
from gateway.kube.kinds import CLUSTER_SERVING_RUNTIME, CONTROLLER_REVISION, Kind
from gateway.kube.objects import CachedObject, from_value
from gateway.queue import Key
from ome.common.v1 import common_pb2 as pb
from tests.gateway.core.world import named, revision, runtime

A, B = Key("team", "a"), Key("team", "b")


def obj(kind: Kind, value: dict[str, Any], rv: str = "1", uid: str = "u", **metadata: Any) -> CachedObject:
    value = {**value, "metadata": {**value["metadata"], "resourceVersion": rv, "uid": uid, **metadata}}
    return from_value(kind, value)


def csr(name: str = "rt", rv: str = "1", uid: str = "u", **spec: Any) -> CachedObject:
    return obj(CLUSTER_SERVING_RUNTIME, runtime(name, **spec), rv, uid)


def cr(name: str, rv: str = "1", uid: str = "u", labels: dict[str, str] | None = None, **more: Any) -> CachedObject:
    return obj(CONTROLLER_REVISION, revision(name, labels=labels, **more), rv, uid)


def label_set(metadata_only: bool = False, **labels: str) -> pb.Interest:
    pairs = [pb.KeyValue(key=key, value=value) for key, value in labels.items()]
    return pb.Interest(
        api_version="apps/v1",
        kind="ControllerRevision",
        namespace="ome",
        match_labels=pairs,
        metadata_only=metadata_only,
    )


def prefix_set(prefix: str) -> pb.Interest:
    return pb.Interest(
        api_version="apps/v1", kind="ControllerRevision", namespace="ome", name_prefix=prefix, metadata_only=True
    )


def index(**interests: list[pb.Interest]) -> InterestIndex:
    made = InterestIndex()
    for name, wanted in interests.items():
        made.replace(Key("team", name), wanted)
    return made


def test_a_name_wakes_only_those_who_named_it() -> None:
    made = index(a=[named(CLUSTER_SERVING_RUNTIME, "rt")], b=[named(CLUSTER_SERVING_RUNTIME, "other")])
    assert made.woken_by(csr(x=1), csr(rv="2", x=2)) == {A}
    assert made.woken_by(None, csr("other")) == {B}
    assert made.woken_by(csr("other"), None) == {B}
    assert made.woken_by(None, csr("third")) == set()


def test_a_new_resource_version_alone_wakes_nobody() -> None:
    made = index(a=[named(CLUSTER_SERVING_RUNTIME, "rt")])
    assert made.woken_by(csr(x=1), csr(rv="2", x=1)) == set()


def test_another_object_under_the_same_name_wakes() -> None:
    made = index(a=[named(CLUSTER_SERVING_RUNTIME, "rt")])
    assert made.woken_by(csr(uid="u"), csr(uid="v", rv="2")) == {A}


def test_metadata_only_sleeps_through_other_content() -> None:
    whole, meta = named(CONTROLLER_REVISION, "cr", "ome"), named(CONTROLLER_REVISION, "cr", "ome", metadata_only=True)
    made = index(a=[whole], b=[meta])
    assert made.woken_by(cr("cr", data={"x": 1}), cr("cr", "2", data={"x": 2})) == {A}
    assert made.woken_by(cr("cr", labels={"l": "1"}), cr("cr", "2", labels={"l": "2"})) == {A, B}


def test_a_label_set_wakes_on_entering_changing_and_leaving() -> None:
    made = index(a=[label_set(of="rt")], b=[label_set(of="other")])
    assert made.woken_by(None, cr("x", labels={"of": "rt"})) == {A}
    assert made.woken_by(cr("x", labels={"of": "rt"}), cr("x", "2", labels={"of": "rt"}, data={})) == {A}
    assert made.woken_by(cr("x", labels={"of": "rt"}), cr("x", "2", labels={"of": "other"})) == {A, B}
    assert made.woken_by(cr("x", labels={"of": "rt"}), None) == {A}
    assert made.woken_by(None, cr("x", labels={"of": "none"})) == set()


def test_all_labels_of_a_set_must_match() -> None:
    made = index(a=[label_set(of="rt", kind="k")])
    assert made.woken_by(None, cr("x", labels={"of": "rt"})) == set()
    assert made.woken_by(None, cr("x", labels={"of": "rt", "kind": "k", "more": "m"})) == {A}


def test_a_prefix_set_wakes_for_names_that_begin_with_it() -> None:
    made = index(a=[prefix_set("cr-rt-")], b=[prefix_set("cr-rt-x-")])
    assert made.woken_by(None, cr("cr-rt-x-1")) == {A, B}
    assert made.woken_by(None, cr("cr-rt-1")) == {A}
    assert made.woken_by(None, cr("cr-r")) == set()


def test_a_whole_kind_of_a_namespace() -> None:
    everything = pb.Interest(api_version="apps/v1", kind="ControllerRevision", namespace="ome")
    made = index(a=[everything])
    assert made.woken_by(None, cr("any")) == {A}
    other = obj(CONTROLLER_REVISION, revision("any", namespace="elsewhere"))
    assert made.woken_by(None, other) == set()


def test_replaced_and_forgotten_interests_no_longer_wake() -> None:
    made = index(a=[label_set(of="rt"), prefix_set("cr-")], b=[label_set(of="rt")])
    made.replace(A, [named(CLUSTER_SERVING_RUNTIME, "rt")])
    assert made.woken_by(None, cr("cr-1", labels={"of": "rt"})) == {B}
    made.forget(B)
    assert made.woken_by(None, cr("cr-1", labels={"of": "rt"})) == set()
    assert made.woken_by(None, csr()) == {A}
    made.clear()
    assert made.woken_by(None, csr()) == set()
    assert not made._keys and not made._slots and not made._prefix_lengths and not made._by_key


def test_an_event_looks_only_at_its_own_slots() -> None:
    made = InterestIndex()
    for number in range(1000):
        made.replace(
            Key("team", str(number)), [named(CLUSTER_SERVING_RUNTIME, f"rt{number}"), label_set(of=str(number))]
        )
    assert len(made._touched(None, csr("rt7"))) == 1
    assert len(made._touched(None, cr("x", labels={"of": "7", "more": "m"}))) == 1
    assert made.woken_by(None, csr("rt7")) == {Key("team", "7")}


@pytest.mark.parametrize(
    ("interest", "namespaced", "part"),
    [
        (named(CLUSTER_SERVING_RUNTIME, "rt"), False, ""),
        (named(CONTROLLER_REVISION, "cr", "ome"), True, ""),
        (named(CONTROLLER_REVISION, "cr", "team"), True, ""),
        (named(CONTROLLER_REVISION, "cr", "kube-system"), True, 'not "kube-system"'),
        (named(CONTROLLER_REVISION, "cr", ""), True, 'not ""'),
        (named(CLUSTER_SERVING_RUNTIME, "rt", "team"), False, "cluster-scoped"),
        (pb.Interest(api_version="v1", kind="Secret", namespace="team", name="s", data_key="k"), True, "Secret"),
        (pb.Interest(api_version="v1", kind="Node", name="n"), None, "not a kind"),
        (pb.Interest(api_version="apps/v1", kind="ControllerRevision", namespace="ome",
                     match_labels=[pb.KeyValue(key="k")]), True, "needs a value"),
    ],
)  # fmt: skip
def test_what_is_refused(interest: pb.Interest, namespaced: bool | None, part: str) -> None:
    cause = refusal(interest, namespaced, "team", "ome")
    assert (part in cause) if part else cause == ""


def test_a_name_matches_exactly() -> None:
    assert matches(named(CONTROLLER_REVISION, "cr", "ome"), cr("cr"))
    assert not matches(named(CONTROLLER_REVISION, "cr", "ome"), cr("cr-1"))
    assert not matches(named(CONTROLLER_REVISION, "cr", "team"), cr("cr"))
