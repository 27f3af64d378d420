"""The servicer of `ome.gc.v1`: every call answers UNIMPLEMENTED, which the gateway takes as an empty answer."""

from __future__ import annotations

import grpc
from google.protobuf.message import Message

from ome.gc.v1 import gc_pb2, gc_pb2_grpc
from services.kit import errors

SERVICE = gc_pb2.DESCRIPTOR.services_by_name["GcService"]


def _refuse(method: str) -> object:
    async def call(self: object, request: Message, context: object) -> Message:
        raise errors.unimplemented(f"{SERVICE.full_name}/{method}")

    return call


GcServicer = type(
    "GcServicer", (gc_pb2_grpc.GcServiceServicer,), {name: _refuse(name) for name in SERVICE.methods_by_name}
)


def register(server: grpc.aio.Server) -> list[str]:
    """Add the servicer; the full names it serves."""
    gc_pb2_grpc.add_GcServiceServicer_to_server(GcServicer(), server)
    return [SERVICE.full_name]
