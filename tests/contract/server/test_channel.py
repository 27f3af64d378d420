"""The suite's own channel: round robin, deadlines, retries, what it passes through."""

from __future__ import annotations

import asyncio
import time
from types import ModuleType

import grpc
import grpc.aio
import pytest

from ome.gc.v1 import gc_pb2, gc_pb2_grpc
from services.kit import metrics
from services.kit.channel import connect
from services.kit.server import RpcServer
from services.kit.settings import ServiceSettings

PLAN = "ome.gc.v1.GcService/Plan"


async def test_calls_go_round_robin_over_the_replicas(sample: ModuleType) -> None:
    servers = [RpcServer(ServiceSettings(), sample.register) for _ in range(3)]
    for server in servers:
        await server.start()
    seen = [0, 0, 0]
    async with connect(",".join(server.address for server in servers)) as channel:
        stub = gc_pb2_grpc.GcServiceStub(channel)
        async with asyncio.timeout(10):
            while not all(seen):
                pending = stub.Plan(gc_pb2.PlanRequest(), metadata=(("x-test", "sleep:0.05"),))
                await asyncio.sleep(0.03)
                for index, server in enumerate(servers):
                    seen[index] += server.calls.in_flight
                await pending
    for server in servers:
        await server.stop()


async def test_a_draining_replica_gets_no_more_calls(sample: ModuleType) -> None:
    servers = [RpcServer(ServiceSettings(), sample.register) for _ in range(2)]
    for server in servers:
        await server.start()
    async with connect(",".join(server.address for server in servers)) as channel:
        stub = gc_pb2_grpc.GcServiceStub(channel)
        for _ in range(10):
            await stub.Plan(gc_pb2.PlanRequest())
        await servers[0].set_serving(False)  # health alone, calls are still taken
        spared = 0
        async with asyncio.timeout(10):
            while spared < 10:  # in a row, once the client has heard of it
                pending = stub.Plan(gc_pb2.PlanRequest(), metadata=(("x-test", "sleep:0.02"),))
                await asyncio.sleep(0.01)
                spared = 0 if servers[0].calls.in_flight else spared + 1
                await pending
    for server in servers:
        await server.stop()


async def test_default_deadline_and_a_callers_own(served: RpcServer) -> None:
    async with connect(served.address, deadline_seconds=0.2) as channel:
        stub = gc_pb2_grpc.GcServiceStub(channel)
        started = time.monotonic()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Plan(gc_pb2.PlanRequest(), metadata=(("x-test", "sleep:30"),))
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert time.monotonic() - started < 10
        answer = await stub.Plan(gc_pb2.PlanRequest(), timeout=10, metadata=(("x-test", "sleep:0.4"),))
        assert answer.incomplete == ["ok"]


async def test_no_server_is_unavailable(served: RpcServer) -> None:
    address = served.address
    await served.stop()
    async with connect(address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await gc_pb2_grpc.GcServiceStub(channel).Plan(gc_pb2.PlanRequest(), timeout=5)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_call_is_the_call_object_of_grpc(served: RpcServer) -> None:
    async with connect(served.address) as channel:
        await channel.channel_ready()
        assert channel.get_state() is grpc.ChannelConnectivity.READY
        call = gc_pb2_grpc.GcServiceStub(channel).Plan(gc_pb2.PlanRequest())
        assert await call.code() is grpc.StatusCode.OK
        assert (await call).incomplete == ["ok"]
        stream = gc_pb2_grpc.GcServiceStub(channel).PlanStream()
        await stream.write(gc_pb2.PlanStreamRequest())
        assert await stream.read() == gc_pb2.PlanStreamResponse()
        await stream.done_writing()
        assert await stream.read() is grpc.aio.EOF


@pytest.mark.parametrize(("command", "code"), [("", "OK"), ("abort:x", "NOT_FOUND")])
async def test_calls_are_counted(served: RpcServer, command: str, code: str) -> None:
    def count() -> float:
        labels = {"method": PLAN, "code": code}
        return metrics.REGISTRY.get_sample_value("ome_rpc_client_duration_seconds_count", labels) or 0

    before = count()
    async with connect(served.address) as channel:
        call = gc_pb2_grpc.GcServiceStub(channel).Plan(gc_pb2.PlanRequest(), metadata=(("x-test", command),))
        assert (await call.code()).name == code
    assert count() == before + 1


async def test_a_refused_call_is_tried_on_another_replica(sample: ModuleType) -> None:
    def refused() -> float:
        labels = {"method": PLAN, "code": "UNAVAILABLE"}
        return metrics.REGISTRY.get_sample_value("ome_rpc_server_duration_seconds_count", labels) or 0

    servers = [RpcServer(ServiceSettings(), sample.register) for _ in range(2)]
    for server in servers:
        await server.start()
    servers[0].calls.refuse()  # its health still says SERVING, so it keeps its turn
    before = refused()
    async with connect(",".join(server.address for server in servers)) as channel:
        await channel.channel_ready()
        stub = gc_pb2_grpc.GcServiceStub(channel)
        async with asyncio.timeout(10):
            while refused() == before:  # until both replicas have connected
                assert (await stub.Plan(gc_pb2.PlanRequest())).incomplete == ["ok"]
        for _ in range(20):
            assert (await stub.Plan(gc_pb2.PlanRequest())).incomplete == ["ok"]
    assert refused() > before + 5
    for server in servers:
        await server.stop()
