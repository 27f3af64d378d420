"""Built-in kinds: schemas from the client library's models, strict decoding, defaults, rules."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from sandbox.api.status import StatusError
from sandbox.builtin import BUILTINS, find
from sandbox.builtin.model import BuiltinModel
from sandbox.schema import quantity

SERVED = {
    "v1": {
        "ConfigMap", "Endpoints", "Event", "Namespace", "Node", "PersistentVolumeClaim", "Pod", "Secret", "Service",
        "ServiceAccount",
    },
    "apps/v1": {"ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"},
    "batch/v1": {"Job"},
    "discovery.k8s.io/v1": {"EndpointSlice"},
    "coordination.k8s.io/v1": {"Lease"},
    "events.k8s.io/v1": {"Event"},
    "policy/v1": {"PodDisruptionBudget"},
    "rbac.authorization.k8s.io/v1": {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"},
    "networking.k8s.io/v1": {"Ingress", "NetworkPolicy"},
    "admissionregistration.k8s.io/v1": {"ValidatingWebhookConfiguration"},
    "apiextensions.k8s.io/v1": {"CustomResourceDefinition"},
    "authentication.k8s.io/v1": {"TokenReview"},
    "authorization.k8s.io/v1": {"SelfSubjectAccessReview", "SubjectAccessReview"},
    "scheduling.k8s.io/v1": {"PriorityClass"},
}  # fmt: skip


def model(api_version: str, kind: str) -> BuiltinModel:
    group, _, version = api_version.rpartition("/")
    resource = find(group, version, kind)
    assert resource is not None and isinstance(resource.model, BuiltinModel)
    return resource.model


def prepared(obj: dict[str, Any]) -> dict[str, Any]:
    """Decoded strictly and defaulted."""
    kind = model(obj["apiVersion"], obj["kind"])
    decoded, unknown = kind.decode(copy.deepcopy(obj))
    assert unknown == []
    return kind.default(decoded)


def faults(obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    """The causes of the 422, as ``field: message``."""
    try:
        model(obj["apiVersion"], obj["kind"]).validate(obj, old, "")
    except StatusError as error:
        assert error.code == 422 and error.details is not None
        return [f"{cause['field']}: {cause['message']}" for cause in error.details["causes"]]
    return []


def test_the_catalog() -> None:
    found: dict[str, set[str]] = {}
    for resource in BUILTINS:
        found.setdefault(resource.api_version, set()).add(resource.kind)
    assert {version: kinds & SERVED[version] for version, kinds in found.items() if version in SERVED} == SERVED


@pytest.mark.parametrize("resource", BUILTINS, ids=lambda resource: f"{resource.group}/{resource.kind}")
def test_every_schema_is_whole(resource: Any) -> None:
    """No reference leads nowhere, and the standing fields are there."""
    schema, definitions = resource.model.schema(), resource.model.definitions()
    assert {"apiVersion", "kind", "metadata"} <= set(schema["properties"])
    seen = []

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                seen.append(node["$ref"].removeprefix("#/components/schemas/"))
            for child in node.values():
                walk(child)
        elif isinstance(node, list):
            for child in node:
                walk(child)

    walk([schema, definitions])
    assert set(seen) <= set(definitions)
    assert resource.model.node.properties["metadata"].properties


def field(api_version: str, kind: str, *path: str) -> dict[str, Any]:
    """The schema of a field, references followed; ``[]`` steps into items."""
    kind_model = model(api_version, kind)
    definitions = kind_model.definitions()
    node = kind_model.schema()
    for step in path:
        while "$ref" in node or "allOf" in node:
            node = definitions[(node.get("$ref") or node["allOf"][0]["$ref"]).rsplit("/", 1)[-1]]
        node = node["items"] if step == "[]" else node["properties"][step]
    return node


POD = ("spec", "template", "spec")


@pytest.mark.parametrize(
    ("path", "key", "strategy"),
    [
        ((*POD, "containers"), "name", "merge"),
        ((*POD, "initContainers"), "name", "merge"),
        ((*POD, "volumes"), "name", "merge,retainKeys"),
        ((*POD, "imagePullSecrets"), "name", "merge"),
        ((*POD, "containers", "[]", "env"), "name", "merge"),
        ((*POD, "containers", "[]", "ports"), "containerPort", "merge"),
        ((*POD, "containers", "[]", "volumeMounts"), "mountPath", "merge"),
        ((*POD, "tolerations"), None, None),
        ((*POD, "containers", "[]", "args"), None, None),
        (("metadata", "finalizers"), None, "merge"),
        (("metadata", "ownerReferences"), "uid", "merge"),
        (("spec", "strategy"), None, "retainKeys"),
        (("status", "conditions"), "type", "merge"),
    ],
)
def test_keys_of_strategic_merge(path: tuple[str, ...], key: str | None, strategy: str | None) -> None:
    node = field("apps/v1", "Deployment", *path)
    assert node.get("x-kubernetes-patch-merge-key") == key
    assert node.get("x-kubernetes-patch-strategy") == strategy


@pytest.mark.parametrize(
    ("api_version", "kind", "path", "list_type", "keys"),
    [
        ("v1", "Pod", ("spec", "containers"), "map", ["name"]),
        ("v1", "Pod", ("spec", "containers", "[]", "ports"), "map", ["containerPort", "protocol"]),
        ("v1", "Pod", ("spec", "tolerations"), "atomic", None),
        ("v1", "Pod", ("spec", "topologySpreadConstraints"), "map", ["topologyKey", "whenUnsatisfiable"]),
        ("v1", "Pod", ("status", "conditions"), "map", ["type"]),
        ("v1", "Service", ("spec", "ports"), "map", ["port", "protocol"]),
        ("v1", "Pod", ("metadata", "ownerReferences"), "map", ["uid"]),
        ("v1", "Pod", ("metadata", "finalizers"), "set", None),
    ],
)
def test_keys_of_server_side_apply(
    api_version: str, kind: str, path: tuple[str, ...], list_type: str, keys: list[str] | None
) -> None:
    node = field(api_version, kind, *path)
    assert node["x-kubernetes-list-type"] == list_type
    assert node.get("x-kubernetes-list-map-keys") == keys


def test_fields_are_described() -> None:
    assert "desired pods" in field("apps/v1", "Deployment", "spec", "replicas")["description"]
    assert field("apps/v1", "Deployment", "spec", "replicas")["format"] == "int32"
    assert field("v1", "Secret", "data")["additionalProperties"] == {"type": "string", "format": "byte"}


CONTAINER = {"name": "main", "image": "repo/app:1"}


def pod(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "n"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [CONTAINER], **spec}}


def deployment(**spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [CONTAINER]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "n"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template, **spec},
    }


def service(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "s", "namespace": "n"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 80}], **spec}}


def test_unknown_fields_are_named_at_every_depth() -> None:
    obj = deployment(replica=1)
    obj["spec"]["template"]["spec"]["containers"][0] = {**CONTAINER, "imagePulPolicy": "Always"}
    obj["metadata"]["lables"] = {}
    decoded, unknown = model("apps/v1", "Deployment").decode(obj)
    assert unknown == [
        'unknown field "metadata.lables"',
        'unknown field "spec.replica"',
        'unknown field "spec.template.spec.containers[0].imagePulPolicy"',
    ]
    assert "replica" not in decoded["spec"] and "lables" not in decoded["metadata"]


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        (deployment(replicas="3"),
         'Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct '
         "field DeploymentSpec.spec.replicas of type int32"),
        (deployment(replicas=2**31),
         'Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal number 2147483648 into '
         "Go struct field DeploymentSpec.spec.replicas of type int32"),
        (pod(hostNetwork="yes"),
         'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field '
         "PodSpec.spec.hostNetwork of type bool"),
        (pod(containers={}),
         'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal object into Go struct field '
         "PodSpec.spec.containers of type []v1.Container"),
        (pod(containers=[{**CONTAINER, "resources": {"limits": {"cpu": "two"}}}]),
         "Pod in version \"v1\" cannot be handled as a Pod: quantities must match the regular expression "
         "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": 1}},
         'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct '
         "field ConfigMap.data of type string"),
    ],
)  # fmt: skip
def test_wrong_types_are_a_bad_request(obj: dict[str, Any], text: str) -> None:
    with pytest.raises(StatusError) as caught:
        model(obj["apiVersion"], obj["kind"]).decode(obj)
    assert (caught.value.code, caught.value.message) == (400, text)


def test_numbers_become_quantities_and_nulls_go() -> None:
    obj = pod(containers=[{**CONTAINER, "resources": {"limits": {"cpu": 2, "memory": 1.5}}, "args": None}])
    spec = prepared(obj)["spec"]["containers"][0]
    assert spec["resources"]["limits"] == {"cpu": "2", "memory": "1.5"}
    assert "args" not in spec


def test_nulls_in_maps_and_lists_are_zero_values() -> None:
    obj = pod(containers=[None, {**CONTAINER, "args": [None]}], nodeSelector={"a": None})
    spec = prepared(obj)["spec"]
    assert spec["nodeSelector"] == {"a": ""} and spec["containers"][1]["args"] == [""]
    assert faults({**obj, "spec": spec})[0] == "spec.containers[0].name: Required value"


def test_any_data_in_a_controller_revision() -> None:
    data = {"a": None, "b": [1, {"c": None}], "spec": {"unknown": True}}
    obj = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "r"},
           "data": data, "revision": 1}  # fmt: skip
    decoded, unknown = model("apps/v1", "ControllerRevision").decode(copy.deepcopy(obj))
    assert unknown == [] and decoded["data"] == data
    assert faults({**obj, "data": None}) == ["data: Required value: data is mandatory"]


def test_defaults_of_a_pod() -> None:
    image = {"name": "c", "image": "app", "ports": [{"containerPort": 80}],
             "readinessProbe": {"httpGet": {"port": 80}}, "resources": {"limits": {"cpu": "1"}}}  # fmt: skip
    spec = prepared(pod(containers=[CONTAINER, image], volumes=[{"name": "v"}]))["spec"]
    expected = {
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler", "securityContext": {}, "enableServiceLinks": True,
        "volumes": [{"name": "v", "emptyDir": {}}],
    }  # fmt: skip
    assert {key: value for key, value in spec.items() if key != "containers"} == expected
    first, second = spec["containers"]
    assert first["imagePullPolicy"] == "IfNotPresent" and second["imagePullPolicy"] == "Always"
    assert first["terminationMessagePath"] == "/dev/termination-log" and first["terminationMessagePolicy"] == "File"
    assert second["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert second["resources"]["requests"] == {"cpu": "1"}
    assert second["readinessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10,
        "successThreshold": 1, "failureThreshold": 3,
    }  # fmt: skip


def test_defaults_of_a_deployment() -> None:
    spec = prepared(deployment())["spec"]
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    template = spec["template"]["spec"]
    assert template["restartPolicy"] == "Always" and "enableServiceLinks" not in template
    kept = prepared(deployment(replicas=0, revisionHistoryLimit=0, strategy={"type": "Recreate"}))["spec"]
    assert (kept["replicas"], kept["revisionHistoryLimit"], kept["strategy"]) == (0, 0, {"type": "Recreate"})


def test_templates_do_not_take_requests_from_limits() -> None:
    obj = deployment()
    obj["spec"]["template"]["spec"]["containers"] = [{**CONTAINER, "resources": {"limits": {"cpu": "1"}}}]
    assert prepared(obj)["spec"]["template"]["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("app", "Always"), ("app:latest", "Always"), ("host:5000/app", "Always"), ("app:1", "IfNotPresent"),
        ("host:5000/app:1", "IfNotPresent"), ("app@sha256:00", "IfNotPresent"), ("app:latest@sha256:0", "IfNotPresent"),
    ],
)  # fmt: skip
def test_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    spec = prepared(pod(containers=[{"name": "c", "image": image}]))["spec"]
    assert spec["containers"][0]["imagePullPolicy"] == policy


def test_defaults_of_a_service() -> None:
    spec = prepared(service())["spec"]
    assert (spec["type"], spec["sessionAffinity"], spec["internalTrafficPolicy"]) == ("ClusterIP", "None", "Cluster")
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert "externalTrafficPolicy" not in spec


def test_node_ports_stay_the_same_and_go_with_the_type() -> None:
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    first = prepared(service(type="NodePort", ports=copy.deepcopy(ports)))["spec"]
    again = prepared(service(type="LoadBalancer", ports=copy.deepcopy(ports)))["spec"]
    numbers = [port["nodePort"] for port in first["ports"]]
    assert numbers == [port["nodePort"] for port in again["ports"]] and len(set(numbers)) == 2
    assert all(30000 <= number <= 32767 for number in numbers)
    assert first["externalTrafficPolicy"] == "Cluster" and again["allocateLoadBalancerNodePorts"] is True
    back = prepared(service(ports=first["ports"]))["spec"]
    assert all("nodePort" not in port for port in back["ports"])


TEMPLATE = "spec.template.spec"
SUPPORTED = "supported values"

BROKEN: list[tuple[dict[str, Any], list[str]]] = [
    (deployment(replicas=-1), ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]),
    (deployment(selector={"matchLabels": {"app": "b"}}),
     ['spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not match template `labels`']),
    (deployment(selector=None),
     ["spec.selector: Required value",
      'spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not match template `labels`']),
    (deployment(selector={}), ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"]),
    (deployment(progressDeadlineSeconds=5, minReadySeconds=5),
     ["spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"]),
    (deployment(strategy={"type": "Swap"}),
     ['spec.strategy: Unsupported value: {"Type":"Swap","RollingUpdate":null}: supported values: "Recreate", '
      '"RollingUpdate"']),
    (deployment(strategy={"type": "Recreate", "rollingUpdate": {}}),
     ["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"]),
    (deployment(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}),
     ['spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0']),
    (deployment(strategy={"rollingUpdate": {"maxUnavailable": "101%"}}),
     ['spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%']),
    (pod(containers=[]), ["spec.containers: Required value"]),
    (pod(containers=[{"name": "c"}]), ["spec.containers[0].image: Required value"]),
    (pod(containers=[CONTAINER, CONTAINER]), ['spec.containers[1].name: Duplicate value: "main"']),
    (pod(containers=[{**CONTAINER, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]),
     ['spec.containers[0].volumeMounts[0].name: Not found: "v"']),
    (pod(volumes=[{"name": "v"}], containers=[{**CONTAINER, "volumeMounts": [{"name": "v", "mountPath": "/v"}] * 2}]),
     ['spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/v": must be unique']),
    (pod(volumes=[{"name": "v"}, {"name": "v"}]), ['spec.volumes[1].name: Duplicate value: "v"']),
    (pod(containers=[{**CONTAINER, "ports": [{"containerPort": 70000}]}]),
     ["spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive"]),
    (pod(containers=[{**CONTAINER, "imagePullPolicy": "Maybe"}]),
     [f'spec.containers[0].imagePullPolicy: Unsupported value: "Maybe": {SUPPORTED}: "Always", "IfNotPresent", '
      '"Never"']),
    (pod(containers=[{**CONTAINER, "readinessProbe": {"periodSeconds": 2}}]),
     ["spec.containers[0].readinessProbe: Required value: must specify a handler type"]),
    (pod(containers=[{**CONTAINER, "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}}}]),
     ['spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1500m']),
    (pod(containers=[{**CONTAINER, "resources": {"limits": {"nvidia.com/gpu": "1500m"}}}]),
     ['spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "1500m": must be an integer',
      'spec.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: "1500m": must be an integer']),
    (pod(containers=[{**CONTAINER, "env": [{"value": "x"}]}]), ["spec.containers[0].env[0].name: Required value"]),
    (service(ports=[]), ["spec.ports: Required value"]),
    (service(ports=[{"port": 1, "name": "a"}, {"port": 2}]), ["spec.ports[1].name: Required value"]),
    (service(ports=[{"port": 80, "targetPort": "http_x"}]),
     ['spec.ports[0].targetPort: Invalid value: "http_x": must contain only alpha-numeric characters (a-z, 0-9), and '
      "hyphens (-)"]),
    (service(ports=[{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]),
     ['spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,'
      '"NodePort":0}']),
    (pod(containers=[{**CONTAINER, "name": "a" * 64}]),
     [f'spec.containers[0].name: Invalid value: "{"a" * 64}": must be no more than 63 characters']),
    (pod(containers=[{**CONTAINER, "volumeMounts": [{"mountPath": "/x"}]}]),
     ["spec.containers[0].volumeMounts[0].name: Required value",
      'spec.containers[0].volumeMounts[0].name: Not found: ""']),
    (service(ports=[{"port": 0}]),
     ["spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
      "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive"]),
    (service(type="Internal"),
     [f'spec.type: Unsupported value: "Internal": {SUPPORTED}: "ClusterIP", "ExternalName", "LoadBalancer", '
      '"NodePort"']),
    (service(type="ExternalName", ports=[]), ["spec.externalName: Required value"]),
    ({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
      "spec": {"leaseDurationSeconds": 0}}, ["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"]),
    ({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "n"},
      "involvedObject": {"namespace": "other"}},
     ['involvedObject.namespace: Invalid value: "other": does not match event.namespace']),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "found"), BROKEN, ids=[found[0][:80] for _, found in BROKEN])
def test_broken_rules(obj: dict[str, Any], found: list[str]) -> None:
    assert faults(prepared(obj)) == found


@pytest.mark.parametrize(
    "obj",
    [
        deployment(),
        deployment(replicas=0, progressDeadlineSeconds=2147483647),
        pod(initContainers=[{"name": "init", "image": "i"}], volumes=[{"name": "v", "hostPath": {"path": "/m"}}]),
        pod(containers=[{**CONTAINER, "resources": {"limits": {"nvidia.com/gpu": 2, "memory": "1Gi"}}}]),
        service(clusterIP="None", ports=[]),
        service(ports=[{"name": "a", "port": 53}, {"name": "b", "port": 53, "protocol": "UDP"}]),
    ],
)
def test_sound_objects(obj: dict[str, Any]) -> None:
    assert faults(prepared(obj)) == []


def test_what_may_change_in_a_pod() -> None:
    old = prepared(pod())
    image = prepared(pod(containers=[{**CONTAINER, "image": "repo/app:2"}]))
    assert faults(image, old) == []
    assert faults(prepared(pod(nodeName="n1")), old) == [], "binding"
    [text] = faults(prepared(pod(containers=[{**CONTAINER, "args": ["x"]}])), old)
    assert text.startswith("spec: Forbidden: pod updates may not change fields other than")
    [moved] = faults(prepared(pod(nodeName="n2")), prepared(pod(nodeName="n1")))
    assert moved.startswith("spec: Forbidden")


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ({"schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}}},
         "spec.versions[0].schema.openAPIV3Schema.properties[a].type: Required value: must not be empty for specified "
         "object fields"),
        ({"schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "array"}}}}},
         "spec.versions[0].schema.openAPIV3Schema.properties[a].items: Required value: must be specified"),
        ({"schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}}}},
         'spec.versions[0].schema.openAPIV3Schema.properties[a].default: Invalid value: "string":  in body must be of '
         'type integer: "string"'),
        ({}, "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required"),
        ({"storage": False, "schema": {"openAPIV3Schema": {"type": "object"}}},
         "must have exactly one version marked as storage version"),
    ],
)  # fmt: skip
def test_definitions(version: dict[str, Any], text: str) -> None:
    served = {"name": "v1", "served": True, "storage": True, **version}
    obj = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.demo.io"},
        "spec": {
            "group": "demo.io", "scope": "Cluster", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [served],
        },
    }  # fmt: skip
    [found] = faults(prepared(obj))
    assert found.endswith(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("500m", 0.5), ("1.5", 1.5), ("2Ki", 2048), ("1k", 1000), ("1e3", 1000), ("1E", 10**18), ("-1", -1),
     ("1Gi", 2**30), (".5", 0.5), ("100u", 0.0001)],
)  # fmt: skip
def test_quantities(text: str, value: float) -> None:
    assert float(quantity.parse(text)) == value


@pytest.mark.parametrize("text", ["", "x", "1 Gi", "1kb", "1e", "1ki", "--1", "1_000"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="quantities must match"):
        quantity.parse(text)
