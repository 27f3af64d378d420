"""The resources that are served: built-in ones and those of CustomResourceDefinitions, by group and version."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from sandbox.api.status import qualified
from sandbox.jsontypes import JsonObject, JsonValue

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Model(Protocol):
    """What is known of the content of a kind."""

    def decode(self, obj: JsonObject) -> tuple[JsonObject, list[str]]:
        """The object without unknown fields, and one text for each: ``unknown field "spec.x"``."""
        ...

    def default(self, obj: JsonObject) -> JsonObject:
        """The object with its defaults filled in."""
        ...

    def validate(self, obj: JsonObject, old: JsonObject | None, subresource: str) -> None:
        """Raises a 422 ``StatusError`` for an object that breaks the rules of its kind."""
        ...

    def schema(self) -> JsonObject:
        """The OpenAPI v3 schema, with the ``x-kubernetes-`` extensions of lists and maps; ``$ref`` allowed."""
        ...

    def definitions(self) -> JsonObject:
        """The schemas that ``$ref`` names, by name."""
        ...

    def columns(self) -> list[JsonObject]:
        """The columns of the table form (``TableColumnDefinition``)."""
        ...

    def cells(self, obj: JsonObject, now: datetime) -> list[JsonValue]:
        """The cells of an object's row."""
        ...

    def selectable(self) -> tuple[str, ...]:
        """Further fields that field selectors may name."""
        ...


@dataclass(frozen=True)
class Scale:
    """Where the scale subresource finds its three values (dotted paths, as in a CRD)."""

    spec: str
    status: str
    selector: str = ""


@dataclass(frozen=True)
class Resource:
    """One resource in one version."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    status: bool = False
    scale: Scale | None = None
    generation: bool = False
    """Whether ``metadata.generation`` counts changes of the specification."""
    bucket: str = ""
    stored_as: str = ""
    """The ``apiVersion`` under which objects are kept when it is not the resource's own."""
    verbs: tuple[str, ...] = VERBS
    custom: bool = False
    model: Model | None = None

    @property
    def api_version(self) -> str:
        """``group/version``, or ``version`` in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """``plural.group``."""
        return qualified(self.group, self.plural)

    @property
    def storage(self) -> str:
        """The bucket of the store that holds the objects of every version."""
        return self.bucket or self.qualified

    @property
    def list_name(self) -> str:
        """The kind of a list."""
        return self.list_kind or f"{self.kind}List"


class Registry:
    """All served resources. CRDs come and go at run time; ``generation`` counts the changes."""

    def __init__(self, builtins: Iterable[Resource]) -> None:
        self._static: dict[tuple[str, str], dict[str, Resource]] = {}
        self._custom: dict[str, list[Resource]] = {}
        self._served: dict[tuple[str, str], dict[str, Resource]] = {}
        self.generation = 0
        for resource in builtins:
            self._static.setdefault((resource.group, resource.version), {})[resource.plural] = resource
        self._rebuild()

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource of a path, or None."""
        return self._served.get((group, version), {}).get(plural)

    def by_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource of a typed object, or None."""
        group, _, version = api_version.rpartition("/")
        for resource in self._served.get((group, version), {}).values():
            if resource.kind == kind:
                return resource
        return None

    def group_versions(self) -> list[tuple[str, str]]:
        """Every group and version served: core first, then by group, versions in order of preference."""
        return list(self._served)

    def versions(self, group: str) -> list[str]:
        """The versions of a group, preferred first."""
        return [version for name, version in self._served if name == group]

    def groups(self) -> list[str]:
        """The named groups, in order."""
        return list(dict.fromkeys(group for group, _ in self._served if group))

    def resources(self, group: str, version: str) -> list[Resource]:
        """The resources of a group and version, by plural name."""
        return list(self._served.get((group, version), {}).values())

    def all(self) -> list[Resource]:
        """Every resource in every version."""
        return [resource for served in self._served.values() for resource in served.values()]

    def stored(self) -> dict[str, Resource]:
        """One resource (of the preferred version) for each bucket of the store."""
        found: dict[str, Resource] = {}
        for resource in self.all():
            found.setdefault(resource.storage, resource)
        return found

    def set_custom(self, crd_name: str, resources: list[Resource]) -> None:
        """Replaces what a CRD serves; an empty list withdraws it."""
        if resources:
            self._custom[crd_name] = resources
        else:
            self._custom.pop(crd_name, None)
        self._rebuild()

    def _rebuild(self) -> None:
        merged = {key: dict(served) for key, served in self._static.items()}
        for resources in self._custom.values():
            for resource in resources:
                merged.setdefault((resource.group, resource.version), {})[resource.plural] = resource
        order = sorted(merged, key=lambda key: (key[0] != "", key[0], version_priority(key[1])))
        self._served = {key: dict(sorted(merged[key].items())) for key in order}
        self.generation += 1


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Sort key of Kubernetes versions, preferred first: v2, v1, v1beta2, v1beta1, v1alpha1, then others by name."""
    rest = version.removeprefix("v")
    for rank, stage in ((1, "beta"), (2, "alpha")):
        major, found, minor = rest.partition(stage)
        if found and major.isdigit() and minor.isdigit():
            return rank, -int(major), -int(minor), version
    if rest.isdigit() and version != rest:
        return 0, -int(rest), 0, version
    return 3, 0, 0, version


def from_crd(crd: JsonObject, model: Callable[[JsonObject, str], Model]) -> list[Resource]:
    """The served versions of a CustomResourceDefinition; ``model`` reads the schema of one version."""
    spec = crd["spec"]
    names = spec["names"]
    kept = next((v["name"] for v in spec["versions"] if v.get("storage")), spec["versions"][0]["name"])
    found = []
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        subresources = version.get("subresources") or {}
        scale = subresources.get("scale")
        found.append(
            Resource(
                group=spec["group"],
                version=version["name"],
                kind=names["kind"],
                plural=names["plural"],
                singular=names.get("singular") or names["kind"].lower(),
                namespaced=spec.get("scope") != "Cluster",
                list_kind=names.get("listKind") or f"{names['kind']}List",
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                status="status" in subresources,
                scale=_scale(scale) if scale else None,
                generation=True,
                stored_as=f"{spec['group']}/{kept}",
                custom=True,
                model=model(crd, version["name"]),
            )
        )
    return found


def _scale(scale: JsonObject) -> Scale:
    return Scale(scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath", ""))
