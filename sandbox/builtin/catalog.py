"""The built-in resources that are served, each with its model."""

from __future__ import annotations

from sandbox.api.resources import VERBS, Resource, Scale
from sandbox.builtin.model import BuiltinModel

_SCALE = Scale(".spec.replicas", ".status.replicas", ".spec.selector")
_CREATE = ("create",)
_CORE = "v1"


def _resource(
    group: str,
    version: str,
    kind: str,
    plural: str,
    model: str,
    *,
    namespaced: bool = True,
    short: str = "",
    categories: tuple[str, ...] = (),
    status: bool = False,
    scale: bool = False,
    generation: bool = False,
    bucket: str = "",
    stored_as: str = "",
    verbs: tuple[str, ...] = VERBS,
) -> Resource:
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        namespaced=namespaced,
        short_names=tuple(short.split()),
        categories=categories,
        status=status,
        scale=_SCALE if scale else None,
        generation=generation,
        bucket=bucket,
        stored_as=stored_as,
        verbs=verbs,
        model=BuiltinModel(group, version, kind, model),
    )


_ALL = ("all",)
_EXT = ("api-extensions",)
_RBAC = "rbac.authorization.k8s.io"
_AUTHZ = "authorization.k8s.io"

BUILTINS: tuple[Resource, ...] = (
    _resource("", _CORE, "ConfigMap", "configmaps", "V1ConfigMap", short="cm"),
    _resource("", _CORE, "Endpoints", "endpoints", "V1Endpoints", short="ep"),
    _resource("", _CORE, "Event", "events", "CoreV1Event", short="ev", bucket="events"),
    _resource("", _CORE, "Namespace", "namespaces", "V1Namespace", short="ns", namespaced=False, status=True),
    _resource("", _CORE, "Node", "nodes", "V1Node", short="no", namespaced=False, status=True),
    _resource("", _CORE, "PersistentVolumeClaim", "persistentvolumeclaims", "V1PersistentVolumeClaim", short="pvc",
              status=True),
    _resource("", _CORE, "Pod", "pods", "V1Pod", short="po", categories=_ALL, status=True, generation=True),
    _resource("", _CORE, "Secret", "secrets", "V1Secret"),
    _resource("", _CORE, "Service", "services", "V1Service", short="svc", categories=_ALL, status=True),
    _resource("", _CORE, "ServiceAccount", "serviceaccounts", "V1ServiceAccount", short="sa"),
    _resource("apps", "v1", "ControllerRevision", "controllerrevisions", "V1ControllerRevision"),
    _resource("apps", "v1", "DaemonSet", "daemonsets", "V1DaemonSet", short="ds", categories=_ALL, status=True,
              generation=True),
    _resource("apps", "v1", "Deployment", "deployments", "V1Deployment", short="deploy", categories=_ALL, status=True,
              scale=True, generation=True),
    _resource("apps", "v1", "ReplicaSet", "replicasets", "V1ReplicaSet", short="rs", categories=_ALL, status=True,
              scale=True, generation=True),
    _resource("apps", "v1", "StatefulSet", "statefulsets", "V1StatefulSet", short="sts", categories=_ALL, status=True,
              scale=True, generation=True),
    _resource("batch", "v1", "Job", "jobs", "V1Job", categories=_ALL, status=True, generation=True),
    _resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", "V1EndpointSlice", generation=True),
    _resource("coordination.k8s.io", "v1", "Lease", "leases", "V1Lease"),
    _resource("events.k8s.io", "v1", "Event", "events", "EventsV1Event", short="ev", bucket="events",
              stored_as="v1"),
    _resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", "V1PodDisruptionBudget", short="pdb",
              status=True, generation=True),
    _resource(_RBAC, "v1", "ClusterRole", "clusterroles", "V1ClusterRole", namespaced=False),
    _resource(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", "V1ClusterRoleBinding", namespaced=False),
    _resource(_RBAC, "v1", "Role", "roles", "V1Role"),
    _resource(_RBAC, "v1", "RoleBinding", "rolebindings", "V1RoleBinding"),
    _resource("networking.k8s.io", "v1", "Ingress", "ingresses", "V1Ingress", short="ing", status=True,
              generation=True),
    _resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", "V1NetworkPolicy", short="netpol",
              generation=True),
    _resource("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration",
              "validatingwebhookconfigurations", "V1ValidatingWebhookConfiguration", namespaced=False,
              categories=_EXT, generation=True),
    _resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions",
              "V1CustomResourceDefinition", namespaced=False, short="crd crds", categories=_EXT, status=True,
              generation=True),
    _resource("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", "V1TokenReview", namespaced=False,
              verbs=_CREATE),
    _resource(_AUTHZ, "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", "V1SelfSubjectAccessReview",
              namespaced=False, verbs=_CREATE),
    _resource(_AUTHZ, "v1", "SubjectAccessReview", "subjectaccessreviews", "V1SubjectAccessReview", namespaced=False,
              verbs=_CREATE),
    _resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", "V1PriorityClass", short="pc",
              namespaced=False, generation=True),
)  # fmt: skip
"""Every built-in resource, in the order of discovery within its group."""

_BY_KIND = {(resource.group, resource.version, resource.kind): resource for resource in BUILTINS}


def find(group: str, version: str, kind: str) -> Resource | None:
    """The built-in resource of a kind, or None."""
    return _BY_KIND.get((group, version, kind))
