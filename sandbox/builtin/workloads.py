"""Rules of Deployments and their kin."""

from __future__ import annotations

from collections.abc import Iterator

from sandbox.builtin.faults import at_least_zero, forbidden, invalid, one_of, required
from sandbox.builtin.pods import pod_spec
from sandbox.jsontypes import JsonObject, JsonValue
from sandbox.schema.validation import Fault

MISMATCH = "`selector` does not match template `labels`"


def selects(selector: JsonObject, labels: JsonObject) -> bool:
    """Whether a ``metav1.LabelSelector`` holds for labels."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_term(term, labels) for term in selector.get("matchExpressions") or ())


def _term(term: JsonObject, labels: JsonObject) -> bool:
    value, values = labels.get(term.get("key", "")), term.get("values") or []
    match term.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


def workload(obj: JsonObject, kind: str) -> Iterator[Fault]:
    """The faults of a Deployment, ReplicaSet, StatefulSet or DaemonSet."""
    spec: JsonObject = obj.get("spec") or {}
    yield from at_least_zero(spec, "spec", "replicas", "minReadySeconds", "revisionHistoryLimit")
    selector = spec.get("selector")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if not selector:
        if selector is None:
            yield required("spec.selector")
            yield invalid("spec.template.metadata.labels", labels, MISMATCH)
        else:
            named = "deployment" if kind == "ReplicaSet" else kind.lower()
            yield invalid("spec.selector", selector, f"empty selector is invalid for {named}")
    elif not selects(selector, labels or {}):
        yield invalid("spec.template.metadata.labels", labels, MISMATCH)
    template: JsonObject = (spec.get("template") or {}).get("spec") or {}
    yield from pod_spec(template, "spec.template.spec")
    if template.get("restartPolicy") in ("OnFailure", "Never"):
        yield from one_of("spec.template.spec.restartPolicy", template["restartPolicy"], ("Always",))
    if kind == "Deployment":
        yield from _deployment(spec)


def _deployment(spec: JsonObject) -> Iterator[Fault]:
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None:
        yield from at_least_zero(spec, "spec", "progressDeadlineSeconds")
        if deadline <= (spec.get("minReadySeconds") or 0):
            yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
    strategy: JsonObject = spec.get("strategy") or {}
    rolling = strategy.get("rollingUpdate")
    if strategy.get("type") not in ("Recreate", "RollingUpdate"):
        shown = {"Type": strategy.get("type"), "RollingUpdate": rolling}
        yield from one_of("spec.strategy", shown, ("Recreate", "RollingUpdate"))
    if strategy.get("type") == "Recreate" and rolling is not None:
        why = "may not be specified when strategy `type` is 'Recreate'"
        yield forbidden("spec.strategy.rollingUpdate", why)
    elif strategy.get("type") == "RollingUpdate":
        yield from _budgets(rolling or {}, "spec.strategy.rollingUpdate")


def _budgets(rolling: JsonObject, path: str) -> Iterator[Fault]:
    for name in ("maxUnavailable", "maxSurge"):
        yield from budget(f"{path}.{name}", rolling.get(name))
    if _zero(rolling.get("maxUnavailable")) and _zero(rolling.get("maxSurge")):
        yield invalid(f"{path}.maxUnavailable", rolling.get("maxUnavailable"), "may not be 0 when `maxSurge` is 0")


def budget(field: str, value: JsonValue) -> Iterator[Fault]:
    """A number or percentage that is not negative."""
    if isinstance(value, str):
        if not value.removesuffix("%").isdigit() or not value.endswith("%"):
            why = (
                "a valid percent string must be a numeric string followed by an ending '%' "
                "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
            )
            yield invalid(field, value, why)
        elif field.endswith("maxUnavailable") and int(value[:-1]) > 100:
            yield invalid(field, value, "must not be greater than 100%")
    elif isinstance(value, int) and value < 0:
        yield invalid(field, value, "must be greater than or equal to 0")


def _zero(value: JsonValue) -> bool:
    return value in (0, "0%")


def job(obj: JsonObject) -> Iterator[Fault]:
    """The faults of a Job."""
    spec: JsonObject = obj.get("spec") or {}
    yield from at_least_zero(spec, "spec", "parallelism", "completions", "backoffLimit", "activeDeadlineSeconds")
    template: JsonObject = (spec.get("template") or {}).get("spec") or {}
    yield from pod_spec(template, "spec.template.spec")
    if template.get("restartPolicy") == "Always":
        text = 'Required value: valid values: "OnFailure", "Never"'
        yield Fault("spec.template.spec.restartPolicy", "FieldValueRequired", text)
