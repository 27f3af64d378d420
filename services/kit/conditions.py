"""Status conditions as a pure fold: times move only with `status`, unchanged input gives equal output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Condition = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """One wished condition; an empty status removes the type."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Rollup:
    """A condition that is True when all of `of` are, else False with reason and message of the first that is not."""

    type: str
    of: tuple[str, ...]
    true_reason: str


def get(conditions: Iterable[Mapping[str, Any]], type_: str) -> Mapping[str, Any] | None:
    """The condition of that type, if any."""
    return next((item for item in conditions if item.get("type") == type_), None)


def apply(existing: Sequence[Condition], changes: Iterable[Change], now: str, generation: int) -> list[Condition]:
    """Fold changes into a list. In: stored list, changes, RFC 3339 time, generation judged. Out: the new list."""
    result = [dict(item) for item in existing]
    for change in changes:
        index = next((i for i, item in enumerate(result) if item.get("type") == change.type), None)
        if not change.status:
            if index is not None:
                del result[index]
            continue
        old = result[index] if index is not None else None
        since = old.get("lastTransitionTime", now) if old and old.get("status") == change.status else now
        new: Condition = {
            "type": change.type,
            "status": change.status,
            "reason": change.reason,
            "message": change.message,
            "lastTransitionTime": since,
            "observedGeneration": generation,
        }
        if index is None:
            result.append(new)
        else:
            result[index] = new
    return result


def roll_up(existing: Sequence[Condition], rollup: Rollup) -> Change:
    """The change a roll-up means for a list; a condition that is missing counts as Unknown, hence False."""
    for type_ in rollup.of:
        item = get(existing, type_)
        if item is None or item.get("status") != "True":
            reason = str(item.get("reason", "")) if item else "Pending"
            message = str(item.get("message", "")) if item else f"{type_} is not known yet"
            return Change(rollup.type, "False", reason, message)
    return Change(rollup.type, "True", rollup.true_reason, "")
