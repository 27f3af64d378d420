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

    def lagging(self, written: Mapping[Target, str]) -> list[Target]:
        """Which of the objects that were written, with the resourceVersion that left, the caches do not show yet."""
        behind = []
        for target, version in written.items():
            cache = self._caches.get(target[:2])
            if cache is not None and not cache.caught_up(target[2], target[3], version):
                behind.append(target)
        return behind

    def look(
        self, interest: pb.Interest, overlay: Mapping[Target, CachedObject]
    ) -> tuple[pb.Presence, list[CachedObject], str]:
        """What the caches, and over them the objects this pass has read or written itself, say of an honoured interest:
        presence, objects, and the error of an undetermined one."""
        view = self._caches[(interest.api_version, interest.kind)]
        unsynced = "" if view.synced else view.error or f"the list of {interest.kind} objects has not been read yet"
        if interest.name:
            target = (interest.api_version, interest.kind, interest.namespace, interest.name)
            obj = overlay.get(target) or view.get(interest.namespace, interest.name)
            if obj is not None:
                return pb.PRESENCE_FOUND, [obj], ""
            return (pb.PRESENCE_UNDETERMINED if unsynced else pb.PRESENCE_ABSENT), [], unsynced
        if unsynced:
            return pb.PRESENCE_UNDETERMINED, [], unsynced
        labels = {label.key: label.value for label in interest.match_labels}
        found = list(view.select(interest.namespace, labels, interest.name_prefix))
        if overlay:
            found = [obj for obj in found if target_of(obj) not in overlay]
            found += [obj for obj in overlay.values() if matches(interest, obj)]
            found.sort(key=lambda obj: obj.name)
        return pb.PRESENCE_FOUND, found, ""


class Snapshot:
    """The observed state of one pass. `overlay` holds what the pass itself has read or written since the caches."""

    def __init__(self, supplier: Supplier, isvc: CachedObject, failures: Iterable[pb.WriteFailure]) -> None:
        self.isvc = isvc
        self.overlay: dict[Target, CachedObject] = {}
        self._supplier = supplier
        self._failures = tuple(failures)

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
            presence, objects, _ = self._supplier.look(interest, self.overlay)
            state.update(b"%d %d" % (presence, len(objects)))
            for obj in objects:
                state.update(obj.uid.encode() + (obj.meta_content if interest.metadata_only else obj.content))
        for failure in self._failures:
            state.update(failure.SerializeToString(deterministic=True))
        return state.digest()

    def _observed(self, interest: pb.Interest) -> pb.Observed:
        refused = self._supplier.refusal(interest, self.isvc.namespace)
        if refused:
            _log.warning("an interest is refused", cause=refused)
            return pb.Observed(interest=interest, presence=pb.PRESENCE_UNDETERMINED, error=refused)
        presence, objects, error = self._supplier.look(interest, self.overlay)
        return pb.Observed(
            interest=interest,
            presence=presence,
            objects=[manifest(obj, interest.metadata_only) for obj in objects],
            error=error,
        )


def _distinct(interests: Iterable[pb.Interest]) -> list[pb.Interest]:
    return list({identity(interest): interest for interest in interests}.values())
