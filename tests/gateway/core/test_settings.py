"""Settings of the gateway: defaults, and one line per fault."""

from __future__ import annotations

import pytest

from gateway.settings import load_settings


def test_defaults_and_the_ome_namespace() -> None:
    settings = load_settings([], {})
    assert (settings.ome_namespace, settings.listen, settings.pinning) == ("ome", "127.0.0.1:7100", "127.0.0.1:7101")
    assert (settings.canary, settings.traffic, settings.gc) == ("127.0.0.1:7102", "127.0.0.1:7103", "127.0.0.1:7104")
    assert load_settings([], {"POD_NAMESPACE": "prod"}).ome_namespace == "prod"
    assert load_settings(["--ome-namespace", "x"], {"POD_NAMESPACE": "prod"}).ome_namespace == "x"
    assert load_settings([], {"POD_NAMESPACE": "prod", "OME_OME_NAMESPACE": "y"}).ome_namespace == "y"
    assert load_settings(["--pinning", "10.0.0.1:1,10.0.0.2:1"], {}).pinning == "10.0.0.1:1,10.0.0.2:1"


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (["--pining", "x:1"], "unknown flag --pining; did you mean --pinning?"),
        (["--pinning", "nowhere"], 'invalid value "nowhere" for --pinning'),
        (["--workers", "0"], 'invalid value "0" for --workers'),
        (["--ome-namespace", "A_B"], 'invalid value "A_B" for --ome-namespace: expected the name of a namespace'),
        (["--lease-duration-seconds", "1.5"], 'invalid value "1.5" for --lease-duration-seconds'),
        (["--lease-duration-seconds", "10"], "--lease-renew-deadline-seconds must be less than"),
        (["--lease-retry-seconds", "9"], "--lease-retry-seconds times 1.2 must be less than"),
        (["--backoff-base-seconds", "61", "--backoff-max-seconds", "60"], "--backoff-base-seconds"),
        (["--backoff-base-seconds", "5", "--backoff-max-seconds", "4"], "must not be more than --backoff-max-seconds"),
        (["--service-tls-ca", "/ca"], "--service-tls-cert is required with --service-tls-ca"),
    ],
)
def test_a_bad_setting_is_named_with_the_remedy(
    capsys: pytest.CaptureFixture[str], flags: list[str], part: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        load_settings(flags, {})
    assert ended.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert part in lines[0]
    assert all(line.startswith("ome-gateway: ") for line in lines)
