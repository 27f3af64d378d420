"""SIGTERM: every process drains within its grace, and a client that retries sees no failed call."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import grpc
import pytest

from ome.common.v1 import common_pb2
from ome.pinning.v1 import pinning_pb2, pinning_pb2_grpc
from sandbox.kube import eventually
from sandbox.processes import Process

from .world import Case, World

RETRY = (
    '{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.05s", "maxBackoff": "1s",'
    ' "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}], "loadBalancingConfig": [{"round_robin": {}}]}'
)


class Load:
    """Calls HashRuntime without pause from a few threads; remembers what went wrong."""

    def __init__(self, target: str) -> None:
        options = [("grpc.service_config", RETRY), ("grpc.enable_retries", 1)]
        self.channel = grpc.insecure_channel(target, options=options)
        self.calls = 0
        self.errors: list[str] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(3)]

    def _run(self) -> None:
        stub = pinning_pb2_grpc.PinningServiceStub(self.channel)
        request = pinning_pb2.HashRuntimeRequest(
            meta=common_pb2.RequestMeta(request_id="load"), spec=b'{"a":[1,2,3]}'
        )
        while not self._stop.is_set():
            try:
                stub.HashRuntime(request, timeout=10, wait_for_ready=True)
                self.calls += 1
            except grpc.RpcError as error:
                self.errors.append(str(error))

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(15)
        self.channel.close()

    def wait(self, more: int) -> None:
        goal = self.calls + more
        eventually(lambda: self.calls >= goal or self.errors, 15, f"{more} more calls")


@pytest.fixture
def replica(world: World) -> Iterator[Process]:
    process = world.suite.supervisor.add(Process("ome-pinning-2", "services.pinning", ["--listen", "127.0.0.1:0"]))
    process.start()
    process.wait_serving()
    yield process
    if process.running:
        process.terminate()


def test_a_replica_goes_and_comes_back_under_load(world: World, replica: Process) -> None:
    pinning = world.suite.pinning
    with Load(f"ipv4:{pinning.address},{replica.address}") as load:
        load.wait(50)
        for process in (pinning, replica):
            before = time.monotonic()
            assert process.terminate(10) == 0
            assert time.monotonic() - before < 10
            load.wait(50)
            process.restart()
            load.wait(50)
    assert load.errors == []


def test_the_only_replica_is_restarted_under_load(world: World) -> None:
    with Load(world.suite.pinning.address) as load:
        load.wait(50)
        assert world.suite.pinning.terminate(10) == 0
        world.suite.pinning.restart()
        load.wait(50)
    assert load.errors == []


def test_every_process_ends_in_order_with_status_0(world: World) -> None:
    gateway, proxy = world.gateway()
    case = Case.make(world.kube)
    case.create()
    case.wait_event("RuntimePinned")
    assert world.holder()
    busy = [Case.make(world.kube) for _ in range(5)]
    stop: Callable[[], int] = gateway.terminate
    for one in busy:
        one.create()
    assert stop() == 0
    assert world.holder() == "", "the lease is released at once"
    ended = len(proxy.writes)
    for process in world.suite.services.values():
        assert process.terminate() == 0, process.lines()[-5:]
    assert len(proxy.writes) == ended
    assert world.suite.cluster.terminate() == 0
