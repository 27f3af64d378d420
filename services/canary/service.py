"""The servicer of `ome.canary.v1`: every call answers UNIMPLEMENTED, which the gateway takes as an empty answer."""

from __future__ import annotations

import grpc.aio

from ome.canary.v1 import canary_pb2, canary_pb2_grpc
from services.kit import unimplemented

SERVICE = canary_pb2.DESCRIPTOR.services_by_name["CanaryService"]


def register(server: grpc.aio.Server) -> list[str]:
    """Add the servicer; the full names it serves."""
    servicer = unimplemented.servicer(canary_pb2_grpc.CanaryServiceServicer, SERVICE)
    canary_pb2_grpc.add_CanaryServiceServicer_to_server(servicer, server)
    return [SERVICE.full_name]
