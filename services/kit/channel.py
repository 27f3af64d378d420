"""Channels to the services: round robin over replicas, keepalive, limits, a slim tracing interceptor."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import grpc
from opentelemetry.trace import SpanKind, StatusCode

from services.kit import metrics, tls, tracing

MAX_MESSAGE_BYTES = 16 * 1024 * 1024


class TracingClient(grpc.aio.UnaryUnaryClientInterceptor):
    """One span `rpc.client` a call, its context sent as `traceparent`; the duration is a metric."""

    async def intercept_unary_unary(
        self,
        continuation: Callable[[grpc.aio.ClientCallDetails, Any], Awaitable[Any]],
        client_call_details: grpc.aio.ClientCallDetails,
        request: Any,
    ) -> Any:
        """Wrap one call; its status is awaited so that span and metric carry the code."""
        name = client_call_details.method
        path = (name.decode() if isinstance(name, bytes) else str(name)).lstrip("/")
        service, _, method = path.partition("/")
        start = time.perf_counter()
        with tracing.tracer().start_as_current_span(
            "rpc.client",
            kind=SpanKind.CLIENT,
            attributes={"rpc.system": "grpc", "rpc.service": service, "rpc.method": method},
        ) as span:
            call = await continuation(_with_parent(client_call_details), request)
            code = await call.code()
            span.set_attribute("rpc.grpc.status_code", code.value[0])
            if code is not grpc.StatusCode.OK:
                span.set_status(StatusCode.ERROR, await call.details() or "")
        metrics.CALLED.labels(service, method, code.name).observe(time.perf_counter() - start)
        return call


def _with_parent(details: grpc.aio.ClientCallDetails) -> grpc.aio.ClientCallDetails:
    parent = tracing.traceparent()
    if not parent:
        return details
    metadata = grpc.aio.Metadata(*(details.metadata or ()))
    metadata.add(tracing.TRACEPARENT, parent)
    return grpc.aio.ClientCallDetails(
        details.method, details.timeout, metadata, details.credentials, details.wait_for_ready
    )


def target_of(address: str) -> str:
    """gRPC target of an address: `host:port` is looked up by DNS, several `ip:port` with commas stand as they are."""
    if "," in address:
        return "ipv4:" + address.removeprefix("ipv4:")
    return address


def connect(
    address: str, *, files: tls.TlsFiles | None = None, max_message_bytes: int = MAX_MESSAGE_BYTES
) -> grpc.aio.Channel:
    """A channel that spreads its calls over all replicas an address names. In: address, mTLS files, bytes limit."""
    options: list[tuple[str, Any]] = [
        ("grpc.lb_policy_name", "round_robin"),
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 2_000),
        ("grpc.dns_min_time_between_resolutions_ms", 1_000),
    ]
    interceptors = [TracingClient()]
    target = target_of(address)
    if files is None:
        return grpc.aio.insecure_channel(target, options=options, interceptors=cast(Any, interceptors))
    credentials = tls.channel_credentials(files)
    return grpc.aio.secure_channel(target, credentials, options=options, interceptors=cast(Any, interceptors))
