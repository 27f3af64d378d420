"""The servicer of `ome.gc.v1`: every call answers UNIMPLEMENTED, which the gateway takes as an empty answer."""

from __future__ import annotations

import grpc.aio

from ome.gc.v1 import gc_pb2, gc_pb2_grpc
from services.kit import unimplemented

SERVICE = gc_pb2.DESCRIPTOR.services_by_name["GcService"]


def register(server: grpc.aio.Server) -> list[str]:
    """Add the servicer; the full names it serves."""
    servicer = unimplemented.servicer(gc_pb2_grpc.GcServiceServicer, SERVICE)
    gc_pb2_grpc.add_GcServiceServicer_to_server(servicer, server)
    return [SERVICE.full_name]
