"""A Kubernetes object as the gateway holds it: bytes, identity and digests, no parsed tree."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from gateway.kube import spans
from gateway.kube.kinds import Kind


class Malformed(ValueError):
    """Not an object with a name that can be held."""


@dataclass(frozen=True, slots=True)
class Owner:
    """One owner reference."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool


@dataclass(frozen=True, slots=True)
class CachedObject:
    """One object at one version. Two are about the same state of the user's concern when `content` is equal."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    labels: Mapping[str, str]
    owners: tuple[Owner, ...]
    terminating: bool
    raw: bytes
    """The JSON without managedFields; apiVersion and kind stand first, also where a list leaves them out."""
    sha256: bytes
    """SHA-256 of `raw`."""
    content: bytes
    """Digest of everything but the resourceVersion, whatever the order of members."""
    meta_content: bytes
    """Digest of apiVersion, kind and metadata but the resourceVersion and the generation, which counts changes of the
    rest."""

    def json(self) -> dict[str, Any]:
        """The parsed object, a new one on each call. orjson.JSONDecodeError at more than 1024 levels."""
        value: dict[str, Any] = orjson.loads(self.raw)
        return value

    def metadata_json(self) -> bytes:
        """The object with apiVersion, kind and metadata alone, as JSON: what an interest in metadata only gets."""
        parts = dict(spans.members(self.raw))
        known = [(key, parts[key]) for key in ("apiVersion", "kind", "metadata")]
        return spans.join(known)


def from_bytes(kind: Kind, data: bytes) -> CachedObject:
    """One object as a server answered it, however deeply nested. Malformed when it is none."""
    try:
        return from_value(kind, orjson.loads(data))
    except (orjson.JSONDecodeError, TypeError):
        # The JSON library reads 1024 levels and writes 254; a user's object may have more and must not stop the rest.
        return _from_spans(kind, data)


def from_value(kind: Kind, value: Any) -> CachedObject:
    """The same from the decoded object, which must not be used any more. TypeError when it is nested too deeply to be
    encoded, which `from_bytes` is not troubled by."""
    metadata = value.get("metadata") if isinstance(value, dict) else None
    if not isinstance(metadata, dict):
        raise Malformed(f"{kind.kind} without metadata")
    metadata.pop("managedFields", None)
    whole = {"apiVersion": kind.api_version, "kind": kind.kind} | value
    # What the JSON library answers keeps the whole buffer it was written in, many times the text.
    raw = bytes(memoryview(dumps(whole)))
    version = metadata.pop("resourceVersion", "")
    return _held(kind, metadata, version, raw, dumps(whole, sort=True))


def _from_spans(kind: Kind, data: bytes) -> CachedObject:
    try:
        parts = {"apiVersion": dumps(kind.api_version), "kind": dumps(kind.kind)} | dict(spans.members(data))
        described = [(key, text) for key, text in spans.members(parts["metadata"]) if key != "managedFields"]
        parts["metadata"] = spans.join(described)
        metadata = orjson.loads(parts["metadata"])
    except (ValueError, KeyError) as error:
        raise Malformed(f"{kind.kind}: not an object with metadata: {error}") from error
    raw = spans.join(parts.items())
    version = metadata.pop("resourceVersion", "")
    parts["metadata"] = dumps(metadata, sort=True)
    return _held(kind, metadata, version, raw, spans.join(sorted(parts.items())))


def _held(kind: Kind, metadata: dict[str, Any], version: Any, raw: bytes, content: bytes) -> CachedObject:
    if not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise Malformed(f"{kind.kind} without metadata.name")
    generation = metadata.pop("generation", 0)
    meta = dumps([kind.api_version, kind.kind, metadata], sort=True)
    labels = metadata.get("labels") or {}
    return CachedObject(
        api_version=kind.api_version,
        kind=kind.kind,
        namespace=sys.intern(str(metadata.get("namespace") or "")),
        name=metadata["name"],
        uid=str(metadata.get("uid") or ""),
        resource_version=str(version or ""),
        generation=generation if isinstance(generation, int) else 0,
        labels={sys.intern(key): sys.intern(str(text)) for key, text in labels.items()} if labels else _NONE,
        owners=tuple(_owner(entry) for entry in metadata.get("ownerReferences") or ()),
        terminating=bool(metadata.get("deletionTimestamp")),
        raw=raw,
        sha256=hashlib.sha256(raw).digest(),
        content=hashlib.sha256(content).digest(),
        meta_content=hashlib.sha256(meta).digest(),
    )


_NONE: Mapping[str, str] = {}


def _owner(entry: Mapping[str, Any]) -> Owner:
    return Owner(
        sys.intern(str(entry.get("apiVersion", ""))),
        sys.intern(str(entry.get("kind", ""))),
        str(entry.get("name", "")),
        str(entry.get("uid", "")),
        bool(entry.get("controller")),
    )


def dumps(value: Any, sort: bool = False) -> bytes:
    """Compact JSON; `sort` orders members by key. TypeError at more than 254 levels."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort else None)


def version(text: str) -> int:
    """A resourceVersion as a number, which Kubernetes orders them by; 0 for one that is none."""
    return int(text) if text.isascii() and text.isdigit() else 0
