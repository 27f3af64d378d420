"""The status of a pod, from its specification and what has happened to it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sandbox.jsontypes import JsonObject, JsonValue
from sandbox.workloads.behaviour import Behaviour
from services.kit.times import timestamp

FIRST_BACK_OFF, LONGEST_BACK_OFF = 10, 300
BACK_OFF_FORGOTTEN_AFTER = 600


@dataclass(frozen=True)
class Exit:
    """One end of a container."""

    started: datetime
    finished: datetime
    code: int


@dataclass
class PodRun:
    """What the kubelet knows of one pod that is bound to its node."""

    bound: datetime
    ip: str
    started: datetime | None = None
    """When the containers (after a crash: the crashing one) began to run; None: not running."""
    restart_at: datetime | None = None
    back_off: int = 0
    crashes: int = 0
    restarts: int = 0
    last_exit: Exit | None = None
    crashed: str = ""
    """The container that exited last."""
    finished: str = ""
    """``Succeeded`` or ``Failed`` once nothing will run any more."""
    stopping: datetime | None = None
    faults: set[str] = field(default_factory=set)
    """Faults of annotations that were told already."""


def crashing(pod: JsonObject, behaviour: Behaviour) -> str:
    """The name of the container that crashes, empty when none does."""
    names = [c["name"] for c in pod["spec"].get("containers") or ()]
    if behaviour.crash == "*":
        return names[0] if names else ""
    return behaviour.crash if behaviour.crash in names else ""


def advance(pod: JsonObject, run: PodRun, behaviour: Behaviour, now: datetime) -> datetime | None:
    """Moves ``run`` to where it is at ``now``; answers when it moves next by itself, or None."""
    policy = pod["spec"].get("restartPolicy", "Always")
    while not run.finished:
        if run.started is None:
            due = _start(run, behaviour, now)
            if run.started is None:
                return due
            continue
        crash = crashing(pod, behaviour)
        ends = run.started + timedelta(seconds=behaviour.crash_after_seconds)
        if crash and now >= ends:
            run.crashed = crash
            _exit(run, behaviour, now, policy)
            continue
        ready = run.started + timedelta(seconds=behaviour.ready_seconds)
        coming = [moment for moment in (ready, ends if crash else ready) if moment > now]
        return min(coming) if coming else None
    return None


def _start(run: PodRun, behaviour: Behaviour, now: datetime) -> datetime | None:
    due = run.restart_at
    if due is None:
        if behaviour.image_pull_fails:
            run.bound = now
            return None
        due = run.bound + timedelta(seconds=behaviour.startup_seconds)
    if now < due:
        return due
    if run.restart_at is not None:
        run.restarts += 1
        run.restart_at = None
    run.started = now
    return None


def _exit(run: PodRun, behaviour: Behaviour, now: datetime, policy: str) -> None:
    began = run.started or now
    run.last_exit = Exit(began, now, behaviour.exit_code)
    run.started = None
    clean = behaviour.exit_code == 0
    if policy == "Never" or (policy == "OnFailure" and clean):
        run.finished = "Succeeded" if clean else "Failed"
        return
    if (now - began).total_seconds() >= BACK_OFF_FORGOTTEN_AFTER:
        run.crashes = 0
    run.crashes += 1
    # The first restart is immediate; then 10 s, doubled up to 5 min, as the kubelet does it.
    run.back_off = 0 if run.crashes == 1 else min(FIRST_BACK_OFF * 2 ** min(run.crashes - 2, 10), LONGEST_BACK_OFF)
    run.restart_at = now + timedelta(seconds=run.back_off)


def serves(pod: JsonObject, run: PodRun, behaviour: Behaviour, now: datetime) -> bool:
    """Whether all containers are ready."""
    if run.started is None or run.finished or not behaviour.ready:
        return False
    return now >= run.started + timedelta(seconds=behaviour.ready_seconds)


def status(pod: JsonObject, run: PodRun, behaviour: Behaviour, now: datetime, host_ip: str) -> JsonObject:
    """The whole status at ``now``; times of conditions that did not change are kept."""
    old = pod.get("status") or {}
    ready = serves(pod, run, behaviour, now)
    begun = run.started is not None or run.last_exit is not None
    body: JsonObject = {
        "phase": run.finished or ("Running" if begun else "Pending"),
        "qosClass": old.get("qosClass", "BestEffort"),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "startTime": old.get("startTime") or timestamp(run.bound),
        "conditions": _conditions(pod, run, begun, ready, now),
        "containerStatuses": _containers(pod, run, behaviour, ready),
    }
    if begun:
        body["podIP"] = run.ip
        body["podIPs"] = [{"ip": run.ip}]
    initial = [_initial(c, run, begun) for c in pod["spec"].get("initContainers") or ()]
    if initial:
        body["initContainerStatuses"] = initial
    return body


def _conditions(pod: JsonObject, run: PodRun, begun: bool, ready: bool, now: datetime) -> list[JsonValue]:
    old = {c["type"]: c for c in (pod.get("status") or {}).get("conditions") or ()}
    names = " ".join(c["name"] for c in pod["spec"].get("containers") or ())
    ended = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(run.finished)
    why: JsonObject = {"reason": ended} if ended else {
        "reason": "ContainersNotReady", "message": f"containers with unready status: [{names}]",
    }
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()]
    missing = [gate for gate in gates if (old.get(gate) or {}).get("status") != "True"]
    gated = {"reason": "ReadinessGatesNotReady", "message": "; ".join(
        f'the status of pod readiness gate "{gate}" is not "True", but False' if gate in old
        else f'corresponding condition of pod readiness gate "{gate}" does not exist.' for gate in missing
    )}
    wanted: list[tuple[str, bool, JsonObject]] = [
        ("PodReadyToStartContainers", begun and not run.finished, {}),
        ("Initialized", True, {"reason": ended} if run.finished == "Succeeded" else {}),
        ("Ready", ready and not missing, why if not ready else gated),
        ("ContainersReady", ready, why),
        ("PodScheduled", True, {}),
    ]
    kept: list[JsonValue] = []
    for kind, truth, reason in wanted:
        state = "True" if truth else "False"
        before = old.pop(kind, None) or {}
        since = before.get("lastTransitionTime") if before.get("status") == state else None
        extra = reason if not truth or kind == "Initialized" else {}
        kept.append({"type": kind, "status": state, "lastTransitionTime": since or timestamp(now), **extra})
    return [*kept, *old.values()]


def _identity(container: JsonObject) -> JsonObject:
    image = container.get("image", "")
    digest = hashlib.sha256(image.encode()).hexdigest()
    return {"name": container["name"], "image": image, "imageID": f"{image.split('@')[0]}@sha256:{digest}"}


def _terminated(end: Exit) -> JsonObject:
    return {"terminated": {
        "exitCode": end.code, "reason": "Error" if end.code else "Completed",
        "startedAt": timestamp(end.started), "finishedAt": timestamp(end.finished),
    }}


def _containers(pod: JsonObject, run: PodRun, behaviour: Behaviour, ready: bool) -> list[JsonValue]:
    first = run.bound + timedelta(seconds=behaviour.startup_seconds)
    return [
        _container(c, pod, run, behaviour, ready, first, run.last_exit if c["name"] == run.crashed else None)
        for c in pod["spec"]["containers"]
    ]


def _container(container: JsonObject, pod: JsonObject, run: PodRun, behaviour: Behaviour, ready: bool, first: datetime,
               ended: Exit | None) -> JsonObject:
    begun = run.started is not None or run.last_exit is not None
    body: JsonObject = {**_identity(container), "lastState": {}, "ready": ready, "started": begun, "restartCount": 0}
    if not begun:
        reason, text = "ContainerCreating", ""
        if behaviour.image_pull_fails:
            reason, text = "ImagePullBackOff", f'Back-off pulling image "{container.get("image", "")}"'
        body["state"] = {"waiting": {"reason": reason, **({"message": text} if text else {})}}
        return body
    if run.finished:
        end = run.last_exit or Exit(first, first, 0)
        body["state"] = _terminated(end if ended else Exit(end.started, end.finished, 0))
        return {**body, "ready": False, "started": False}
    if ended is None:
        began = run.started if run.last_exit is None else first
        body["state"] = {"running": {"startedAt": timestamp(began or first)}}
        return {**body, "ready": ready or (run.last_exit is not None and behaviour.ready)}
    body["restartCount"] = run.restarts
    if run.started is not None:
        body["lastState"] = _terminated(ended)
        body["state"] = {"running": {"startedAt": timestamp(run.started)}}
    else:
        meta = pod["metadata"]
        where = f"pod={meta['name']}_{meta.get('namespace', '')}({meta.get('uid', '')})"
        text = f"back-off {_spell(run.back_off)} restarting failed container={container['name']} {where}"
        body["lastState"] = _terminated(ended)
        body["state"] = {"waiting": {"reason": "CrashLoopBackOff", "message": text}}
        body["started"] = False
    return body


def _spell(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes}m{rest}s" if minutes else f"{seconds}s"


def _initial(container: JsonObject, run: PodRun, begun: bool) -> JsonObject:
    sidecar = container.get("restartPolicy") == "Always"
    body: JsonObject = {**_identity(container), "lastState": {}, "restartCount": 0, "ready": begun}
    if not begun:
        return {**body, "started": False, "state": {"waiting": {"reason": "PodInitializing"}}}
    if sidecar and not run.finished:
        return {**body, "started": True, "state": {"running": {"startedAt": timestamp(run.bound)}}}
    return {**body, "started": False, "state": _terminated(Exit(run.bound, run.bound, 0))}
