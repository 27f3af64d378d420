"""What the model classes do not tell: groups, list and merge keys, formats."""

from __future__ import annotations

from sandbox.jsontypes import JsonObject

_GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "meta",
        ("ObjectMeta", "OwnerReference", "ManagedFieldsEntry", "LabelSelector", "LabelSelectorRequirement", "ListMeta",
         "Status", "StatusCause", "StatusDetails", "DeleteOptions", "Preconditions", "Condition"),
    ),
    (
        "apps",
        ("Deployment", "DeploymentSpec", "DeploymentStatus", "DeploymentStrategy", "DeploymentCondition", "ReplicaSet",
         "ReplicaSetSpec", "ReplicaSetStatus", "ReplicaSetCondition", "StatefulSet", "StatefulSetSpec",
         "StatefulSetStatus", "StatefulSetCondition", "StatefulSetUpdateStrategy", "StatefulSetOrdinals",
         "StatefulSetPersistentVolumeClaimRetentionPolicy", "DaemonSet", "DaemonSetSpec", "DaemonSetStatus",
         "DaemonSetCondition", "DaemonSetUpdateStrategy", "ControllerRevision", "RollingUpdateDeployment",
         "RollingUpdateDaemonSet", "RollingUpdateStatefulSetStrategy"),
    ),
    ("autoscaling", ("Scale", "ScaleSpec", "ScaleStatus")),
    ("batch", ("Job", "JobSpec", "JobStatus", "JobCondition", "PodFailurePolicy", "PodFailurePolicyRule",
               "SuccessPolicy", "SuccessPolicyRule", "UncountedTerminatedPods",
               "PodFailurePolicyOnExitCodesRequirement",
               "PodFailurePolicyOnPodConditionsPattern", "JobSchedulingPolicy")),
    ("coordination", ("Lease", "LeaseSpec")),
    ("discovery", ("EndpointSlice", "Endpoint", "EndpointConditions", "EndpointHints", "ForZone", "ForNode")),
    ("policy", ("PodDisruptionBudget", "PodDisruptionBudgetSpec", "PodDisruptionBudgetStatus", "Eviction")),
    ("rbac", ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "PolicyRule", "RoleRef", "AggregationRule")),
    ("scheduling", ("PriorityClass",)),
    ("authentication", ("TokenReview", "TokenReviewSpec", "TokenReviewStatus", "UserInfo")),
)  # fmt: skip
_STARTS = (
    ("CustomResource", "apiextensions"),
    ("JSONSchemaProps", "apiextensions"),
    ("ValidationRule", "apiextensions"),
    ("ExternalDocumentation", "apiextensions"),
    ("SelectableField", "apiextensions"),
    ("WebhookConversion", "apiextensions"),
    ("Webhook", "admissionregistration"),
    ("ValidatingWebhook", "admissionregistration"),
    ("MutatingWebhook", "admissionregistration"),
    ("RuleWithOperations", "admissionregistration"),
    ("MatchCondition", "admissionregistration"),
    ("Ingress", "networking"),
    ("HTTPIngress", "networking"),
    ("NetworkPolicy", "networking"),
    ("IPBlock", "networking"),
    ("SelfSubject", "authorization"),
    ("SubjectAccess", "authorization"),
    ("ResourceAttributes", "authorization"),
    ("NonResourceAttributes", "authorization"),
    ("FieldSelectorAttributes", "authorization"),
    ("LabelSelectorAttributes", "authorization"),
)
_BY_NAME = {name: group for group, names in _GROUPS for name in names}


def group_of(name: str) -> str:
    """The API package of a Go struct; what is not listed belongs to the core group."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    return next((group for start, group in _STARTS if name.startswith(start)), "core")


QUANTITY_MAPS = frozenset(
    {"limits", "requests", "capacity", "allocatable", "overhead", "allocatedResources", "hard", "used"}
)
QUANTITIES = frozenset({"sizeLimit", "divisor"})
INT_OR_STRING = frozenset({"port", "targetPort", "maxSurge", "maxUnavailable", "minAvailable"})
OPEN_OBJECTS = frozenset({("ManagedFieldsEntry", "fieldsV1"), ("ControllerRevision", "data")})
LONG = frozenset(
    {"generation", "observedGeneration", "deletionGracePeriodSeconds", "terminationGracePeriodSeconds", "revision",
     "activeDeadlineSeconds", "tolerationSeconds", "runAsUser", "runAsGroup", "fsGroup", "supplementalGroups",
     "expirationSeconds", "gracePeriodSeconds", "maxItems", "minItems", "maxLength", "minLength", "maxProperties",
     "minProperties", "defaultRequestSeconds"}
)  # fmt: skip


def _merge(key: str, strategy: str = "merge") -> JsonObject:
    return {"x-kubernetes-patch-strategy": strategy, "x-kubernetes-patch-merge-key": key}


def _map(*keys: str) -> JsonObject:
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


_ATOMIC: JsonObject = {"x-kubernetes-list-type": "atomic"}
_SET: JsonObject = {"x-kubernetes-list-type": "set"}
_BY_NAME_KEY = {**_map("name"), **_merge("name")}
_BY_TYPE_KEY = {**_map("type"), **_merge("type")}

STRUCTS: dict[str, JsonObject] = {
    name: {"x-kubernetes-map-type": "atomic"}
    for name in (
        "LabelSelector", "ObjectReference", "LocalObjectReference", "OwnerReference", "ObjectFieldSelector",
        "ResourceFieldSelector", "SecretKeySelector", "ConfigMapKeySelector", "NodeSelector", "NodeSelectorTerm",
        "SecretReference", "TypedLocalObjectReference", "RoleRef", "Subject",
    )
}  # fmt: skip

_MEMBERS: dict[tuple[str, str], JsonObject] = {
    ("ObjectMeta", "finalizers"): {**_SET, "x-kubernetes-patch-strategy": "merge"},
    ("ObjectMeta", "ownerReferences"): {**_map("uid"), **_merge("uid")},
    ("ObjectMeta", "managedFields"): _ATOMIC,
    ("DeploymentSpec", "strategy"): {"x-kubernetes-patch-strategy": "retainKeys"},
    ("PodSpec", "containers"): _BY_NAME_KEY,
    ("PodSpec", "initContainers"): _BY_NAME_KEY,
    ("PodSpec", "ephemeralContainers"): _BY_NAME_KEY,
    ("PodSpec", "volumes"): {**_map("name"), **_merge("name", "merge,retainKeys")},
    ("PodSpec", "imagePullSecrets"): _BY_NAME_KEY,
    ("PodSpec", "hostAliases"): {**_map("ip"), **_merge("ip")},
    ("PodSpec", "topologySpreadConstraints"): {**_map("topologyKey", "whenUnsatisfiable"), **_merge("topologyKey")},
    ("PodSpec", "resourceClaims"): {**_map("name"), **_merge("name", "merge,retainKeys")},
    ("PodSpec", "schedulingGates"): _BY_NAME_KEY,
    ("PodSpec", "tolerations"): _ATOMIC,
    ("PodSpec", "readinessGates"): _ATOMIC,
    ("PodSpec", "nodeSelector"): {"x-kubernetes-map-type": "atomic"},
    ("PodSecurityContext", "supplementalGroups"): _ATOMIC,
    ("PodStatus", "podIPs"): {**_map("ip"), **_merge("ip")},
    ("PodStatus", "hostIPs"): {**_ATOMIC, **_merge("ip")},
    ("PodStatus", "containerStatuses"): _ATOMIC,
    ("PodStatus", "initContainerStatuses"): _ATOMIC,
    ("ServiceSpec", "ports"): {**_map("port", "protocol"), **_merge("port")},
    ("ServiceSpec", "selector"): {"x-kubernetes-map-type": "atomic"},
    ("ServiceSpec", "clusterIPs"): _ATOMIC,
    ("ServiceSpec", "ipFamilies"): _ATOMIC,
    ("ServiceSpec", "externalIPs"): _ATOMIC,
    ("ServiceSpec", "loadBalancerSourceRanges"): _ATOMIC,
    ("ServiceAccount", "secrets"): _BY_NAME_KEY,
    ("ServiceAccount", "imagePullSecrets"): _ATOMIC,
    ("NodeSpec", "taints"): _ATOMIC,
    ("NodeSpec", "podCIDRs"): {**_SET, "x-kubernetes-patch-strategy": "merge"},
    ("NodeStatus", "addresses"): _BY_TYPE_KEY,
    ("Endpoints", "subsets"): _ATOMIC,
    ("EndpointSlice", "endpoints"): _ATOMIC,
    ("EndpointSlice", "ports"): _ATOMIC,
    ("ValidatingWebhookConfiguration", "webhooks"): _BY_NAME_KEY,
    ("MutatingWebhookConfiguration", "webhooks"): _BY_NAME_KEY,
    ("CustomResourceDefinitionStatus", "conditions"): _map("type"),
    ("CustomResourceDefinitionStatus", "storedVersions"): _ATOMIC,
    ("PodDisruptionBudgetSpec", "selector"): {"x-kubernetes-patch-strategy": "replace"},
    ("Role", "rules"): _ATOMIC,
    ("ClusterRole", "rules"): _ATOMIC,
    ("RoleBinding", "subjects"): _ATOMIC,
    ("ClusterRoleBinding", "subjects"): _ATOMIC,
    ("JobStatus", "conditions"): {**_ATOMIC, **_merge("type")},
    **{("Volume" + kind, name): _ATOMIC for kind, name in (("Projection", "sources"),)},
    **{(kind, "ports"): {**_map("containerPort", "protocol"), **_merge("containerPort")} for kind in
       ("Container", "EphemeralContainer")},
    **{(kind, "env"): _BY_NAME_KEY for kind in ("Container", "EphemeralContainer")},
    **{(kind, "volumeMounts"): {**_map("mountPath"), **_merge("mountPath")} for kind in
       ("Container", "EphemeralContainer")},
    **{(kind, "volumeDevices"): {**_map("devicePath"), **_merge("devicePath")} for kind in
       ("Container", "EphemeralContainer")},
    **{(kind, name): _ATOMIC for kind in ("Container", "EphemeralContainer") for name in
       ("args", "command", "envFrom", "resizePolicy")},
    **{(f"{kind}Status", "conditions"): _BY_TYPE_KEY for kind in
       ("Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Node", "Namespace", "Service",
        "PersistentVolumeClaim", "PodDisruptionBudget")},
}  # fmt: skip


def members(struct: str, name: str) -> JsonObject:
    """The ``x-kubernetes-`` extensions of a member of a struct."""
    return _MEMBERS.get((struct, name), {})
