"""The servicer of `ome.traffic.v1`: every call answers UNIMPLEMENTED, which the gateway takes as an empty answer."""

from __future__ import annotations

import grpc
from google.protobuf.message import Message

from ome.traffic.v1 import traffic_pb2, traffic_pb2_grpc
from services.kit import errors

SERVICE = traffic_pb2.DESCRIPTOR.services_by_name["TrafficService"]


def _refuse(method: str) -> object:
    async def call(self: object, request: Message, context: object) -> Message:
        raise errors.unimplemented(f"{SERVICE.full_name}/{method}")

    return call


TrafficServicer = type(
    "TrafficServicer",
    (traffic_pb2_grpc.TrafficServiceServicer,),
    {name: _refuse(name) for name in SERVICE.methods_by_name},
)


def register(server: grpc.aio.Server) -> list[str]:
    """Add the servicer; the full names it serves."""
    traffic_pb2_grpc.add_TrafficServiceServicer_to_server(TrafficServicer(), server)
    return [SERVICE.full_name]
