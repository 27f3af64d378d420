"""Traces: the OpenTelemetry SDK, W3C context over gRPC metadata.

Without an endpoint the SDK is still there and records nothing: trace ids exist for logs, events and answers, and are
passed on, at next to no cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

import grpc
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

MAX_EXPORT_SECONDS = 5
_PROPAGATOR = TraceContextTextMapPropagator()
_HEADERS = frozenset({"traceparent", "tracestate"})
_CLIENT_FAULTS = frozenset(grpc.StatusCode) - {grpc.StatusCode.OK}
# By OpenTelemetry's conventions a caller's mistake is no error of the server.
_SERVER_FAULTS = frozenset(
    {
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    }
)
Metadata = Iterable[tuple[str, str | bytes]]


class TraceSettings(Protocol):
    """The part of ServiceSettings that `setup` reads."""

    @property
    def otlp_endpoint(self) -> str: ...
    @property
    def trace_ratio(self) -> float: ...


class _State:
    """The process's provider. The API's global can be set only once, which tests and embedded servers cannot bear."""

    provider: TracerProvider | None = None
    tracer: trace.Tracer | None = None


def setup(name: str, settings: TraceSettings, exporter: SpanExporter | None = None) -> Callable[[], None]:
    """Starts tracing for the process `name`; returns what flushes and stops it (at most MAX_EXPORT_SECONDS).

    Spans go to `settings.otlp_endpoint`, or to `exporter` where given; with neither, none is recorded.
    """
    exporting = exporter or (_otlp(settings.otlp_endpoint) if settings.otlp_endpoint else None)
    sampler = ParentBased(TraceIdRatioBased(settings.trace_ratio)) if exporting else ALWAYS_OFF
    provider = TracerProvider(sampler=sampler, resource=Resource({"service.name": name}), shutdown_on_exit=False)
    if exporting is not None:
        provider.add_span_processor(BatchSpanProcessor(exporting, schedule_delay_millis=1000))
    _State.provider, _State.tracer = provider, provider.get_tracer("ome")
    return provider.shutdown


def _otlp(endpoint: str) -> SpanExporter:
    # Only processes that export pay for the exporter's memory.
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

    return OTLPSpanExporter(endpoint=endpoint, insecure=endpoint.startswith("http://"), timeout=MAX_EXPORT_SECONDS)


def tracer() -> trace.Tracer:
    """The process's tracer; before `setup` one that records nothing."""
    if _State.tracer is None:
        setup("ome", _Off())
    assert _State.tracer is not None
    return _State.tracer


class _Off:
    otlp_endpoint = ""
    trace_ratio = 0.0


def trace_id() -> str:
    """The current trace id in 32 hex digits; empty outside any span."""
    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else ""


def headers(span: Span | None = None) -> list[tuple[str, str]]:
    """The W3C metadata (`traceparent`, `tracestate`) that carries `span`, or the current one, to another process."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, None if span is None else trace.set_span_in_context(span))
    return list(carrier.items())


def extract(metadata: Metadata) -> otel_context.Context:
    """The context that came over the wire; an absent or malformed one starts a new trace."""
    carrier: dict[str, str] = {key: value for key, value in metadata if key in _HEADERS and isinstance(value, str)}
    fresh = otel_context.Context()
    return _PROPAGATOR.extract(carrier, fresh) if carrier else fresh


def start_server_span(method: str, metadata: Metadata) -> Span:
    """Starts the span `rpc.server` of a call and makes it current in this task; end it with `finish`."""
    span = tracer().start_span("rpc.server", extract(metadata), SpanKind.SERVER, _attributes(method))
    # Each call runs in a task of its own, so nothing has to be detached.
    otel_context.attach(trace.set_span_in_context(span))
    return span


def start_client_span(method: str) -> Span:
    """Starts the span `rpc.client` as a child of the current one, without making it current; end with `finish`."""
    return tracer().start_span("rpc.client", None, SpanKind.CLIENT, _attributes(method))


def finish(span: Span, code: grpc.StatusCode) -> None:
    """Ends an RPC's span with its status code."""
    if span.is_recording():
        span.set_attribute("rpc.grpc.status_code", code.value[0])
        if code in (_SERVER_FAULTS if getattr(span, "kind", None) is SpanKind.SERVER else _CLIENT_FAULTS):
            span.set_status(Status(StatusCode.ERROR, code.name))
    span.end()


_ATTRIBUTES: dict[str, Mapping[str, str]] = {}


def _attributes(method: str) -> Mapping[str, str]:
    known = _ATTRIBUTES.get(method)
    if known is None:
        service, _, name = method.lstrip("/").rpartition("/")
        known = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": name}
        if len(_ATTRIBUTES) < 1000:  # only methods that exist come here; the bound is for a caller's own mistakes
            _ATTRIBUTES[method] = known
    return known
