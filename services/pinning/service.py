"""The servicer of `ome.pinning.v1`: check the request, call the domain, answer."""

from __future__ import annotations

from collections.abc import Callable

import grpc.aio

from ome.common.v1 import common_pb2
from ome.pinning.v1 import pinning_pb2, pinning_pb2_grpc
from services.kit import canonical, errors
from services.kit.jsontypes import JsonObject
from services.pinning import actions, admission, diff, interests, resolve
from services.pinning.codec import answers, requests
from services.pinning.creation import candidate
from services.pinning.isvc import BadInferenceService, InferenceService
from services.pinning.snapshots import Unusable, check

SERVICE = "ome.pinning.v1.PinningService"
MAX_ACTOR = 256


class PinningServicer(pinning_pb2_grpc.PinningServiceServicer):
    """Pure: equal requests give byte-equal answers; nothing is kept between calls."""

    async def Reconcile(self, request: pinning_pb2.ReconcileRequest, context: object) -> pinning_pb2.ReconcileResponse:
        """One pass (spec 5). A bad InferenceService is a normal answer with one RuntimePinError."""
        requests.require_now(request.meta)
        answer = pinning_pb2.ReconcileResponse(meta=answers.response_meta(request))
        try:
            outcome, pin = _decide(request.observation)
        except requests.Fault as fault:
            answer.outcome.CopyFrom(answers.unreadable(request.observation.isvc, str(fault)))
            return answer
        answer.outcome.CopyFrom(outcome)
        if pin is not None:
            answer.pin.CopyFrom(pin)
        return answer

    async def Resolve(self, request: pinning_pb2.ResolveRequest, context: object) -> pinning_pb2.ResolveResponse:
        """The decision of a pass for anybody; a bad InferenceService is INVALID_ARGUMENT here."""
        requests.require_now(request.meta)
        try:
            outcome, pin = _decide(request.observation)
        except requests.Fault as fault:
            raise fault.rpc_error() from None
        return pinning_pb2.ResolveResponse(meta=answers.response_meta(request), outcome=outcome, pin=pin)

    async def HashRuntime(
        self, request: pinning_pb2.HashRuntimeRequest, context: object
    ) -> pinning_pb2.HashRuntimeResponse:
        """Digest, canonical bytes and, with a source, the first candidate name (spec 2, 3)."""
        data = canonical.canonical(requests.document(request.spec, "spec"))
        digest = canonical.digest(data)
        answer = pinning_pb2.HashRuntimeResponse(
            meta=answers.response_meta(request),
            digest=digest,
            short=canonical.short(digest),
            algorithm=canonical.ALGORITHM,
            canonical=data,
        )
        if request.HasField("source"):
            answer.candidate = candidate(requests.source(request.source), data, 0)
        return answer

    async def DiffRevisions(
        self, request: pinning_pb2.DiffRevisionsRequest, context: object
    ) -> pinning_pb2.DiffRevisionsResponse:
        """What changed between two sides, each a snapshot or a live document (spec 8)."""
        left, left_digest = _side(request.left, "left")
        right, right_digest = _side(request.right, "right")
        found, truncated = diff.differences(left, right)
        answer = pinning_pb2.DiffRevisionsResponse(
            meta=answers.response_meta(request), left_digest=left_digest, right_digest=right_digest, truncated=truncated
        )
        for item in found:
            answer.changes.add(
                type=f"CHANGE_TYPE_{item.kind}",
                pointer=item.pointer,
                left_json=b"" if item.kind == "ADDED" else canonical.canonical(item.left),
                right_json=b"" if item.kind == "REMOVED" else canonical.canonical(item.right),
            )
        return answer

    async def Validate(self, request: pinning_pb2.ValidateRequest, context: object) -> pinning_pb2.ValidateResponse:
        """Admission (spec 6); a denial is a normal answer."""
        verdict = _judge(request)
        answer = pinning_pb2.ValidateResponse(meta=answers.response_meta(request))
        answer.result.allowed = verdict.denied is None
        answer.result.warnings.extend(verdict.warnings)
        if verdict.denied is not None:
            finding = verdict.denied
            answer.result.findings.add(field=finding.field, reason="Invalid", message=finding.message)
        return answer

    async def PlanAction(
        self, request: pinning_pb2.PlanActionRequest, context: object
    ) -> pinning_pb2.PlanActionResponse:
        """The patch an action means, or why it is refused (FAILED_PRECONDITION; ABORTED when the caller is behind)."""
        requests.require_now(request.meta)
        try:
            isvc = requests.inference_service(request.observation.isvc, "observation.isvc")
            planned = _plan(request, isvc)
        except requests.Fault as fault:
            raise fault.rpc_error() from None
        except actions.Refusal as refusal:
            if refusal.lost:
                raise errors.aborted(refusal.reason, str(refusal)) from None
            subject = f"{request.observation.isvc.ref.namespace}/{request.observation.isvc.ref.name}"
            raise errors.failed_precondition(refusal.reason, subject, str(refusal)) from None
        return answers.action(request, isvc, planned)

    async def RenderComponents(
        self, request: pinning_pb2.RenderComponentsRequest, context: object
    ) -> pinning_pb2.RenderComponentsResponse:
        """Rendering is not part of this version."""
        raise errors.unimplemented(f"{SERVICE}/RenderComponents is not implemented by this version")


def _decide(seen: common_pb2.Observation) -> tuple[common_pb2.Outcome, pinning_pb2.PinSummary | None]:
    """Outcome and summary of a pass; the summary is absent for a deleted InferenceService or an incomplete view."""
    isvc = requests.inference_service(seen.isvc, "observation.isvc")
    if isvc.deleting:
        done = common_pb2.Outcome(flow=common_pb2.FLOW_PROCEED, disposition=common_pb2.DISPOSITION_DONE)
        done.valid_until.CopyFrom(answers.FOREVER)
        return done, None
    namespace = seen.ome_namespace or "ome"
    wanted = interests.wanted(isvc, namespace)
    view = requests.View(seen.objects)
    if not view.complete(wanted):
        return answers.ask_again(wanted), None
    observed = resolve.Observed()
    reference = isvc.reference
    if reference is not None:
        observed = resolve.Observed(
            explicit=view.snapshot(wanted.explicit, reference),
            pinned=view.snapshot(wanted.pinned, reference),
            live=view.live(wanted, reference),
            known=view.known(wanted) if wanted.sets else None,
            failed=requests.failures(seen.failures, namespace),
        )
    found = resolve.resolve(isvc, observed, namespace)
    return answers.build(seen.isvc.ref, isvc, found, wanted, namespace), answers.summary(found)


def _side(side: pinning_pb2.RevisionSide, field: str) -> tuple[JsonObject, str]:
    """The document of one side, and its digest."""
    which = side.WhichOneof("side")
    if which is None:
        raise errors.invalid_argument("MISSING_FIELD", [errors.Violation(field, "set snapshot or live_spec")])
    if which == "live_spec":
        live = requests.document(side.live_spec, f"{field}.live_spec")
        return live, canonical.digest(canonical.canonical(live))
    snapshot = requests.snapshot_manifest(side.snapshot, f"{field}.snapshot")
    try:
        usable = check(snapshot, None)
    except Unusable as error:
        name = snapshot.name or side.snapshot.ref.name
        raise errors.failed_precondition("RevisionInvalid", name, error.cause) from None
    return usable.spec, usable.digest


def _judge(request: pinning_pb2.ValidateRequest) -> admission.Verdict:
    asked = request.admission
    read = requests.revision if asked.object.ref.kind == interests.REVISION else requests.manifest
    new = read(asked.object, "admission.object")
    old = None
    if asked.operation == common_pb2.OPERATION_UPDATE:
        old = read(asked.old_object, "admission.old_object")
    elif asked.operation != common_pb2.OPERATION_CREATE:
        raise errors.invalid_argument(
            "INVALID_FIELD", [errors.Violation("admission.operation", "set OPERATION_CREATE or OPERATION_UPDATE")]
        )
    namespace = asked.object.ref.namespace or _text(new, "namespace")
    kind = asked.object.ref.kind or str(new.get("kind") or "")
    if kind == interests.REVISION:
        return admission.controller_revision(new, old, namespace, request.ome_namespace or "ome")
    if kind == "InferenceService":
        try:
            return admission.inference_service(new, old, namespace)
        except BadInferenceService as error:
            wrong = [errors.Violation(f"admission.object.json:{item.field}", item.message) for item in error.faults]
            raise errors.invalid_argument("INVALID_FIELD", wrong) from None
    text = f'kind "{kind}" is not judged here; send an InferenceService'
    raise errors.invalid_argument("INVALID_FIELD", [errors.Violation("admission.object.ref.kind", text)])


def _text(document: JsonObject, key: str) -> str:
    metadata = document.get("metadata")
    return str(metadata.get(key) or "") if isinstance(metadata, dict) else ""


def _plan(request: pinning_pb2.PlanActionRequest, isvc: InferenceService) -> actions.Planned:
    expected = request.context.expected
    seen = actions.Seen(expected.uid, expected.resource_version, request.expected_pinned_revision)
    plans: dict[int, Callable[[], actions.Planned]] = {
        pinning_pb2.ACTION_SYNC: lambda: actions.sync(
            isvc, _required(request.context.request_id, "context.request_id")
        ),
        pinning_pb2.ACTION_PIN: lambda: _plan_pin(request, isvc),
        pinning_pb2.ACTION_UNPIN: lambda: actions.unpin(isvc),
    }
    plan = plans.get(request.action)
    if plan is None:
        raise errors.invalid_argument(
            "INVALID_FIELD", [errors.Violation("action", "set ACTION_SYNC, ACTION_PIN or ACTION_UNPIN")]
        )
    if len(request.context.actor) > MAX_ACTOR:
        text = f"context.actor has {len(request.context.actor)} characters; at most {MAX_ACTOR} are recorded"
        raise errors.invalid_argument("INVALID_FIELD", [errors.Violation("context.actor", text)])
    return actions.plan(isvc, seen, plan)


def _required(value: str, field: str) -> str:
    if not value:
        raise errors.invalid_argument("MISSING_FIELD", [errors.Violation(field, f"{field} is missing; set it")])
    return value


def _plan_pin(request: pinning_pb2.PlanActionRequest, isvc: InferenceService) -> actions.Planned:
    revision = _required(request.revision, "revision")
    interest = interests.snapshot(request.observation.ome_namespace or "ome", revision)
    if isvc.reference is None:
        return actions.pin(isvc, revision, None)
    view = requests.View(request.observation.objects)
    if view.find(interest) is None:
        text = f"ControllerRevision {interest.namespace}/{revision} is not among the observed objects; add it"
        raise errors.invalid_argument("MISSING_FIELD", [errors.Violation("observation.objects", text)])
    return actions.pin(isvc, revision, view.snapshot(interest, isvc.reference))


def register(server: grpc.aio.Server) -> list[str]:
    """Add the servicer; the full names it serves."""
    pinning_pb2_grpc.add_PinningServiceServicer_to_server(PinningServicer(), server)
    return [SERVICE]


__all__ = ["PinningServicer", "register"]
