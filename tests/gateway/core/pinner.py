"""A pinning service for tests of the gateway as a process: pins to a snapshot named after the runtime's content."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence

import grpc.aio

from ome.common.v1 import common_pb2 as pb
from ome.pinning.v1 import pinning_pb2, pinning_pb2_grpc
from services.kit import process, settings


class Pinner(pinning_pb2_grpc.PinningServiceServicer):
    async def Reconcile(self, request: pinning_pb2.ReconcileRequest, context: object) -> pinning_pb2.ReconcileResponse:
        outcome = decide(request.observation)
        return pinning_pb2.ReconcileResponse(meta=pb.ResponseMeta(decision_id="decided"), outcome=outcome)


def decide(observation: pb.Observation) -> pb.Outcome:
    isvc = json.loads(observation.isvc.json)
    runtime = isvc["spec"]["runtime"]["name"]
    wanted = [pb.Interest(api_version="ome.io/v1beta1", kind="ClusterServingRuntime", name=runtime)]
    wanted.append(pb.Interest(api_version="apps/v1", kind="ControllerRevision", namespace="ome", name_prefix="cr-"))
    if len(observation.objects) != len(wanted):
        return pb.Outcome(flow=pb.FLOW_ASK_AGAIN, interests=wanted)
    live, snapshots = observation.objects
    if live.presence != pb.PRESENCE_FOUND or snapshots.presence != pb.PRESENCE_FOUND:
        error = pb.OutcomeError(reason="NotFound", message=live.error or snapshots.error or "no runtime")
        return pb.Outcome(disposition=pb.DISPOSITION_RETRY, error=error, interests=wanted)
    spec = json.loads(live.objects[0].json).get("spec", {})
    name = "cr-" + hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:8]
    if isvc.get("status", {}).get("pinnedRevisionName") == name:
        return pb.Outcome(interests=wanted)
    body = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": name, "namespace": "ome"},
        "data": spec,
        "revision": 1,
    }
    create = pb.Write(
        verb=pb.VERB_CREATE,
        stage=pb.STAGE_PREPARE,
        reason="CreateSnapshot",
        target=pb.ObjectRef(api_version="apps/v1", kind="ControllerRevision", namespace="ome", name=name),
        json=json.dumps(body).encode(),
        field_validation=pb.FIELD_VALIDATION_STRICT,
        content_digest=name,
    )
    told = pb.Event(type="Normal", reason="RuntimePinned", message=name, key=name, repeat=pb.EVENT_REPEAT_COUNT)
    status = pb.StatusPatch(merge_patch=json.dumps({"pinnedRevisionName": name}).encode())
    flow = pb.FLOW_COMMIT_AND_STOP
    writes = [] if name in [found.ref.name for found in snapshots.objects] else [create]
    return pb.Outcome(writes=writes, status=status, events=[told], flow=flow, interests=wanted)


def register(server: grpc.aio.Server) -> Sequence[str]:
    pinning_pb2_grpc.add_PinningServiceServicer_to_server(Pinner(), server)  # type: ignore[abstract]
    return ["ome.pinning.v1.PinningService"]


def main() -> int:
    loaded = settings.load(settings.ServiceSettings, "pinner", sys.argv[1:], {})
    return process.run_service("pinner", loaded, register)


if __name__ == "__main__":
    sys.exit(main())
