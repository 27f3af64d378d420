"""Logs: structlog lines on stderr, JSON for machines and a console form on a terminal.

Every line carries the trace and span id of the current span, and whatever the call bound (`request_id`). Lines of
libraries that use the standard library's logging come out in the same form.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any, TextIO

import orjson
import structlog
from opentelemetry import trace
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def setup(name: str, level: str = "info", format: str = "auto", stream: TextIO | None = None) -> None:
    """Configures the process's logs once, at its start.

    `name` stands in every line as `service`; `level` is debug, info, warning or error; `format` is auto (console on a
    terminal, otherwise json), json or console. `stream` is stderr unless a test gives another.
    """
    out = stream or sys.stderr
    console = format == "console" or (format == "auto" and out.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_service(name),
        _add_trace,
    ]
    last: list[Processor]
    if console:
        last = [structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback)]
    else:
        last = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_dump)]
    structlog.configure(
        processors=shared + last,
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(_LEVELS[level], logging.INFO))  # libraries at debug drown everything and may print payloads
    logging.captureWarnings(True)


def get(module: str) -> FilteringBoundLogger:
    """A logger whose lines carry `module`; pass `__name__`."""
    bound: FilteringBoundLogger = structlog.get_logger(module=module)
    return bound


def bind(**values: str) -> None:
    """Adds `values` to every later line of the current task (a call, a pass)."""
    structlog.contextvars.bind_contextvars(**values)


def _add_service(name: str) -> Processor:
    def add(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
        event["service"] = name
        return event

    return add


def _add_trace(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event["trace_id"] = f"{context.trace_id:032x}"
        event["span_id"] = f"{context.span_id:016x}"
    return event


def _dump(event: Any, **_: Any) -> str:
    try:
        return orjson.dumps(event, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # a number above 64 bits or half a surrogate pair: a log line must never fail a call
        return json.dumps(event, default=repr, skipkeys=True)
