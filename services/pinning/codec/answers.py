"""A resolution as protobuf: outcome, writes, status, events, summary."""

from __future__ import annotations

import orjson
from google.protobuf import timestamp_pb2
from google.protobuf.message import Message

from ome.common.v1 import common_pb2
from ome.pinning.v1 import pinning_pb2
from services.kit import canonical
from services.pinning import outcome
from services.pinning.actions import Planned
from services.pinning.codec.requests import KINDS, interest_message
from services.pinning.interests import REVISION, REVISION_API, Wanted
from services.pinning.isvc import InferenceService
from services.pinning.machine import Live, Undetermined
from services.pinning.resolve import Resolution
from services.pinning.snapshots import GC_MARK
from services.pinning.sources import Source

KIND = {name: number for number, name in KINDS.items()}
REASONS = {
    pinning_pb2.ACTION_SYNC: "SyncRuntime",
    pinning_pb2.ACTION_PIN: "PinRuntime",
    pinning_pb2.ACTION_UNPIN: "UnpinRuntime",
}
API_VERSION = "ome.pinning.v1"
FOREVER = timestamp_pb2.Timestamp(seconds=253402300799)  # 9999-12-31: nothing of pinning depends on time


def ask_again(wanted: Wanted) -> common_pb2.Outcome:
    """An outcome that only names what is needed."""
    return common_pb2.Outcome(
        flow=common_pb2.FLOW_ASK_AGAIN,
        disposition=common_pb2.DISPOSITION_DONE,
        interests=[interest_message(item) for item in wanted.all()],
    )


def unreadable(isvc: common_pb2.Manifest, message: str) -> common_pb2.Outcome:
    """A bad InferenceService in a pass: one RuntimePinError, nothing written, no retry until it changes (section 9)."""
    result = common_pb2.Outcome(
        flow=common_pb2.FLOW_COMMIT_AND_STOP,
        disposition=common_pb2.DISPOSITION_TERMINAL,
        error=common_pb2.OutcomeError(reason=outcome.ERROR, message=message),
    )
    text = outcome.EventText("Warning", outcome.ERROR, message, on_change=True)
    result.events.append(_event(isvc.ref, text))
    return result


def build(
    ref: common_pb2.ObjectRef, isvc: InferenceService, found: Resolution, wanted: Wanted, namespace: str
) -> common_pb2.Outcome:
    """The outcome of a resolution."""
    decision = found.decision
    result = common_pb2.Outcome(
        interests=[interest_message(item) for item in wanted.all()], disposition=common_pb2.DISPOSITION_DONE
    )
    result.flow = common_pb2.FLOW_COMMIT_AND_STOP if _changes_pin(isvc, found) else common_pb2.FLOW_PROCEED
    result.writes.extend(_writes(found, namespace))
    patch = outcome.status_patch(isvc, decision)
    if patch:
        result.status.merge_patch = orjson.dumps(patch, option=orjson.OPT_SORT_KEYS)
    for change in outcome.condition_changes(isvc, decision, found.live):
        result.status.conditions.add(
            type=change.type, status=change.status, reason=change.reason, message=change.message
        )
    result.events.extend(_event(ref, text) for text in outcome.events(isvc, decision, found.live, found.source))
    if decision.error:
        result.error.reason = outcome.ERROR
        result.error.message = decision.error
    if decision.retry:
        result.disposition = common_pb2.DISPOSITION_RETRY
    elif not isinstance(found.live, Undetermined):
        result.valid_until.CopyFrom(FOREVER)
    return result


def _changes_pin(isvc: InferenceService, found: Resolution) -> bool:
    decision = found.decision
    return (
        decision.pin != isvc.pin or decision.last != isvc.last or (decision.advance is not None and not decision.error)
    )


def _writes(found: Resolution, namespace: str) -> list[common_pb2.Write]:
    if found.create is not None:
        target = common_pb2.ObjectRef(
            api_version=REVISION_API, kind=REVISION, namespace=namespace, name=found.create.name
        )
        return [
            common_pb2.Write(
                verb=common_pb2.VERB_CREATE,
                stage=common_pb2.STAGE_FOLLOW_UP if found.again else common_pb2.STAGE_PREPARE,
                target=target,
                reason="CreateSnapshot",
                json=found.create.body,
                field_validation=common_pb2.FIELD_VALIDATION_STRICT,
                chain="pin",
                content_digest=found.create.content_digest,
            )
        ]
    if found.unmark is not None:
        body = orjson.dumps({"metadata": {"annotations": {GC_MARK: None}}})
        item = found.unmark
        return [
            common_pb2.Write(
                verb=common_pb2.VERB_MERGE_PATCH,
                stage=common_pb2.STAGE_PREPARE,
                target=common_pb2.ObjectRef(
                    api_version=REVISION_API, kind=REVISION, namespace=namespace, name=item.name
                ),
                precondition=common_pb2.Precondition(uid=item.uid, resource_version=item.resource_version),
                reason="UnmarkSnapshot",
                json=body,
                chain="pin",
                content_digest=canonical.digest(body),
            )
        ]
    return []


def _event(ref: common_pb2.ObjectRef, text: outcome.EventText) -> common_pb2.Event:
    repeat = common_pb2.EVENT_REPEAT_ON_CHANGE if text.on_change else common_pb2.EVENT_REPEAT_COUNT
    return common_pb2.Event(
        type=text.type,
        reason=text.reason,
        message=text.message,
        regarding=ref,
        key=f"{text.reason}/{text.message}",
        repeat=repeat,
    )


def summary(found: Resolution) -> pinning_pb2.PinSummary:
    """The decision in short."""
    decision = found.decision
    result = pinning_pb2.PinSummary(
        decision=f"DECISION_{decision.kind}",
        row=decision.row,
        pinned_revision=decision.pin,
    )
    if isinstance(found.live, Live):
        result.source.CopyFrom(source(found.live.source))
    if decision.drift is not None:
        result.drift_reason = decision.drift.reason
        result.drift_message = decision.drift.message
    return result


def response_meta(request: Message) -> common_pb2.ResponseMeta:
    """Meta of an answer: the decision id is a digest of the request without its request id."""
    clone = type(request)()
    clone.CopyFrom(request)
    if clone.HasField("meta"):
        clone.meta.ClearField("request_id")  # type: ignore[attr-defined]
    decision_id = canonical.digest(clone.SerializeToString(deterministic=True))
    return common_pb2.ResponseMeta(decision_id=decision_id, api_version=API_VERSION)


def source(value: Source) -> pinning_pb2.Source:
    """A source as a message."""
    return pinning_pb2.Source(kind=KIND[value.kind], namespace=value.namespace, name=value.name)


def action(
    request: pinning_pb2.PlanActionRequest, isvc: InferenceService, planned: Planned
) -> pinning_pb2.PlanActionResponse:
    """A planned action as the write that asks for it."""
    answer = pinning_pb2.PlanActionResponse(meta=response_meta(request))
    answer.answer.preview = planned.preview
    answer.answer.already_applied = planned.patch is None
    if planned.patch is not None:
        body = orjson.dumps(planned.patch)
        answer.answer.patch.CopyFrom(
            common_pb2.Write(
                verb=common_pb2.VERB_MERGE_PATCH,
                stage=common_pb2.STAGE_FOLLOW_UP,
                target=_target(request.observation.isvc.ref),
                precondition=common_pb2.Precondition(uid=isvc.uid, resource_version=isvc.resource_version),
                reason=REASONS[request.action],
                json=body,
                field_validation=common_pb2.FIELD_VALIDATION_STRICT,
                content_digest=canonical.digest(body),
            )
        )
    return answer


def _target(ref: common_pb2.ObjectRef) -> common_pb2.ObjectRef:
    """What a write names; its version is told by the precondition."""
    return common_pb2.ObjectRef(api_version=ref.api_version, kind=ref.kind, namespace=ref.namespace, name=ref.name)
