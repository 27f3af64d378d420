"""A cluster in a dictionary, and the rounds a gateway drives the servicer through."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from ome.common.v1 import common_pb2 as pb
from ome.pinning.v1 import pinning_pb2
from services.kit import canonical, names
from services.pinning.service import PinningServicer

NS, OME, RT = "team", "ome", "vllm"
V1 = {"engineConfig": {"runner": {"image": "example:v1", "name": "ome-container"}}}
V2 = {"engineConfig": {"runner": {"image": "example:v2", "name": "ome-container"}}}
SHA1 = "dfbf7416d5aaed6355baf57aad044c6eb152f424618794ad58ab67fada99be46"
SHA2 = "c956df99b315c6e21405216f0821b66466f3d12ec4aa66c81d0abfdbd0cd8ac5"
CR1, CR2 = f"cr-{RT}-{SHA1[:8]}", f"cr-{RT}-{SHA2[:8]}"
CLUSTER, LOCAL = "ClusterServingRuntime", "ServingRuntime"
SECRET = "s3cret-token"
Doc = dict[str, Any]


def revision(spec: Any = None, *, kind: str = CLUSTER, ns: str = "", rt: str = RT, name: str = "", **more: Any) -> Doc:
    """A sound snapshot; keyword `labels` and `annotations` override (None removes), `number`, `deleting`, `marked`."""
    spec = V1 if spec is None else spec
    sha = canonical.digest(canonical.canonical(spec))
    prefix = names.bound_prefix(f"cr-{rt}" if kind == CLUSTER else f"r-{ns}-{rt}")
    labels: Doc = {
        "ome.io/runtime-of": names.bound_label(rt),
        "ome.io/runtime-of-kind": kind,
        "ome.io/runtime-of-namespace": ns,
        "ome.io/revision-hash": sha[:8],
    }
    notes: Doc = {"ome.io/created-by": "ome-controller", "ome.io/revision-digest": f"c14n-v1:sha256:{sha}"}
    if len(rt) > 63:
        notes["ome.io/runtime-of-name"] = rt
    if more.get("marked"):
        notes["ome.io/gc-eligible-since"] = "2026-01-01T00:00:00Z"
    labels.update(more.get("labels", {}))
    notes.update(more.get("annotations", {}))
    name = name or f"{prefix}-{sha[:8]}"
    meta: Doc = {
        "name": name,
        "namespace": OME,
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "labels": {key: value for key, value in labels.items() if value is not None},
        "annotations": {key: value for key, value in notes.items() if value is not None},
    }
    if more.get("deleting"):
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    data = more.get("data", spec)
    return {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": meta, "data": data,
            "revision": more.get("number", 1)}  # fmt: skip


def runtime(spec: Any, *, kind: str = CLUSTER, rt: str = RT, ns: str = "") -> Doc:
    """A live runtime."""
    return {"apiVersion": "ome.io/v1beta1", "kind": kind, "metadata": {"name": rt, "namespace": ns}, "spec": spec}


def service(**runtime_fields: Any) -> Doc:
    """An InferenceService on `vllm` with autoSync false, changed by keywords."""
    spec = {"name": RT, "kind": CLUSTER, "autoSync": False, **runtime_fields}
    return {
        "apiVersion": "ome.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "chat", "namespace": NS, "uid": "u1", "resourceVersion": "5", "annotations": {}},
        "spec": {"runtime": {key: value for key, value in spec.items() if value is not None}},
        "status": {},
    }


def with_state(
    isvc: Doc, *, pin: str = "", token: str = "", last: str = "", drift: tuple[str, str] | None = None
) -> Doc:
    """The same with annotation and status."""
    if token:
        isvc["metadata"]["annotations"]["ome.io/runtime-sync"] = token
    if pin:
        isvc["status"]["pinnedRevisionName"] = pin
    if last:
        isvc["status"]["lastRuntimeSyncToken"] = last
    if drift:
        isvc["status"]["conditions"] = [
            {"type": "RuntimeDrifted", "status": "True", "reason": drift[0], "message": drift[1]}
        ]
    return isvc


@dataclass
class World:
    """Objects by (kind, namespace, name); `unknown` kinds answer UNDETERMINED; `raw` replaces an object's bytes."""

    objects: list[Doc] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)
    raw: dict[str, bytes] = field(default_factory=dict)
    namespace: str = NS

    def _manifest(self, doc: Doc, metadata_only: bool) -> pb.Manifest:
        meta = doc["metadata"]
        ref = pb.ObjectRef(kind=doc["kind"], namespace=meta.get("namespace", ""), name=meta["name"])
        if metadata_only:
            doc = {key: doc[key] for key in ("apiVersion", "kind", "metadata")}
        elif meta["name"] in self.raw:
            return pb.Manifest(ref=ref, json=self.raw[meta["name"]])
        return pb.Manifest(ref=ref, json=json.dumps(doc).encode())

    def observe(self, want: pb.Interest) -> pb.Observed:
        """What a synced cache answers for an interest."""
        seen = pb.Observed(interest=want)
        single = bool(want.name)
        mark = f"{want.kind}/set" if not single else want.kind
        if mark in self.unknown or want.name in self.unknown:
            seen.presence, seen.error = pb.PRESENCE_UNDETERMINED, "cache not synced"
            return seen
        for doc in self.objects:
            meta = doc["metadata"]
            labels = meta.get("labels", {})
            if (
                doc["kind"] == want.kind
                and meta.get("namespace", "") == want.namespace
                and (not single or meta["name"] == want.name)
                and meta["name"].startswith(want.name_prefix)
                and all(labels.get(item.key) == item.value for item in want.match_labels)
            ):
                seen.objects.append(self._manifest(doc, want.metadata_only))
        seen.presence = pb.PRESENCE_ABSENT if single and not seen.objects else pb.PRESENCE_FOUND
        return seen

    def request(self, isvc: Doc | bytes, request_id: str = "r") -> pinning_pb2.ReconcileRequest:
        """A request without observed objects."""
        request = pinning_pb2.ReconcileRequest()
        request.meta.request_id = request_id
        request.meta.now.seconds = 1_780_000_000
        request.observation.ome_namespace = OME
        request.observation.isvc.json = isvc if isinstance(isvc, bytes) else json.dumps(isvc).encode()
        request.observation.isvc.ref.CopyFrom(
            pb.ObjectRef(kind="InferenceService", namespace=self.namespace, name="chat", uid="u1", resource_version="5")
        )
        return request

    def full_request(self, isvc: Doc | bytes, request_id: str = "r") -> pinning_pb2.ReconcileRequest:
        """A request with everything its answer asks for."""
        request = self.request(isvc, request_id)
        for _ in range(3):
            answer = call(request)
            if answer.outcome.flow != pb.FLOW_ASK_AGAIN:
                break
            del request.observation.objects[:]
            request.observation.objects.extend(self.observe(item) for item in answer.outcome.interests)
        return request

    def ask(self, isvc: Doc | bytes) -> Answer:
        """A pass to its end, at most three rounds."""
        answer = call(self.full_request(isvc))
        assert answer.outcome.flow != pb.FLOW_ASK_AGAIN, "asked more than three times"
        return Answer(answer)


def call(request: pinning_pb2.ReconcileRequest) -> pinning_pb2.ReconcileResponse:
    """One call of the servicer."""
    return asyncio.run(PinningServicer().Reconcile(request, None))


class Answer:
    """An answer, readable by tests."""

    def __init__(self, response: pinning_pb2.ReconcileResponse) -> None:
        self.response = response
        self.outcome = response.outcome
        self.row = response.pin.row
        self.decision = pinning_pb2.Decision.Name(response.pin.decision).removeprefix("DECISION_")
        self.patch: Doc = json.loads(self.outcome.status.merge_patch or b"{}")
        self.error = self.outcome.error.message
        self.events = [f"{item.type} {item.reason}: {item.message}" for item in self.outcome.events]
        self.changes = {item.type: item for item in self.outcome.status.conditions}
        self.retry = self.outcome.disposition == pb.DISPOSITION_RETRY
        self.stops = self.outcome.flow == pb.FLOW_COMMIT_AND_STOP
        self.creates = [json.loads(item.json) for item in self.outcome.writes if item.verb == pb.VERB_CREATE]
        self.unmarks = [item.target.name for item in self.outcome.writes if item.verb == pb.VERB_MERGE_PATCH]

    @property
    def drift(self) -> str:
        """`kept` (no change told), `removed`, or the reason."""
        item = self.changes.get("RuntimeDrifted")
        return "kept" if item is None else item.reason if item.status == "True" else "removed"

    @property
    def message(self) -> str:
        """Message of RuntimeDrifted."""
        item = self.changes.get("RuntimeDrifted")
        return item.message if item else ""
