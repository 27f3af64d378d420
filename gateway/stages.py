"""The services of a pass in their order: pinning, traffic on the record as stored, canary on what traffic routes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc.aio

from gateway.pipeline import Facts, Stage
from gateway.services import Service
from gateway.settings import GatewaySettings
from ome.canary.v1 import canary_pb2, canary_pb2_grpc
from ome.common.v1 import common_pb2 as pb
from ome.pinning.v1 import pinning_pb2, pinning_pb2_grpc
from ome.traffic.v1 import traffic_pb2, traffic_pb2_grpc
from services.kit import tls
from services.kit.channel import connect
from services.kit.server import StartError


@dataclass(slots=True)
class Channels:
    """The channels to the services of a pass."""

    pinning: grpc.aio.Channel
    traffic: grpc.aio.Channel
    canary: grpc.aio.Channel

    async def close(self) -> None:
        for channel in (self.pinning, self.traffic, self.canary):
            await channel.close()


def open_channels(settings: GatewaySettings) -> Channels:
    """Channels that connect when first used. StartError, status 2, for TLS files that cannot be used."""
    files = (settings.service_tls_ca, settings.service_tls_cert, settings.service_tls_key)
    client = tls.ClientTls(*files) if settings.service_tls_ca else None

    def channel(target: str) -> grpc.aio.Channel:
        return connect(
            target,
            tls=client,
            deadline_seconds=settings.call_seconds,
            max_message_bytes=settings.max_message_bytes,
        )

    try:
        return Channels(channel(settings.pinning), channel(settings.traffic), channel(settings.canary))
    except tls.TlsError as error:
        raise StartError(f"--service-tls-ca, --service-tls-cert, --service-tls-key: {error}", 2) from None


def stages(channels: Channels, settings: GatewaySettings, on_back: Callable[[], None]) -> list[Stage]:
    """The stages of the pipeline over those channels; `on_back` runs when a service that was away answers again."""
    pinning = pinning_pb2_grpc.PinningServiceStub(channels.pinning)
    traffic = traffic_pb2_grpc.TrafficServiceStub(channels.traffic)
    canary = canary_pb2_grpc.CanaryServiceStub(channels.canary)

    def service(name: str, target: str, method: Any) -> Service:
        return Service(name, target, method, settings.call_seconds, on_back)

    return [
        Stage(
            "pinning",
            service("pinning", settings.pinning, pinning.Reconcile),
            _ask_pinning,
            _learn_components,
            required=True,
        ),
        Stage("traffic", service("traffic", settings.traffic, traffic.Reconcile), _ask_traffic, _learn_routes),
        Stage("canary", service("canary", settings.canary, canary.Reconcile), _ask_canary, _learn_nothing),
    ]


def _ask_pinning(facts: Facts, meta: pb.RequestMeta, observation: pb.Observation) -> pinning_pb2.ReconcileRequest:
    return pinning_pb2.ReconcileRequest(meta=meta, observation=observation)


def _learn_components(facts: Facts, answer: pinning_pb2.ReconcileResponse | None) -> None:
    if answer is not None:
        facts.components = answer.components


def _ask_traffic(facts: Facts, meta: pb.RequestMeta, observation: pb.Observation) -> traffic_pb2.ReconcileRequest:
    return traffic_pb2.ReconcileRequest(
        meta=meta,
        observation=observation,
        components=facts.components,
        gateway_kind=traffic_pb2.GATEWAY_KIND_NONE,
    )


def _learn_routes(facts: Facts, answer: traffic_pb2.ReconcileResponse | None) -> None:
    facts.routed = pb.RoutedWeights(known=True) if answer is None else answer.routed


def _ask_canary(facts: Facts, meta: pb.RequestMeta, observation: pb.Observation) -> canary_pb2.ReconcileRequest:
    return canary_pb2.ReconcileRequest(
        snapshot=canary_pb2.Snapshot(
            meta=meta, observation=observation, components=facts.components, routed=facts.routed
        )
    )


def _learn_nothing(facts: Facts, answer: object) -> None:
    """Nobody is asked after canary."""
