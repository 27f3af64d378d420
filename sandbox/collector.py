"""An OTLP trace receiver (gRPC) that keeps spans in memory and draws a trace as a tree across processes."""

from __future__ import annotations

import signal
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

KEPT_TRACES = 20_000


@dataclass(frozen=True)
class Span:
    """One span; times in nanoseconds since 1970."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    service: str
    start: int
    end: int
    attributes: dict[str, object] = field(default_factory=dict)
    failed: bool = False

    @property
    def milliseconds(self) -> float:
        """How long it took."""
        return (self.end - self.start) / 1e6


class TraceCollector:
    """Receives spans on ``endpoint`` from ``start`` to ``stop``; keeps the latest traces. Safe for several threads."""

    def __init__(self, listen: str = "127.0.0.1:0", keep: int = KEPT_TRACES) -> None:
        self._listen = listen
        self._keep = keep
        self._traces: OrderedDict[str, dict[str, Span]] = OrderedDict()
        self._lock = threading.Lock()
        self._server: grpc.Server | None = None
        self.received = 0
        """How many spans came in all."""
        self.endpoint = ""
        """``http://HOST:PORT``, what ``--otlp-endpoint`` takes."""

    def start(self) -> None:
        """Listens. Raises ``OSError`` when the port cannot be had."""
        self._server = grpc.server(ThreadPoolExecutor(2, "traces"), options=[("grpc.so_reuseport", 0)])
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(  # type: ignore[no-untyped-call]  # untyped there
            _Servicer(self), self._server
        )
        try:
            port = self._server.add_insecure_port(self._listen)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {self._listen}") from error
        self._server.start()
        self.endpoint = f"http://{self._listen.rpartition(':')[0]}:{port}"

    def stop(self) -> None:
        """Stops listening; what was received stays."""
        if self._server is not None:
            self._server.stop(0.5).wait()

    def add(self, spans: Iterable[Span]) -> None:
        """Keeps spans; the same span again replaces itself."""
        with self._lock:
            for span in spans:
                self.received += 1
                held = self._traces.setdefault(span.trace_id, {})
                held[span.span_id] = span
            while len(self._traces) > self._keep:
                self._traces.popitem(last=False)

    def trace(self, trace_id: str) -> list[Span]:
        """The spans of a trace in order of their start."""
        with self._lock:
            return sorted(self._traces.get(trace_id, {}).values(), key=lambda span: (span.start, -span.end))

    def find(self, name: str, **attributes: object) -> list[Span]:
        """The spans with a name and (``__`` written for a dot) attributes, oldest first."""
        wanted = {key.replace("__", "."): value for key, value in attributes.items()}
        with self._lock:
            spans = [span for held in self._traces.values() for span in held.values() if span.name == name]
        spans = [span for span in spans if wanted.items() <= span.attributes.items()]
        return sorted(spans, key=lambda span: span.start)


class _Servicer(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self, collector: TraceCollector) -> None:
        self._collector = collector

    def Export(
        self, request: trace_service_pb2.ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> trace_service_pb2.ExportTraceServiceResponse:
        """Takes a batch of spans."""
        self._collector.add(
            _span(span, str(_attributes(resource.resource.attributes).get("service.name", "")))
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        )
        return trace_service_pb2.ExportTraceServiceResponse()


def _span(span: ProtoSpan, service: str) -> Span:
    return Span(
        span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(), span.name, service,
        span.start_time_unix_nano, span.end_time_unix_nano, _attributes(span.attributes),
        span.status.code == Status.STATUS_CODE_ERROR,
    )  # fmt: skip


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, object]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> object:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind) if kind else None


SHOWN = (
    "rpc.method", "ome.outcome", "ome.object", "k8s.verb", "k8s.kind", "k8s.name", "verb", "kind", "name", "outcome",
    "result",
)  # fmt: skip


def draw(spans: list[Span], shown: tuple[str, ...] = SHOWN) -> list[str]:
    """A trace as lines of text: a tree of spans with process, duration and start after the root's, in milliseconds.

    Spans whose parent was not received stand at the top.
    """
    known = {span.span_id for span in spans}
    children: dict[str, list[Span]] = {}
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        children.setdefault(span.parent_id if span.parent_id in known else "", []).append(span)
    rows: list[tuple[str, Span]] = []
    for root in children.get("", []):
        _rows(root, "", "", children, rows)
    if not rows:
        return []
    zero = min(span.start for span in spans)
    texts = [lead + span.name + _details(span, shown) for lead, span in rows]
    width = max(len(text) for text in texts)
    services = max(len(span.service) for _, span in rows)
    return [
        f"{text:<{width}}  {span.service:<{services}}  {span.milliseconds:8.2f} ms"
        f"  at {(span.start - zero) / 1e6:8.2f} ms{'  FAILED' if span.failed else ''}"
        for text, (_, span) in zip(texts, rows, strict=True)
    ]


def _rows(span: Span, lead: str, below: str, children: dict[str, list[Span]], rows: list[tuple[str, Span]]) -> None:
    rows.append((lead, span))
    own = children.get(span.span_id, [])
    for index, child in enumerate(own):
        last = index == len(own) - 1
        _rows(child, below + ("`- " if last else "|- "), below + ("   " if last else "|  "), children, rows)


def _details(span: Span, shown: tuple[str, ...]) -> str:
    values = [str(span.attributes[key]) for key in shown if span.attributes.get(key) not in (None, "")]
    return f" ({', '.join(dict.fromkeys(values))})" if values else ""


def main() -> None:
    """Receives spans until SIGTERM, as a process of its own; the last line tells how many came."""
    collector = TraceCollector(keep=100)
    collector.start()
    sys.stdout.write(f"ome-traces serving on {collector.endpoint.removeprefix('http://')}\n")
    sys.stdout.flush()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    ended.wait()
    collector.stop()
    sys.stdout.write(f"received {collector.received} spans\n")


if __name__ == "__main__":
    main()
