"""The tables of built-in kinds, as ``kubectl get`` shows them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cache

from sandbox.builtin import podstatus
from sandbox.jsontypes import JsonObject, JsonValue
from sandbox.schema.printing import Column, age, age_column, name_column

Cell = Callable[[JsonObject, datetime], JsonValue]
WIDE = 1
NONE = "<none>"


def _text(name: str, cell: Cell, priority: int = 0) -> Column:
    return Column(name, "string", cell, priority=priority)


def _at(path: str, absent: JsonValue = "") -> Cell:
    steps = path.split(".")

    def cell(obj: JsonObject, _: datetime) -> JsonValue:
        value: JsonValue = obj
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        return absent if value is None or value == "" else value

    return cell


def _count(name: str, path: str) -> Column:
    return Column(name, "integer", _at(path, 0))


def _size(name: str, *members: str) -> Column:
    return Column(name, "integer", lambda obj, _: sum(len(obj.get(member) or ()) for member in members))


def _containers(template: str, member: str) -> Cell:
    read = _at(f"{template}.containers", [])
    return lambda obj, now: ",".join(container.get(member, "") for container in read(obj, now)) or NONE


def selector_text(selector: JsonObject | None) -> str:
    """A ``metav1.LabelSelector`` as text."""
    terms = [f"{key}={value}" for key, value in sorted(((selector or {}).get("matchLabels") or {}).items())]
    for term in (selector or {}).get("matchExpressions") or ():
        key, values = term["key"], ",".join(sorted(term.get("values") or ()))
        match term["operator"]:
            case "In":
                terms.append(f"{key} in ({values})")
            case "NotIn":
                terms.append(f"{key} notin ({values})")
            case "Exists":
                terms.append(key)
            case _:
                terms.append(f"!{key}")
    return ",".join(terms) or NONE


def _selector(path: str = "spec.selector") -> Column:
    read = _at(path, None)
    return _text("Selector", lambda obj, now: selector_text(read(obj, now)), WIDE)


def _images(template: str = "spec.template.spec") -> list[Column]:
    return [
        _text("Containers", _containers(template, "name"), WIDE),
        _text("Images", _containers(template, "image"), WIDE),
    ]


def _pods() -> list[Column]:
    return [
        _text("Ready", lambda obj, _: podstatus.ready(obj)),
        _text("Status", lambda obj, _: podstatus.word(obj)),
        _text("Restarts", podstatus.restarts),
        age_column(),
        _text("IP", podstatus.address, WIDE),
        _text("Node", _at("spec.nodeName", NONE), WIDE),
        _text("Nominated Node", _at("status.nominatedNodeName", NONE), WIDE),
        _text("Readiness Gates", podstatus.gates, WIDE),
    ]


def _fraction(done: str, wanted: str) -> Cell:
    read_done, read_wanted = _at(done, 0), _at(wanted, 0)
    return lambda obj, now: f"{read_done(obj, now)}/{read_wanted(obj, now)}"


def _deployments() -> list[Column]:
    return [
        _text("Ready", _fraction("status.readyReplicas", "spec.replicas")),
        _count("Up-to-date", "status.updatedReplicas"),
        _count("Available", "status.availableReplicas"),
        age_column(),
        *_images(),
        _selector(),
    ]


def _replica_sets() -> list[Column]:
    return [
        _count("Desired", "spec.replicas"),
        _count("Current", "status.replicas"),
        _count("Ready", "status.readyReplicas"),
        age_column(),
        *_images(),
        _selector(),
    ]


def _stateful_sets() -> list[Column]:
    return [_text("Ready", _fraction("status.readyReplicas", "spec.replicas")), age_column(), *_images()]


def _daemon_sets() -> list[Column]:
    return [
        _count("Desired", "status.desiredNumberScheduled"),
        _count("Current", "status.currentNumberScheduled"),
        _count("Ready", "status.numberReady"),
        _count("Up-to-date", "status.updatedNumberScheduled"),
        _count("Available", "status.numberAvailable"),
        age_column(),
        *_images(),
        _selector(),
    ]


def _service_ports(obj: JsonObject, _: datetime) -> JsonValue:
    shown = []
    for port in (obj.get("spec") or {}).get("ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or NONE


def _external(obj: JsonObject, _: datetime) -> JsonValue:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    given = list(spec.get("externalIPs") or ())
    if spec.get("type") == "ExternalName":
        return spec.get("externalName", "")
    if spec.get("type") == "LoadBalancer":
        entries = (status.get("loadBalancer") or {}).get("ingress") or ()
        given = [entry.get("ip") or entry.get("hostname", "") for entry in entries] + given
        return ",".join(given) or "<pending>"
    return ",".join(given) or NONE


def _services() -> list[Column]:
    def selector(obj: JsonObject, _: datetime) -> JsonValue:
        labels = (obj.get("spec") or {}).get("selector") or {}
        return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE

    return [
        _text("Type", _at("spec.type")),
        _text("Cluster-IP", _at("spec.clusterIP", NONE)),
        _text("External-IP", _external),
        _text("Port(s)", _service_ports),
        age_column(),
        _text("Selector", selector, WIDE),
    ]


def _node_status(obj: JsonObject, _: datetime) -> JsonValue:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    found = next((c.get("status") for c in conditions if c.get("type") == "Ready"), None)
    text = {"True": "Ready", None: "Unknown"}.get(found, "NotReady")
    return f"{text},SchedulingDisabled" if (obj.get("spec") or {}).get("unschedulable") else text


def _node_roles(obj: JsonObject, _: datetime) -> JsonValue:
    labels = obj["metadata"].get("labels") or {}
    prefix = "node-role.kubernetes.io/"
    return ",".join(sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))) or NONE


def _node_address(kind: str) -> Cell:
    def cell(obj: JsonObject, _: datetime) -> JsonValue:
        addresses = (obj.get("status") or {}).get("addresses") or ()
        return next((entry.get("address") for entry in addresses if entry.get("type") == kind), NONE)

    return cell


def _nodes() -> list[Column]:
    return [
        _text("Status", _node_status),
        _text("Roles", _node_roles),
        age_column(),
        _text("Version", _at("status.nodeInfo.kubeletVersion")),
        _text("Internal-IP", _node_address("InternalIP"), WIDE),
        _text("External-IP", _node_address("ExternalIP"), WIDE),
        _text("OS-Image", _at("status.nodeInfo.osImage", "<unknown>"), WIDE),
        _text("Kernel-Version", _at("status.nodeInfo.kernelVersion", "<unknown>"), WIDE),
        _text("Container-Runtime", _at("status.nodeInfo.containerRuntimeVersion", "<unknown>"), WIDE),
    ]


def _event_time(member: str, series: str) -> Cell:
    first, last = _at(member, None), _at(series, None)

    def cell(obj: JsonObject, now: datetime) -> JsonValue:
        stamp = last(obj, now) or first(obj, now) or obj.get("eventTime") or obj.get("deprecatedLastTimestamp")
        return age(stamp, now)

    return cell


def _event_object(obj: JsonObject, _: datetime) -> JsonValue:
    target = obj.get("involvedObject") or obj.get("regarding") or {}
    return f"{target.get('kind', '').lower()}/{target.get('name', '')}"


def _event_count(obj: JsonObject, _: datetime) -> JsonValue:
    return (obj.get("series") or {}).get("count") or obj.get("count") or obj.get("deprecatedCount") or 1


def _events() -> list[Column]:
    def source(obj: JsonObject, _: datetime) -> JsonValue:
        origin = obj.get("source") or obj.get("deprecatedSource") or {}
        names = [origin.get("component", ""), origin.get("host", "")]
        reporter = obj.get("reportingComponent") or obj.get("reportingController") or ""
        return ", ".join(name for name in names if name) or reporter

    return [
        _text("Last Seen", _event_time("lastTimestamp", "series.lastObservedTime")),
        _text("Type", _at("type")),
        _text("Reason", _at("reason")),
        _text("Object", _event_object),
        _text("Subobject", _at("involvedObject.fieldPath"), WIDE),
        _text("Source", source, WIDE),
        _text("Message", lambda obj, _: (obj.get("message") or obj.get("note") or "").strip()),
        _text("First Seen", _event_time("firstTimestamp", "firstTimestamp"), WIDE),
        Column("Count", "integer", _event_count, priority=WIDE),
        Column("Name", "string", lambda obj, _: obj["metadata"].get("name", ""), "name", priority=WIDE),
    ]


def _controller(obj: JsonObject, _: datetime) -> JsonValue:
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            group = owner.get("apiVersion", "").rpartition("/")[0]
            kind = owner.get("kind", "").lower() + (f".{group}" if group else "")
            return f"{kind}/{owner.get('name', '')}"
    return NONE


def _revisions() -> list[Column]:
    return [_text("Controller", _controller), Column("Revision", "integer", _at("revision", 0)), age_column()]


def _slices() -> list[Column]:
    def ports(obj: JsonObject, _: datetime) -> JsonValue:
        return ",".join(str(entry.get("port", "*")) for entry in obj.get("ports") or ()) or "<unset>"

    def endpoints(obj: JsonObject, _: datetime) -> JsonValue:
        found = [address for entry in obj.get("endpoints") or () for address in entry.get("addresses") or ()]
        more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
        return ",".join(found[:3]) + more or "<unset>"

    kind = _text("AddressType", _at("addressType"))
    return [kind, _text("Ports", ports), _text("Endpoints", endpoints), age_column()]


def _endpoints(obj: JsonObject, _: datetime) -> JsonValue:
    found = []
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or [{}]:
            suffix = f":{port['port']}" if port.get("port") else ""
            found += [f"{entry.get('ip', '')}{suffix}" for entry in subset.get("addresses") or ()]
    return ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "") or NONE


def _jobs() -> list[Column]:
    def state(obj: JsonObject, _: datetime) -> JsonValue:
        conditions = (obj.get("status") or {}).get("conditions") or ()
        held = {c.get("type") for c in conditions if c.get("status") == "True"}
        return next((name for name in ("Complete", "Failed", "Suspended") if name in held), "Running")

    completions = _fraction("status.succeeded", "spec.completions")
    return [_text("Status", state), _text("Completions", completions), age_column(), *_images(), _selector()]


def _budgets() -> list[Column]:
    return [
        _text("Min Available", _at("spec.minAvailable", "N/A")),
        _text("Max Unavailable", _at("spec.maxUnavailable", "N/A")),
        Column("Allowed Disruptions", "integer", _at("status.disruptionsAllowed", 0)),
        age_column(),
    ]


def _created() -> list[Column]:
    stamp = Column("Created At", "date", _at("metadata.creationTimestamp", None))
    return [stamp]


_FIRST = frozenset({("", "Event"), ("events.k8s.io", "Event")})
_BY_KIND: dict[tuple[str, str], Callable[[], list[Column]]] = {
    ("", "ConfigMap"): lambda: [_size("Data", "data", "binaryData"), age_column()],
    ("", "Endpoints"): lambda: [_text("Endpoints", _endpoints), age_column()],
    ("", "Event"): _events,
    ("", "Namespace"): lambda: [_text("Status", _at("status.phase")), age_column()],
    ("", "Node"): _nodes,
    ("", "PersistentVolumeClaim"): lambda: [
        _text("Status", _at("status.phase")),
        _text("Volume", _at("spec.volumeName")),
        _text("Capacity", _at("status.capacity.storage")),
        age_column(),
    ],
    ("", "Pod"): _pods,
    ("", "Secret"): lambda: [_text("Type", _at("type")), _size("Data", "data"), age_column()],
    ("", "Service"): _services,
    ("", "ServiceAccount"): lambda: [_size("Secrets", "secrets"), age_column()],
    ("apps", "ControllerRevision"): _revisions,
    ("apps", "DaemonSet"): _daemon_sets,
    ("apps", "Deployment"): _deployments,
    ("apps", "ReplicaSet"): _replica_sets,
    ("apps", "StatefulSet"): _stateful_sets,
    ("batch", "Job"): _jobs,
    ("coordination.k8s.io", "Lease"): lambda: [_text("Holder", _at("spec.holderIdentity")), age_column()],
    ("discovery.k8s.io", "EndpointSlice"): _slices,
    ("events.k8s.io", "Event"): _events,
    ("policy", "PodDisruptionBudget"): _budgets,
    ("scheduling.k8s.io", "PriorityClass"): lambda: [
        Column("Value", "integer", _at("value", 0)),
        Column("Global-Default", "boolean", _at("globalDefault", False)),
        age_column(),
    ],
    ("rbac.authorization.k8s.io", "RoleBinding"): lambda: [_text("Role", _role), age_column()],
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): lambda: [_text("Role", _role), age_column()],
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): lambda: [
        _size("Webhooks", "webhooks"),
        age_column(),
    ],
}


def _role(obj: JsonObject, _: datetime) -> JsonValue:
    reference = obj.get("roleRef") or {}
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


@cache
def columns(group: str, kind: str) -> list[Column]:
    """The columns of a kind: its own, or name and time of creation."""
    own = _BY_KIND.get((group, kind), _created)()
    return own if (group, kind) in _FIRST else [name_column(), *own]
