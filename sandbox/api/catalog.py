"""The resources that a new server starts with, and the content of those that CRDs add."""

from __future__ import annotations

from sandbox.api.resources import Model, Resource
from sandbox.builtin import BUILTINS
from sandbox.jsontypes import JsonObject
from sandbox.schema import CustomResource

_REVIEWS = (
    ("authentication.k8s.io", "SelfSubjectReview", False),
    ("authorization.k8s.io", "SelfSubjectRulesReview", False),
    ("authorization.k8s.io", "LocalSubjectAccessReview", True),
)


def builtin_resources() -> list[Resource]:
    """Every built-in resource in every version that is served; reviews are answered, never stored."""
    found = list(BUILTINS)
    known = {(resource.group, resource.kind) for resource in found}
    for group, kind, namespaced in _REVIEWS:
        if (group, kind) not in known:
            found.append(Resource(group, "v1", kind, f"{kind.lower()}s", kind.lower(), namespaced, verbs=("create",)))
    return found


def custom_model(crd: JsonObject, version: str) -> Model:
    """The content of one version of a CustomResourceDefinition. Raises ``SchemaError`` for one that cannot be used."""
    return CustomResource.from_crd(crd, version)
