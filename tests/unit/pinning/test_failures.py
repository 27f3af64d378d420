"""Writes that failed come back with the next pass: told to the user, and tried again (pinning specification 5.3, 8)."""

from __future__ import annotations

import pytest

from ome.common.v1 import common_pb2 as pb
from tests.unit.pinning.test_rows import OLD, isvc
from tests.unit.pinning.world import CR1, CR2, OME, RT, V1, V2, Answer, Doc, World, call, revision, runtime

REFUSAL = 'controllerrevisions.apps is forbidden: exceeded quota: "snapshots"'


def failed(world: World, doc: Doc, **changes: object) -> Answer:
    """The pass after one whose create was refused; `changes` of the failure that comes back."""
    request = world.full_request(doc)
    write = call(request).outcome.writes[0]
    failure = pb.WriteFailure(
        target=write.target, verb=write.verb, content_digest=write.content_digest, code=403, message=REFUSAL
    )
    for name, value in changes.items():
        if name == "name":
            failure.target.name = str(value)
        else:
            setattr(failure, name, value)
    request.observation.failures.append(failure)
    return Answer(call(request))


def test_a_refused_first_pin_is_told_and_tried_last() -> None:
    world = World([runtime(V1)])
    doc = isvc(token="2")
    answer = failed(world, doc)
    text = f"create initial pin for {RT}: {REFUSAL}"
    assert (answer.row, answer.decision, answer.patch) == ("F1", "RETRY", {})
    assert (answer.error, answer.events) == (text, [f"Warning RuntimePinError: {text}"])
    assert answer.retry
    assert not answer.stops
    (write,) = answer.outcome.writes
    assert (write.verb, write.stage) == (pb.VERB_CREATE, pb.STAGE_FOLLOW_UP)
    # Written at last, it is found like any other.
    assert World([runtime(V1), revision(V1)]).ask(doc).patch == {"pinnedRevisionName": CR1, "lastRuntimeSyncToken": "2"}


def test_a_refused_advance_keeps_the_pin_and_the_drift() -> None:
    answer = failed(World([runtime(V2), revision(V1)]), isvc(CR1, "2", "1", OLD))
    assert (answer.row, answer.decision, answer.patch, answer.drift) == ("P6", "DRIFT", {}, "RevisionMismatch")
    assert answer.events == [f"Warning RuntimePinError: advance pin for {RT}: {REFUSAL}"]
    assert answer.retry


def test_a_refused_advance_of_a_missing_pin_holds() -> None:
    answer = failed(World([runtime(V2)]), isvc(CR1, "2", "1"))
    assert (answer.row, answer.decision, answer.patch, answer.drift) == ("P2", "HOLD", {}, "RevisionMissing")
    assert answer.error == f"advance pin for {RT}: {REFUSAL}"


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("another name", {"name": CR2}),
        ("other content", {"content_digest": "0" * 64}),
        ("another verb", {"verb": pb.VERB_MERGE_PATCH}),
        ("the API server was away", {"code": 0}),
        ("the API server was busy", {"code": 429}),
    ],
)
def test_other_failures_say_nothing_of_this_write(reason: str, changes: dict[str, object]) -> None:
    answer = failed(World([runtime(V1)]), isvc(), **changes)
    assert (answer.decision, answer.error) == ("FIRST_PIN", ""), reason
    assert answer.outcome.writes[0].stage == pb.STAGE_PREPARE


def test_a_failure_without_a_message_is_told_by_what_it_has() -> None:
    assert failed(World([runtime(V1)]), isvc(), message="", api_reason="Invalid").error.endswith(": Invalid")
    assert failed(World([runtime(V1)]), isvc(), message="", code=500).error.endswith(": status 500")
    assert failed(World([runtime(V1)]), isvc(), message="two\n lines").error.endswith(": two lines")


def test_a_snapshot_that_somebody_else_made_is_reused_in_spite_of_a_failure() -> None:
    request = World([runtime(V1), revision(V1)]).full_request(isvc())
    failure = request.observation.failures.add(verb=pb.VERB_CREATE, code=403, message=REFUSAL)
    failure.target.CopyFrom(pb.ObjectRef(kind="ControllerRevision", namespace=OME, name=CR1))
    assert call(request).pin.row == "F1"
    assert not call(request).outcome.HasField("error")


def test_a_write_names_no_version_of_its_target() -> None:
    marked = World([runtime(V1), revision(V1, marked=True)]).ask(isvc()).outcome.writes[0]
    made = World([runtime(V1)]).ask(isvc()).outcome.writes[0]
    for write, reason in ((marked, "UnmarkSnapshot"), (made, "CreateSnapshot")):
        assert (write.target.uid, write.target.resource_version) == ("", "")
        assert write.reason == reason
    assert marked.precondition.uid == f"uid-{CR1}"
    assert not made.HasField("precondition")
