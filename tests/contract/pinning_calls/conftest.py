"""The pinning service on a real grpc.aio server in process, with the interceptors of the suite."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc.aio
import pytest

from ome.pinning.v1 import pinning_pb2_grpc
from services.kit import errors
from services.kit.server import RpcServer
from services.kit.settings import ServiceSettings
from services.pinning.service import register

Failing = Callable[[Awaitable[Any]], Awaitable[errors.Failure]]


@pytest.fixture
async def stub() -> AsyncIterator[Any]:
    """A client of a served pinning service. Calls need a timeout."""
    server = RpcServer(ServiceSettings(listen="127.0.0.1:0"), register)
    await server.start()
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield pinning_pb2_grpc.PinningServiceStub(channel)
    await server.stop()


@pytest.fixture
def failing() -> Failing:
    """Awaits a call that must fail; what its caller can read of the failure."""

    async def run(call: Awaitable[Any]) -> errors.Failure:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        return errors.read(caught.value)

    return run
