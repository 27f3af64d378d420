"""Events of core/v1 as objects: the name derives from what happened, so that a repeat is the same object."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ome.common.v1 import common_pb2
from services.kit.times import timestamp

MAX_NAME = 253
MAX_MESSAGE = 1024
"""Bytes; longer texts are cut, as by every Kubernetes client."""

TRACE_ID = "ome.io/trace-id"
COMPONENT = "ome-gateway"
_FOREIGN_NAMESPACE = "default"


def name(about: common_pb2.ObjectRef, key: str) -> str:
    """The name of the Event with `key` about that object: the object's name, cut where it must be, and 16 hex digits
    from its uid and the key."""
    digest = hashlib.sha256(f"{about.uid}\n{key}".encode()).hexdigest()[:16]
    return f"{about.name[: MAX_NAME - 17].rstrip('.-')}.{digest}"


def body(event: common_pb2.Event, regarding: common_pb2.ObjectRef, now: datetime, trace_id: str = "") -> dict[str, Any]:
    """The Event to create. Without a key the text itself is the identity."""
    about = event.regarding if event.HasField("regarding") else regarding
    involved = {
        "apiVersion": about.api_version,
        "kind": about.kind,
        "namespace": about.namespace,
        "name": about.name,
        "uid": about.uid,
        "resourceVersion": about.resource_version,
    }
    stamp = timestamp(now)
    metadata: dict[str, Any] = {
        "name": name(about, event.key or f"{event.type}/{event.reason}/{event.message}"),
        "namespace": about.namespace or _FOREIGN_NAMESPACE,
    }
    if trace_id:
        metadata["annotations"] = {TRACE_ID: trace_id}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": metadata,
        "involvedObject": {key: value for key, value in involved.items() if value},
        "type": event.type or "Normal",
        "reason": event.reason,
        "message": _cut(event.message),
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }


def again(stored: Mapping[str, Any], fresh: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that makes `stored` tell of one more occurrence, as `fresh` describes it; it holds only on the
    version it was made for."""
    count = stored.get("count")
    metadata: dict[str, Any] = {"resourceVersion": stored["metadata"].get("resourceVersion")}
    if "annotations" in fresh["metadata"]:
        metadata["annotations"] = fresh["metadata"]["annotations"]
    return {
        "metadata": metadata,
        "count": (count if isinstance(count, int) and count > 0 else 1) + 1,
        "lastTimestamp": fresh["lastTimestamp"],
        "type": fresh["type"],
        "message": fresh["message"],
    }


def _cut(text: str) -> str:
    data = text.encode()
    if len(data) <= MAX_MESSAGE:
        return text
    return data[: MAX_MESSAGE - 3].decode(errors="ignore") + "..."
