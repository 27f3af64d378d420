"""Requests and answers as plain values, so that the server works without sockets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

import orjson

from sandbox.jsontypes import JsonObject, JsonValue

JSON = "application/json"


@dataclass(frozen=True)
class Request:
    """One HTTP request. ``path`` is decoded and has no query; header names are lower case."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @staticmethod
    def of(method: str, url: str, body: bytes | JsonValue = b"", **headers: str) -> Request:
        """A request from a URL with query; a body that is not bytes becomes JSON; ``content_type=`` is a header."""
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        named = {name.replace("_", "-").lower(): value for name, value in headers.items()}
        data = body if isinstance(body, bytes) else orjson.dumps(body)
        if data:
            named.setdefault("content-type", JSON)
        return Request(method.upper(), unquote(parts.path), query, named, data)

    def header(self, name: str) -> str:
        """A header by lower-case name, empty when absent."""
        return self.headers.get(name, "")

    def flag(self, name: str) -> bool:
        """A boolean query parameter as Kubernetes reads it (present without a value counts as true)."""
        value = self.query.get(name)
        return value is not None and value.lower() not in {"false", "0"}


@dataclass(frozen=True)
class Response:
    """One complete HTTP answer."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": JSON})
    warnings: tuple[str, ...] = ()
    """Texts for ``Warning: 299`` headers, one header each."""

    def json(self) -> JsonObject:
        """The body, decoded."""
        value: JsonObject = orjson.loads(self.body)
        return value

    def warning_headers(self) -> list[str]:
        """The values of the ``Warning`` headers (RFC 7234, quoted)."""
        quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in self.warnings)
        return [f'299 - "{text}"' for text in quoted]


def json_response(
    body: JsonValue, status: int = 200, content_type: str = JSON, warnings: tuple[str, ...] = ()
) -> Response:
    """An answer with a JSON body; bytes are taken as encoded already."""
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    return Response(status, data, {"Content-Type": content_type}, warnings)
