"""A process with a servicer that does what a test asks for in the metadata `x-test`; run as a script."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
import grpc.aio

from ome.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from ome.gc.v1 import gc_pb2, gc_pb2_grpc
from services.kit import errors, logs
from services.kit.process import run_service
from services.kit.settings import ServiceSettings, load

GC = "ome.gc.v1.GcService"
GATEWAY = "ome.gateway.v1.GatewayService"
LONG_LIVED = (f"/{GATEWAY}/WatchInferenceServices",)


class SampleGc(gc_pb2_grpc.GcServiceServicer):
    """Plan does as told; PlanStream answers one message per request."""

    async def Plan(self, request: Any, context: Any) -> Any:
        told = dict(context.invocation_metadata()).get("x-test", "")
        command, _, argument = told.partition(":")
        if command == "sleep":
            logs.get("sample").info("sleeping")
            await asyncio.sleep(float(argument))
        elif command == "raise":
            raise RuntimeError(f"secret {argument}")
        elif command == "violate":
            raise errors.invalid_argument(
                "INVALID_FIELD", [errors.Violation(f"policy.field_{n}", "x" * 300) for n in range(int(argument))]
            )
        elif command == "abort":
            await context.abort(grpc.StatusCode.NOT_FOUND, argument)
        elif command == "big":
            return gc_pb2.PlanResponse(incomplete=["x" * int(argument)])
        return gc_pb2.PlanResponse(incomplete=["ok"])

    async def PlanStream(self, request_iterator: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        told = dict(context.invocation_metadata()).get("x-test", "")
        async for _ in request_iterator:
            yield gc_pb2.PlanStreamResponse()
            if told == "raise":
                raise RuntimeError("secret")
            if told.startswith("sleep:"):
                await asyncio.sleep(float(told.partition(":")[2]))


class SampleGateway(gateway_pb2_grpc.GatewayServiceServicer):
    """Only the watch is there: one message, then silence."""

    async def WatchInferenceServices(self, request: Any, context: Any) -> AsyncIterator[Any]:
        yield gateway_pb2.WatchInferenceServicesResponse(resume_token="1")
        await asyncio.sleep(3600)


def register(server: grpc.aio.Server) -> Sequence[str]:
    gc_pb2_grpc.add_GcServiceServicer_to_server(SampleGc(), server)
    gateway_pb2_grpc.add_GatewayServiceServicer_to_server(SampleGateway(), server)
    return [GC, GATEWAY]


def main() -> int:
    settings = load(ServiceSettings, "ome-sample", sys.argv[1:], os.environ)
    return run_service("ome-sample", settings, register, LONG_LIVED)


if __name__ == "__main__":
    sys.exit(main())
