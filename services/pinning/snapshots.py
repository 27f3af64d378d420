"""Snapshots: ControllerRevisions of the suite and the checks that make one usable (pinning specification 1.2, 4)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from services.kit import canonical, names
from services.kit.jsontypes import JsonObject
from services.pinning.sources import CSR, KINDS, SR, Reference, Source

LABEL_OF = "ome.io/runtime-of"
LABEL_KIND = "ome.io/runtime-of-kind"
LABEL_NAMESPACE = "ome.io/runtime-of-namespace"
LABEL_HASH = "ome.io/revision-hash"
CREATED_BY = "ome.io/created-by"
CREATOR = "ome-controller"
DIGEST = "ome.io/revision-digest"
FULL_NAME = "ome.io/runtime-of-name"
GC_MARK = "ome.io/gc-eligible-since"
PREFIX = f"{canonical.ALGORITHM}:sha256:"


class Unusable(Exception):
    """Why a snapshot cannot be used: reason of the condition, cause of the text."""

    def __init__(self, reason: str, cause: str) -> None:
        super().__init__(cause)
        self.reason = reason
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A ControllerRevision as read: metadata plus `data` (None when only metadata was read).

    `unreadable`: why strict decoding (section 2) refused `data`, empty when it did not.
    """

    name: str
    uid: str
    resource_version: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    revision: int
    terminating: bool
    data: Any = None
    unreadable: str = ""

    @property
    def marked(self) -> bool:
        """Whether the collector has marked it."""
        return GC_MARK in self.annotations


@dataclass(frozen=True, slots=True)
class Usable:
    """A snapshot that passed every check: its source, full digest and document."""

    snapshot: Snapshot
    source: Source
    digest: str
    spec: JsonObject


def source_of(snapshot: Snapshot) -> Source:
    """The source by labels, never by name. Raises Unusable for unsound labels."""
    labels, full = snapshot.labels, snapshot.annotations.get(FULL_NAME)
    name, kind, namespace = labels.get(LABEL_OF, ""), labels.get(LABEL_KIND, ""), labels.get(LABEL_NAMESPACE, "")
    if not name:
        raise Unusable("RevisionInvalid", f'label {LABEL_OF} is ""')
    if kind not in KINDS:
        raise Unusable("RevisionInvalid", f'label {LABEL_KIND} is "{kind}"')
    if (kind == CSR) == bool(namespace):
        raise Unusable("RevisionInvalid", f'label {LABEL_NAMESPACE} is "{namespace}"')
    if full is not None:
        if len(full) <= names.LABEL_LIMIT or names.bound_label(full) != name:
            raise Unusable("RevisionInvalid", f"annotation {FULL_NAME} does not match its label")
        name = full
    return Source(kind, namespace, name)


def created_here(snapshot: Snapshot) -> bool:
    """Whether the suite made it."""
    return snapshot.annotations.get(CREATED_BY) == CREATOR


def check(snapshot: Snapshot, reference: Reference | None) -> Usable:
    """All checks of section 4 in their order, those against the reference only when there is one.

    Raises Unusable with reason and cause of the first check that fails.
    """
    if not created_here(snapshot):
        raise Unusable("RevisionInvalid", "not created by this controller")
    source = source_of(snapshot)
    if reference is not None:
        _check_reference(snapshot.name, source, reference)
    if not source.shapes(snapshot.name):
        raise Unusable("RevisionInvalid", "name does not match its labels")
    digest, spec = content(snapshot)
    return Usable(snapshot, source, digest, spec)


def _check_reference(name: str, source: Source, reference: Reference) -> None:
    if source.name != reference.name:
        text = f'revision {name} belongs to runtime "{source.name}" but ISVC references "{reference.name}"'
        raise Unusable("RuntimeMismatch", text)
    if reference.kind and source.kind != reference.kind:
        text = f'revision {name} belongs to {source} but ISVC references {reference.kind} "{reference.name}"'
        raise Unusable("RuntimeMismatch", text)
    if source.kind == SR and source.namespace != reference.namespace:
        text = f'label {LABEL_NAMESPACE} is "{source.namespace}", expected "{reference.namespace}"'
        raise Unusable("RevisionInvalid", text)


def content(snapshot: Snapshot) -> tuple[str, JsonObject]:
    """Full digest recomputed from data, and the document. Raises Unusable when data or annotation do not hold."""
    annotated = snapshot.annotations.get(DIGEST)
    if annotated is None:
        raise Unusable("RevisionInvalid", f"annotation {DIGEST} is missing")
    algorithm, _, stated = annotated.rpartition(":")
    if f"{algorithm}:" != PREFIX:
        raise Unusable("RevisionInvalid", f'digest algorithm "{algorithm}" is not supported')
    if snapshot.unreadable:
        raise Unusable("RevisionInvalid", f"data is not readable: {snapshot.unreadable}")
    try:
        if not isinstance(snapshot.data, dict):
            canonical.decode(json.dumps(snapshot.data).encode())
        data = canonical.canonical(snapshot.data)
    except canonical.DocumentError as error:
        raise Unusable("RevisionInvalid", f"data is not readable: {error.detail}") from None
    if data == b"{}":
        raise Unusable("RevisionInvalid", "data is an empty document")
    digest = canonical.digest(data)
    if stated != digest:
        raise Unusable("RevisionInvalid", f"digest {stated} does not match data {digest}")
    label = snapshot.labels.get(LABEL_HASH, "")
    if label != canonical.short(digest):
        raise Unusable("RevisionInvalid", f'label {LABEL_HASH} is "{label}", expected "{canonical.short(digest)}"')
    return digest, snapshot.data
