"""What a pass is decided from: the InferenceService and the objects its services asked for, as the caches hold them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from gateway.cluster import Target, ref_of, target_of
from gateway.interests import identity, matches, refusal
from gateway.kube.cache import Cache
from gateway.kube.kinds import by_api
from gateway.kube.objects import CachedObject
from ome.common.v1 import common_pb2 as pb
from services.kit import logs

_log = logs.get(__name__)


def manifest(obj: CachedObject, metadata_only: bool = False) -> pb.Manifest:
    """The object as it travels; with `metadata_only` cut to apiVersion, kind and metadata."""
    if metadata_only:
        data = obj.metadata_json()
        return pb.Manifest(ref=ref_of(obj), json=data, json_sha256=hashlib.sha256(data).digest())
    return pb.Manifest(ref=ref_of(obj), json=obj.raw, json_sha256=obj.sha256)


Look = tuple[pb.Presence, list[CachedObject], str]
"""What is known of an interest: presence, objects, and the error of an undetermined one."""


class Supplier:
    """Answers interests from the caches of a fixed list of kinds."""

    def __init__(self, caches: Iterable[Cache], ome_namespace: str, cluster_domain: str) -> None:
        self._caches = {(cache.kind.api_version, cache.kind.kind): cache for cache in caches}
        self.ome_namespace = ome_namespace
        self.cluster_domain = cluster_domain

    def refusal(self, interest: pb.Interest, namespace: str) -> str:
        """Why an interest of an InferenceService in `namespace` is not honoured; empty when it is."""
        kind = by_api(interest.api_version, interest.kind)
        if kind is not None and (interest.api_version, interest.kind) not in self._caches:
            kind = None
        return refusal(interest, kind.namespaced if kind else None, namespace, self.ome_namespace)

    def lagging(self, seen: Mapping[Target, str]) -> list[Target]:
        """Which of the objects that were seen at those resourceVersions the caches do not show yet."""
        behind = []
        for target, version in seen.items():
            cache = self._caches.get(target[:2])
            if cache is not None and not cache.caught_up(target[2], target[3], version):
                behind.append(target)
        return behind

    def look(self, interest: pb.Interest) -> Look:
        """What the caches say of an honoured interest now."""
        view = self._caches[(interest.api_version, interest.kind)]
        unsynced = "" if view.synced else view.error or f"the list of {interest.kind} objects has not been read yet"
        if interest.name:
            obj = view.get(interest.namespace, interest.name)
            if obj is not None:
                return pb.PRESENCE_FOUND, [obj], ""
            return (pb.PRESENCE_UNDETERMINED if unsynced else pb.PRESENCE_ABSENT), [], unsynced
        if unsynced:
            return pb.PRESENCE_UNDETERMINED, [], unsynced
        labels = {label.key: label.value for label in interest.match_labels}
        return pb.PRESENCE_FOUND, list(view.select(interest.namespace, labels, interest.name_prefix)), ""


class Snapshot:
    """The observed state of one pass: each interest is looked up once, whoever asks and however often, so that all
    services decide on the same. `overlay` holds what the pass itself has read or written since."""

    def __init__(self, supplier: Supplier, isvc: CachedObject, failures: Iterable[pb.WriteFailure]) -> None:
        self.isvc = isvc
        self.overlay: dict[Target, CachedObject] = {}
        self._supplier = supplier
        self._failures = tuple(failures)
        self._looks: dict[bytes, Look] = {}

    def observation(self, interests: Iterable[pb.Interest]) -> pb.Observation:
        """The observation with one Observed per interest, in their order."""
        return pb.Observation(
            isvc=manifest(self.isvc),
            objects=[self._observed(interest) for interest in _distinct(interests)],
            failures=self._failures,
            cluster_domain=self._supplier.cluster_domain,
            ome_namespace=self._supplier.ome_namespace,
        )

    def digest(self, interests: Iterable[pb.Interest]) -> bytes:
        """Digest of what `observation` would hold, resourceVersions left out: equal input, equal digest."""
        state = hashlib.sha256(self.isvc.uid.encode() + self.isvc.content)
        for interest in _distinct(interests):
            state.update(identity(interest))
            if self._supplier.refusal(interest, self.isvc.namespace):
                continue
            presence, objects, _ = self._look(interest)
            state.update(b"%d %d" % (presence, len(objects)))
            for obj in objects:
                state.update(obj.uid.encode() + (obj.meta_content if interest.metadata_only else obj.content))
        for failure in self._failures:
            state.update(failure.SerializeToString(deterministic=True))
        return state.digest()

    def _look(self, interest: pb.Interest) -> Look:
        """What the caches said when the pass first asked, and over it what it has read or written itself."""
        name = identity(interest)
        look = self._looks.get(name)
        if look is None:
            look = self._looks[name] = self._supplier.look(interest)
        presence, objects, error = look
        mine = [obj for obj in self.overlay.values() if matches(interest, obj)]
        if interest.name and mine:
            return pb.PRESENCE_FOUND, mine, ""
        if presence != pb.PRESENCE_FOUND or interest.name or not self.overlay:
            return look
        others = [obj for obj in objects if target_of(obj) not in self.overlay]
        return presence, sorted([*others, *mine], key=lambda obj: obj.name), error

    def _observed(self, interest: pb.Interest) -> pb.Observed:
        refused = self._supplier.refusal(interest, self.isvc.namespace)
        if refused:
            _log.warning("an interest is refused", cause=refused)
            return pb.Observed(interest=interest, presence=pb.PRESENCE_UNDETERMINED, error=refused)
        presence, objects, error = self._look(interest)
        return pb.Observed(
            interest=interest,
            presence=presence,
            objects=[manifest(obj, interest.metadata_only) for obj in objects],
            error=error,
        )


def _distinct(interests: Iterable[pb.Interest]) -> list[pb.Interest]:
    return list({identity(interest): interest for interest in interests}.values())
