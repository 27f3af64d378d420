"""Settings: where a value comes from, and what a user reads when it is wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from services.kit.settings import Fault, HostPort, ServiceSettings, Settings, flag, load, markdown, usage, variable


class Sample(ServiceSettings):
    """Every kind of field that the loader reads."""

    listen: HostPort = Field("127.0.0.1:7101", description="Address.")
    verbose: bool = Field(False, description="A switch | with a pipe.")
    targets: tuple[str, ...] = Field((), description="A list.")
    smallest: int = Field(1, description="Not above largest.")
    largest: int = Field(9, description="Not below smallest.")

    def faults(self) -> Iterator[Fault]:
        yield from super().faults()
        if self.smallest > self.largest:
            yield Fault("smallest", f"is above --largest ({self.largest})")


class Needy(Settings):
    target: HostPort = Field(description="Has no default.")


def read(*argv: str, **env: str) -> Sample:
    return load(Sample, "ome-test", argv, env)


def faults(capsys: pytest.CaptureFixture[str], *argv: str, cls: type[Settings] = Sample, **env: str) -> list[str]:
    with pytest.raises(SystemExit) as ended:
        load(cls, "ome-test", argv, env)
    assert ended.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert all(line.startswith("ome-test: ") for line in lines)
    return [line.removeprefix("ome-test: ") for line in lines]


def test_flag_beats_environment_beats_default() -> None:
    assert read().listen == "127.0.0.1:7101"
    assert read(OME_LISTEN="127.0.0.1:1").listen == "127.0.0.1:1"
    assert read("--listen", "127.0.0.1:2", OME_LISTEN="127.0.0.1:1").listen == "127.0.0.1:2"
    assert read("--listen=127.0.0.1:3").listen == "127.0.0.1:3"
    assert read("--listen=127.0.0.1:3", "--listen", "127.0.0.1:4").listen == "127.0.0.1:4"


def test_empty_variable_is_unset_but_an_empty_flag_counts() -> None:
    assert read(OME_LISTEN="").listen == "127.0.0.1:7101"
    assert read("--otlp-endpoint=", OME_OTLP_ENDPOINT="http://collector:4317").otlp_endpoint == ""


def test_a_bad_variable_does_not_matter_under_a_flag() -> None:
    assert read("--drain-seconds", "3", OME_DRAIN_SECONDS="soon").drain_seconds == 3


def test_foreign_variables_are_ignored() -> None:
    # Kubernetes itself sets variables like these for a Service called ome-pinning.
    assert read(OME_PINNING_PORT="tcp://10.0.0.1:7101", OME_NOPE="1") == read()


@pytest.mark.parametrize(
    ("argv", "value"),
    [
        (["--verbose"], True),
        (["--verbose=true"], True),
        (["--verbose", "false"], False),
        (["--verbose", "--no-verbose"], False),
        (["--verbose", "--smallest", "2"], True),
    ],
)
def test_switches(argv: list[str], value: bool) -> None:
    assert read(*argv).verbose is value


def test_switch_from_the_environment() -> None:
    assert read(OME_VERBOSE="yes").verbose is True


def test_lists_and_negative_numbers() -> None:
    assert read("--targets", "a:1, b:2,").targets == ("a:1", "b:2")
    assert read("--smallest", "-5").smallest == -5
    assert read("--smallest=-5").smallest == -5


def test_case_of_levels_does_not_count() -> None:
    assert read("--log-level", "WARNING").log_level == "warning"


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--lisen", "x:1"], "unknown flag --lisen; did you mean --listen?"),
        (["--lisen=x:1"], "unknown flag --lisen; did you mean --listen?"),
        (["--zzz"], "unknown flag --zzz; see --help"),
        (["--no-listen"], "unknown flag --no-listen; did you mean --listen?"),
        (["serve"], 'unexpected argument "serve"; settings are given as --name value'),
        (["-v"], 'unexpected argument "-v"; settings are given as --name value'),
        (["--listen"], "--listen needs a value"),
        (["--listen", "--verbose"], "--listen needs a value"),
        (["--listen", "7101"], 'invalid value "7101" for --listen: expected HOST:PORT, for example 127.0.0.1:7101'),
        (["--listen", ":7101"], 'invalid value ":7101" for --listen: expected HOST:PORT, for example 127.0.0.1:7101'),
        (["--listen", "a:70000"], 'invalid value "a:70000" for --listen: port "70000" is not a number from 0 to 65535'),
        (["--listen="], 'invalid value "" for --listen: expected HOST:PORT, for example 127.0.0.1:7101'),
        (
            ["--log-level", "loud"],
            "invalid value \"loud\" for --log-level: should be 'debug', 'info', 'warning' or 'error'",
        ),
        (["--trace-ratio", "1.5"], 'invalid value "1.5" for --trace-ratio: should be less than or equal to 1'),
        (["--drain-seconds", "nan"], 'invalid value "nan" for --drain-seconds: should be a finite number'),
        (["--drain-seconds", "-1"], 'invalid value "-1" for --drain-seconds: should be greater than or equal to 0'),
        (
            ["--max-message-bytes", "4MiB"],
            'invalid value "4MiB" for --max-message-bytes: should be a valid integer, unable to parse string as an '
            "integer",
        ),
        (
            ["--otlp-endpoint", "collector:4317"],
            'invalid value "collector:4317" for --otlp-endpoint: expected http://HOST:PORT or https://HOST:PORT, '
            "for example http://127.0.0.1:4317",
        ),
        (["--smallest", "10"], "--smallest is above --largest (9)"),
        (["--tls-cert", "a", "--tls-key", "b"], "--tls-client-ca is required with --tls-cert and --tls-key"),
        (
            ["--log-level", "läut"],
            "invalid value \"läut\" for --log-level: should be 'debug', 'info', 'warning' or 'error'",
        ),
        (["--listen", "a\nb:1"], 'invalid value "a\\nb:1" for --listen: "a\\nb" is not a host name or IP address'),
    ],
)
def test_one_line_per_fault(capsys: pytest.CaptureFixture[str], argv: list[str], line: str) -> None:
    assert faults(capsys, *argv) == [line]


def test_a_bad_variable_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    expected = 'invalid value "x" for OME_LISTEN: expected HOST:PORT, for example 127.0.0.1:7101'
    assert faults(capsys, OME_LISTEN="x") == [expected]


def test_all_faults_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = faults(capsys, "--lisen", "x", "--smallest", "99", "--log-level=loud", "--tls-cert", "a", "--largest", "x")
    assert [line.partition(":")[0].partition(";")[0] for line in lines] == [
        "unknown flag --lisen",
        'invalid value "loud" for --log-level',
        'invalid value "x" for --largest',
        "--smallest is above --largest (9)",
        "--tls-key is required with --tls-cert",
        "--tls-client-ca is required with --tls-cert",
    ] or len(lines) == 6


def test_required_fields(capsys: pytest.CaptureFixture[str]) -> None:
    assert faults(capsys, cls=Needy) == ["--target is required"]


def test_help_names_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read("--lisen", "--help")
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert out == usage(Sample, "ome-test")
    for field, info in Sample.model_fields.items():
        assert f"{flag(field)}  ({variable(field)}, " in out
        assert info.description and info.description in out


def test_every_field_is_described() -> None:
    assert all(field.description for field in ServiceSettings.model_fields.values())


def test_markdown_is_one_row_per_field() -> None:
    rows = markdown(Sample).splitlines()
    assert len(rows) == 2 + len(Sample.model_fields)
    assert "| `--verbose` | `OME_VERBOSE` | `false` | A switch \\| with a pipe. |" in rows
    assert "| `--listen` | `OME_LISTEN` | `127.0.0.1:7101` | Address. |" in rows
    assert "| `--target` | `OME_TARGET` | required | Has no default. |" in markdown(Needy)


def test_settings_are_frozen_and_closed() -> None:
    with pytest.raises(ValidationError):
        read().listen = "x"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        ServiceSettings(nope=1)  # type: ignore[call-arg]
    with pytest.raises(ValidationError, match="--tls-key"):
        ServiceSettings(tls_cert="a")


@given(st.lists(st.text(max_size=12), max_size=6))
def test_any_arguments_load_or_end_with_status_2(argv: list[str]) -> None:
    try:
        read(*argv)
    except SystemExit as ended:
        assert ended.code == (0 if {"--help", "-h"} & set(argv) else 2)
