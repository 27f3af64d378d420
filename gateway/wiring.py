"""All parts of a gateway process put together, and their life from start to SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import grpc.aio

from gateway.clock import SystemClock
from gateway.cluster import KubeCluster
from gateway.controller import Controller, wait_for_caches
from gateway.election import Election, LeaseTimes
from gateway.kube.cache import Cache
from gateway.kube.client import KubeClient, connect
from gateway.kube.errors import ConfigError
from gateway.kube.kinds import CLUSTER_SERVING_RUNTIME, CONTROLLER_REVISION, ISVC, SERVING_RUNTIME
from gateway.kube.reflector import Reflector
from gateway.kube.report import Reporter
from gateway.kube.writer import Writer
from gateway.metrics import Metrics
from gateway.pipeline import Pipeline
from gateway.queue import Backoff, WorkQueue
from gateway.reconcile import Parts, Reconciler
from gateway.settings import PROG, GatewaySettings
from gateway.snapshot import Supplier
from gateway.stages import Channels, open_channels, stages
from gateway.worker import Workers
from ome.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from services.kit import logs, unimplemented
from services.kit.process import stop_signals
from services.kit.server import RpcServer, StartError

WATCHED = (ISVC, SERVING_RUNTIME, CLUSTER_SERVING_RUNTIME, CONTROLLER_REVISION)
"""The kinds that are listed and watched, and so can be supplied."""
RELEASE_SECONDS = 2.0
_log = logs.get(__name__)


class Gateway:
    """The cluster side of the process: reflectors, election and passes. Built in the running loop."""

    def __init__(self, settings: GatewaySettings, client: KubeClient, channels: Channels) -> None:
        clock, metrics, reporter = SystemClock(), Metrics(), Reporter()
        self._settings = settings
        self.caches = {kind: Cache(kind) for kind in WATCHED}
        self._reflectors = [Reflector(client, kind, cache, reporter=reporter) for kind, cache in self.caches.items()]
        self.election = Election(
            client,
            settings.identity or f"{socket.gethostname()}_{os.urandom(4).hex()}",
            settings.ome_namespace,
            times=LeaseTimes(
                settings.lease_duration_seconds, settings.lease_renew_deadline_seconds, settings.lease_retry_seconds
            ),
            reporter=reporter,
        )
        isvcs = self.caches[ISVC]
        queue = WorkQueue(clock, Backoff(settings.backoff_base_seconds, settings.backoff_max_seconds))
        parts = Parts(
            isvcs=isvcs,
            supplier=Supplier(self.caches.values(), settings.ome_namespace, settings.cluster_domain),
            pipeline=Pipeline(stages(channels, settings, queue.hurry), clock),
            cluster=KubeCluster(client, Writer(client, self.election.may_write)),
            clock=clock,
            metrics=metrics,
            reask_seconds=settings.reask_seconds,
        )
        reconciler = Reconciler(parts)
        workers = Workers(queue, reconciler, clock, metrics, settings.workers)
        self.controller = Controller(
            isvcs,
            self.caches.values(),
            parts.index,
            queue,
            reconciler,
            workers,
            clock,
            metrics,
            settings.resync_seconds,
        )
        self.election.on_started(self.controller.lead)
        self.election.on_stopped(self.controller.follow)

    async def run(self) -> None:
        """Until cancelled: keeps the caches current, and stands for election once they are."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())
            await wait_for_caches(list(self.caches.values()), self.caches[ISVC], self._settings.sync_seconds)
            group.create_task(self.election.run())

    async def stop(self) -> None:
        """Lets passes finish while the lease is held, then gives it up."""
        await self.controller.stop(self._settings.drain_seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RELEASE_SECONDS):
                await self.election.stop()


def register(server: grpc.aio.Server) -> Sequence[str]:
    """The gateway's own API, whose calls answer UNIMPLEMENTED in this version."""
    service = gateway_pb2.DESCRIPTOR.services_by_name["GatewayService"]
    base: type[Any] = gateway_pb2_grpc.GatewayServiceServicer
    servicer = unimplemented.servicer(base, service)
    gateway_pb2_grpc.add_GatewayServiceServicer_to_server(servicer, server)
    return [service.full_name]


async def serve(settings: GatewaySettings, env: Mapping[str, str]) -> int:
    """Runs the gateway until SIGTERM or SIGINT; the exit status. StartError when it cannot start."""
    with stop_signals() as (stop, hurry):
        try:
            client = await connect(settings.kubeconfig, env)
        except ConfigError as error:
            raise StartError(str(error)) from None
        channels = open_channels(settings)
        server = RpcServer(settings, register)
        try:
            gateway = Gateway(settings, client, channels)
            await server.start()
            sys.stdout.write(f"{PROG} serving on {server.address}\n")
            sys.stdout.flush()
            return await _until_stopped(gateway, server, settings, stop, hurry)
        finally:
            await server.stop()
            await channels.close()
            await client.close()


async def _until_stopped(
    gateway: Gateway, server: RpcServer, settings: GatewaySettings, stop: asyncio.Event, hurry: asyncio.Event
) -> int:
    work = asyncio.ensure_future(gateway.run())
    asked = asyncio.ensure_future(stop.wait())
    hurried = asyncio.ensure_future(hurry.wait())
    try:
        await asyncio.wait((work, asked), return_when=asyncio.FIRST_COMPLETED)
        if work.done() and not asked.done():
            work.result()
            raise RuntimeError("the gateway's work ended by itself")
        _log.info("draining", seconds=settings.drain_seconds)
        drain = asyncio.gather(gateway.stop(), server.drain(settings.drain_seconds))
        await asyncio.wait((asyncio.ensure_future(drain), hurried), return_when=asyncio.FIRST_COMPLETED)
        if not drain.done():
            drain.cancel()
            return 1
        drain.result()
        return 0
    finally:
        for task in (work, asked, hurried):
            task.cancel()
        await asyncio.gather(work, asked, hurried, return_exceptions=True)
