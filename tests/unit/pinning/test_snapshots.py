"""Checks of a snapshot in their order (pinning specification 4) and find-or-create (section 3)."""

from __future__ import annotations

import hashlib

import pytest

from services.kit import canonical
from tests.unit.pinning.test_rows import isvc
from tests.unit.pinning.world import CLUSTER, CR1, LOCAL, NS, RT, SHA1, V1, V2, Doc, World, revision, runtime

INVALID, MISMATCH = "RevisionInvalid", "RuntimeMismatch"
OF, KIND, SPACE = "ome.io/runtime-of", "ome.io/runtime-of-kind", "ome.io/runtime-of-namespace"
HASH = "ome.io/revision-hash"
BY, DIGEST, FULL = (f"ome.io/{key}" for key in ("created-by", "revision-digest", "runtime-of-name"))
SHA_A = canonical.digest(b'{"a":1}')
# Every later check fails too, so each case shows that its own check comes first.
CHECKS = [
    ("creator", {"annotations": {BY: None}, "labels": {OF: None}}, INVALID, "not created by this controller"),
    ("name label", {"labels": {OF: None, KIND: "Pod"}}, INVALID, f'label {OF} is ""'),
    ("kind label", {"labels": {KIND: "Pod", SPACE: "x"}}, INVALID, f'label {KIND} is "Pod"'),
    ("namespace of a CSR", {"labels": {SPACE: "x"}, "annotations": {FULL: "y"}}, INVALID, f'label {SPACE} is "x"'),
    ("namespace of an SR", {"labels": {KIND: LOCAL}}, INVALID, f'label {SPACE} is ""'),
    ("full name", {"annotations": {FULL: RT}, "labels": {HASH: "0"}}, INVALID,
     f"annotation {FULL} does not match its label"),
    ("runtime name", {"labels": {OF: "b", KIND: LOCAL, SPACE: "x"}}, MISMATCH,
     f'revision {CR1} belongs to runtime "b" but ISVC references "{RT}"'),
    ("kind", {"labels": {KIND: LOCAL, SPACE: "x"}}, MISMATCH,
     f'revision {CR1} belongs to ServingRuntime x/{RT} but ISVC references {CLUSTER} "{RT}"'),
    ("digest absent", {"annotations": {DIGEST: None}, "data": None}, INVALID, f"annotation {DIGEST} is missing"),
    ("algorithm", {"annotations": {DIGEST: "c14n-v2:sha256:00"}, "data": None}, INVALID,
     'digest algorithm "c14n-v2:sha256" is not supported'),
    ("null", {"data": None}, INVALID, "data is not readable: the document is null, not an object"),
    ("string", {"data": "x"}, INVALID, "data is not readable: the document is a string, not an object"),
    ("array", {"data": []}, INVALID, "data is not readable: the document is an array, not an object"),
    ("number", {"data": {"n": 2**53}}, INVALID, f"data is not readable: integer {2**53} is beyond +-(2^53 - 1)"),
    ("empty", {"data": {"a": None}, "labels": {HASH: "0"}}, INVALID, "data is an empty document"),
    ("digest", {"data": {"a": 1}, "labels": {HASH: "0"}}, INVALID,
     f"digest {SHA1} does not match data {SHA_A}"),
    ("hash label", {"labels": {HASH: "0"}}, INVALID, f'label {HASH} is "0", expected "{SHA1[:8]}"'),
]  # fmt: skip


@pytest.mark.parametrize("pinned", [False, True], ids=["explicit", "pinned"])
@pytest.mark.parametrize(("reason", "change", "drift", "cause"), CHECKS, ids=[case[0] for case in CHECKS])
def test_check(reason: str, change: Doc, drift: str, cause: str, pinned: bool) -> None:
    world = World([runtime(V1), revision(V1, **change)])
    answer = world.ask(isvc(CR1) if pinned else isvc(revision=CR1))
    assert (answer.decision, answer.drift) == ("HOLD", drift), reason
    assert answer.message == (cause if drift == MISMATCH else f"revision {CR1} cannot be used: {cause}")
    assert len([text for text in answer.events if text.startswith("Warning")]) == 1


def test_refused_data_does_not_hide_the_first_check() -> None:
    broken = revision(V1, data={"n": 2**53}, annotations={BY: None})
    assert "not created by this controller" in World([runtime(V1), broken]).ask(isvc(CR1)).message


def test_snapshot_of_another_namespace() -> None:
    other = revision(V1, kind=LOCAL, ns="other", name=f"r-{NS}-{RT}-{SHA1[:8]}")
    answer = World([other]).ask(isvc(kind=LOCAL, revision=f"r-{NS}-{RT}-{SHA1[:8]}"))
    assert answer.message.endswith(f'label {SPACE} is "other", expected "{NS}"')


def test_name_that_is_not_its_labels() -> None:
    odd = revision(V1, name="odd")
    assert World([odd]).ask(isvc(revision="odd")).message.endswith("name does not match its labels")


# --- section 3


def candidate(k: int, spec: Doc = V1) -> str:
    data = canonical.canonical(spec)
    return f"cr-{RT}-{hashlib.sha256(data + (b'' if not k else bytes(1) + str(k).encode())).hexdigest()[:8]}"


def holders(count: int) -> list[Doc]:
    """Foreign objects under the first candidates."""
    return [revision({"k": k}, name=candidate(k), annotations={BY: None}) for k in range(count)]


@pytest.mark.parametrize("k", range(16))
def test_candidate(k: int) -> None:
    (made,) = World([runtime(V1), *holders(k)]).ask(isvc()).creates
    assert made["metadata"]["name"] == candidate(k)
    assert made["metadata"]["labels"][HASH] == SHA1[:8]
    assert k != 1 or made["metadata"]["name"].endswith("-0e3d0282")


def test_all_candidates_taken() -> None:
    answer = World([runtime(V1), *holders(16)]).ask(isvc(token="2"))
    text = f"create initial pin for {RT}: no free revision name for {CLUSTER} {RT} after 16 candidates"
    assert (answer.row, answer.error, answer.retry, answer.patch) == ("F1", text, True, {})
    pinned = World([runtime(V1), *holders(16), revision(V2)]).ask(isvc(revision_of(V2), "2", "1"))
    assert (pinned.row, pinned.decision, pinned.retry, pinned.patch) == ("P6", "DRIFT", False, {})


def revision_of(spec: Doc) -> str:
    return str(revision(spec)["metadata"]["name"])


@pytest.mark.parametrize(
    ("reason", "holder"),
    [
        ("foreign", revision(V1, annotations={BY: None})),
        ("terminating", revision(V1, deleting=True)),
        ("unusable", revision(V1, labels={HASH: "0"})),
        ("other source", revision(V1, labels={OF: "b"})),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_taken_name_is_left_alone(reason: str, holder: Doc) -> None:
    answer = World([runtime(V1), holder]).ask(isvc())
    assert [item["metadata"]["name"] for item in answer.creates] == [candidate(1)], reason
    assert not answer.unmarks


def test_collision_in_eight_digits() -> None:
    pair = [{"engineConfig": {"runner": {"args": [f"--mem-frac={x}"], "image": "img:v1", "name": "ome-container"}}}
            for x in ("0.032849", "0.024986")]  # fmt: skip
    assert revision_of(pair[0]) == revision_of(pair[1]) == f"cr-{RT}-ce6e78ea"
    (made,) = World([runtime(pair[1]), revision(pair[0])]).ask(isvc()).creates
    assert made["metadata"]["name"] == candidate(1, pair[1])
    assert made["metadata"]["labels"][HASH] == "ce6e78ea"
    drifted = World([runtime(pair[1]), revision(pair[0])]).ask(isvc(revision_of(pair[0])))
    assert drifted.row == "P5"


def test_reuse_of_lowest_revision_then_name() -> None:
    lowest_name, second, third = sorted(candidate(k) for k in range(3))
    copies = [revision(V1, name=name, number=n) for name, n in ((third, 2), (lowest_name, 3), (second, 2))]
    answer = World([runtime(V1), *copies]).ask(isvc())
    assert answer.patch == {"pinnedRevisionName": second}


def test_a_to_b_to_a_returns_to_the_original() -> None:
    answer = World([runtime(V1), revision(V1), revision(V2, number=2)]).ask(isvc(revision_of(V2), "3", "2"))
    assert answer.patch == {"pinnedRevisionName": CR1, "lastRuntimeSyncToken": "3"}
    assert not answer.creates


def test_revision_number_is_above_all_of_the_source() -> None:
    known = [
        revision({"a": 1}, number=4, deleting=True),
        revision({"a": 2}, number=6, labels={HASH: "0"}),
        revision({"a": 3}, number=8, data={"n": 2**53}),
        revision({"a": 4}, number=20, annotations={BY: None}),
        revision({"a": 5}, number=30, labels={KIND: "Pod"}),
        revision({"a": 6}, number=40, kind=LOCAL, ns=NS),
    ]
    assert [item["revision"] for item in World([runtime(V1), *known]).ask(isvc()).creates] == [9]
    assert [item["revision"] for item in World([runtime(V1)]).ask(isvc()).creates] == [1]


def test_shared_prefix_is_told_apart_by_labels() -> None:
    mine = runtime(V1, kind=LOCAL, rt="b-c", ns="a")
    other = revision(V1, kind=LOCAL, ns="a-b", rt="c")
    assert other["metadata"]["name"] == f"r-a-b-c-{SHA1[:8]}"
    doc = isvc(kind=LOCAL, name="b-c")
    doc["metadata"]["namespace"] = "a"
    (made,) = World([mine, other], namespace="a").ask(doc).creates
    assert made["metadata"]["labels"][SPACE] == "a"
    assert made["metadata"]["name"].startswith("r-a-b-c-")
    assert made["metadata"]["name"] != other["metadata"]["name"]


def test_document_and_bounds_of_long_names() -> None:
    long = "x" * 250
    (made,) = World([runtime(V1, rt=long)]).ask(isvc(name=long)).creates
    meta = made["metadata"]
    sha = hashlib.sha256(long.encode()).hexdigest()[:8]
    assert meta["labels"][OF] == f"{'x' * 54}-{sha}"
    assert meta["annotations"][FULL] == long
    assert len(meta["name"]) == 244 + 9
    again = World([runtime(V1, rt=long), revision(V1, rt=long)]).ask(isvc(meta["name"], name=long))
    assert again.row == "P4"


def test_created_document() -> None:
    (made,) = World([runtime(V1)]).ask(isvc()).creates
    want = revision(V1)
    del want["metadata"]["uid"], want["metadata"]["resourceVersion"]
    assert made == want
