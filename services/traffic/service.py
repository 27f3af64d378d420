"""The servicer of `ome.traffic.v1`: every call answers UNIMPLEMENTED, which the gateway takes as an empty answer."""

from __future__ import annotations

import grpc.aio

from ome.traffic.v1 import traffic_pb2, traffic_pb2_grpc
from services.kit import unimplemented

SERVICE = traffic_pb2.DESCRIPTOR.services_by_name["TrafficService"]


def register(server: grpc.aio.Server) -> list[str]:
    """Add the servicer; the full names it serves."""
    servicer = unimplemented.servicer(traffic_pb2_grpc.TrafficServiceServicer, SERVICE)
    traffic_pb2_grpc.add_TrafficServiceServicer_to_server(servicer, server)
    return [SERVICE.full_name]
