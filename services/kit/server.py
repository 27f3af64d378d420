"""The gRPC server of every process: limits, deadlines, error details, tracing, health, reflection, drain."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from opentelemetry.trace import SpanKind, StatusCode

from services.kit import errors, logs, metrics, tls, tracing
from services.kit.settings import ServiceSettings

log = logs.logger("services.kit.server")
OPEN_SERVICES = ("/grpc.health.", "/grpc.reflection.")
Register = Callable[[grpc.aio.Server], "list[str] | tuple[str, ...]"]


class _Malformed:
    """Stands for a request whose bytes are no message of the method's type."""


def _tolerant(deserializer: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def decode(data: bytes) -> Any:
        try:
            return deserializer(data)
        except DecodeError:
            return _Malformed()

    return decode


class Guard(grpc.aio.ServerInterceptor):
    """Wraps every method: draining, deadline, malformed bytes, errors, span, metrics."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.draining = False
        self._longest = settings.max_deadline_seconds
        self._wrapped: dict[str, Any] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """The handler of the call, wrapped once per method; health and reflection stay as they are."""
        method = handler_call_details.method
        if method.startswith(OPEN_SERVICES):
            return await continuation(handler_call_details)
        wrapped = self._wrapped.get(method)
        if wrapped is None:
            handler = await continuation(handler_call_details)
            if handler is None:
                return None
            wrapped = self._wrapped[method] = self._wrap(method, handler)
        return wrapped

    def _wrap(self, method: str, handler: Any) -> Any:
        decode = _tolerant(handler.request_deserializer)
        if handler.unary_unary:
            return grpc.unary_unary_rpc_method_handler(
                self._unary(method, handler.unary_unary), decode, handler.response_serializer
            )
        if handler.unary_stream:
            return grpc.unary_stream_rpc_method_handler(
                self._stream(method, handler.unary_stream), decode, handler.response_serializer
            )
        if handler.stream_stream:
            return grpc.stream_stream_rpc_method_handler(
                self._stream(method, handler.stream_stream), decode, handler.response_serializer
            )
        return handler

    def _unary(self, method: str, behaviour: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Any]:
        async def call(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            async with _Call(method, context) as scope:
                self._admit(request, context)
                return await scope.bounded(behaviour(request, context), self._longest)

        return call

    def _stream(self, method: str, behaviour: Callable[[Any, Any], AsyncIterator[Any]]) -> Callable[[Any, Any], Any]:
        async def call(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
            async with _Call(method, context):
                self._admit(request, context)
                async for answer in behaviour(request, context):
                    yield answer

        return call

    def _admit(self, request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        if self.draining:
            raise errors.unavailable("DRAINING", "this replica is shutting down; send the call again", 0.1)
        if context.time_remaining() is None:
            raise errors.invalid_argument(
                "MISSING_DEADLINE",
                [errors.Violation("", f"the call has no deadline; set one of at most {self._longest:g} s")],
            )
        if isinstance(request, _Malformed):
            raise errors.invalid_argument(
                "MALFORMED_MESSAGE", [errors.Violation("", "the request is not a message of this method's type")]
            )


class _Call:
    """One call from admission to answer: its span, its metric, its error translated into a rich status."""

    def __init__(self, method: str, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        self._service, self._method = method.lstrip("/").split("/", 1)
        self._context = context
        self._start = time.perf_counter()
        self._span = tracing.tracer().start_as_current_span(
            "rpc.server",
            context=tracing.parent_of(cast(Any, context.invocation_metadata())),
            kind=SpanKind.SERVER,
            record_exception=False,
            set_status_on_exception=False,
            attributes={"rpc.system": "grpc", "rpc.service": self._service, "rpc.method": self._method},
        )

    async def __aenter__(self) -> _Call:
        self._current = self._span.__enter__()
        return self

    async def bounded(self, work: Awaitable[Any], longest: float) -> Any:
        """The work within the smaller of the caller's deadline and `longest` seconds."""
        left = self._context.time_remaining()
        if left is not None and left <= longest:
            return await work
        return await asyncio.wait_for(work, longest)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> bool:
        status = self._translate(error)
        code = status.code if status else grpc.StatusCode.OK
        if isinstance(error, asyncio.CancelledError):
            code = grpc.StatusCode.CANCELLED
        self._current.set_attribute("rpc.grpc.status_code", code.value[0])
        if status:
            self._current.set_status(StatusCode.ERROR, status.message)
        self._span.__exit__(None, None, None)
        metrics.SERVED.labels(self._service, self._method, code.name).observe(time.perf_counter() - self._start)
        if status is None:
            return False
        await self._context.abort(
            status.code, status.message, ((errors.DETAILS_KEY, status.status().SerializeToString()),)
        )
        return True

    def _translate(self, error: BaseException | None) -> errors.RpcError | None:
        if error is None or isinstance(error, errors.RpcError):
            return error
        if not isinstance(error, Exception) or isinstance(error, grpc.aio.AbortError):
            return None
        if isinstance(error, TimeoutError):
            return errors.RpcError(grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED", "the call took too long")
        metrics.FAULTS.labels(self._service, self._method).inc()
        log.error("unexpected error in a call", rpc=f"{self._service}/{self._method}", exc_info=error)
        text = "internal error; the log of the service has the cause under the trace id " + tracing.current_trace_id()
        return errors.RpcError(grpc.StatusCode.INTERNAL, "INTERNAL", text.rstrip())


class Server:
    """A gRPC server with health and reflection; `start` binds, `drain` ends it without failing a retrying client."""

    def __init__(self, settings: ServiceSettings, register: Register) -> None:
        self._settings = settings
        self._guard = Guard(settings)
        self._server = grpc.aio.server(
            interceptors=[self._guard],
            options=[
                ("grpc.max_receive_message_length", settings.max_message_bytes),
                ("grpc.max_send_message_length", settings.max_message_bytes),
                ("grpc.so_reuseport", 0),
                ("grpc.keepalive_time_ms", 60_000),
                ("grpc.keepalive_timeout_ms", 20_000),
                ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
                ("grpc.keepalive_permit_without_calls", 1),
            ],
        )
        self._names = [*register(self._server)]
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        shown = (*self._names, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(shown, self._server)

    async def start(self) -> int:
        """Bind and serve; the port that is served. Raises RuntimeError or OSError when it cannot."""
        files = tls.files_of(self._settings.tls_cert, self._settings.tls_key, self._settings.tls_client_ca)
        if files is None:
            port = self._server.add_insecure_port(self._settings.listen)
        else:
            port = self._server.add_secure_port(self._settings.listen, tls.server_credentials(files))
        if not port:
            raise OSError(f"cannot listen on {self._settings.listen}")
        await self._server.start()
        for name in ("", *self._names):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        return port

    async def drain(self) -> None:
        """Tell health checks, refuse new calls, let those in flight finish within `drain_seconds`."""
        await self._health.enter_graceful_shutdown()
        self._guard.draining = True
        # Calls that clients sent before they saw the health change still meet a clear, retryable answer.
        await asyncio.sleep(min(0.2, self._settings.drain_seconds))
        await self._server.stop(self._settings.drain_seconds)
