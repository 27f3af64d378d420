"""The arithmetic of a Deployment's rollout: which ReplicaSet gets how many replicas next. Pure."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import orjson

from sandbox.jsontypes import JsonObject, JsonValue

HASH_LABEL = "pod-template-hash"
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def template_hash(template: JsonObject, collisions: int) -> str:
    """A name for a pod template, ten characters; ``collisions`` gives another one for the same template."""
    digest = hashlib.sha256(orjson.dumps([template, collisions], option=orjson.OPT_SORT_KEYS)).digest()
    number, text = int.from_bytes(digest, "big"), ""
    for _ in range(10):
        number, index = divmod(number, len(_ALPHABET))
        text += _ALPHABET[index]
    return text


def same_template(one: JsonObject, other: JsonObject) -> bool:
    """Whether two templates are equal apart from the label with their hash."""
    return _bare(one) == _bare(other)


def _bare(template: JsonObject) -> JsonObject:
    meta = {key: value for key, value in (template.get("metadata") or {}).items() if value}
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key != HASH_LABEL}
    return {**template, "metadata": {**meta, "labels": labels}}


def amount(value: JsonValue, of: int, up: bool) -> int:
    """An ``IntOrString``: a number, or a percentage of ``of`` rounded up or down."""
    if isinstance(value, str) and value.endswith("%"):
        share = int(value[:-1]) * of / 100
        return math.ceil(share) if up else math.floor(share)
    return int(value or 0)


@dataclass(frozen=True)
class Limits:
    """The bounds of a rollout, in pods."""

    replicas: int
    surge: int
    unavailable: int

    @staticmethod
    def of(spec: JsonObject) -> Limits:
        """The bounds of a Deployment's spec; both zero means one may be unavailable."""
        replicas = int(spec.get("replicas", 1))
        strategy = spec.get("strategy") or {}
        if strategy.get("type") == "Recreate":
            return Limits(replicas, 0, 0)
        rolling = strategy.get("rollingUpdate") or {}
        surge = amount(rolling.get("maxSurge", "25%"), replicas, up=True)
        unavailable = amount(rolling.get("maxUnavailable", "25%"), replicas, up=False)
        if surge == 0 and unavailable == 0:
            unavailable = 1
        return Limits(replicas, surge, min(unavailable, replicas))


@dataclass
class Share:
    """One ReplicaSet as the arithmetic sees it."""

    name: str
    replicas: int
    available: int
    most: int = 0
    """The annotation ``deployment.kubernetes.io/max-replicas``: replicas and surge when it was last scaled."""


def grow(limits: Limits, new: Share, old: list[Share]) -> int:
    """The replicas that the newest ReplicaSet gets in a rolling update."""
    if new.replicas >= limits.replicas:
        return limits.replicas
    total = new.replicas + sum(share.replicas for share in old)
    room = limits.replicas + limits.surge - total
    return new.replicas + max(0, min(room, limits.replicas - new.replicas))


def shrink(limits: Limits, new: Share, old: list[Share]) -> dict[str, int]:
    """The replicas of the older ReplicaSets (oldest first) in a rolling update: only those that change."""
    least = limits.replicas - limits.unavailable
    total = new.replicas + sum(share.replicas for share in old)
    unready = new.replicas - new.available
    changed = {share.name: share.replicas for share in old}
    spare = total - least - unready
    if spare <= 0:
        return {}
    # Pods that do not serve go first: they cost no availability.
    for share in old:
        cut = min(spare, share.replicas - share.available)
        if cut > 0:
            changed[share.name] -= cut
            spare -= cut
    serving = new.available + sum(share.available for share in old)
    spare = serving - least
    for share in old:
        cut = min(spare, changed[share.name])
        if cut > 0:
            changed[share.name] -= cut
            spare -= cut
    return {share.name: changed[share.name] for share in old if changed[share.name] != share.replicas}


def spread(limits: Limits, shares: list[Share]) -> dict[str, int]:
    """Proportional scaling: the replicas of ReplicaSets (newest first) when the Deployment is scaled amid a rollout."""
    allowed = limits.replicas + limits.surge if limits.replicas else 0
    rest = allowed - sum(share.replicas for share in shares)
    if rest == 0:
        return {}
    order = sorted(shares, key=lambda share: -share.replicas)
    result: dict[str, int] = {}
    for share in order:
        wanted = round(share.replicas * allowed / (share.most or allowed or 1)) - share.replicas
        part = max(0, min(wanted, rest)) if rest > 0 else min(0, max(wanted, rest))
        result[share.name] = share.replicas + part
        rest -= part
    first = order[0].name
    result[first] = max(0, result[first] + rest)
    return {share.name: result[share.name] for share in shares if result[share.name] != share.replicas}
