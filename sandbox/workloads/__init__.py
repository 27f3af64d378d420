"""The model of Deployments, ReplicaSets, pods, scheduler and kubelets."""

from sandbox.workloads.behaviour import Behaviour
from sandbox.workloads.model import WorkloadModel, settle

__all__ = ["Behaviour", "WorkloadModel", "settle"]
