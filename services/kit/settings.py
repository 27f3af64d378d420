"""Settings of a process: frozen pydantic models read from flags, then the environment, then defaults.

Field `listen` is the flag `--listen` and the variable `OME_LISTEN`. Every fault is told at once, one line each, and
ends the process with status 2, so that nobody mends a deployment one restart per typing error.
"""

from __future__ import annotations

import difflib
import sys
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NoReturn, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from services.kit.addresses import endpoint, host_port

ENV_PREFIX = "OME_"
_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one field, seen together with the others; `field` is the model's field name."""

    field: str
    message: str


class SettingsError(ValueError):
    """Raised on construction of settings whose fields do not fit together. `faults` lists every one."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("; ".join(f"{flag(fault.field)}: {fault.message}" for fault in faults))
        self.faults = tuple(faults)


def _optional_host_port(text: str) -> str:
    return text if text == "" else host_port(text)


def _optional_endpoint(text: str) -> str:
    return text if text == "" else endpoint(text)


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


HostPort = Annotated[str, AfterValidator(host_port)]
"""HOST:PORT, an IPv6 host in brackets; port 0 takes a free one."""
OptionalHostPort = Annotated[str, AfterValidator(_optional_host_port)]
OptionalEndpoint = Annotated[str, AfterValidator(_optional_endpoint)]
LogLevel = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)]
LogFormat = Annotated[Literal["auto", "json", "console"], BeforeValidator(_lower)]


class Settings(BaseModel):
    """Base of every settings class. A subclass gives each field a description, and overrides `faults` for rules
    that span fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    def faults(self) -> Iterator[Fault]:
        """Faults that no single field shows; a subclass yields its own after `yield from super().faults()`."""
        yield from ()

    @model_validator(mode="after")
    def _fields_fit_together(self) -> Self:
        found = list(self.faults())
        if found:
            raise SettingsError(found)
        return self


class ServiceSettings(Settings):
    """What every gRPC process takes. A service overrides `listen` with its own default port."""

    listen: HostPort = Field("127.0.0.1:0", description="Address for gRPC, HOST:PORT; port 0 takes a free one.")
    metrics_listen: OptionalHostPort = Field(
        "", description="Address for Prometheus metrics over HTTP (/metrics), HOST:PORT; empty serves none."
    )
    log_level: LogLevel = Field("info", description="Least severe level that is logged.")
    log_format: LogFormat = Field("auto", description="Form of log lines; auto: console on a terminal, otherwise json.")
    otlp_endpoint: OptionalEndpoint = Field(
        "",
        description="OTLP/gRPC collector for traces, http://HOST:PORT or https://HOST:PORT; empty exports none.",
    )
    trace_ratio: float = Field(
        1.0, ge=0, le=1, allow_inf_nan=False, description="Share of traces without a sampled parent that is recorded."
    )
    tls_cert: str = Field("", description="PEM file of the server's certificate chain; read again when it changes.")
    tls_key: str = Field("", description="PEM file of the certificate's private key; read again when it changes.")
    tls_client_ca: str = Field(
        "", description="PEM file of the authorities that client certificates must come from; read again on change."
    )
    drain_seconds: float = Field(
        10.0, ge=0, le=3600, allow_inf_nan=False, description="Seconds that calls in flight get to finish on SIGTERM."
    )
    max_message_bytes: int = Field(
        4 * 1024 * 1024, ge=1024, le=2**31 - 1, description="Largest message taken or sent, in bytes."
    )
    max_deadline_seconds: float = Field(
        60.0,
        gt=0,
        le=86400,
        allow_inf_nan=False,
        description="Longest time in seconds that a call with a single answer may run, whatever deadline it brings.",
    )

    def faults(self) -> Iterator[Fault]:
        """TLS needs its three files together: serving with a certificate and without client checks is not offered."""
        yield from super().faults()
        files = {"tls_cert": self.tls_cert, "tls_key": self.tls_key, "tls_client_ca": self.tls_client_ca}
        given = [flag(name) for name, value in files.items() if value]
        for name, value in files.items():
            if given and not value:
                yield Fault(name, f"is required with {' and '.join(given)}")


S = TypeVar("S", bound=BaseModel)


def flag(field: str) -> str:
    """The command-line flag of a field: `drain_seconds` is `--drain-seconds`."""
    return "--" + field.replace("_", "-")


def variable(field: str) -> str:
    """The environment variable of a field: `drain_seconds` is `OME_DRAIN_SECONDS`."""
    return ENV_PREFIX + field.upper()


def load(cls: type[S], prog: str, argv: Sequence[str], env: Mapping[str, str]) -> S:
    """Settings of class `cls` from the arguments (without the program's name) and the environment.

    A flag beats the environment, which beats the default; of a repeated flag the last counts; an empty variable
    counts as unset. `--help` prints the flags and raises SystemExit(0). Any fault prints a line each to stderr, with
    the flag or variable and the remedy, and raises SystemExit(2).
    """
    if "--help" in argv or "-h" in argv:
        sys.stdout.write(usage(cls, prog))
        raise SystemExit(0)
    given, faults = _parse(cls, argv)
    origin = {field: flag(field) for field in given}
    for field in cls.model_fields:
        value = env.get(variable(field), "")
        if value and field not in given:
            given[field], origin[field] = value, variable(field)
    settings, invalid = _validate(cls, given, origin)
    faults += invalid
    if faults or settings is None:
        _fail(prog, faults)
    return settings


def _fail(prog: str, faults: Sequence[str]) -> NoReturn:
    for line in faults:
        sys.stderr.write(f"{prog}: {_printable(line)}\n")
    raise SystemExit(2)


def _printable(text: str) -> str:
    """`text` on one line, whatever the user typed."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def _parse(cls: type[BaseModel], argv: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Splits the arguments into values by field, and the faults of those that are no flag or lack a value."""
    flags = {flag(name): name for name in cls.model_fields}
    given: dict[str, str] = {}
    faults: list[str] = []
    rest = list(argv)
    while rest:
        argument = rest.pop(0)
        name, has_value, value = argument.partition("=")
        if not name.startswith("--"):
            faults.append(f'unexpected argument "{argument}"; settings are given as --name value')
            continue
        field = flags.get(name)
        if field is None and name.startswith("--no-") and not has_value:
            negated = flags.get("--" + name[5:])
            if negated is not None and _is_bool(cls.model_fields[negated]):
                given[negated] = "false"
                continue
        if field is None:
            faults.append(_unknown(name, flags))
            if not has_value and rest and not rest[0].startswith("-"):
                rest.pop(0)  # its value is no fault of its own
        elif has_value:
            given[field] = value
        elif _is_bool(cls.model_fields[field]):
            given[field] = rest.pop(0) if rest and rest[0].lower() in _TRUE | _FALSE else "true"
        elif not rest or rest[0].startswith("--"):
            faults.append(f"{name} needs a value")
        else:
            given[field] = rest.pop(0)
    return given, faults


def _unknown(name: str, flags: Mapping[str, str]) -> str:
    close = difflib.get_close_matches(name, [*flags, "--help"], n=1, cutoff=0.7)
    return f"unknown flag {name}; " + (f"did you mean {close[0]}?" if close else "see --help")


def _validate(cls: type[S], given: Mapping[str, str], origin: Mapping[str, str]) -> tuple[S | None, list[str]]:
    """Validates the texts; on faults a second look without the bad fields tells how the good ones fit together."""
    raw: dict[str, Any] = {field: _decode(cls.model_fields[field], text) for field, text in given.items()}
    try:
        return cls.model_validate(raw), []
    except ValidationError as error:
        bad, lines = _lines(error, given, origin)
    if bad:
        try:
            cls.model_validate({field: value for field, value in raw.items() if field not in bad})
        except ValidationError as error:
            together = _lines(error, given, origin, without=bad)[1]
            lines += [line for line in together if line not in lines]
    return None, lines


def _lines(
    error: ValidationError, given: Mapping[str, str], origin: Mapping[str, str], without: frozenset[str] = frozenset()
) -> tuple[frozenset[str], list[str]]:
    bad: set[str] = set()
    lines: list[str] = []
    for item in error.errors(include_url=False, include_input=False):
        cause = item.get("ctx", {}).get("error")
        if isinstance(cause, SettingsError):
            lines += [f"{flag(f.field)} {f.message}" for f in cause.faults if f.field not in without]
            continue
        field = str(item["loc"][0]) if item["loc"] else ""
        if field in bad or field in without:
            continue
        bad.add(field)
        if field in given:
            lines.append(f'invalid value "{given[field]}" for {origin[field]}: {_plain(item["msg"])}')
        else:
            lines.append(f"{flag(field)} is required" if field else _plain(item["msg"]))
    return frozenset(bad), lines


def _plain(message: str) -> str:
    return message.removeprefix("Value error, ").removeprefix("Input ")


def _decode(field: FieldInfo, text: str) -> object:
    """The one thing pydantic does not read from text: a comma-separated list."""
    if typing.get_origin(field.annotation) in (tuple, list, frozenset):
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _is_bool(field: FieldInfo) -> bool:
    if typing.get_origin(field.annotation) in (typing.Union, types.UnionType):
        return bool in typing.get_args(field.annotation)
    return field.annotation is bool


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if isinstance(value, (tuple, list, frozenset)):
        return ",".join(str(part) for part in value)
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def usage(cls: type[BaseModel], prog: str) -> str:
    """The text of `--help`: one block per flag with its variable, default and description."""
    parts = [f"usage: {prog} [--name value | --name=value ...]\n"]
    for name, field in cls.model_fields.items():
        default = "required" if field.is_required() else f"default: {_default(field) or 'empty'}"
        parts.append(f"  {flag(name)}  ({variable(name)}, {default})\n      {field.description or ''}")
    return "\n".join([*parts, "", "  --help\n      Show this text and exit.", ""])


def markdown(cls: type[BaseModel]) -> str:
    """A Markdown table of a settings class for the documentation: flag, variable, default, meaning."""
    rows = ["| flag | variable | default | meaning |", "|---|---|---|---|"]
    for name, field in cls.model_fields.items():
        default = "required" if field.is_required() else f"`{_default(field)}`" if _default(field) else "empty"
        meaning = (field.description or "").replace("|", "\\|")
        rows.append(f"| `{flag(name)}` | `{variable(name)}` | {default} | {meaning} |")
    return "\n".join(rows) + "\n"
