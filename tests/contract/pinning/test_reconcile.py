"""What the gateway relies on in an answer of Reconcile: interests, flow, writes, events."""

from __future__ import annotations

import json

import pytest

from ome.common.v1 import common_pb2 as pb
from tests.unit.pinning.test_rows import CASES, Case, isvc
from tests.unit.pinning.world import CR1, OME, RT, V1, V2, World, call, revision, runtime


def test_steady_interests_are_named_objects_only() -> None:
    answer = World([runtime(V1), revision(V1)]).ask(isvc(CR1))
    assert [(item.kind, item.namespace, item.name) for item in answer.outcome.interests] == [
        ("ClusterServingRuntime", "", RT),
        ("ControllerRevision", OME, CR1),
    ]


def test_first_pin_asks_for_sets_in_its_first_answer() -> None:
    asked = call(World().request(isvc(kind=None))).outcome
    assert asked.flow == pb.FLOW_ASK_AGAIN
    assert not asked.writes
    assert not asked.events
    sets = [item for item in asked.interests if not item.name]
    assert [item.name_prefix for item in sets] == ["", f"cr-{RT}-", f"r-team-{RT}-"]
    assert [item.metadata_only for item in sets] == [False, True, True]
    assert [(kv.key, kv.value) for kv in sets[0].match_labels] == [("ome.io/runtime-of", RT)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.reason)
def test_answer(case: Case) -> None:
    request = case.world.full_request(case.isvc)
    outcome = call(request).outcome
    sent = [item.interest.SerializeToString() for item in request.observation.objects]
    assert [item.SerializeToString() for item in outcome.interests] == sent
    assert outcome.flow in (pb.FLOW_PROCEED, pb.FLOW_COMMIT_AND_STOP)
    assert (outcome.error.reason == "RuntimePinError") == bool(case.error)
    for event in outcome.events:
        on_change = event.reason == "RuntimePinError"
        assert event.repeat == (pb.EVENT_REPEAT_ON_CHANGE if on_change else pb.EVENT_REPEAT_COUNT)
        assert event.regarding.uid == "u1"
    for write in outcome.writes:
        assert write.stage == pb.STAGE_PREPARE
        assert write.content_digest
        assert (write.target.kind, write.target.namespace) == ("ControllerRevision", OME)
        if write.verb == pb.VERB_CREATE:
            assert write.field_validation == pb.FIELD_VALIDATION_STRICT
        else:
            assert write.precondition.resource_version == "7"
            assert json.loads(write.json) == {"metadata": {"annotations": {"ome.io/gc-eligible-since": None}}}


def test_already_exists_converges_on_the_winner() -> None:
    world, doc = World([runtime(V2)]), isvc()
    lost = world.ask(doc)
    (made,) = lost.creates
    world.objects.append(revision(V2))
    won = world.ask(doc)
    assert won.patch == {"pinnedRevisionName": made["metadata"]["name"]} == lost.patch
    assert not won.creates
    assert not [text for text in won.events if text.startswith("Warning")]
