"""Log lines: their fields, their form, their levels."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from services.kit import logs, tracing
from services.kit.settings import ServiceSettings


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    yield io.StringIO()
    structlog.contextvars.clear_contextvars()
    logs.setup("test", "error", "json")


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_line_names_service_module_level_and_time(out: io.StringIO) -> None:
    logs.setup("ome-test", "info", "json", out)
    logs.get("a.module").info("started", count=3)
    (line,) = lines(out)
    assert line["timestamp"].endswith("Z")
    del line["timestamp"]
    assert line == {"service": "ome-test", "module": "a.module", "level": "info", "event": "started", "count": 3}


def test_lines_in_a_span_carry_its_ids(out: io.StringIO) -> None:
    logs.setup("ome-test", "info", "json", out)
    tracing.setup("ome-test", ServiceSettings())
    logs.bind(request_id="r-1")
    with tracing.tracer().start_as_current_span("reconcile") as span:
        logs.get("m").info("inside")
        logging.getLogger("library").warning("from %s", "elsewhere")
        trace_id = tracing.trace_id()
    logs.get("m").info("outside")
    inside, library, outside = lines(out)
    assert len(trace_id) == 32
    for line in (inside, library):
        assert line["trace_id"] == trace_id == f"{span.get_span_context().trace_id:032x}"
        assert line["span_id"] == f"{span.get_span_context().span_id:016x}"
        assert line["request_id"] == "r-1"
    assert "trace_id" not in outside and tracing.trace_id() == ""
    assert (library["event"], library["logger"], library["level"]) == ("from elsewhere", "library", "warning")


@pytest.mark.parametrize(("level", "count"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_levels(out: io.StringIO, level: str, count: int) -> None:
    logs.setup("ome-test", level, "json", out)
    log = logs.get("m")
    for method in (log.debug, log.info, log.warning, log.error):
        method("x")
    assert len(lines(out)) == count
    logging.getLogger("library").debug("payload")
    assert len(lines(out)) == count, "libraries never log at debug"


def test_an_exception_is_one_json_line(out: io.StringIO) -> None:
    logs.setup("ome-test", "info", "json", out)
    try:
        raise ValueError("broken\nin two")
    except ValueError:
        logs.get("m").exception("failed")
    (line,) = lines(out)
    assert "ValueError: broken\nin two" in line["exception"] and line["level"] == "error"


def test_values_that_json_does_not_know(out: io.StringIO) -> None:
    logs.setup("ome-test", "info", "json", out)
    logs.get("m").info("odd", value={1: object}, big=2**70, text="\udc80", raw=b"\xff")
    assert len(lines(out)) == 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "form", "json_lines"),
    [
        (io.StringIO, "auto", True),
        (Terminal, "auto", False),
        (Terminal, "json", True),
        (io.StringIO, "console", False),
    ],
)
def test_form_follows_the_terminal(stream: type[io.StringIO], form: str, json_lines: bool) -> None:
    out = stream()
    logs.setup("ome-test", "info", form, out)
    logs.get("m").info("hello", n=1)
    text = out.getvalue()
    assert "hello" in text and text.count("\n") == 1
    assert text.startswith("{") is json_lines
    assert ("\x1b" in text) is (stream is Terminal and not json_lines), "no colours but on a terminal"
    logs.setup("test", "error", "json")
