"""Find-or-create: which existing snapshot is reused, or what a new one is called (pinning specification 3)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from services.kit import canonical, names
from services.kit.jsontypes import JsonObject
from services.pinning.snapshots import (
    CREATED_BY,
    CREATOR,
    DIGEST,
    FULL_NAME,
    LABEL_HASH,
    LABEL_KIND,
    LABEL_NAMESPACE,
    LABEL_OF,
    PREFIX,
    Snapshot,
    Unusable,
    check,
    created_here,
    source_of,
)
from services.pinning.sources import Reference, Source

CANDIDATES = 16


@dataclass(frozen=True, slots=True)
class Reuse:
    """An existing snapshot that holds the same content of the same source."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Create:
    """A ControllerRevision to be created, as a document."""

    name: str
    document: JsonObject

    @property
    def body(self) -> bytes:
        """The document as it is sent."""
        return orjson.dumps(self.document)

    @property
    def content_digest(self) -> str:
        """SHA-256 of `body`: a failed write is told by it and the name."""
        return canonical.digest(self.body)


class NoFreeName(Exception):
    """Every candidate name is taken."""


def candidate(source: Source, canonical_bytes: bytes, k: int) -> str:
    """Object name of candidate k, 0 to 15 (section 3.3)."""
    if k == 0:
        tail = canonical.short(canonical.digest(canonical_bytes))
    else:
        tail = hashlib.sha256(canonical_bytes + b"\0" + str(k).encode()).hexdigest()[:8]
    return f"{source.prefix}-{tail}"


def find_or_create(
    source: Source, data: bytes, spec: JsonObject, known: Iterable[Snapshot], namespace: str
) -> Reuse | Create:
    """The snapshot of `spec`.

    In: source, canonical bytes and document of the runtime, every snapshot in view (labelled with the name, or whose
    name starts with a prefix of the reference), OME namespace. Raises NoFreeName after 16 taken candidates.
    """
    view = list(known)
    digest = canonical.digest(data)
    same = [item for item in view if not item.terminating and _holds(item, source, digest)]
    if same:
        return Reuse(min(same, key=lambda item: (item.revision, item.name)))
    taken = {item.name for item in view}
    for k in range(CANDIDATES):
        name = candidate(source, data, k)
        if name not in taken:
            return Create(name, _document(name, namespace, source, digest, spec, _next_revision(source, view)))
    raise NoFreeName(f"no free revision name for {source} after {CANDIDATES} candidates")


def _holds(item: Snapshot, source: Source, digest: str) -> bool:
    try:
        usable = check(item, Reference(source.kind, source.name, source.namespace))
    except Unusable:
        return False
    return usable.source == source and usable.digest == digest


def _next_revision(source: Source, view: Iterable[Snapshot]) -> int:
    highest = 0
    for item in view:
        try:
            if created_here(item) and source_of(item) == source:
                highest = max(highest, item.revision)
        except Unusable:
            continue
    return highest + 1


def _document(name: str, namespace: str, source: Source, digest: str, spec: JsonObject, revision: int) -> JsonObject:
    annotations = {CREATED_BY: CREATOR, DIGEST: PREFIX + digest}
    if len(source.name) > names.LABEL_LIMIT:
        annotations[FULL_NAME] = source.name
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {
                LABEL_OF: names.bound_label(source.name),
                LABEL_KIND: source.kind,
                LABEL_NAMESPACE: source.namespace,
                LABEL_HASH: canonical.short(digest),
            },
            "annotations": dict(annotations),
        },
        "data": spec,
        "revision": revision,
    }
