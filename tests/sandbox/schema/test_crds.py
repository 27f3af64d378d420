"""The CRDs of rendering spec section 1: shape, columns, defaults, and what they accept and refuse."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from sandbox.builtin import find
from sandbox.schema import CustomResource
from sandbox.schema.structural import violations
from tests.sandbox.schema.conftest import CRDS, isvc, load_crds

KINDS = sorted(load_crds())
ISVC_COLUMNS = ["URL", "Ready", "BaseModel", "Runtime", "Phase", "Router-Phase", "Pinned", "Age"]
RUNTIME_COLUMNS = [
    "Disabled", "ModelFormat", "ModelFramework", "ModelArchitecture", "ModelSizeMin", "ModelSizeMax", "Age",
]  # fmt: skip
MODEL_COLUMNS = ["Disabled", "Vendor", "Architecture", "Size", "Path", "Ready", "Age"]


def root_of(crd: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def walk(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in (schema.get("properties") or {}).items():
        yield from walk(child, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from walk(schema[name], f"{path}[{name}]")


@pytest.mark.parametrize(
    ("kind", "scope", "status", "columns", "wide"),
    [
        ("InferenceService", "Namespaced", True, ISVC_COLUMNS, {"Router-Phase", "Pinned"}),
        ("ServingRuntime", "Namespaced", False, RUNTIME_COLUMNS, set()),
        ("ClusterServingRuntime", "Cluster", False, RUNTIME_COLUMNS, set()),
        ("BaseModel", "Namespaced", True, MODEL_COLUMNS, {"Path"}),
        ("ClusterBaseModel", "Cluster", True, MODEL_COLUMNS, {"Path"}),
    ],
)
def test_table_of_section_1(
    crds: dict[str, Any], kind: str, scope: str, status: bool, columns: list[str], wide: set[str]
) -> None:
    spec = crds[kind]["spec"]
    [version] = spec["versions"]
    assert (spec["group"], spec["scope"], version["name"]) == ("ome.io", scope, "v1beta1")
    assert (version["served"], version["storage"]) == (True, True)
    assert spec["names"]["categories"] == ["ome"]
    assert spec["names"].get("shortNames", []) == (["isvc"] if kind == "InferenceService" else [])
    assert ("status" in version.get("subresources", {})) is status
    shown = version["additionalPrinterColumns"]
    assert [column["name"] for column in shown] == columns
    assert {column["name"] for column in shown if column.get("priority")} == wide
    assert all(column.get("priority", 0) in (0, 1) for column in shown)


def test_kustomization_lists_every_crd() -> None:
    listed = yaml.safe_load((CRDS / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == sorted(path.name for path in CRDS.glob("ome.io_*.yaml"))
    assert len(listed) == 5


@pytest.mark.parametrize("kind", KINDS)
def test_schema_is_structural_and_accepted_as_a_definition(crds: dict[str, Any], kind: str) -> None:
    crd = crds[kind]
    assert list(violations(root_of(crd))) == []
    definition = find("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    assert definition is not None and definition.model is not None
    decoded, unknown = definition.model.decode(crd)
    assert unknown == []
    definition.model.validate(definition.model.default(decoded), None, "")


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_described(crds: dict[str, Any], kind: str) -> None:
    bare = [
        path
        for path, schema in walk(root_of(crds[kind]))
        if not schema.get("description") and path.rsplit(".")[-1] and not path.startswith(".metadata")
        if not path.endswith("]")
    ]
    assert bare == []


@pytest.mark.parametrize("kind", KINDS)
def test_status_is_open(crds: dict[str, Any], kind: str) -> None:
    assert root_of(crds[kind])["properties"]["status"]["x-kubernetes-preserve-unknown-fields"] is True


def test_both_scopes_of_a_kind_have_one_schema(crds: dict[str, Any]) -> None:
    for plain in ("ServingRuntime", "BaseModel"):
        mine, cluster = root_of(crds[plain]), root_of(crds[f"Cluster{plain}"])
        assert mine["properties"] == cluster["properties"]


def test_every_list_that_a_rule_iterates_is_bounded(crds: dict[str, Any]) -> None:
    """The API server estimates the cost of a rule from the limits; without them it refuses the definition."""
    groups = root_of(crds["InferenceService"])["properties"]["spec"]["properties"]["rollout"]["properties"]["groups"]
    assert groups["maxItems"] == 3
    for name in ("components", "order"):
        field = groups["items"]["properties"][name]
        assert field["maxItems"] == 3 and field["items"]["maxLength"] == 63


def test_defaults(resources: dict[str, CustomResource]) -> None:
    obj = isvc(runtime={"name": "r"}, rollout={"groups": [{"components": ["engine"]}]})
    spec = resources["InferenceService"].default(obj)["spec"]
    assert spec["model"] == {"name": "m", "kind": "ClusterBaseModel", "apiGroup": "ome.io"}
    assert spec["runtime"] == {"name": "r", "apiGroup": "ome.io", "autoSync": True}
    assert spec["rollout"]["groupOrdering"] == "Sequential"
    assert spec["engine"] == {}, "components have no defaults"


def test_null_means_unset(resources: dict[str, CustomResource]) -> None:
    obj = isvc(decoder=None, runtime={"name": "r", "autoSync": None, "kind": None})
    obj["spec"].update(router=None, deploymentMode=None)
    obj["spec"]["model"]["kind"] = None
    obj["status"] = None
    resource = resources["InferenceService"]
    obj = resource.default(obj)
    assert "status" not in obj and "router" not in obj["spec"] and "deploymentMode" not in obj["spec"]
    assert obj["spec"]["runtime"] == {"name": "r", "autoSync": True, "apiGroup": "ome.io"}
    assert obj["spec"]["model"]["kind"] == "ClusterBaseModel"
    assert resource.faults(obj) == []


def steps(count: int) -> dict[str, Any]:
    step = {"capacity": "100%", "traffic": 100}
    return {"groups": [{"components": ["engine"], "canary": {"steps": [step] * count}}]}


def group(**fields: Any) -> dict[str, Any]:
    return {"groups": [{"components": ["engine", "decoder"], **fields}]}


def step(**fields: Any) -> dict[str, Any]:
    return group(canary={"steps": [{"capacity": "50%", "traffic": 0, **fields}]})


def prometheus(**fields: Any) -> dict[str, Any]:
    return group(canary={"prometheus": fields})


METRIC = {"name": "n", "query": "q", "operator": "LT", "threshold": "0.5"}

ACCEPTED: list[tuple[str, dict[str, Any]]] = [
    ("no component at all means an engine", isvc(engine=None)),
    ("a runtime alone is enough", isvc(model=None, runtime={"name": "r"})),
    ("56 characters", isvc("a" * 56)),
    ("55 characters with a decoder", isvc("a" * 55, decoder={})),
    ("maxReplicas 0 bounds nothing", isvc(engine={"minReplicas": 3, "maxReplicas": 0})),
    ("min equal to max", isvc(engine={"minReplicas": 3, "maxReplicas": 3})),
    ("scale to nothing", isvc(engine={"minReplicas": 0})),
    ("20 steps", isvc(rollout=steps(20))),
    ("empty steps are admission's matter", isvc(rollout=steps(0))),
    ("integer capacity", isvc(rollout=step(capacity=2))),
    ("an empty pause is kept", isvc(rollout=step(pause={}))),
    ("any runtime kind: admission tells", isvc(runtime={"kind": "Foo", "apiGroup": "x"})),
    ("one progression", isvc(rollout=group(blueGreen={}))),
    ("integer and percentage budgets", isvc(rollout=group(rollingUpdate={"maxSurge": 1, "maxUnavailable": "10%"}))),
    ("order of listed components", isvc(rollout=group(order=["decoder", "engine"]))),
    ("policyRef is admission's matter", isvc(rollout=group(policyRef={"name": "p", "kind": "k", "progression": "x"}))),
    ("unknown component is admission's matter", isvc(rollout={"groups": [{"components": ["sidecar"]}]})),
    ("a bad duration is admission's matter", isvc(rollout=group(soak="soon"))),
    ("pairing token", isvc(rollout={"pairingProtocol": "nixl-1.2_b"})),
    ("prometheus by address", isvc(rollout=prometheus(serverAddress="http://p", headers={"X": "y"}))),
    ("prometheus by reference", isvc(rollout=prometheus(providerRef={"name": "p"}, authRef={"name": "s", "key": "k"}))),
    ("pod fields of an open component", isvc(engine={"tolerations": [{"key": "a"}], "anything": {"deep": [1, "x"]}})),
    ("numbers in an open runner", isvc(engine={"runner": {"resources": {"limits": {"cpu": 1, "memory": "2Gi"}}}})),
    ("overlays of any form", isvc(model={"name": "m", "overlays": [{"a": 1}], "fineTunedWeights": ["w"]})),
    ("fields never acted on", isvc(kedaConfig={"a": 1}, placement={"b": [2]}, routing={}, scalingPolicy={},
                                   acceleratorSelector={"c": "d"})),
    ("router settings", isvc(router={"config": {"A": "b"}, "minReplicas": 1})),
    ("workers", isvc(engine={"leader": {"runner": {}}, "worker": {"size": 2, "x": 1}})),
    ("lifecycle", isvc(engine={"lifecycle": {
        "restartPolicy": "RecreateInstanceOnPodRestart", "readyPolicy": "None", "instanceReadyTimeout": "10m",
        "minReadySeconds": 0, "migrationPolicy": {"mode": "Surge"}, "updateStrategy": {
            "type": "InPlaceOnly", "rollingUpdate": {"partition": 1, "maxSurge": "10%", "maxUnavailable": 0},
            "inPlaceUpdateStrategy": {"any": 1}}}})),
    ("traffic", isvc(traffic={"algorithm": "ConsistentHash", "consistentHash": {
        "type": "Cookie", "cookie": {"name": "c", "ttlSeconds": 2**40}}, "endpointOverride": {
            "type": "Header", "headers": [{"name": "x"}]}})),
    ("empty traffic", isvc(traffic={})),
    ("contradictory traffic is admission's matter", isvc(traffic={"algorithm": "Random", "consistentHash": {}})),
]  # fmt: skip


@pytest.mark.parametrize(("why", "obj"), ACCEPTED, ids=[why for why, _ in ACCEPTED])
def test_accepted(judge: Callable[..., list[str]], why: str, obj: dict[str, Any]) -> None:
    assert judge(obj) == []


NAME = (
    'metadata.name: Invalid value: metadata.name must be a DNS label of at most 56 characters '
    "(55 with a decoder) starting with a letter"
)
ENGINE = 'spec: Invalid value: spec.engine is required: a decoder or router only accompanies an engine'
SOURCE = 'spec: Invalid value: at least one of spec.model or spec.runtime must be set'
REPLICAS = 'Invalid value: minReplicas must not exceed maxReplicas'
PROGRESSION = (
    'spec.rollout.groups[0]: Invalid value: at most one of canary, blueGreen, or rollingUpdate '
    "may be set on a rollout group"
)
GROUP = "spec.rollout.groups[0]"
ORDER = f'{GROUP}: Invalid value: order must reference only Components listed in this group'
PROVIDER = (
    f'{GROUP}.canary.prometheus: Invalid value: at most one of providerRef and serverAddress may be set'
)
STEP = f"{GROUP}.canary.steps[0]"


def at_least(path: str, value: int, low: int) -> str:
    return f"{path}: Invalid value: {value}: {path} in body should be greater than or equal to {low}"


def at_most(path: str, value: int, high: int) -> str:
    return f"{path}: Invalid value: {value}: {path} in body should be less than or equal to {high}"


def unsupported(path: str, value: str, *allowed: str) -> str:
    return f'{path}: Unsupported value: "{value}": supported values: ' + ", ".join(f'"{name}"' for name in allowed)


def wrong_type(path: str, wanted: str, given: str) -> str:
    return f'{path}: Invalid value: "{given}": {path} in body must be of type {wanted}: "{given}"'


REFUSED: list[tuple[dict[str, Any], str]] = [
    (isvc("a" * 57), NAME),
    (isvc("a" * 56, decoder={}), NAME),
    (isvc("1a"), NAME),
    (isvc("a.b"), NAME),
    (isvc("a-"), NAME),
    (isvc(engine=None, decoder={}), ENGINE),
    (isvc(engine=None, router={}), ENGINE),
    (isvc(model=None), SOURCE),
    (isvc(engine={"minReplicas": 3, "maxReplicas": 2}), f"spec.engine: {REPLICAS}"),
    (isvc(decoder={"minReplicas": 3, "maxReplicas": 2}), f"spec.decoder: {REPLICAS}"),
    (isvc(router={"minReplicas": 3, "maxReplicas": 2}), f"spec.router: {REPLICAS}"),
    (isvc(rollout=group(canary={}, blueGreen={})), PROGRESSION),
    (isvc(rollout=group(blueGreen={}, rollingUpdate={})), PROGRESSION),
    (isvc(rollout=group(canary={}, rollingUpdate={})), PROGRESSION),
    (isvc(rollout=group(order=["router"])), ORDER),
    (isvc(rollout=prometheus(serverAddress="http://p", providerRef={"name": "p"})), PROVIDER),
    (isvc(model={"name": "m", "kind": "Model"}),
     unsupported("spec.model.kind", "Model", "ClusterBaseModel", "BaseModel")),
    (isvc(deploymentMode="Serverless"),
     unsupported("spec.deploymentMode", "Serverless", "OMENative", "RawDeployment")),
    (isvc(rollout=steps(21)), f"{GROUP}.canary.steps: Too many: 21: must have at most 20 items"),
    (isvc(rollout=step(traffic=101)), at_most(f"{STEP}.traffic", 101, 100)),
    (isvc(rollout=step(traffic=-1)), at_least(f"{STEP}.traffic", -1, 0)),
    (isvc(rollout={"groups": [{"components": ["engine"]}] * 4}),
     "spec.rollout.groups: Too many: 4: must have at most 3 items"),
    (isvc(rollout={"groups": [{"components": []}]}),
     f"{GROUP}.components: Invalid value: 0: {GROUP}.components in body should have at least 1 items"),
    (isvc(rollout={"groups": [{"components": ["engine"] * 4}]}),
     f"{GROUP}.components: Too many: 4: must have at most 3 items"),
    (isvc(rollout={"groups": [{}]}), f"{GROUP}.components: Required value"),
    (isvc(rollout=group(order=["engine"] * 4)), f"{GROUP}.order: Too many: 4: must have at most 3 items"),
    (isvc(rollout=group(maintainRatio={"tolerance": 101})), at_most(f"{GROUP}.maintainRatio.tolerance", 101, 100)),
    (isvc(rollout={"groupOrdering": "Random"}),
     unsupported("spec.rollout.groupOrdering", "Random", "Sequential", "Concurrent")),
    (isvc(rollout={"pairingProtocol": "a" * 64}),
     "spec.rollout.pairingProtocol: Too long: may not be more than 63 bytes"),
    (isvc(rollout={"pairingProtocol": "-a"}),
     'spec.rollout.pairingProtocol: Invalid value: "-a": spec.rollout.pairingProtocol in body should match '
     "'^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$'"),
    (isvc(rollout=group(canary={"steps": [{"traffic": 1}]})), f"{STEP}.capacity: Required value"),
    (isvc(rollout=group(canary={"steps": [{"capacity": 1}]})), f"{STEP}.traffic: Required value"),
    (isvc(rollout=step(capacity=True)), wrong_type(f"{STEP}.capacity", "integer,string", "boolean")),
    (isvc(rollout=step(capacity=0.5)), wrong_type(f"{STEP}.capacity", "integer,string", "number")),
    (isvc(rollout=step(analysis={"failureLimit": 0})), at_least(f"{STEP}.analysis.failureLimit", 0, 1)),
    (isvc(rollout=step(analysis={"onInconclusive": "Promote"})),
     unsupported(f"{STEP}.analysis.onInconclusive", "Promote", "Hold", "Rollback", "RollbackOnStall")),
    (isvc(rollout=step(analysis={"metrics": [METRIC] * 11})),
     f"{STEP}.analysis.metrics: Too many: 11: must have at most 10 items"),
    (isvc(rollout=step(analysis={"metrics": []})),
     f"{STEP}.analysis.metrics: Invalid value: 0: {STEP}.analysis.metrics in body should have at least 1 items"),
    (isvc(rollout=step(analysis={"metrics": [{**METRIC, "operator": "EQ"}]})),
     unsupported(f"{STEP}.analysis.metrics[0].operator", "EQ", "LT", "LTE", "GT", "GTE")),
    (isvc(rollout=step(analysis={"metrics": [{**METRIC, "threshold": 1}]})),
     wrong_type(f"{STEP}.analysis.metrics[0].threshold", "string", "integer")),
    (isvc(engine={"minReplicas": -1}), at_least("spec.engine.minReplicas", -1, 0)),
    (isvc(engine={"maxReplicas": -1}), at_least("spec.engine.maxReplicas", -1, 0)),
    (isvc(engine={"timeoutSeconds": -1}), at_least("spec.engine.timeoutSeconds", -1, 0)),
    (isvc(engine={"minReplicas": "3"}), wrong_type("spec.engine.minReplicas", "integer", "string")),
    (isvc(engine={"worker": {"size": 0}}), at_least("spec.engine.worker.size", 0, 1)),
    (isvc(engine={"labels": {"a": 1}}), wrong_type("spec.engine.labels.a", "string", "integer")),
    (isvc(router={"config": {"a": True}}), wrong_type("spec.router.config.a", "string", "boolean")),
    (isvc(engine={"lifecycle": {"minReadySeconds": -1}}), at_least("spec.engine.lifecycle.minReadySeconds", -1, 0)),
    (isvc(engine={"lifecycle": {"restartPolicy": "Always"}}),
     unsupported("spec.engine.lifecycle.restartPolicy", "Always", "None", "RecreateInstanceOnPodRestart")),
    (isvc(engine={"lifecycle": {"readyPolicy": "Any"}}),
     unsupported("spec.engine.lifecycle.readyPolicy", "Any", "AllPodReady", "None")),
    (isvc(engine={"lifecycle": {"migrationPolicy": {"mode": "x"}}}),
     unsupported("spec.engine.lifecycle.migrationPolicy.mode", "x", "Auto", "Surge", "Never")),
    (isvc(engine={"lifecycle": {"updateStrategy": {"type": "x"}}}),
     unsupported("spec.engine.lifecycle.updateStrategy.type", "x", "SurgeThenDrain", "RecreatePod",
                 "InPlaceIfPossible", "InPlaceOnly")),
    (isvc(runtime={"autoSync": "false"}), wrong_type("spec.runtime.autoSync", "boolean", "string")),
    (isvc(traffic={"algorithm": "Fast"}),
     unsupported("spec.traffic.algorithm", "Fast", "RoundRobin", "LeastRequest", "Random", "ConsistentHash")),
    (isvc(traffic={"consistentHash": {"type": "Body"}}),
     unsupported("spec.traffic.consistentHash.type", "Body", "Header", "Cookie", "SourceIP")),
    (isvc(traffic={"consistentHash": {"headers": [{"name": ""}]}}),
     'spec.traffic.consistentHash.headers[0].name: Invalid value: "": spec.traffic.consistentHash.headers[0].name '
     "in body should be at least 1 chars long"),
    (isvc(traffic={"consistentHash": {"cookie": {"name": "c", "ttlSeconds": -1}}}),
     at_least("spec.traffic.consistentHash.cookie.ttlSeconds", -1, 0)),
    (isvc(traffic={"endpointOverride": {"type": "Query"}}),
     unsupported("spec.traffic.endpointOverride.type", "Query", "Header", "Metadata")),
    (isvc(model={"name": "m", "foo": 1}), 'unknown field "spec.model.foo"'),
    (isvc(deployment={}), 'unknown field "spec.deployment"'),
    (isvc(engine={"lifecycle": {"foo": 1}}), 'unknown field "spec.engine.lifecycle.foo"'),
    (isvc(rollout=step(pause={"foo": 1})), f'unknown field "{STEP}.pause.foo"'),
    (isvc(rollout=group(blueGreen={"x": 1})), f'unknown field "{GROUP}.blueGreen.x"'),
    (isvc(traffic={"consistentHash": {"x": 1}}), 'unknown field "spec.traffic.consistentHash.x"'),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "text"), REFUSED, ids=[text[:90] for _, text in REFUSED])
def test_refused(judge: Callable[..., list[str]], obj: dict[str, Any], text: str) -> None:
    found = judge(obj)
    assert text in found
    others = [other for other in found if other != text and "some validation rules were not checked" not in other]
    assert others == [], "nothing else is wrong with it"


def test_no_record_of_the_status_is_pruned(resources: dict[str, CustomResource]) -> None:
    condition = {"type": "Ready", "status": "True", "custom": {"a": 1}}
    canary = {"canary": {"served": [{"hash": "a"}], "deep": {"x": None}}, "lifecycle": {"replicas": 1}}
    status = {
        "conditions": [condition], "components": {"engine": canary}, "lastRuntimeSyncToken": "1", "new": [{"b": 2}],
        "traffic": {"algorithm": "Default"}, "pinnedRevisionName": "cr-r-0",
    }  # fmt: skip
    resource = resources["InferenceService"]
    decoded, unknown = resource.decode({**isvc(), "status": copy.deepcopy(status)})
    assert unknown == [] and resource.default(decoded)["status"] == status
    assert resource.faults(decoded) == []


def test_spec_is_required(judge: Callable[..., list[str]]) -> None:
    obj = isvc()
    del obj["spec"]
    assert judge(obj)[0] == "spec: Required value"


def runtime(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "ome.io/v1beta1", "kind": "ServingRuntime", "metadata": {"name": "r"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"supportedModelFormats": [{"priority": 1, "modelFormat": {"name": "a", "version": "1"}, "other": 1}]}, []),
        ({"supportedModelFormats": [{"priority": 0}]},
         [at_least("spec.supportedModelFormats[0].priority", 0, 1)]),
        ({"modelSizeRange": {"min": "1B", "max": "7B"}, "protocolVersions": ["openAI"], "workers": {"a": 1}}, []),
        ({"modelSizeRange": {"step": 1}}, ['unknown field "spec.modelSizeRange.step"']),
        ({"engineConfig": {"runner": {"name": "x"}, "hostNetwork": True}, "hostIPC": False}, []),
        ({"hostNetwork": "yes"}, [wrong_type("spec.hostNetwork", "boolean", "string")]),
        ({"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}, []),
        ({"serviceAccountName": "x"}, ['unknown field "spec.serviceAccountName"']),
    ],
)  # fmt: skip
def test_runtimes(judge: Callable[..., list[str]], spec: dict[str, Any], found: list[str]) -> None:
    assert judge(runtime(**spec)) == found
    assert judge({**runtime(**spec), "kind": "ClusterServingRuntime"}) == found


def test_models_are_open(judge: Callable[..., list[str]]) -> None:
    spec = {"vendor": "v", "anything": {"a": [1]}, "storage": {"path": "/m", "key": "k"}, "disabled": False}
    for kind in ("BaseModel", "ClusterBaseModel"):
        obj = {"apiVersion": "ome.io/v1beta1", "kind": kind, "metadata": {"name": "m"}, "spec": spec}
        assert judge(obj) == []
        assert judge({**obj, "spec": {**spec, "disabled": "no"}}) == [wrong_type("spec.disabled", "boolean", "string")]
