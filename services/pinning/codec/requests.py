"""Protobuf to domain: strict documents, identities, observed objects by the interest they answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ome.common.v1 import common_pb2
from ome.pinning.v1 import pinning_pb2
from services.kit import canonical, errors
from services.kit.jsontypes import JsonObject
from services.pinning import machine
from services.pinning.codec.members import lenient, member, raw_member
from services.pinning.interests import REVISION, Interest, Wanted
from services.pinning.isvc import BadInferenceService, InferenceService, parse
from services.pinning.resolve import Failure
from services.pinning.snapshots import Snapshot, Unusable, check
from services.pinning.sources import CSR, SR, Reference, Source

KINDS = {
    pinning_pb2.RUNTIME_KIND_CLUSTER_SERVING_RUNTIME: CSR,
    pinning_pb2.RUNTIME_KIND_SERVING_RUNTIME: SR,
}
IDENTITY = (("namespace", "namespace"), ("name", "name"), ("uid", "uid"), ("resource_version", "resourceVersion"))
REQUIRED = ("name", "uid")
LARGEST = f"a snapshot holds at most {canonical.MAX_BYTES}"
OF_THE_SPEC = ("DOCUMENT_TOO_LARGE", "DOCUMENT_TOO_DEEP")
PASSING = (0, 429)
COMPLETE = (common_pb2.PRESENCE_FOUND, common_pb2.PRESENCE_ABSENT)


class Fault(Exception):
    """An InferenceService that cannot be read: error reason, and field paths with texts."""

    def __init__(self, reason: str, violations: list[errors.Violation]) -> None:
        super().__init__("; ".join(item.description for item in violations))
        self.reason = reason
        self.violations = violations

    def rpc_error(self) -> errors.RpcError:
        """The same as INVALID_ARGUMENT."""
        return errors.invalid_argument(self.reason, self.violations)


def require_now(meta: common_pb2.RequestMeta) -> None:
    """Refuse a request without time (MISSING_FIELD)."""
    if not meta.HasField("now"):
        raise errors.invalid_argument(
            "MISSING_FIELD", [errors.Violation("meta.now", "the time of the decision is missing; set it")]
        )


def document(data: bytes, field: str) -> JsonObject:
    """A strictly decoded document; INVALID_ARGUMENT with the reason of section 2 naming `field`."""
    try:
        return canonical.decode(data)
    except canonical.DocumentError as error:
        raise errors.invalid_argument(error.reason, [errors.Violation(field, error.detail)]) from None


def manifest(message: common_pb2.Manifest, field: str) -> JsonObject:
    """The document of a manifest; INVALID_ARGUMENT as `document`, or IDENTITY_MISMATCH. What either omits is not
    compared: an object at admission may have no name or uid yet."""
    parsed = document(message.json, f"{field}.json")
    _same_identity(message, parsed, field)
    return parsed


def _same_identity(message: common_pb2.Manifest, parsed: JsonObject, field: str) -> None:
    metadata = parsed.get("metadata")
    stored: dict[str, Any] = metadata if isinstance(metadata, dict) else {}
    pairs = [(name, getattr(message.ref, name), stored.get(key)) for name, key in IDENTITY]
    pairs += [
        ("kind", message.ref.kind, parsed.get("kind")),
        ("api_version", message.ref.api_version, parsed.get("apiVersion")),
    ]
    wrong = [
        errors.Violation(f"{field}.ref.{name}", f'is "{typed}" but the JSON says "{value}"; send both from one object')
        for name, typed, value in pairs
        if typed and value and typed != value
    ]
    if wrong:
        raise errors.invalid_argument("IDENTITY_MISMATCH", wrong)


def inference_service(manifest: common_pb2.Manifest, field: str) -> InferenceService:
    """The InferenceService of a manifest. Raises Fault; RpcError for an identity that is absent or not the JSON's."""
    try:
        parsed = canonical.decode(manifest.json)
    except canonical.DocumentError as error:
        raise Fault(error.reason, [errors.Violation(f"{field}.json", error.detail)]) from None
    _check_identity(manifest.ref, parsed, field)
    try:
        return parse(parsed)
    except BadInferenceService as error:
        raise Fault(
            "INVALID_FIELD", [errors.Violation(f"{field}.json:{item.field}", item.message) for item in error.faults]
        ) from None


def _check_identity(ref: common_pb2.ObjectRef, parsed: JsonObject, field: str) -> None:
    metadata = parsed.get("metadata")
    stored: dict[str, Any] = metadata if isinstance(metadata, dict) else {}
    wrong: list[errors.Violation] = []
    missing: list[errors.Violation] = []
    for name, key in IDENTITY:
        typed, value = str(getattr(ref, name)), stored.get(key, "")
        if name in REQUIRED and not value:
            missing.append(errors.Violation(f"{field}.json:metadata.{key}", f"metadata.{key} is missing; set it"))
        elif name in REQUIRED and not typed:
            missing.append(errors.Violation(f"{field}.ref.{name}", f"ref.{name} is missing; set it"))
        elif typed and typed != value:
            text = f'is "{typed}" but metadata.{key} is "{value}"; send both from one object'
            wrong.append(errors.Violation(f"{field}.ref.{name}", text))
    if ref.kind and "kind" in parsed and ref.kind != parsed["kind"]:
        text = f'is "{ref.kind}" but kind is "{parsed["kind"]}"; send both from one object'
        wrong.append(errors.Violation(f"{field}.ref.kind", text))
    if wrong:
        raise errors.invalid_argument("IDENTITY_MISMATCH", wrong)
    if missing:
        raise errors.invalid_argument("MISSING_FIELD", missing)


def snapshot(parsed: JsonObject) -> Snapshot:
    """A ControllerRevision as read; wrong types count as absent and then fail the checks of section 4."""
    metadata = parsed.get("metadata")
    meta: dict[str, Any] = metadata if isinstance(metadata, dict) else {}
    number = parsed.get("revision")
    return Snapshot(
        name=str(meta.get("name") or ""),
        uid=str(meta.get("uid") or ""),
        resource_version=str(meta.get("resourceVersion") or ""),
        labels=_texts(meta.get("labels")),
        annotations=_texts(meta.get("annotations")),
        revision=number if isinstance(number, int) else 0,
        terminating=bool(meta.get("deletionTimestamp")),
        data=parsed.get("data"),
    )


def read_snapshot(manifest: common_pb2.Manifest) -> Snapshot:
    """An observed ControllerRevision. What section 2 refuses in `data` leaves the metadata readable."""
    try:
        return snapshot(canonical.decode(manifest.json))
    except canonical.DocumentError as error:
        parsed = lenient(manifest.json)
        if parsed is None:
            return Snapshot(manifest.ref.name, "", "", {}, {}, 0, False, unreadable=error.detail)
        found = snapshot(parsed)
    data, detail = member(manifest.json, "data")
    return replace(found, data=data, unreadable=detail)


def revision(message: common_pb2.Manifest, field: str) -> JsonObject:
    """A ControllerRevision of anybody at admission, as `manifest`. Content that section 2 refuses is no fault of the
    request: `data` then stands for itself as written."""
    try:
        return manifest(message, field)
    except errors.RpcError:
        found = lenient(message.json)
        if found is None:
            raise
    _same_identity(message, found, field)
    data, detail = member(message.json, "data")
    return {**found, "data": raw_member(message.json, "data") if detail else data}


def snapshot_manifest(message: common_pb2.Manifest, field: str) -> Snapshot:
    """The ControllerRevision of a manifest; INVALID_ARGUMENT as `manifest`.

    What section 2 refuses inside `data` is left to the checks of section 4, and its limits of size and depth hold for
    `data`, not for the object around it.
    """
    try:
        parsed = canonical.decode(message.json)
    except canonical.DocumentError as error:
        found = lenient(message.json)
        outside = error.reason not in OF_THE_SPEC and not member(message.json, "data")[1]
        if found is None or outside:
            raise errors.invalid_argument(error.reason, [errors.Violation(f"{field}.json", error.detail)]) from None
        parsed = found
    _same_identity(message, parsed, field)
    return read_snapshot(message)


def _texts(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {key: item for key, item in value.items() if isinstance(item, str)}


def failures(messages: Iterable[common_pb2.WriteFailure], namespace: str) -> tuple[Failure, ...]:
    """Snapshots that an API server refused to create. One that could not be reached, or was busy, says nothing yet."""
    return tuple(
        Failure(item.target.name, item.content_digest, _cause(item))
        for item in messages
        if item.verb == common_pb2.VERB_CREATE
        and (item.target.kind, item.target.namespace) == (REVISION, namespace)
        and item.code not in PASSING
    )


def _cause(failure: common_pb2.WriteFailure) -> str:
    return " ".join(failure.message.split()) or failure.api_reason or f"status {failure.code}"


def interest_message(interest: Interest) -> common_pb2.Interest:
    """An interest as the gateway gets it and echoes it."""
    return common_pb2.Interest(
        api_version=interest.api_version,
        kind=interest.kind,
        namespace=interest.namespace,
        name=interest.name,
        match_labels=[common_pb2.KeyValue(key=key, value=value) for key, value in interest.labels],
        name_prefix=interest.name_prefix,
        metadata_only=interest.metadata_only,
    )


class View:
    """The observed objects of a request, looked up by the interest they answer."""

    def __init__(self, observed: Iterable[common_pb2.Observed]) -> None:
        self._by_interest = {item.interest.SerializeToString(deterministic=True): item for item in observed}

    def find(self, interest: Interest) -> common_pb2.Observed | None:
        """What was observed for an interest, None when it was not supplied."""
        return self._by_interest.get(interest_message(interest).SerializeToString(deterministic=True))

    def complete(self, wanted: Wanted) -> bool:
        """Whether every wanted interest was supplied."""
        return all(self.find(item) is not None for item in wanted.all())

    def snapshot(self, interest: Interest | None, reference: Reference) -> machine.SnapshotView | None:
        """One snapshot checked against the reference; None without an interest."""
        if interest is None:
            return None
        observed = self.find(interest)
        if observed is not None and observed.presence == common_pb2.PRESENCE_ABSENT:
            return machine.Missing()
        if observed is None or observed.presence != common_pb2.PRESENCE_FOUND or not observed.objects:
            return machine.Undetermined(_error(observed))
        try:
            return check(read_snapshot(observed.objects[0]), reference)
        except Unusable as error:
            return machine.Broken(error.reason, error.cause)

    def live(self, wanted: Wanted, reference: Reference) -> machine.LiveView:
        """The live runtime: the first scope that has it; an undetermined scope is never taken as absent."""
        for source, interest in wanted.runtimes:
            observed = self.find(interest)
            if observed is not None and observed.presence == common_pb2.PRESENCE_ABSENT:
                continue
            if observed is None or observed.presence != common_pb2.PRESENCE_FOUND or not observed.objects:
                return machine.Undetermined(_error(observed))
            return _live(source, observed.objects[0].json)
        return machine.Absent(reference.absent)

    def known(self, wanted: Wanted) -> list[Snapshot] | machine.Undetermined:
        """Every snapshot in view of the sets, whole ones before metadata; Undetermined while a set is incomplete."""
        found: dict[str, Snapshot] = {}
        for interest in wanted.sets:
            observed = self.find(interest)
            if observed is None or observed.presence not in COMPLETE:
                return machine.Undetermined(_error(observed))
            for manifest in observed.objects:
                item = read_snapshot(manifest)
                if item.name not in found or item.data is not None:
                    found[item.name] = item
        return list(found.values())


def _error(observed: common_pb2.Observed | None) -> str:
    return (observed.error if observed is not None else "") or "not known yet"


def _spec(data: bytes) -> Any:
    """`spec` of a runtime. Size and depth are limits of the spec, not of the object around it."""
    try:
        return canonical.decode(data).get("spec")
    except canonical.DocumentError as error:
        if error.reason not in OF_THE_SPEC:
            raise
        spec, detail = member(data, "spec")
        if detail:
            raise canonical.DocumentError(error.reason, detail) from None
        return spec


def _live(source: Source, data: bytes) -> machine.Live:
    try:
        spec = _spec(data)
        if spec is None:
            spec = {}
        if not isinstance(spec, dict):
            return machine.Live(source, refused="spec is not an object")
        encoded = canonical.canonical(spec)
        if len(encoded) > canonical.MAX_BYTES:
            return machine.Live(source, refused=f"the canonical form has {len(encoded)} bytes; {LARGEST}")
    except canonical.DocumentError as error:
        return machine.Live(source, refused=error.detail)
    unpinnable = ""
    if encoded == b"{}":
        unpinnable = f"{source} has an empty spec"
    elif spec.get("disabled") is True:
        unpinnable = f"{source} is disabled"
    return machine.Live(source, canonical.digest(encoded), encoded, unpinnable=unpinnable)


def source(message: pinning_pb2.Source) -> Source:
    """A source of a request; INVALID_FIELD naming every part that does not fit."""
    kind = KINDS.get(message.kind)
    faults = []
    if kind is None:
        faults.append(errors.Violation("source.kind", "set RUNTIME_KIND_SERVING_RUNTIME or …_CLUSTER_SERVING_RUNTIME"))
    if not message.name:
        faults.append(errors.Violation("source.name", "the runtime's name is missing"))
    if kind == SR and not message.namespace:
        faults.append(errors.Violation("source.namespace", "a ServingRuntime needs its namespace"))
    if kind == CSR and message.namespace:
        faults.append(errors.Violation("source.namespace", "a ClusterServingRuntime has no namespace"))
    if faults or kind is None:
        raise errors.invalid_argument("INVALID_FIELD", faults)
    return Source(kind, message.namespace, message.name)
