"""Admission of InferenceServices and snapshots (pinning specification 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from services.kit import canonical
from services.kit.jsontypes import JsonObject
from services.pinning.isvc import BadInferenceService, FieldFault, parse, runtime_faults
from services.pinning.snapshots import CREATED_BY, CREATOR, DIGEST, FULL_NAME
from services.pinning.sources import KINDS, Reference


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement: the finding that denies, if any, and warnings."""

    denied: FieldFault | None = None
    warnings: tuple[str, ...] = ()


def findings(document: JsonObject, namespace: str) -> list[FieldFault]:
    """Every finding of rules 1 to 4 on one object, in their order. Raises BadInferenceService for wrong types."""
    isvc = parse(document, strict=False)
    runtime = isvc.runtime
    found = runtime_faults(runtime)
    if not runtime.revision:
        return found
    field = "spec.runtime.revision"
    if runtime.auto_sync:
        text = "requires spec.runtime.autoSync=false; AutoSync=true would silently ignore the pin"
        found.append(FieldFault(field, f"{field} {text}"))
    if not runtime.name:
        found.append(FieldFault(field, f"{field} requires spec.runtime.name"))
    elif not runtime.kind_given or runtime.kind in KINDS:
        found.extend(_shape(Reference(runtime.kind, runtime.name, namespace or isvc.namespace), runtime.revision))
    return found


def _shape(reference: Reference, revision: str) -> list[FieldFault]:
    if reference.shapes(revision):
        return []
    forms = " or ".join(source.pattern for source in reference.sources())
    kind = reference.kind or "kind omitted"
    text = (
        f'spec.runtime.revision "{revision}" does not match the expected naming convention for runtime '
        f'"{reference.name}" ({kind}); expected the form {forms}'
    )
    return [FieldFault("spec.runtime.revision", text)]


def inference_service(new: JsonObject, old: JsonObject | None, namespace: str) -> Verdict:
    """Create or update. What the stored object already has with the same message only warns; deleting ones pass.

    Raises BadInferenceService for fields of a wrong type that the stored object has not.
    """
    metadata = new.get("metadata")
    if isinstance(metadata, dict) and metadata.get("deletionTimestamp"):
        return Verdict()
    known = {item.message for item in _stored(old, namespace)} if old is not None else set()
    denied: FieldFault | None = None
    warnings: list[str] = []
    try:
        found = findings(new, namespace)
    except BadInferenceService as error:
        found = error.faults
        if wrong := [item for item in found if item.message not in known]:
            raise BadInferenceService(wrong) from None
    for item in found:
        if item.message in known:
            warnings.append(item.message)
        elif denied is None:
            denied = item
    return Verdict(denied, tuple(warnings))


def _stored(old: JsonObject, namespace: str) -> list[FieldFault]:
    try:
        return findings(old, namespace)
    except BadInferenceService as error:
        return error.faults


def _annotations(document: JsonObject) -> dict[str, Any]:
    metadata = document.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def controller_revision(new: JsonObject, old: JsonObject | None, namespace: str, ome_namespace: str) -> Verdict:
    """Update of a snapshot of ours in the OME namespace: its content, labels and identity stay; all else passes."""
    if old is None or namespace != ome_namespace or _annotations(old).get(CREATED_BY) != CREATOR:
        return Verdict()
    metadata = old.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    fault = _revision_fault(new, old)
    if fault is None:
        return Verdict()
    text = f"ControllerRevision {namespace}/{name} is owned by OME; {fault.message}"
    return Verdict(FieldFault(fault.field, text))


def _revision_fault(new: JsonObject, old: JsonObject) -> FieldFault | None:
    if canonical.canonical(new.get("data")) != canonical.canonical(old.get("data")):
        return FieldFault("data", ".data is immutable")
    if _labels(new) != _labels(old):
        return FieldFault("metadata.labels", ".labels are immutable")
    if canonical.canonical(new.get("revision")) != canonical.canonical(old.get("revision")):
        return FieldFault("revision", ".revision is immutable")
    if _annotations(new).get(CREATED_BY) != CREATOR:
        return FieldFault("metadata.annotations", f"annotation {CREATED_BY} cannot be changed or removed")
    for key in (DIGEST, FULL_NAME):
        if _annotations(new).get(key) != _annotations(old).get(key):
            return FieldFault("metadata.annotations", f"annotation {key} is immutable")
    return None


def _labels(document: JsonObject) -> Any:
    metadata = document.get("metadata")
    return (metadata.get("labels") if isinstance(metadata, dict) else None) or {}
