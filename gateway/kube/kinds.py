"""The kinds the gateway knows: where each lives in the API, and which of them an answer may name.

Nothing outside this list is ever read or written on a service's behalf (design 4).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Kind:
    """One resource of the API server. `listed` is False where a list or watch must never happen (a Secret)."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    listed: bool = True

    @property
    def api_version(self) -> str:
        """As objects spell it: `apps/v1`, `v1`."""
        return sys.intern(f"{self.group}/{self.version}") if self.group else self.version

    @property
    def resource(self) -> str:
        """Plural and group, as the API server's messages and a CRD's name spell it: `inferenceservices.ome.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of the collection, an object or a subresource, escaped. Without a namespace the collection of a
        namespaced kind is that of the whole cluster; an object of one needs its namespace. ValueError for that, and for
        what cannot be a part of a path."""
        parts = ["api", self.version] if not self.group else ["apis", self.group, self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        elif self.namespaced and name:
            raise ValueError(f"{self.kind} {name!r} needs a namespace")
        parts += [part for part in (self.plural, name, subresource) if part]
        # Kubernetes allows no object such a name, and clients, proxies and servers disagree on what the path means.
        if any(part in (".", "..") or "/" in part or "%" in part for part in (namespace, name)):
            raise ValueError(f"not a name: {name!r} in namespace {namespace!r}")
        return "/" + "/".join(quote(part, safe="") for part in parts)


ISVC = Kind("ome.io", "v1beta1", "InferenceService", "inferenceservices", True)
SERVING_RUNTIME = Kind("ome.io", "v1beta1", "ServingRuntime", "servingruntimes", True)
CLUSTER_SERVING_RUNTIME = Kind("ome.io", "v1beta1", "ClusterServingRuntime", "clusterservingruntimes", False)
BASE_MODEL = Kind("ome.io", "v1beta1", "BaseModel", "basemodels", True)
CLUSTER_BASE_MODEL = Kind("ome.io", "v1beta1", "ClusterBaseModel", "clusterbasemodels", False)
CONTROLLER_REVISION = Kind("apps", "v1", "ControllerRevision", "controllerrevisions", True)
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments", True)
POD = Kind("", "v1", "Pod", "pods", True)
SERVICE = Kind("", "v1", "Service", "services", True)
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps", True)
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", False)
SECRET = Kind("", "v1", "Secret", "secrets", True, listed=False)
EVENT = Kind("", "v1", "Event", "events", True)
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases", True)

_NAMEABLE = (
    ISVC,
    SERVING_RUNTIME,
    CLUSTER_SERVING_RUNTIME,
    BASE_MODEL,
    CLUSTER_BASE_MODEL,
    CONTROLLER_REVISION,
    DEPLOYMENT,
    POD,
    SERVICE,
    CONFIG_MAP,
    NAMESPACE,
    SECRET,
)
_BY_API = {(kind.api_version, kind.kind): kind for kind in _NAMEABLE}


def by_api(api_version: str, kind: str) -> Kind | None:
    """The kind that an interest or a write names; None for what is not on the list (Events and Leases are the gateway's
    own business and not on it)."""
    return _BY_API.get((api_version, kind))
