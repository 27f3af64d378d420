"""Scheduler and kubelet: pods are bound to a node, start, become ready, crash and end, as their annotations say."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from datetime import datetime, timedelta

from sandbox.jsontypes import JsonObject
from sandbox.store import Entry
from sandbox.workloads import behaviour as behaviours
from sandbox.workloads.behaviour import Behaviour
from sandbox.workloads.cluster import (
    DEPLOYMENTS,
    KUBELET,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    SCHEDULER,
    Cluster,
    controller_uid,
)
from sandbox.workloads.podstatus import PodRun, advance, status
from services.kit.times import timestamp

POD_NETWORK = ipaddress.ip_network("10.244.0.0/16")
NODE_IP = "10.0.0.{number}"


class Kubelet:
    """Looks at one pod at a time; what it says is when to look at it again."""

    def __init__(self, cluster: Cluster, defaults: Behaviour) -> None:
        self._cluster = cluster
        self._defaults = defaults
        self._runs: dict[str, PodRun] = {}
        self._addresses: Iterator[ipaddress.IPv4Address | ipaddress.IPv6Address] = iter(POD_NETWORK.hosts())

    def sync(self, entry: Entry) -> datetime | None:
        """Brings one pod to where it is now; answers when it changes next by itself, or None."""
        pod = entry.obj
        phase = (pod.get("status") or {}).get("phase")
        behaviour, faults = self._behaviour(pod)
        if not pod["spec"].get("nodeName"):
            if not pod["metadata"].get("deletionTimestamp"):
                self._schedule(entry, behaviour)
            return None
        run = self._run(entry)
        for fault in set(faults) - run.faults:
            run.faults.add(fault)
            self._cluster.event(pod, "Warning", "InvalidSandboxAnnotation", fault, KUBELET)
        if pod["metadata"].get("deletionTimestamp"):
            return self._stop(entry, run, behaviour)
        if phase in ("Succeeded", "Failed"):
            return None
        return self._live(entry, run, behaviour)

    def forget(self, uid: str) -> None:
        """Drops what is known of a pod that is gone."""
        self._runs.pop(uid, None)

    def _run(self, entry: Entry) -> PodRun:
        run = self._runs.get(entry.uid)
        if run is None:
            address = next(self._addresses, None)
            if address is None:
                self._addresses = iter(POD_NETWORK.hosts())
                address = next(self._addresses)
            run = self._runs[entry.uid] = PodRun(self._cluster.now(), str(address))
        return run

    def _live(self, entry: Entry, run: PodRun, behaviour: Behaviour) -> datetime | None:
        pod, now = entry.obj, self._cluster.now()
        before = (run.started, run.crashes, run.finished)
        due = advance(pod, run, behaviour, now)
        self._cluster.put_status(entry, status(pod, run, behaviour, now, self._host_ip(pod)), KUBELET)
        self._tell(pod, run, behaviour, before)
        return due

    def _tell(self, pod: JsonObject, run: PodRun, behaviour: Behaviour,
              before: tuple[datetime | None, int, str]) -> None:
        started, crashes, _ = before
        name = pod["spec"]["containers"][0]["name"]
        if run.started is not None and started is None and run.restarts == 0:
            self._cluster.event(pod, "Normal", "Started", f"Started container {name}", KUBELET)
        if run.crashes > max(crashes, 1):
            meta = pod["metadata"]
            where = f"{meta['name']}_{meta['namespace']}({meta['uid']})"
            text = f"Back-off restarting failed container {name} in pod {where}"
            self._cluster.event(pod, "Warning", "BackOff", text, KUBELET)
        if run.started is None and run.last_exit is None and behaviour.image_pull_fails:
            image = pod["spec"]["containers"][0].get("image", "")
            known = ((pod.get("status") or {}).get("containerStatuses") or [{}])[0].get("state", {}).get("waiting", {})
            if known.get("reason") != "ImagePullBackOff":
                self._cluster.event(pod, "Warning", "Failed", f'Failed to pull image "{image}"', KUBELET)

    def _stop(self, entry: Entry, run: PodRun, behaviour: Behaviour) -> datetime | None:
        meta, now = entry.obj["metadata"], self._cluster.now()
        if run.stopping is None:
            run.stopping = now
            name = entry.obj["spec"]["containers"][0]["name"]
            self._cluster.event(entry.obj, "Normal", "Killing", f"Stopping container {name}", KUBELET)
        grace = float(meta.get("deletionGracePeriodSeconds") or 0)
        due = run.stopping + timedelta(seconds=min(behaviour.termination_seconds, grace))
        if now < due:
            return due
        if meta.get("deletionGracePeriodSeconds") == 0 and meta.get("finalizers"):
            return None
        self._cluster.delete(PODS, entry.namespace, entry.name, entry.uid, grace=0)
        return None

    def _schedule(self, entry: Entry, behaviour: Behaviour) -> None:
        pod, now = entry.obj, self._cluster.now()
        nodes = self._cluster.store.list(NODES)
        fitting = [] if behaviour.unschedulable else [node for node in nodes if _fits(pod, node.obj)]
        condition: JsonObject = {"type": "PodScheduled", "lastTransitionTime": timestamp(now)}
        if fitting:
            load = self._load()
            node = min(fitting, key=lambda candidate: (load.get(candidate.name, 0), candidate.name))
            self._cluster.bind(entry, node.name, {**condition, "status": "True"})
            text = f"Successfully assigned {entry.namespace}/{entry.name} to {node.name}"
            self._cluster.event(pod, "Normal", "Scheduled", text, SCHEDULER)
            return
        text = f"0/{len(nodes)} nodes are available: no node fits the pod."
        old = [c for c in (pod.get("status") or {}).get("conditions") or () if c["type"] == "PodScheduled"]
        if old and old[0].get("message") == text:
            return
        condition.update({"status": "False", "reason": "Unschedulable", "message": text})
        state = {**(pod.get("status") or {}), "phase": "Pending", "conditions": [condition]}
        self._cluster.put_status(entry, state, SCHEDULER)
        self._cluster.event(pod, "Warning", "FailedScheduling", text, SCHEDULER)

    def _load(self) -> dict[str, int]:
        load: dict[str, int] = {}
        for entry in self._cluster.store.list(PODS):
            node = entry.obj["spec"].get("nodeName")
            if node:
                load[node] = load.get(node, 0) + 1
        return load

    def _host_ip(self, pod: JsonObject) -> str:
        node = self._cluster.get(NODES, "", pod["spec"]["nodeName"])
        addresses = ((node.obj.get("status") or {}).get("addresses") or ()) if node else ()
        return next((a["address"] for a in addresses if a["type"] == "InternalIP"), "")

    def _behaviour(self, pod: JsonObject) -> tuple[Behaviour, list[str]]:
        meta = pod["metadata"]
        layers = [meta.get("annotations") or {}]
        owner = self._cluster.store.by_uid(controller_uid(pod))
        if owner is not None and owner.bucket == REPLICA_SETS:
            owner = self._cluster.store.by_uid(controller_uid(owner.obj)) or owner
        if owner is not None and owner.bucket in (DEPLOYMENTS, REPLICA_SETS):
            layers.append(owner.obj["metadata"].get("annotations") or {})
        namespace = self._cluster.get(NAMESPACES, "", meta.get("namespace", ""))
        if namespace is not None:
            layers.append(namespace.obj["metadata"].get("annotations") or {})
        return behaviours.read(self._defaults, layers)


def _fits(pod: JsonObject, node: JsonObject) -> bool:
    """Node selector, cordon and taints; resources are not counted."""
    spec = node.get("spec") or {}
    if spec.get("unschedulable"):
        return False
    labels = node["metadata"].get("labels") or {}
    wanted = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    tolerations = pod["spec"].get("tolerations") or []
    hard = [taint for taint in spec.get("taints") or () if taint.get("effect") in ("NoSchedule", "NoExecute")]
    return all(any(_tolerates(toleration, taint) for toleration in tolerations) for taint in hard)


def _tolerates(toleration: JsonObject, taint: JsonObject) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    exists = toleration.get("operator") == "Exists"
    if not toleration.get("key"):
        return exists
    same = bool(toleration["key"] == taint.get("key"))
    return same and (exists or (toleration.get("value") or "") == (taint.get("value") or ""))


def node_object(number: int, now: datetime) -> JsonObject:
    """A Node of the sandbox, ready, with plenty of everything."""
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "500", "ephemeral-storage": "1Ti", "nvidia.com/gpu": "64"}
    name = f"sandbox-{number}"
    moment = timestamp(now)
    pressures = [
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ]
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        }},
        "spec": {"podCIDR": str(POD_NETWORK)},
        "status": {
            "capacity": amounts, "allocatable": amounts,
            "addresses": [{"type": "InternalIP", "address": NODE_IP.format(number=number)},
                          {"type": "Hostname", "address": name}],
            "conditions": [
                {"type": kind, "status": state, "reason": reason, "message": text,
                 "lastHeartbeatTime": moment, "lastTransitionTime": moment}
                for kind, state, reason, text in pressures
            ],
            "nodeInfo": {
                "kubeletVersion": "sandbox", "osImage": "sandbox", "operatingSystem": "linux", "architecture": "amd64",
                "containerRuntimeVersion": "sandbox://1", "kernelVersion": "sandbox", "machineID": name,
                "systemUUID": name, "bootID": name, "kubeProxyVersion": "",
            },
        },
    }
