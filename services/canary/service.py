"""The servicer of `ome.canary.v1`: every call answers UNIMPLEMENTED, which the gateway takes as an empty answer."""

from __future__ import annotations

import grpc
from google.protobuf.message import Message

from ome.canary.v1 import canary_pb2, canary_pb2_grpc
from services.kit import errors

SERVICE = canary_pb2.DESCRIPTOR.services_by_name["CanaryService"]


def _refuse(method: str) -> object:
    async def call(self: object, request: Message, context: object) -> Message:
        raise errors.unimplemented(f"{SERVICE.full_name}/{method}")

    return call


CanaryServicer = type(
    "CanaryServicer",
    (canary_pb2_grpc.CanaryServiceServicer,),
    {name: _refuse(name) for name in SERVICE.methods_by_name},
)


def register(server: grpc.aio.Server) -> list[str]:
    """Add the servicer; the full names it serves."""
    canary_pb2_grpc.add_CanaryServiceServicer_to_server(CanaryServicer(), server)
    return [SERVICE.full_name]
