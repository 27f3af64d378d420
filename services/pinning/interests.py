"""What a pin decision depends on, as interests (`design.md` 4; pinning specification 8)."""

from __future__ import annotations

from dataclasses import dataclass

from ome.common.v1 import common_pb2
from services.kit import names
from services.pinning.isvc import InferenceService
from services.pinning.snapshots import LABEL_OF
from services.pinning.sources import CSR, SR, Reference, Source

OME_API = "ome.io/v1beta1"
REVISION_API = "apps/v1"
REVISION = "ControllerRevision"


def runtime(source: Source) -> common_pb2.Interest:
    """The live runtime of a source."""
    return common_pb2.Interest(api_version=OME_API, kind=source.kind, namespace=source.namespace, name=source.name)


def snapshot(namespace: str, name: str) -> common_pb2.Interest:
    """One snapshot by name, whole."""
    return common_pb2.Interest(api_version=REVISION_API, kind=REVISION, namespace=namespace, name=name)


def labelled(namespace: str, name: str) -> common_pb2.Interest:
    """All snapshots labelled with a runtime's name, whole."""
    label = common_pb2.KeyValue(key=LABEL_OF, value=names.bound_label(name))
    return common_pb2.Interest(api_version=REVISION_API, kind=REVISION, namespace=namespace, match_labels=[label])


def prefixed(namespace: str, prefix: str) -> common_pb2.Interest:
    """All revisions whose name begins with a prefix of 1.3: they hold names, whatever they are; metadata only."""
    return common_pb2.Interest(
        api_version=REVISION_API, kind=REVISION, namespace=namespace, name_prefix=f"{prefix}-", metadata_only=True
    )


@dataclass(frozen=True, slots=True)
class Wanted:
    """The interests of a decision by what they are for."""

    runtimes: tuple[tuple[Source, common_pb2.Interest], ...] = ()
    explicit: common_pb2.Interest | None = None
    pinned: common_pb2.Interest | None = None
    sets: tuple[common_pb2.Interest, ...] = ()

    def all(self) -> list[common_pb2.Interest]:
        """Every interest once, in a fixed order."""
        named = [interest for _, interest in self.runtimes]
        single = [item for item in (self.explicit, self.pinned) if item is not None]
        result: list[common_pb2.Interest] = []
        for item in (*named, *single, *self.sets):
            if item not in result:
                result.append(item)
        return result


def wanted(isvc: InferenceService, ome_namespace: str) -> Wanted:
    """What a pass of this InferenceService needs: runtimes and snapshots it names; sets only when it may advance."""
    reference = isvc.reference
    if reference is None:
        return Wanted()
    runtimes = tuple((source, runtime(source)) for source in reference.sources())
    if not isvc.pinned_mode:
        return Wanted(runtimes)
    explicit = snapshot(ome_namespace, isvc.runtime.revision) if isvc.runtime.revision else None
    pinned = snapshot(ome_namespace, isvc.pin) if isvc.pin else None
    sets = _sets(reference, ome_namespace) if may_advance(isvc) else ()
    return Wanted(runtimes, explicit, pinned, sets)


def may_advance(isvc: InferenceService) -> bool:
    """Whether a snapshot may have to be found or created: a first pin, a move, or a new token (rows F1, M, P2, P6)."""
    if isvc.runtime.revision or isvc.reference is None or not isvc.pinned_mode:
        return False
    return not isvc.pin or not isvc.reference.shapes(isvc.pin) or (isvc.token != "" and isvc.token != isvc.last)


def _sets(reference: Reference, namespace: str) -> tuple[common_pb2.Interest, ...]:
    prefixes = [prefixed(namespace, source.prefix) for source in reference.sources()]
    return (labelled(namespace, reference.name), *prefixes)


__all__ = ["CSR", "SR", "Wanted", "labelled", "may_advance", "prefixed", "runtime", "snapshot", "wanted"]
