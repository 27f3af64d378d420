"""The one status write of a pass: the services' patches folded into the stored status."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson

from ome.common.v1 import common_pb2 as pb
from services.kit import conditions
from services.kit.mergepatch import merge_patch
from services.kit.times import timestamp

JsonObject = dict[str, Any]
_MISSING = object()


class StatusFault(Exception):
    """A service's patch cannot be folded: a fault of that service, told in words."""


def fold(
    stored: JsonObject, patches: Sequence[pb.StatusPatch], now: datetime, generation: int, complete: bool
) -> JsonObject:
    """The status after a pass, as a new object; `stored` is left alone.

    Patches come first, in order, then the roll-ups over the folded conditions. `complete` says that all services have
    answered: then, and only then, the top-level observedGeneration moves (rendering spec 6). Conditions get
    `generation` and times in whole seconds of `now`.
    """
    status = dict(stored)
    for patch in patches:
        if patch.merge_patch:
            status = merge_patch(status, _patch(patch.merge_patch))
    folded = _conditions(status)
    time = timestamp(now)
    for patch in patches:
        changes = [conditions.Change(c.type, c.status, c.reason, c.message) for c in patch.conditions]
        folded = conditions.apply(folded, changes, time, generation)
    for patch in patches:
        for wanted in patch.rollups:
            rollup = conditions.Rollup(wanted.type, tuple(wanted.of), wanted.true_reason)
            folded = conditions.apply(folded, [conditions.roll_up(folded, rollup)], time, generation)
    if folded:
        status["conditions"] = folded
    else:
        status.pop("conditions", None)
    if complete:
        status["observedGeneration"] = generation
    return status


def same(left: JsonObject, right: JsonObject) -> bool:
    """The two are one value, byte for byte, members in any order."""
    return _bytes(left) == _bytes(right)


def difference(old: JsonObject, new: JsonObject) -> JsonObject:
    """The merge patch that turns `old` into `new`; neither holds null."""
    patch: JsonObject = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name, _MISSING)
        if isinstance(before, dict) and isinstance(value, dict):
            inner = difference(before, value)
            if inner:
                patch[name] = inner
        elif before is _MISSING or _bytes(before) != _bytes(value):
            patch[name] = value
    return patch


def _patch(data: bytes) -> JsonObject:
    try:
        patch = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise StatusFault(f"status.merge_patch is not JSON: {error}") from None
    if not isinstance(patch, dict):
        raise StatusFault("status.merge_patch is not an object")
    for reserved in ("conditions", "observedGeneration"):
        if reserved in patch:
            raise StatusFault(f"status.merge_patch holds {reserved}, which the gateway writes")
    return patch


def _conditions(status: JsonObject) -> list[JsonObject]:
    stored = status.get("conditions")
    return [c for c in stored if isinstance(c, dict)] if isinstance(stored, list) else []


def _bytes(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
