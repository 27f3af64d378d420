"""What ``kubectl get pods`` says of a pod: ready containers, one word of status, restarts."""

from __future__ import annotations

from datetime import datetime

from sandbox.jsontypes import JsonObject, JsonValue
from sandbox.schema.printing import age


def _statuses(pod: JsonObject, kind: str) -> list[JsonObject]:
    found: list[JsonObject] = (pod.get("status") or {}).get(kind) or []
    return found


def ready(pod: JsonObject) -> str:
    """``ready/all`` containers."""
    total = len((pod.get("spec") or {}).get("containers") or ())
    serving = [s for s in _statuses(pod, "containerStatuses") if s.get("ready") and "running" in (s.get("state") or {})]
    return f"{len(serving)}/{total}"


def _ended(state: JsonObject) -> str:
    if state.get("reason"):
        return str(state["reason"])
    if state.get("signal"):
        return f"Signal:{state['signal']}"
    return f"ExitCode:{state.get('exitCode', 0)}"


def _initialising(pod: JsonObject) -> str:
    statuses = _statuses(pod, "initContainerStatuses")
    total = len((pod.get("spec") or {}).get("initContainers") or ())
    for index, status in enumerate(statuses):
        state = status.get("state") or {}
        ended = state.get("terminated")
        if ended is not None:
            if ended.get("exitCode", 0) == 0:
                continue
            return f"Init:{_ended(ended)}"
        if status.get("started") and status.get("ready"):
            continue
        waiting = (state.get("waiting") or {}).get("reason", "")
        return f"Init:{waiting}" if waiting and waiting != "PodInitializing" else f"Init:{index}/{total}"
    return ""


def word(pod: JsonObject) -> str:
    """The STATUS column."""
    status = pod.get("status") or {}
    reason: str = status.get("reason") or status.get("phase") or ""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    initialising = _initialising(pod)
    reason = initialising or _running(pod, reason)
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        return reason if status.get("phase") in ("Succeeded", "Failed") else "Terminating"
    return reason


def _running(pod: JsonObject, reason: str) -> str:
    has_running = False
    for status in reversed(_statuses(pod, "containerStatuses")):
        state = status.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif state.get("terminated") is not None:
            reason = _ended(state["terminated"])
        elif status.get("ready") and "running" in state:
            has_running = True
    if reason == "Completed" and has_running:
        conditions = (pod.get("status") or {}).get("conditions") or ()
        is_ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
        return "Running" if is_ready else "NotReady"
    return reason


def restarts(pod: JsonObject, now: datetime) -> str:
    """The number of restarts, with the time since the last one."""
    total, last = 0, ""
    kind = "initContainerStatuses" if _initialising(pod) else "containerStatuses"
    for status in _statuses(pod, kind):
        total += status.get("restartCount") or 0
        ended = ((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        last = max(last, ended)
    return f"{total} ({age(last, now)} ago)" if total and last else str(total)


def address(pod: JsonObject, _: datetime) -> JsonValue:
    """The pod's address."""
    return (pod.get("status") or {}).get("podIP") or "<none>"


def gates(pod: JsonObject, _: datetime) -> JsonValue:
    """Readiness gates that are met, of all."""
    wanted = [gate.get("conditionType") for gate in (pod.get("spec") or {}).get("readinessGates") or ()]
    if not wanted:
        return "<none>"
    conditions = (pod.get("status") or {}).get("conditions") or ()
    met = {c.get("type") for c in conditions if c.get("status") == "True"}
    return f"{sum(gate in met for gate in wanted)}/{len(wanted)}"
