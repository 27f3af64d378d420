"""A service as a process: its start, its faults, its drain, its memory."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ome.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from ome.gc.v1 import gc_pb2, gc_pb2_grpc
from services.kit import errors
from services.kit.channel import connect

RSS_BYTES = 90 * 1000 * 1000
Start = Callable[..., Any]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def plain(address: str) -> grpc.aio.Channel:
    """A channel that never tries again, of its own connection."""
    return grpc.aio.insecure_channel(address, [("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)])


async def test_one_line_on_stdout_and_a_clean_end(start: Start) -> None:
    process = start()
    assert re.fullmatch(r"ome-sample serving on 127\.0\.0\.1:[1-9]\d*\n", process.first_line)
    process.signal(signal.SIGTERM)
    assert process.wait() == 0
    assert process.rest_of_stdout() == ""
    lines = [json.loads(line) for line in process.stderr().splitlines()]
    assert [line["event"] for line in lines] == ["draining"]


def test_sigint_ends_like_sigterm(start: Start) -> None:
    process = start()
    process.signal(signal.SIGINT)
    assert process.wait() == 0


def test_every_bad_setting_is_named_at_once(run_to_end: Run) -> None:
    ended = run_to_end("--lisen", "127.0.0.1:0", "--drain-seconds=soon", "--tls-key", "k", "-v", OME_TRACE_RATIO="2")
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.splitlines() == [
        "ome-sample: unknown flag --lisen; did you mean --listen?",
        'ome-sample: unexpected argument "-v"; settings are given as --name value',
        'ome-sample: invalid value "2" for OME_TRACE_RATIO: should be less than or equal to 1',
        'ome-sample: invalid value "soon" for --drain-seconds: should be a valid number, unable to parse string as a '
        "number",
        "ome-sample: --tls-cert is required with --tls-key",
        "ome-sample: --tls-client-ca is required with --tls-key",
    ]


@pytest.mark.parametrize("flag", ["--listen", "--metrics-listen"])
def test_port_in_use(run_to_end: Run, flag: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = run_to_end(flag, address)
    assert ended.returncode == 1
    assert ended.stdout == ""
    what = "listen" if flag == "--listen" else "serve metrics"
    assert ended.stderr == (
        f"ome-sample: cannot {what} on {address}: the port is in use; stop the other process or choose another port\n"
    )


def test_port_of_another_service(start: Start, run_to_end: Run) -> None:
    address = start().address
    ended = run_to_end("--listen", address)
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1 and address in ended.stderr


@pytest.mark.parametrize("listen", ["203.0.113.9:7101", "no-such-host.invalid:7101"])
def test_address_that_is_not_here(run_to_end: Run, listen: str) -> None:
    ended = run_to_end("--listen", listen)
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1
    assert ended.stderr.startswith(f"ome-sample: cannot listen on {listen}: ")


def test_tls_files_that_are_missing(run_to_end: Run, tmp_path: Path) -> None:
    missing = str(tmp_path / "none.pem")
    ended = run_to_end("--tls-cert", missing, "--tls-key", missing, "--tls-client-ca", missing)
    assert ended.returncode == 2
    assert ended.stderr == (
        f"ome-sample: --tls-cert, --tls-key, --tls-client-ca: {missing}: No such file or directory\n"
    )


def test_help(run_to_end: Run) -> None:
    ended = run_to_end("--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "--drain-seconds  (OME_DRAIN_SECONDS, default: 10)" in ended.stdout


async def test_drain_lets_calls_finish_and_refuses_new_ones(start: Start) -> None:
    process = start()
    async with plain(process.address) as channel:
        stub, health = gc_pb2_grpc.GcServiceStub(channel), health_pb2_grpc.HealthStub(channel)
        in_flight = stub.Plan(gc_pb2.PlanRequest(), timeout=30, metadata=(("x-test", "sleep:3"),))
        watch = health.Watch(health_pb2.HealthCheckRequest(service="ome.gc.v1.GcService"))
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        await asyncio.sleep(0.2)
        process.signal(signal.SIGTERM)
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", "ome.gc.v1.GcService", "ome.gateway.v1.GatewayService"):
            checked = await health.Check(health_pb2.HealthCheckRequest(service=name), timeout=5)
            assert checked.status == health_pb2.HealthCheckResponse.NOT_SERVING
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.Plan(gc_pb2.PlanRequest(), timeout=5)
        failure = errors.read(refused.value)
        assert (failure.code, failure.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
        assert failure.retry_after is not None and 0 < failure.retry_after <= 10
        assert list((await in_flight).incomplete) == ["ok"]
    assert process.wait(10) == 0


async def test_drain_ends_after_its_seconds(start: Start) -> None:
    process = start("--drain-seconds", "0.5")
    async with plain(process.address) as channel:
        stub = gc_pb2_grpc.GcServiceStub(channel)
        call = stub.Plan(gc_pb2.PlanRequest(), timeout=60, metadata=(("x-test", "sleep:50"),))
        stream = stub.PlanStream(iter([gc_pb2.PlanStreamRequest()]), timeout=60, metadata=(("x-test", "sleep:50"),))
        assert await stream.read() == gc_pb2.PlanStreamResponse()
        await asyncio.sleep(0.2)
        process.signal(signal.SIGTERM)
        for pending in (call, stream.read()):
            with pytest.raises(grpc.aio.AioRpcError) as ended:
                await pending
            assert errors.read(ended.value).reason == "DRAINING"
            assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
    assert process.wait(5) == 0


async def test_drain_ends_watches_at_once(start: Start) -> None:
    process = start("--drain-seconds", "60")
    async with plain(process.address) as channel:
        watch = gateway_pb2_grpc.GatewayServiceStub(channel).WatchInferenceServices(
            gateway_pb2.WatchInferenceServicesRequest(), timeout=600
        )
        assert (await watch.read()).resume_token == "1"
        process.signal(signal.SIGTERM)
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await watch.read()
        assert errors.read(ended.value).reason == "DRAINING"
    assert process.wait(10) == 0


async def test_a_second_signal_ends_the_drain(start: Start) -> None:
    process = start("--drain-seconds", "600")
    async with plain(process.address) as channel:
        call = gc_pb2_grpc.GcServiceStub(channel).Plan(
            gc_pb2.PlanRequest(), timeout=60, metadata=(("x-test", "sleep:50"),)
        )
        await asyncio.sleep(0.3)
        process.signal(signal.SIGTERM)
        await asyncio.sleep(0.3)
        assert process.popen.poll() is None
        process.signal(signal.SIGTERM)
        assert process.wait(10) == 1
        with pytest.raises(grpc.aio.AioRpcError):
            await call


async def test_a_client_that_retries_sees_no_failed_call(start: Start) -> None:
    """Two replicas; one is ended and started again under load, then the other."""
    replicas = [start(), start()]
    addresses = [replica.address for replica in replicas]
    calls, stop = 0, asyncio.Event()
    async with connect(",".join(addresses)) as channel:
        stub = gc_pb2_grpc.GcServiceStub(channel)

        async def load() -> None:
            nonlocal calls
            while not stop.is_set():
                await stub.Plan(gc_pb2.PlanRequest(), timeout=20, metadata=(("x-test", "sleep:0.01"),))
                calls += 1

        workers = [asyncio.ensure_future(load()) for _ in range(8)]
        for index, replica in enumerate(replicas):
            await asyncio.sleep(0.5)
            replica.signal(signal.SIGTERM)
            assert await asyncio.to_thread(replica.wait) == 0
            replicas[index] = await asyncio.to_thread(lambda at=addresses[index]: start(listen=at))
            async with plain(addresses[index]) as direct:
                await direct.channel_ready()
            await asyncio.sleep(1.5)  # the client's own reconnect, before the other replica goes
        stop.set()
        await asyncio.gather(*workers)
    assert calls > 50


async def test_bad_traffic_leaves_the_process_alive_and_small(start: Start) -> None:
    process = start()
    host, _, port = process.address.partition(":")
    for junk in (
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x00\xa5" + b"\x00" * 200,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 5000,
    ):
        with socket.create_connection((host, int(port)), timeout=5) as client:
            client.sendall(junk)
    async with plain(process.address) as channel:
        raw = channel.unary_unary("/ome.gc.v1.GcService/Plan")
        for data, timeout, code in (
            (b"\xff" * 100, 5, grpc.StatusCode.INVALID_ARGUMENT),
            (b"\x00" * 5 * 1024 * 1024, 5, grpc.StatusCode.RESOURCE_EXHAUSTED),
            (b"", None, grpc.StatusCode.INVALID_ARGUMENT),
        ):
            for _ in range(5):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await raw(data, timeout=timeout)
                assert caught.value.code() is code
        await gc_pb2_grpc.GcServiceStub(channel).Plan(gc_pb2.PlanRequest(), timeout=5)
    assert process.rss_bytes() <= RSS_BYTES
    process.signal()
    assert process.wait() == 0
    for line in process.stderr().splitlines():
        json.loads(line)  # nothing but log lines: no traceback, no line of the gRPC core


async def test_metrics_over_http(start: Start) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        metrics = f"127.0.0.1:{probe.getsockname()[1]}"
    process = start("--metrics-listen", metrics)
    async with plain(process.address) as channel:
        await gc_pb2_grpc.GcServiceStub(channel).Plan(gc_pb2.PlanRequest(), timeout=5)

    def scrape() -> str:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://{metrics}/metrics") as answer:
            text: str = answer.read().decode()
            return text

    text = await asyncio.to_thread(scrape)
    assert 'ome_rpc_server_duration_seconds_count{code="OK",method="ome.gc.v1.GcService/Plan"} 1.0' in text
    assert "process_resident_memory_bytes" in text
    process.signal()
    assert process.wait() == 0


async def test_a_collector_that_is_away_disturbs_nothing(start: Start) -> None:
    process = start("--otlp-endpoint", "http://127.0.0.1:1")
    async with plain(process.address) as channel:
        for _ in range(20):
            await gc_pb2_grpc.GcServiceStub(channel).Plan(gc_pb2.PlanRequest(), timeout=5)
    assert process.rss_bytes() <= RSS_BYTES
    process.signal()
    assert process.wait(12) == 0
