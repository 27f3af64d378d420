"""The gRPC server of a process: health, reflection, limits, keepalive, TLS and the drain."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

import grpc
import grpc.aio
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from services.kit import logs, tls
from services.kit.addresses import join_host_port, split_host_port
from services.kit.calls import Calls
from services.kit.settings import ServiceSettings, flag

Register = Callable[[grpc.aio.Server], Sequence[str]]
"""Adds servicers to the server and returns their full service names (`ome.pinning.v1.PinningService`)."""

STOP_SECONDS = 1.0
LAME_DUCK_SECONDS = 2.0
_log = logs.get(__name__)


class StartError(Exception):
    """The process cannot start; the message is one line for the user, `status` the process's exit status."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


class RpcServer:
    """A server that is built, started and drained in one event loop."""

    def __init__(self, settings: ServiceSettings, register: Register, long_lived: Collection[str] = ()) -> None:
        """Builds the server and takes the port; nothing is served before `start`. Needs the running loop.

        `long_lived` are full method names (`/package.Service/Method`) of streams that a drain ends at once. Raises
        StartError when the address cannot be taken (status 1) or the TLS files are unusable (status 2).
        """
        self.calls = Calls(settings.max_deadline_seconds, long_lived)
        self.health = health.aio.HealthServicer()
        self._server = grpc.aio.server(interceptors=[self.calls], options=_options(settings))
        self.services: tuple[str, ...] = tuple(register(self._server))
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self._server)
        names = [*self.services, health.SERVICE_NAME, reflection.SERVICE_NAME]
        reflection.enable_server_reflection(names, self._server, cast("DescriptorPool", _Symbols()))
        self.address = self._bind(settings)

    def _bind(self, settings: ServiceSettings) -> str:
        host, port = split_host_port(settings.listen)
        _probe(host, port, settings.listen)
        try:
            if settings.tls_cert:
                credentials = tls.server_credentials(settings.tls_cert, settings.tls_key, settings.tls_client_ca)
                taken = self._server.add_secure_port(settings.listen, credentials)
            else:
                taken = self._server.add_insecure_port(settings.listen)
        except tls.TlsError as error:
            raise StartError(f"{flag('tls_cert')}, {flag('tls_key')}, {flag('tls_client_ca')}: {error}", 2) from None
        except RuntimeError as error:
            raise StartError(f"cannot listen on {settings.listen}: {error}") from None
        return join_host_port(host, taken)

    async def start(self) -> None:
        """Serves; health says SERVING for every service and for "" from here on."""
        await self._server.start()
        await self.set_serving(True)

    async def set_serving(self, serving: bool) -> None:
        """Sets the health of every service and of "" (the process)."""
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", *self.services):
            await self.health.set(name, status)

    async def drain(self, seconds: float) -> None:
        """Stops within `seconds` and without a call lost to a client that retries.

        Health turns NOT_SERVING, new calls get UNAVAILABLE with RetryInfo, those in flight may finish; what is left
        of them in the end gets UNAVAILABLE too.
        """
        end = time.monotonic() + seconds
        await self.health.enter_graceful_shutdown()
        self.calls.refuse()
        if not await self.calls.idle(seconds):
            _log.warning("calls abandoned on shutdown", calls=self.calls.abandon())
        await self.calls.quiet(min(LAME_DUCK_SECONDS, end - time.monotonic()))
        self.calls.close()
        await self._server.stop(STOP_SECONDS)

    async def stop(self) -> None:
        """Stops at once; calls in flight are cancelled."""
        await self._server.stop(None)


class _Symbols:
    """The default descriptor pool, which finds a method's file too: the protocol allows asking for one, the pool of
    protobuf's C implementation knows only messages, services and their like."""

    def __init__(self) -> None:
        self._pool = descriptor_pool.Default()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def FindFileContainingSymbol(self, symbol: str) -> Any:  # the pool's own name
        try:
            return self._pool.FindFileContainingSymbol(symbol)
        except KeyError:
            service, _, method = symbol.rpartition(".")
            descriptor = self._pool.FindServiceByName(service)
            if method not in descriptor.methods_by_name:
                raise
            return descriptor.file


def _options(settings: ServiceSettings) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        ("grpc.max_send_message_length", settings.max_message_bytes),
        # Two processes on one port would share its calls at random.
        ("grpc.so_reuseport", 0),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ("grpc.http2.max_ping_strikes", 3),
        # Clients look the name up again when a connection ends, and so find new replicas.
        ("grpc.max_connection_age_ms", 300_000),
    ]


def _probe(host: str, port: int, listen: str) -> None:
    """Binds the address for a moment: the system's reason is better than gRPC's, which also logs by itself."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except OSError as error:
        raise StartError(f"cannot listen on {listen}: {listen_fault(error)}") from None


def listen_fault(error: OSError) -> str:
    """Why an address cannot be taken, and what helps."""
    if error.errno == errno.EADDRINUSE:
        return "the port is in use; stop the other process or choose another port"
    if isinstance(error, socket.gaierror):
        return f"the host is unknown ({error.strerror})"
    return os.strerror(error.errno).lower() if error.errno else str(error)
