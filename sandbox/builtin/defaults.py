"""Defaults of built-in kinds, as kube-apiserver fills them in."""

from __future__ import annotations

from collections.abc import Callable

from sandbox.builtin import services
from sandbox.jsontypes import JsonObject, JsonValue


def apply(group: str, kind: str, obj: JsonObject) -> None:
    """Fills in the defaults of a kind, in place; kinds without any are left as they are."""
    function = _BY_KIND.get((group, kind))
    if function is not None:
        function(obj)


def _set(target: JsonObject, **values: JsonValue) -> None:
    for name, value in values.items():
        target.setdefault(name, value)


def pod_spec(spec: JsonObject) -> None:
    """Defaults of a pod's specification (``core/v1`` PodSpec)."""
    _set(
        spec,
        restartPolicy="Always",
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
    )
    if spec.get("serviceAccountName") and "serviceAccount" not in spec:
        spec["serviceAccount"] = spec["serviceAccountName"]
    for name in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(name) or ():
            _container(container)
    for volume in spec.get("volumes") or ():
        _volume(volume)


def _container(container: JsonObject) -> None:
    image = container.get("image", "")
    tag = image.rsplit("/", 1)[-1].partition("@")
    latest = image and not tag[1] and (":" not in tag[0] or tag[0].endswith(":latest"))
    _set(
        container,
        resources={},
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy="Always" if latest else "IfNotPresent",
    )
    for port in container.get("ports") or ():
        _set(port, protocol="TCP")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(name):
            _probe(container[name])
    for handler in (container.get("lifecycle") or {}).values():
        if isinstance(handler, dict):
            _handler(handler)
    for entry in container.get("env") or ():
        reference = (entry.get("valueFrom") or {}).get("fieldRef")
        if reference:
            _set(reference, apiVersion="v1")


def _probe(probe: JsonObject) -> None:
    _set(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
    _handler(probe)


def _handler(handler: JsonObject) -> None:
    if handler.get("httpGet"):
        _set(handler["httpGet"], path="/", scheme="HTTP")
    if handler.get("grpc"):
        _set(handler["grpc"], service="")


def _volume(volume: JsonObject) -> None:
    sources = [name for name in volume if name != "name"]
    if not sources:
        volume["emptyDir"] = {}
    for name in ("configMap", "secret", "projected"):
        if volume.get(name):
            _set(volume[name], defaultMode=420)
    for source in (volume.get("projected") or {}).get("sources") or ():
        if source.get("serviceAccountToken"):
            _set(source["serviceAccountToken"], expirationSeconds=3600)
    if volume.get("hostPath"):
        _set(volume["hostPath"], type="")
    if volume.get("downwardAPI"):
        _set(volume["downwardAPI"], defaultMode=420)
        for item in volume["downwardAPI"].get("items") or ():
            if item.get("fieldRef"):
                _set(item["fieldRef"], apiVersion="v1")


def _template(spec: JsonObject) -> None:
    template = spec.setdefault("template", {})
    _set(template, metadata={})
    pod_spec(template.setdefault("spec", {}))


def _pod(obj: JsonObject) -> None:
    spec = obj.setdefault("spec", {})
    pod_spec(spec)
    _set(spec, enableServiceLinks=True)
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        for name, quantity in (container["resources"].get("limits") or {}).items():
            container["resources"].setdefault("requests", {}).setdefault(name, quantity)
        for port in container.get("ports") or () if spec.get("hostNetwork") else ():
            _set(port, hostPort=port.get("containerPort"))


def _deployment(obj: JsonObject) -> None:
    spec = obj.setdefault("spec", {})
    _set(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = spec.setdefault("strategy", {})
    _set(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _set(strategy.setdefault("rollingUpdate", {}), maxUnavailable="25%", maxSurge="25%")
    _template(spec)


def _replica_set(obj: JsonObject) -> None:
    spec = obj.setdefault("spec", {})
    _set(spec, replicas=1)
    _template(spec)
    _set(obj.setdefault("status", {}), replicas=0)


def _stateful_set(obj: JsonObject) -> None:
    spec = obj.setdefault("spec", {})
    _set(
        spec,
        replicas=1,
        revisionHistoryLimit=10,
        podManagementPolicy="OrderedReady",
        persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain", "whenScaled": "Retain"},
    )
    strategy = spec.setdefault("updateStrategy", {})
    _set(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _set(strategy.setdefault("rollingUpdate", {}), partition=0)
    _template(spec)
    _set(obj.setdefault("status", {}), replicas=0, availableReplicas=0)


def _daemon_set(obj: JsonObject) -> None:
    spec = obj.setdefault("spec", {})
    _set(spec, revisionHistoryLimit=10)
    strategy = spec.setdefault("updateStrategy", {})
    _set(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _set(strategy.setdefault("rollingUpdate", {}), maxUnavailable=1, maxSurge=0)
    _template(spec)


def _job(obj: JsonObject) -> None:
    spec = obj.setdefault("spec", {})
    _set(spec, completions=1, parallelism=1, backoffLimit=6, completionMode="NonIndexed", suspend=False)
    _template(spec)


def _service(obj: JsonObject) -> None:
    spec = obj.setdefault("spec", {})
    _set(spec, sessionAffinity="None", type="ClusterIP")
    _set(obj.setdefault("status", {}), loadBalancer={})
    if spec["sessionAffinity"] == "ClientIP":
        _set(spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {}), timeoutSeconds=10800)
    for port in spec.get("ports") or ():
        _set(port, protocol="TCP")
        if spec["type"] != "ExternalName":
            _set(port, targetPort=port.get("port"))
    if spec["type"] == "ExternalName":
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"):
            spec.pop(name, None)
        return
    _set(spec, internalTrafficPolicy="Cluster")
    if spec["type"] in ("NodePort", "LoadBalancer"):
        _set(spec, externalTrafficPolicy="Cluster")
    if spec["type"] == "LoadBalancer":
        _set(spec, allocateLoadBalancerNodePorts=True)
    services.node_ports(obj)


def _webhooks(obj: JsonObject) -> None:
    for hook in obj.get("webhooks") or ():
        _set(hook, failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=10)
        _set(hook, namespaceSelector={}, objectSelector={})
        for rule in hook.get("rules") or ():
            _set(rule, scope="*")
        service = (hook.get("clientConfig") or {}).get("service")
        if service:
            _set(service, port=443)


def _definition(obj: JsonObject) -> None:
    spec = obj.setdefault("spec", {})
    _set(spec, conversion={"strategy": "None"})
    names = spec.setdefault("names", {})
    if names.get("kind"):
        _set(names, singular=names["kind"].lower(), listKind=f"{names['kind']}List")


def _secret(obj: JsonObject) -> None:
    _set(obj, type="Opaque")


def _role_binding(obj: JsonObject) -> None:
    rbac = "rbac.authorization.k8s.io"
    _set(obj.setdefault("roleRef", {}), apiGroup=rbac)
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            _set(subject, apiGroup=rbac)


def _claim(obj: JsonObject) -> None:
    _set(obj.setdefault("spec", {}), volumeMode="Filesystem")


def _slice(obj: JsonObject) -> None:
    for port in obj.get("ports") or ():
        _set(port, name="", protocol="TCP")


def _endpoints(obj: JsonObject) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            _set(port, protocol="TCP")


def _priority_class(obj: JsonObject) -> None:
    _set(obj, preemptionPolicy="PreemptLowerPriority")


def _network_policy(obj: JsonObject) -> None:
    spec = obj.setdefault("spec", {})
    if "policyTypes" not in spec:
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


_RBAC = "rbac.authorization.k8s.io"
_BY_KIND: dict[tuple[str, str], Callable[[JsonObject], None]] = {
    ("", "Endpoints"): _endpoints,
    ("", "Pod"): _pod,
    ("", "Secret"): _secret,
    ("", "Service"): _service,
    ("", "PersistentVolumeClaim"): _claim,
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replica_set,
    ("apps", "StatefulSet"): _stateful_set,
    ("batch", "Job"): _job,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _webhooks,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
    ("discovery.k8s.io", "EndpointSlice"): _slice,
    ("networking.k8s.io", "NetworkPolicy"): _network_policy,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    (_RBAC, "ClusterRoleBinding"): _role_binding,
    (_RBAC, "RoleBinding"): _role_binding,
}
