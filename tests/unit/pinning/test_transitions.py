"""Transitions of pinning specification 5.2: several passes over one InferenceService, status carried along."""

from __future__ import annotations

from tests.unit.pinning.test_rows import isvc
from tests.unit.pinning.world import CLUSTER, CR1, CR2, LOCAL, NS, RT, V1, V2, Answer, Doc, World, revision, runtime

L1 = f"r-{NS}-{RT}-{CR1[-8:]}"


def step(world: World, doc: Doc) -> Answer:
    """A pass whose writes and status are committed, as the gateway commits them."""
    answer = world.ask(doc)
    for made in answer.creates:
        made["metadata"].update(uid="new", resourceVersion="1")
        world.objects.append(made)
    for key, value in answer.patch.items():
        doc["status"][key] = value
    kept = [item for item in doc["status"].get("conditions", []) if item["type"] not in answer.changes]
    told = [
        {"type": item.type, "status": item.status, "reason": item.reason, "message": item.message}
        for item in answer.changes.values()
        if item.status
    ]
    doc["status"]["conditions"] = kept + told
    return answer


def reasons(answer: Answer) -> list[str]:
    return [item.reason for item in answer.outcome.events]


def set_token(doc: Doc, token: str) -> None:
    doc["metadata"]["annotations"]["ome.io/runtime-sync"] = token


def test_auto_sync_on_and_off_again() -> None:
    world, doc = World([runtime(V1)]), isvc(token="1")
    assert step(world, doc).row == "F1"
    assert step(world, doc).row == "P4"
    doc["spec"]["runtime"]["autoSync"] = True
    assert reasons(step(world, doc)) == ["RuntimePinReleased"]
    assert reasons(step(world, doc)) == []
    world.objects[0] = runtime(V2)
    set_token(doc, "2")
    doc["spec"]["runtime"]["autoSync"] = False
    assert step(world, doc).row == "F1"
    assert (doc["status"]["pinnedRevisionName"], doc["status"]["lastRuntimeSyncToken"]) == (CR2, "2")


def test_drift_is_told_once_and_advance_ends_it() -> None:
    world, doc = World([runtime(V1)]), isvc()
    step(world, doc)
    world.objects[0] = runtime(V2)
    assert reasons(step(world, doc)) == ["RuntimeDrifted"]
    assert reasons(step(world, doc)) == []
    set_token(doc, "1")
    assert reasons(step(world, doc)) == ["RuntimePinAdvanced"]
    assert step(world, doc).row == "P4"


def test_live_edited_and_back_token_waits_for_the_next_change() -> None:
    world, doc = World([runtime(V1)]), isvc()
    step(world, doc)
    world.objects[0] = runtime(V2)
    step(world, doc)
    world.objects[0] = runtime(V1)
    set_token(doc, "1")
    assert reasons(step(world, doc)) == ["RuntimeDriftResolved"]
    assert "lastRuntimeSyncToken" not in doc["status"]
    world.objects[0] = runtime(V2)
    assert step(world, doc).row == "P6"


def test_removing_the_annotation_withdraws_the_token() -> None:
    world, doc = World([runtime(V1)]), isvc(token="1")
    step(world, doc)
    set_token(doc, "2")
    assert step(world, doc).row == "P4"
    del doc["metadata"]["annotations"]["ome.io/runtime-sync"]
    world.objects[0] = runtime(V2)
    assert step(world, doc).row == "P5"


def test_another_scope_starts_to_answer() -> None:
    world, doc = World([runtime(V1, kind=LOCAL, ns=NS)]), isvc(kind=None)
    assert reasons(step(world, doc)) == ["RuntimePinned"]
    assert doc["status"]["pinnedRevisionName"] == L1
    world.objects.append(runtime(V1))
    drifted = step(world, doc)
    assert drifted.row == "P5"
    assert drifted.message == (
        f"pinned {L1} of ServingRuntime {NS}/{RT}, reference now resolves to {CLUSTER} {RT}; "
        "bump ome.io/runtime-sync annotation to advance"
    )
    set_token(doc, "1")
    assert step(world, doc).row == "P6"
    assert doc["status"]["pinnedRevisionName"] == CR1


def test_kind_changed_by_the_user_moves() -> None:
    world, doc = World([runtime(V1), runtime(V1, kind=LOCAL, ns=NS)]), isvc()
    step(world, doc)
    doc["spec"]["runtime"]["kind"] = LOCAL
    moved = step(world, doc)
    text = f"Normal RuntimePinMoved: reference changed; pinned to {L1} of ServingRuntime {NS}/{RT} (was {CR1})"
    assert (moved.row, moved.events) == ("M", [text])
    assert step(world, doc).row == "P4"


def test_revision_of_the_old_runtime_after_a_rename() -> None:
    world, doc = World([revision(V1), runtime(V1, rt="next")]), isvc(CR1, revision=CR1)
    doc["spec"]["runtime"]["name"] = "next"
    answer = step(world, doc)
    text = f'revision {CR1} belongs to runtime "{RT}" but ISVC references "next"'
    assert (answer.row, answer.events) == ("E3", [f"Warning RuntimeMismatch: {text}"])
    assert doc["status"]["pinnedRevisionName"] == CR1


def test_revision_removed_and_a_new_token_advances_at_once() -> None:
    world, doc = World([runtime(V2), revision(V1)]), isvc(revision=CR1)
    assert step(world, doc).row == "E1"
    set_token(doc, "1")
    assert step(world, doc).row == "E1"
    del doc["spec"]["runtime"]["revision"]
    assert step(world, doc).row == "P6"
    assert doc["status"]["pinnedRevisionName"] == CR2


def test_first_pin_waits_for_its_source() -> None:
    world, doc = World(), isvc()
    assert step(world, doc).retry
    world.objects.append(runtime(V1))
    assert step(world, doc).row == "F1"


def test_missing_snapshot_heals_by_itself() -> None:
    for explicit in ("", CR1):
        world, doc = World([runtime(V1)]), isvc(CR1, revision=explicit)
        assert reasons(step(world, doc)) == ["RuntimeRevisionMissing"]
        world.objects.append(revision(V1))
        assert reasons(step(world, doc)) == ["RuntimeDriftResolved"]
        assert reasons(step(world, doc)) == []
