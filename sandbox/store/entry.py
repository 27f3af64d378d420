"""What the store keeps: immutable versions of objects and the events between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import orjson

from sandbox.jsontypes import JsonObject


@dataclass(eq=False)
class Entry:
    """One version of one object. ``obj`` is shared by every reader: never change it, take ``copy()``."""

    bucket: str
    namespace: str
    name: str
    uid: str
    rv: int
    obj: JsonObject
    forms: dict[str, bytes] = field(default_factory=dict)
    """Encodings made so far, by a name of the caller's choice: each form is serialised once for all readers."""

    @property
    def raw(self) -> bytes:
        """The object as JSON, serialised at most once."""
        raw = self.forms.get("")
        if raw is None:
            raw = self.forms[""] = orjson.dumps(self.obj)
        return raw

    @property
    def key(self) -> tuple[str, str]:
        """Namespace (empty for cluster scope) and name."""
        return self.namespace, self.name

    def copy(self) -> JsonObject:
        """A deep copy that the caller may change."""
        value: JsonObject = orjson.loads(self.raw)
        return value


class EventType(StrEnum):
    """What happened to an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(eq=False)
class StoreEvent:
    """One change. For DELETED ``entry`` is the last state with the resourceVersion of the deletion."""

    type: EventType
    entry: Entry
    previous: Entry | None
    frames: dict[str, bytes] = field(default_factory=dict)
    """Watch frames made so far, by form and event type, shared by all watchers."""

    @property
    def rv(self) -> int:
        """The store revision that this change made."""
        return self.entry.rv
