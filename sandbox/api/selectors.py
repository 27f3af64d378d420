"""Label and field selectors, and the Kubernetes ``LabelSelector`` object."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sandbox.api.metadata import key_fault, value_fault
from sandbox.api.resources import Resource
from sandbox.api.status import bad_request
from sandbox.jsontypes import JsonObject

Labels = Mapping[str, str]
Requirement = Callable[[Labels], bool]
Predicate = Callable[[JsonObject], bool]

_TERM = re.compile(
    r"\s*(?:(?P<absent>!)\s*(?P<none>[^\s,()=!<>]+)"
    r"|(?P<key>[^\s,()=!<>]+)\s*(?:(?P<op>==|=|!=|>|<)\s*(?P<value>[^\s,()=!<>]*)"
    r"|\s(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?:,|$)"
)


def _requirement(key: str, operator: str, values: frozenset[str]) -> Requirement:
    match operator:
        case "in":
            return lambda labels: labels.get(key) in values
        case "notin":
            return lambda labels: labels.get(key) not in values
        case "exists":
            return lambda labels: key in labels
        case "absent":
            return lambda labels: key not in labels
        case _:
            bound = int(next(iter(values)))
            return lambda labels: _compare(labels.get(key), operator, bound)


def _compare(value: str | None, operator: str, bound: int) -> bool:
    if value is None or not value.lstrip("-").isdigit():
        return False
    return int(value) > bound if operator == ">" else int(value) < bound


def label_selector(text: str) -> Requirement | None:
    """A labelSelector parameter as a predicate over labels; None when it selects everything. 400 when malformed."""
    if not text.strip():
        return None
    requirements = []
    position = 0
    while position < len(text):
        found = _TERM.match(text, position)
        if not found or found.end() == position:
            raise bad_request(f"unable to parse requirement: found '{text[position:]}', expected: identifier")
        position = found.end()
        requirements.append(_term(found))
    return lambda labels: all(requirement(labels) for requirement in requirements)


def _term(found: re.Match[str]) -> Requirement:
    key = found["none"] or found["key"]
    if fault := key_fault(key):
        raise bad_request(f'unable to parse requirement: <nil>: Invalid value: "{key}": {fault}')
    if found["absent"]:
        return _requirement(key, "absent", frozenset())
    if found["set"]:
        values = frozenset(value.strip() for value in found["values"].split(","))
        return _requirement(key, found["set"], _checked(values))
    match found["op"]:
        case None:
            return _requirement(key, "exists", frozenset())
        case "=" | "==":
            return _requirement(key, "in", _checked(frozenset({found["value"]})))
        case "!=":
            return _requirement(key, "notin", _checked(frozenset({found["value"]})))
        case operator:
            if not found["value"].lstrip("-").isdigit():
                raise bad_request(
                    f"unable to parse requirement: values[0][{key}]: Invalid value: "
                    f"\"{found['value']}\": for 'Gt', 'Lt' operators, the value must be an integer"
                )
            return _requirement(key, operator, frozenset({found["value"]}))


def _checked(values: frozenset[str]) -> frozenset[str]:
    for value in values:
        if fault := value_fault(value):
            raise bad_request(f'unable to parse requirement: values[0]: Invalid value: "{value}": {fault}')
    return values


def match_selector(selector: JsonObject | None) -> Requirement:
    """A ``LabelSelector`` object as a predicate; an absent or empty one matches everything."""
    requirements: list[Requirement] = []
    for key, value in ((selector or {}).get("matchLabels") or {}).items():
        requirements.append(_requirement(key, "in", frozenset({value})))
    operators = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}
    for term in (selector or {}).get("matchExpressions") or ():
        values = frozenset(term.get("values") or ())
        requirements.append(_requirement(term["key"], operators[term["operator"]], values))
    return lambda labels: all(requirement(labels) for requirement in requirements)


_EVENT_FIELDS = (
    "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
    "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
    "reason", "reportingComponent", "source", "type",
)  # fmt: skip
FIELDS: dict[str, tuple[str, ...]] = {
    "events": _EVENT_FIELDS,
    "pods": (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
        "status.phase", "status.podIP", "status.nominatedNodeName",
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "secrets": ("type",),
    "services": ("spec.clusterIP", "spec.type"),
    "replicasets.apps": ("status.replicas",),
    "jobs.batch": ("status.successful",),
}  # fmt: skip


def field_selector(resource: Resource, text: str) -> Predicate | None:
    """A fieldSelector parameter as a predicate over objects; None when it selects everything. 400 for other fields."""
    if not text.strip():
        return None
    terms: list[tuple[str, str, bool]] = []
    for part in re.split(r"(?<!\\),", text):
        found = re.fullmatch(r"([^=!]+?)(==|!=|=)(.*)", part.strip())
        if not found:
            raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
        field, operator, value = found[1], found[2], re.sub(r"\\(.)", r"\1", found[3])
        terms.append((_canonical_field(resource, field), value, operator != "!="))
    return lambda obj: all((_field(resource, obj, field) == value) is wanted for field, value, wanted in terms)


def _canonical_field(resource: Resource, field: str) -> str:
    if field == "metadata.name" or (field == "metadata.namespace" and (resource.namespaced or not resource.custom)):
        return field
    if resource.storage == "events" and field.startswith("regarding."):
        field = "involvedObject." + field.removeprefix("regarding.")
    if field in FIELDS.get(resource.storage, ()):
        return field
    if resource.custom and field in selectable_fields(resource):
        return field
    if resource.custom or resource.storage in FIELDS:
        raise bad_request(f"field label not supported: {field}")
    raise bad_request(f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"')


def selectable_fields(resource: Resource) -> tuple[str, ...]:
    """The fields that a CRD declares selectable, as dotted paths."""
    return resource.model.selectable() if resource.model else ()


def _field(resource: Resource, obj: JsonObject, field: str) -> str:
    if resource.storage == "events" and field == "source":
        source: str = (obj.get("source") or {}).get("component") or obj.get("reportingComponent") or ""
        return source
    value: object = obj
    for step in field.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if value is None:
        return "false" if field in ("spec.unschedulable", "spec.hostNetwork") else ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def selection(resource: Resource, query: Mapping[str, str]) -> Predicate | None:
    """Both selectors of a request as one predicate over objects, or None when there is none."""
    labels = label_selector(query.get("labelSelector", ""))
    fields = field_selector(resource, query.get("fieldSelector", ""))
    if labels is None:
        return fields
    by_label = labels

    def matches(obj: JsonObject) -> bool:
        return by_label(obj["metadata"].get("labels") or {}) and (fields is None or fields(obj))

    return matches
