"""The resources that a new server starts with, and the content of those that CRDs add."""

from __future__ import annotations

from dataclasses import replace

from sandbox.api.resources import Model, Resource
from sandbox.api.status import cause, invalid
from sandbox.builtin import BUILTINS
from sandbox.builtin.model import BuiltinModel
from sandbox.jsontypes import JsonObject
from sandbox.schema import CustomResource, SchemaError

CRDS = "customresourcedefinitions.apiextensions.k8s.io"

_REVIEWS = (
    ("authentication.k8s.io", "SelfSubjectReview", False),
    ("authorization.k8s.io", "SelfSubjectRulesReview", False),
    ("authorization.k8s.io", "LocalSubjectAccessReview", True),
)


class DefinitionModel(BuiltinModel):
    """CustomResourceDefinitions: what cannot be served is refused before it is stored."""

    def __init__(self) -> None:
        super().__init__("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "V1CustomResourceDefinition")

    def validate(self, obj: JsonObject, old: JsonObject | None = None, subresource: str = "") -> None:
        """The rules of the kind, the name, and that every schema can be used."""
        super().validate(obj, old, subresource)
        spec, name = obj["spec"], obj["metadata"]["name"]
        causes = []
        if name != f"{spec['names']['plural']}.{spec['group']}":
            text = f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group'
            causes.append(cause("metadata.name", "FieldValueInvalid", text))
        if sum(bool(version.get("storage")) for version in spec["versions"]) != 1:
            text = "Invalid value: must have exactly one version marked as storage version"
            causes.append(cause("spec.versions", "FieldValueInvalid", text))
        for index, version in enumerate(spec["versions"]):
            try:
                CustomResource.from_crd(obj, version["name"])
            except SchemaError as error:
                causes.append(cause(f"spec.versions[{index}].schema", "FieldValueInvalid", f"Invalid value: {error}"))
        if causes:
            raise invalid(self.group, self.kind, name, causes)


def builtin_resources() -> list[Resource]:
    """Every built-in resource in every version that is served; reviews are answered, never stored."""
    found = [replace(r, model=DefinitionModel()) if r.storage == CRDS else r for r in BUILTINS]
    known = {(resource.group, resource.kind) for resource in found}
    for group, kind, namespaced in _REVIEWS:
        if (group, kind) not in known:
            found.append(Resource(group, "v1", kind, f"{kind.lower()}s", kind.lower(), namespaced, verbs=("create",)))
    return found


def custom_model(crd: JsonObject, version: str) -> Model:
    """The content of one version of a CustomResourceDefinition. Raises ``SchemaError`` for one that cannot be used."""
    return CustomResource.from_crd(crd, version)
