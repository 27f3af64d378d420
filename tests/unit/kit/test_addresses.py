"""Addresses and gRPC targets as users write them."""

from __future__ import annotations

import pytest

from services.kit.addresses import endpoint, join_host_port, split_host_port
from services.kit.channel import resolve_target


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:7101", "127.0.0.1", 7101),
        ("localhost:0", "localhost", 0),
        ("[::1]:65535", "::1", 65535),
        ("ome-pinning.ome.svc.cluster.local.:7101", "ome-pinning.ome.svc.cluster.local.", 7101),
    ],
)
def test_host_and_port(text: str, host: str, port: int) -> None:
    assert split_host_port(text) == (host, port)
    assert join_host_port(host, port) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "x",
        "x:",
        ":1",
        "x:y",
        "x:-1",
        "x:65536",
        "x:1 ",
        " x:1",
        "::1:7101",
        "[::g]:1",
        "[x]:1",
        "x y:1",
        "1.2.3:1",
    ],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        split_host_port(text)


@pytest.mark.parametrize(
    "text",
    ["1.2.3.400:1", "http://x:1", "-x:1", "x:٣", "x:1\n"],
)
def test_what_is_nearly_an_address(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        split_host_port(text)


@pytest.mark.parametrize("text", ["http://collector:4317", "https://[::1]:4317/", "http://10.0.0.1:1"])
def test_endpoints(text: str) -> None:
    assert endpoint(text) == text


@pytest.mark.parametrize(
    "text", ["collector:4317", "grpc://x:1", "http://x", "http://x:1/v1/traces", "http://", "http://x:1?a"]
)
def test_what_is_no_endpoint(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        endpoint(text)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("127.0.0.1:1", "ipv4:127.0.0.1:1"),
        ("127.0.0.1:1,127.0.0.1:2", "ipv4:127.0.0.1:1,127.0.0.1:2"),
        ("[::1]:1, [::1]:2", "ipv6:[::1]:1,[::1]:2"),
        ("pinning:7101", "dns:///pinning:7101"),
        ("dns:///pinning:7101", "dns:///pinning:7101"),
        ("ipv4:127.0.0.1:1,127.0.0.1:2", "ipv4:127.0.0.1:1,127.0.0.1:2"),
        ("unix:/run/x.sock", "unix:/run/x.sock"),
        ("dns:7101", "dns:///dns:7101"),
    ],
)
def test_targets(text: str, target: str) -> None:
    assert resolve_target(text) == target


@pytest.mark.parametrize("text", ["", "x", "a:1,b:2", "127.0.0.1:1,[::1]:1", "127.0.0.1:1,a:2", "http://x:1"])
def test_what_is_no_target(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        resolve_target(text)
