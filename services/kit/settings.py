"""Settings of a process: flags, then environment, then defaults; every fault is one line, all at once, status 2.

A settings class is a frozen pydantic model whose every field has a description. The field `drain_seconds` is the
flag `--drain-seconds` and the environment variable `OME_DRAIN_SECONDS`. A flag beats the environment.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, NoReturn, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

ENV_PREFIX = "OME_"


def _host_port(value: str) -> str:
    host, colon, port = value.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError("must be HOST:PORT with a port from 0 to 65535, for example 127.0.0.1:0")
    return value


def _optional_host_port(value: str) -> str:
    return _host_port(value) if value else value


HostPort = Annotated[str, AfterValidator(_host_port)]
OptionalHostPort = Annotated[str, AfterValidator(_optional_host_port)]


class ProcessSettings(BaseModel):
    """What every process of the suite is told: logs, traces, metrics."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metrics_listen: OptionalHostPort = Field(
        default="", description="HOST:PORT that serves Prometheus metrics at /metrics; empty: off"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="least severe level that is logged"
    )
    log_format: Literal["auto", "json", "console"] = Field(
        default="auto", description="auto: console form on a terminal, JSON elsewhere"
    )
    otlp_endpoint: str = Field(
        default="", description="HOST:PORT or URL of an OTLP gRPC trace collector; empty: tracing off"
    )
    trace_ratio: float = Field(default=1.0, ge=0, le=1, description="share of traces that is recorded, 0 to 1")


class ServiceSettings(ProcessSettings):
    """What every gRPC server of the suite is told."""

    listen: HostPort = Field(default="127.0.0.1:0", description="HOST:PORT that is served; port 0 takes a free one")
    tls_cert: str = Field(default="", description="PEM certificate chain; read again when the file changes")
    tls_key: str = Field(default="", description="PEM private key of the certificate")
    tls_client_ca: str = Field(default="", description="PEM CA bundle; clients must show a certificate of it (mTLS)")
    drain_seconds: float = Field(
        default=10.0, ge=0, le=3600, description="longest time in seconds that calls in flight get at shutdown"
    )
    max_message_bytes: int = Field(
        default=4 * 1024 * 1024, ge=1024, description="largest message in bytes that is taken or sent"
    )
    max_deadline_seconds: float = Field(
        default=60.0, gt=0, description="longest deadline in seconds that is granted to a call"
    )

    def tls_faults(self) -> list[str]:
        """Faults of the three TLS files together, one text each."""
        given = {"--tls-cert": self.tls_cert, "--tls-key": self.tls_key, "--tls-client-ca": self.tls_client_ca}
        if not any(given.values()):
            return []
        missing = [flag for flag, value in given.items() if not value]
        if missing:
            return [f"{', '.join(missing)} must be given too: TLS takes a certificate, its key and a client CA"]
        return [
            f'invalid value "{value}" for {flag}: no such file'
            for flag, value in given.items()
            if not Path(value).is_file()
        ]

    def faults(self) -> list[str]:
        """Faults between fields; subclasses add theirs."""
        return self.tls_faults()


S = TypeVar("S", bound=ProcessSettings)


def flag_of(name: str) -> str:
    """Flag of a field: `drain_seconds` is `--drain-seconds`."""
    return "--" + name.replace("_", "-")


def env_of(name: str) -> str:
    """Environment variable of a field: `drain_seconds` is `OME_DRAIN_SECONDS`."""
    return ENV_PREFIX + name.upper()


def _is_bool(field: FieldInfo) -> bool:
    return field.annotation is bool


class _Reader:
    """Collects raw values and faults from argv and environment."""

    def __init__(self, cls: type[ProcessSettings]) -> None:
        self.fields = {flag_of(name): name for name in cls.model_fields}
        self.cls = cls
        self.values: dict[str, str] = {}
        self.origin: dict[str, str] = {}
        self.faults: list[str] = []

    def environment(self, env: Mapping[str, str]) -> None:
        for name in self.cls.model_fields:
            if env_of(name) in env:
                self.values[name] = env[env_of(name)]
                self.origin[name] = env_of(name)

    def arguments(self, argv: Sequence[str]) -> None:
        words = list(argv)
        while words:
            word = words.pop(0)
            flag, equals, value = word.partition("=")
            name = self.fields.get(flag)
            if name is None:
                self.faults.append(self._unknown(flag))
                if not equals and words and not words[0].startswith("--"):
                    words.pop(0)
                continue
            if not equals:
                if _is_bool(self.cls.model_fields[name]) and (not words or words[0].startswith("--")):
                    value = "true"
                elif not words or words[0].startswith("--"):
                    self.faults.append(f"{flag} needs a value")
                    continue
                else:
                    value = words.pop(0)
            self.values[name] = value
            self.origin[name] = flag

    def _unknown(self, flag: str) -> str:
        if not flag.startswith("--"):
            return f'unexpected argument "{flag}"; see --help'
        close = difflib.get_close_matches(flag, self.fields, n=1)
        return f"unknown flag {flag}" + (f"; did you mean {close[0]}?" if close else "; see --help")


def _fail(prog: str, faults: Sequence[str]) -> NoReturn:
    for fault in faults:
        sys.stderr.write(f"{prog}: {fault}\n")
    raise SystemExit(2)


def _cause(message: str) -> str:
    text = message.removeprefix("Value error, ")
    return text[0].lower() + text[1:] if text else text


def load(cls: type[S], prog: str, argv: Sequence[str], env: Mapping[str, str]) -> S:
    """Settings of a process.

    In: the settings class, the program's name for messages, arguments without the program, environment. Out: the
    frozen settings. `--help` prints the flags and ends with status 0; faults are printed to standard error, one
    line each naming the flag or variable, and end the process with status 2.
    """
    if any(word in ("--help", "-h") for word in argv):
        sys.stdout.write(help_text(cls, prog))
        raise SystemExit(0)
    reader = _Reader(cls)
    reader.environment(env)
    reader.arguments(argv)
    faults = reader.faults
    settings: S | None = None
    try:
        settings = cls.model_validate(reader.values)
    except ValidationError as error:
        for item in error.errors():
            name = str(item["loc"][0]) if item["loc"] else ""
            where = reader.origin.get(name, flag_of(name))
            faults.append(f'invalid value "{reader.values.get(name, "")}" for {where}: {_cause(item["msg"])}')
    if settings is not None and not faults and isinstance(settings, ServiceSettings):
        faults = settings.faults()
    if faults or settings is None:
        _fail(prog, faults)
    return settings


def help_text(cls: type[ProcessSettings], prog: str) -> str:
    """The text of `--help`: one line per flag with its default."""
    lines = [f"usage: {prog} [FLAGS]", "", (cls.__doc__ or "").strip().splitlines()[0] if cls.__doc__ else "", ""]
    for name, field in cls.model_fields.items():
        lines.append(f"  {flag_of(name)}  {field.description} (default: {field.default!r}, env {env_of(name)})")
    return "\n".join(lines) + "\n"


def markdown_table(cls: type[ProcessSettings]) -> str:
    """A Markdown table of the settings, for the documentation."""
    rows = ["| flag | environment | default | meaning |", "|---|---|---|---|"]
    for name, field in cls.model_fields.items():
        default = f"`{field.default}`" if field.default not in ("", None) else "empty"
        rows.append(f"| `{flag_of(name)}` | `{env_of(name)}` | {default} | {field.description} |")
    return "\n".join(rows) + "\n"
