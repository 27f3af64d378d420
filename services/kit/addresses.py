"""Network addresses as users write them."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\.?")
_PORT = re.compile(r"[0-9]{1,5}")


def split_host_port(text: str) -> tuple[str, int]:
    """`HOST:PORT` as host (an IPv6 address without its brackets) and port; ValueError says what is wrong."""
    host, colon, port = text.rpartition(":")
    if not colon or not host:
        raise ValueError("expected HOST:PORT, for example 127.0.0.1:7101")
    if not _PORT.fullmatch(port) or int(port) > 65535:
        raise ValueError(f'port "{port}" is not a number from 0 to 65535')
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            raise ValueError(f'"{host}" is not an IPv6 address') from None
    elif ":" in host:
        raise ValueError("an IPv6 host stands in brackets, for example [::1]:7101")
    elif not _NAME.fullmatch(host):
        raise ValueError(f'"{host}" is not a host name or IP address')
    elif re.fullmatch(r"[0-9.]+", host):
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            raise ValueError(f'"{host}" is not an IPv4 address') from None
    return host, int(port)


def join_host_port(host: str, port: int) -> str:
    """The text form that `split_host_port` reads."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_port(text: str) -> str:
    """`text` itself when it is HOST:PORT, else ValueError."""
    split_host_port(text)
    return text


def endpoint(text: str) -> str:
    """`text` itself when it is http://HOST:PORT or https://HOST:PORT, else ValueError."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path not in ("", "/") or parts.query:
        raise ValueError("expected http://HOST:PORT or https://HOST:PORT, for example http://127.0.0.1:4317")
    split_host_port(parts.netloc)
    return text
