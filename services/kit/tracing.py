"""OpenTelemetry traces: set-up, and slim interceptors that carry W3C context over gRPC metadata (`design.md` 6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, Tracer

if TYPE_CHECKING:
    from opentelemetry.context import Context

TRACEPARENT = "traceparent"


def setup(name: str, endpoint: str, ratio: float = 1.0) -> Callable[[], None]:
    """Start tracing. In: service name, OTLP endpoint (empty: off, nothing is imported), share of traces.

    Out: a function that flushes and stops the export, to be called once at the end.
    """
    if not endpoint:
        return lambda: None
    # The exporter costs several MB: only a process that traces imports it.
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased  # noqa: PLC0415

    provider = TracerProvider(
        resource=Resource.create({"service.name": name}), sampler=ParentBased(TraceIdRatioBased(ratio))
    )
    exporter = OTLPSpanExporter(endpoint=endpoint, insecure=not endpoint.startswith("https://"), timeout=5)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=500))
    trace.set_tracer_provider(provider)
    return provider.shutdown


def tracer() -> Tracer:
    """The suite's tracer; without set-up its spans record nothing."""
    return trace.get_tracer("ome-rollouts")


def current_trace_id() -> str:
    """Hex id of the current trace, empty without one."""
    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else ""


def traceparent() -> str:
    """The W3C header of the current span, empty without one."""
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def parent_of(metadata: Sequence[tuple[str, str | bytes]] | None) -> Context | None:
    """The caller's context from gRPC metadata; None when there is none or it is malformed."""
    for key, value in metadata or ():
        if key == TRACEPARENT and isinstance(value, str):
            return _parse(value)
    return None


def _parse(header: str) -> Context | None:
    parts = header.split("-")
    if len(parts) < 4 or len(parts[1]) != 32 or len(parts[2]) != 16:
        return None
    try:
        context = SpanContext(int(parts[1], 16), int(parts[2], 16), True, TraceFlags(int(parts[3][:2], 16)))
    except ValueError:
        return None
    return trace.set_span_in_context(NonRecordingSpan(context)) if context.is_valid else None
