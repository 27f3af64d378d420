"""The fields of an InferenceService that pinning reads (pinning specification 1.1), typed and checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from services.kit import conditions
from services.kit.jsontypes import JsonObject
from services.pinning.sources import KINDS, Reference

TOKEN = "ome.io/runtime-sync"
GROUP = "ome.io"


@dataclass(frozen=True, slots=True)
class FieldFault:
    """One faulty field: its path and the final text."""

    field: str
    message: str


class BadInferenceService(Exception):
    """An InferenceService with wrong types or unsupported values."""

    def __init__(self, faults: list[FieldFault]) -> None:
        super().__init__("; ".join(fault.message for fault in faults))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class RuntimeRef:
    """`spec.runtime`, nil and empty strings alike unset, autoSync nil as true.

    `kind_given`: kind is not nil; an empty kind is refused (1.1).
    """

    name: str = ""
    kind: str = ""
    api_group: str = ""
    auto_sync: bool = True
    revision: str = ""
    kind_given: bool = False


@dataclass(frozen=True, slots=True)
class InferenceService:
    """What pinning knows of an InferenceService."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    deleting: bool
    runtime: RuntimeRef
    token: str
    pin: str
    last: str
    conditions: tuple[dict[str, Any], ...]

    @property
    def reference(self) -> Reference | None:
        """The runtime reference, None without a name."""
        return Reference(self.runtime.kind, self.runtime.name, self.namespace) if self.runtime.name else None

    @property
    def pinned_mode(self) -> bool:
        """Whether autoSync is false on a named runtime."""
        return bool(self.runtime.name) and not self.runtime.auto_sync

    def condition(self, type_: str) -> dict[str, Any] | None:
        """A stored condition."""
        found = conditions.get(self.conditions, type_)
        return dict(found) if found else None


class _Reader:
    def __init__(self, document: JsonObject) -> None:
        self.document = document
        self.faults: list[FieldFault] = []

    def get(self, path: str, kind: type, word: str, default: Any) -> Any:
        node: Any = self.document
        done: list[str] = []
        for part in path.split("|"):
            if node is None:
                return default
            if not isinstance(node, dict):
                self._fault(".".join(done), "an object")
                return default
            node = node.get(part)
            done.append(part)
        if node is None:
            return default
        if not isinstance(node, kind) or (kind is int and isinstance(node, bool)):
            self._fault(".".join(done), word)
            return default
        return node

    def text(self, path: str) -> str:
        return str(self.get(path, str, "a string", ""))

    def _fault(self, field: str, word: str) -> None:
        if all(fault.field != field for fault in self.faults):
            self.faults.append(FieldFault(field, f"{field} must be {word}"))


def runtime_faults(runtime: RuntimeRef) -> list[FieldFault]:
    """Rule 1 of section 6: kind and group that are not supported."""
    faults = []
    if (runtime.kind or runtime.kind_given) and runtime.kind not in KINDS:
        text = f'spec.runtime.kind "{runtime.kind}" is not supported; use ServingRuntime or ClusterServingRuntime'
        faults.append(FieldFault("spec.runtime.kind", text))
    if runtime.api_group and runtime.api_group != GROUP:
        text = f'spec.runtime.apiGroup "{runtime.api_group}" is not supported; use ome.io'
        faults.append(FieldFault("spec.runtime.apiGroup", text))
    return faults


def parse(document: JsonObject, *, strict: bool = True) -> InferenceService:
    """An InferenceService from its document.

    Raises BadInferenceService naming every field of a wrong type and, when `strict`, an unsupported kind or group.
    """
    read = _Reader(document)
    raw_conditions = read.get("status|conditions", list, "an array", [])
    runtime = RuntimeRef(
        name=read.text("spec|runtime|name"),
        kind=read.text("spec|runtime|kind"),
        api_group=read.text("spec|runtime|apiGroup"),
        auto_sync=bool(read.get("spec|runtime|autoSync", bool, "true or false", True)),
        revision=read.text("spec|runtime|revision"),
        kind_given=read.get("spec|runtime|kind", str, "a string", None) is not None,
    )
    result = InferenceService(
        namespace=read.text("metadata|namespace"),
        name=read.text("metadata|name"),
        uid=read.text("metadata|uid"),
        resource_version=read.text("metadata|resourceVersion"),
        generation=int(read.get("metadata|generation", int, "a whole number", 0)),
        deleting=bool(read.text("metadata|deletionTimestamp")),
        runtime=runtime,
        token=read.text(f"metadata|annotations|{TOKEN}"),
        pin=read.text("status|pinnedRevisionName"),
        last=read.text("status|lastRuntimeSyncToken"),
        conditions=tuple(item for item in raw_conditions if isinstance(item, dict)),
    )
    faults = read.faults + (runtime_faults(runtime) if strict else [])
    if faults:
        raise BadInferenceService(faults)
    return result
