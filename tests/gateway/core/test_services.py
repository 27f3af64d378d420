"""A service over a real channel: what each status means for the object, and what is logged when it comes and goes."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio
import pytest

from gateway.clock import SystemClock
from gateway.pipeline import Pipeline
from gateway.services import CallError, Failing, Service
from gateway.settings import GatewaySettings
from gateway.stages import open_channels, stages
from ome.canary.v1 import canary_pb2, canary_pb2_grpc
from ome.common.v1 import common_pb2 as pb
from ome.pinning.v1 import pinning_pb2, pinning_pb2_grpc
from ome.traffic.v1 import traffic_pb2, traffic_pb2_grpc
from services.kit import errors, unimplemented
from services.kit.channel import connect
from services.kit.server import RpcServer
from services.kit.settings import ServiceSettings
from tests.gateway.core.world import World, isvc

CANARY = canary_pb2.DESCRIPTOR.services_by_name["CanaryService"]
TRAFFIC = traffic_pb2.DESCRIPTOR.services_by_name["TrafficService"]
Serve = Callable[[Any], Any]


class Pinning(pinning_pb2_grpc.PinningServiceServicer):
    def __init__(self) -> None:
        self.answer: Callable[[Any], Any] = lambda request: pinning_pb2.ReconcileResponse()
        self.requests: list[Any] = []

    async def Reconcile(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        return self.answer(request)


@pytest.fixture
async def pinning() -> AsyncIterator[tuple[Pinning, str]]:
    servicer = Pinning()  # type: ignore[abstract]

    def register(server: grpc.aio.Server) -> list[str]:
        pinning_pb2_grpc.add_PinningServiceServicer_to_server(servicer, server)
        add: Any
        for add, base, service in (
            (canary_pb2_grpc.add_CanaryServiceServicer_to_server, canary_pb2_grpc.CanaryServiceServicer, CANARY),
            (traffic_pb2_grpc.add_TrafficServiceServicer_to_server, traffic_pb2_grpc.TrafficServiceServicer, TRAFFIC),
        ):
            add(unimplemented.servicer(base, service), server)
        return []

    server = RpcServer(ServiceSettings.model_validate({}), register)
    await server.start()
    yield servicer, server.address
    await server.stop()


def fail(error: errors.RpcError) -> Serve:
    def raising(request: Any) -> Any:
        raise error

    return raising


@pytest.mark.parametrize(
    ("error", "failing", "retry_after"),
    [
        (errors.invalid_argument("MALFORMED_JSON", [errors.Violation("isvc", "odd")]), Failing.TERMINAL, 0.0),
        (errors.failed_precondition("X", "s", "d"), Failing.TERMINAL, 0.0),
        (errors.not_found("X", "t", "n"), Failing.TERMINAL, 0.0),
        (errors.aborted("X", "d"), Failing.TRANSIENT, 0.0),
        (errors.internal("t"), Failing.TRANSIENT, 0.0),
        (errors.unauthenticated("d"), Failing.TRANSIENT, 0.0),
        (errors.unimplemented("d"), Failing.UNIMPLEMENTED, 0.0),
    ],
)
async def test_what_a_status_means(
    pinning: tuple[Pinning, str], error: errors.RpcError, failing: Failing, retry_after: float
) -> None:
    servicer, address = pinning
    servicer.answer = fail(error)
    async with connect(address) as channel:
        service = Service("pinning", address, pinning_pb2_grpc.PinningServiceStub(channel).Reconcile, 5.0)
        with pytest.raises(CallError) as raised:
            await service.ask(pinning_pb2.ReconcileRequest())
    assert (raised.value.failing, raised.value.retry_after) == (failing, retry_after)
    assert error.message in str(raised.value)


async def test_a_request_too_large_is_told_and_not_repeated(pinning: tuple[Pinning, str]) -> None:
    _, address = pinning
    async with connect(address) as channel:
        service = Service("pinning", address, pinning_pb2_grpc.PinningServiceStub(channel).Reconcile, 5.0)
        huge = pb.Observation(isvc=pb.Manifest(json=b"x" * (5 * 1024 * 1024)))
        with pytest.raises(CallError) as raised:
            await service.ask(pinning_pb2.ReconcileRequest(observation=huge))
    assert (raised.value.code, raised.value.failing) == ("RESOURCE_EXHAUSTED", Failing.TERMINAL)


async def test_away_and_back_are_told_once_each(pinning: tuple[Pinning, str], lines: io.StringIO) -> None:
    servicer, address = pinning
    back: list[int] = []
    async with connect(address) as channel:
        stub = pinning_pb2_grpc.PinningServiceStub(channel)
        service = Service("pinning", address, stub.Reconcile, 5.0, lambda: back.append(1))
        servicer.answer = fail(errors.unavailable(7.0))
        for _ in range(2):
            with pytest.raises(CallError) as raised:
                await service.ask(pinning_pb2.ReconcileRequest())
            assert (raised.value.failing, raised.value.retry_after) == (Failing.TRANSIENT, 7.0)
            assert raised.value.shared
        servicer.answer = lambda request: pinning_pb2.ReconcileResponse()
        for _ in range(2):
            await service.ask(pinning_pb2.ReconcileRequest())
    told = [json.loads(line)["event"] for line in lines.getvalue().splitlines() if "gateway.services" in line]
    assert [text.split(";")[0] for text in told] == ["service is away", "service is back"]
    assert back == [1]


async def test_a_call_that_is_too_late_is_that_objects_trouble_alone(pinning: tuple[Pinning, str]) -> None:
    servicer, address = pinning
    servicer.answer = fail(errors.deadline_exceeded("too late"))
    async with connect(address) as channel:
        service = Service("pinning", address, pinning_pb2_grpc.PinningServiceStub(channel).Reconcile, 5.0)
        with pytest.raises(CallError) as raised:
            await service.ask(pinning_pb2.ReconcileRequest())
    assert (raised.value.failing, raised.value.shared) == (Failing.TRANSIENT, False)


async def test_a_pass_over_real_channels(pinning: tuple[Pinning, str]) -> None:
    servicer, address = pinning
    settings = GatewaySettings.model_validate({"pinning": address, "canary": address, "traffic": address})
    status = pb.StatusPatch(merge_patch=b'{"pinned":"x"}')
    servicer.answer = lambda request: pinning_pb2.ReconcileResponse(outcome=pb.Outcome(status=status))
    channels = open_channels(settings)
    world = World()
    world.parts.pipeline = Pipeline(stages(channels, settings, lambda: None), SystemClock())
    world.store.put(isvc())
    verdict = await world.once()
    await channels.close()
    assert (verdict.writes, verdict.cause) == (1, "")
    stored = world.store.objects[("ome.io/v1beta1", "InferenceService", "team", "a")]
    assert stored["status"] == {"pinned": "x", "observedGeneration": 1}
    assert servicer.requests[0].observation.isvc.ref.name == "a"
