"""Settings of the gateway process."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from pydantic import AfterValidator, Field

from services.kit.channel import resolve_target
from services.kit.settings import Fault, HostPort, ServiceSettings, flag, load

PROG = "ome-gateway"
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def _target(text: str) -> str:
    resolve_target(text)
    return text


def _namespace(text: str) -> str:
    if text and not _DNS_LABEL.fullmatch(text):
        raise ValueError("expected the name of a namespace: lower-case letters, digits and hyphens, at most 63")
    return text


Target = Annotated[str, AfterValidator(_target)]
"""HOST:PORT (every address of the name is used), IP:PORT,IP:PORT, or a gRPC target with a scheme."""
_REPLICAS = "HOST:PORT, or IP:PORT,IP:PORT for several; calls go round robin over all addresses."


class GatewaySettings(ServiceSettings):
    """What the gateway takes besides what every process does."""

    listen: HostPort = Field("127.0.0.1:7100", description="Address for gRPC, HOST:PORT; port 0 takes a free one.")
    kubeconfig: str = Field(
        "",
        description="File with the cluster's address and credentials; empty: $KUBECONFIG, else the pod's account.",
    )
    pinning: Target = Field("127.0.0.1:7101", description=f"The pinning service, {_REPLICAS}")
    canary: Target = Field("127.0.0.1:7102", description=f"The canary service, {_REPLICAS}")
    traffic: Target = Field("127.0.0.1:7103", description=f"The traffic service, {_REPLICAS}")
    gc: Target = Field("127.0.0.1:7104", description=f"The gc service, {_REPLICAS}")
    service_tls_ca: str = Field("", description="PEM file of the authorities behind the services' certificates.")
    service_tls_cert: str = Field("", description="PEM file of the gateway's client certificate for the services.")
    service_tls_key: str = Field("", description="PEM file of that certificate's private key.")
    call_seconds: float = Field(
        10.0, gt=0, le=60, allow_inf_nan=False, description="Seconds that one call to a service may take."
    )
    ome_namespace: Annotated[str, AfterValidator(_namespace)] = Field(
        "", description="Namespace of snapshots and of the lease; empty: $POD_NAMESPACE, else ome."
    )
    cluster_domain: str = Field("cluster.local", min_length=1, description="DNS domain of the cluster.")
    workers: int = Field(16, ge=1, le=256, description="Passes that run at the same time.")
    resync_seconds: float = Field(
        600.0, ge=1, le=86400, allow_inf_nan=False, description="Seconds between looks at every InferenceService."
    )
    reask_seconds: float = Field(
        3600.0,
        ge=0,
        le=86400,
        allow_inf_nan=False,
        description="Longest time in seconds that an answer is trusted on unchanged input, whatever a service allows.",
    )
    backoff_base_seconds: float = Field(
        0.25, gt=0, le=60, allow_inf_nan=False, description="Seconds an InferenceService waits after a first failure."
    )
    backoff_max_seconds: float = Field(
        60.0,
        gt=0,
        le=3600,
        allow_inf_nan=False,
        description="Longest such wait; it doubles with each failure.",
    )
    sync_seconds: float = Field(
        10.0,
        ge=0,
        le=600,
        allow_inf_nan=False,
        description="Seconds that passes wait at the start for kinds which cannot be listed; then what depends on them "
        "counts as not known.",
    )
    identity: str = Field("", max_length=253, description="Name in the lease; empty: host name and a random part.")
    lease_duration_seconds: int = Field(
        15,
        ge=1,
        le=3600,
        description="Seconds after which a silent leader loses the lease.",
    )
    lease_renew_deadline_seconds: float = Field(
        10.0, gt=0, le=3600, allow_inf_nan=False, description="Seconds after which a leader that cannot renew gives up."
    )
    lease_retry_seconds: float = Field(
        2.0, gt=0, le=3600, allow_inf_nan=False, description="Seconds between attempts to take or renew the lease."
    )

    def faults(self) -> Iterator[Fault]:
        """Files that belong together, and times that must be in order: 1.2 * retry < renew deadline < duration."""
        yield from super().faults()
        names = ("service_tls_ca", "service_tls_cert", "service_tls_key")
        given = [flag(name) for name in names if getattr(self, name)]
        for name in names:
            if given and not getattr(self, name):
                yield Fault(name, f"is required with {' and '.join(given)}")
        if self.lease_renew_deadline_seconds >= self.lease_duration_seconds:
            yield Fault("lease_renew_deadline_seconds", "must be less than --lease-duration-seconds")
        if self.lease_retry_seconds * 1.2 >= self.lease_renew_deadline_seconds:
            yield Fault("lease_retry_seconds", "times 1.2 must be less than --lease-renew-deadline-seconds")
        if self.backoff_base_seconds > self.backoff_max_seconds:
            yield Fault("backoff_base_seconds", "must not be more than --backoff-max-seconds")


def load_settings(argv: Sequence[str], env: Mapping[str, str]) -> GatewaySettings:
    """The settings, with the OME namespace filled in (pinning spec, preamble). SystemExit as `settings.load`."""
    namespace = env.get("POD_NAMESPACE", "") or "ome"
    return load(GatewaySettings, PROG, argv, {"OME_OME_NAMESPACE": namespace, **_set(env)})


def _set(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if value}
