"""What a pin decision depends on, as interests (pinning specification 8)."""

from __future__ import annotations

from dataclasses import dataclass

from services.kit import names
from services.pinning.isvc import InferenceService
from services.pinning.snapshots import LABEL_OF
from services.pinning.sources import Reference, Source

OME_API = "ome.io/v1beta1"
REVISION_API = "apps/v1"
REVISION = "ControllerRevision"


@dataclass(frozen=True, slots=True)
class Interest:
    """An object by name, or a set by label and name prefix, that a decision depends on."""

    api_version: str
    kind: str
    namespace: str
    name: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    name_prefix: str = ""
    metadata_only: bool = False


def runtime(source: Source) -> Interest:
    """The live runtime of a source."""
    return Interest(OME_API, source.kind, source.namespace, source.name)


def snapshot(namespace: str, name: str) -> Interest:
    """One snapshot by name, whole."""
    return Interest(REVISION_API, REVISION, namespace, name)


def labelled(namespace: str, name: str) -> Interest:
    """All snapshots labelled with a runtime's name, whole."""
    return Interest(REVISION_API, REVISION, namespace, labels=((LABEL_OF, names.bound_label(name)),))


def prefixed(namespace: str, prefix: str) -> Interest:
    """All revisions whose name begins with a prefix of 1.3: they hold names, whatever they are; metadata only."""
    return Interest(REVISION_API, REVISION, namespace, name_prefix=f"{prefix}-", metadata_only=True)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The interests of a decision by what they are for."""

    runtimes: tuple[tuple[Source, Interest], ...] = ()
    explicit: Interest | None = None
    pinned: Interest | None = None
    sets: tuple[Interest, ...] = ()

    def all(self) -> list[Interest]:
        """Every interest once, in a fixed order."""
        named = [interest for _, interest in self.runtimes]
        single = [item for item in (self.explicit, self.pinned) if item is not None]
        return list(dict.fromkeys((*named, *single, *self.sets)))


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


def _sets(reference: Reference, namespace: str) -> tuple[Interest, ...]:
    prefixes = [prefixed(namespace, source.prefix) for source in reference.sources()]
    return (labelled(namespace, reference.name), *prefixes)
