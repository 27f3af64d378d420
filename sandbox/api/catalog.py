"""The built-in resources."""

from __future__ import annotations

from sandbox.api.resources import Model, Resource, Scale
from sandbox.jsontypes import JsonObject
from sandbox.schema import CustomResource

REPLICAS = Scale(".spec.replicas", ".status.replicas", ".spec.selector")


def builtin_resources() -> list[Resource]:
    """Every built-in resource in every version that is served."""
    core = [("Pod", "pods", True), ("Namespace", "namespaces", True), ("ConfigMap", "configmaps", False),
            ("Node", "nodes", True), ("Service", "services", True), ("Event", "events", False)]  # fmt: skip
    found = [Resource("", "v1", k, p, k.lower(), k not in ("Namespace", "Node"), status=s) for k, p, s in core]
    for kind in ("Deployment", "StatefulSet", "ReplicaSet"):
        found.append(
            Resource("apps", "v1", kind, kind.lower() + "s", kind.lower(), True, status=True, scale=REPLICAS, generation=True)
        )
    found.append(Resource("apps", "v1", "ControllerRevision", "controllerrevisions", "controllerrevision", True))
    found.append(Resource("coordination.k8s.io", "v1", "Lease", "leases", "lease", True))
    found.append(
        Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions",
                 "customresourcedefinition", False, short_names=("crd", "crds"), status=True, generation=True)
    )  # fmt: skip
    found.append(Resource("events.k8s.io", "v1", "Event", "events", "event", True, bucket="events", stored_as="v1"))
    return found


def custom_model(crd: JsonObject, version: str) -> Model:
    """The content of one version of a CustomResourceDefinition. Raises ``SchemaError`` for one that cannot be used."""
    return CustomResource.from_crd(crd, version)
