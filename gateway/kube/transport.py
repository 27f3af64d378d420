"""How requests get to the API server: an interface that tests can stand in for, and the real one over aiohttp."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

import aiohttp

from gateway.kube.config import Connection
from gateway.kube.errors import Unreachable

CONNECT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request. `path` is escaped, `query` is not. `before_send` runs when all that could take time is done,
    right before the request goes out; what it raises is raised instead of sending. `timeout` is in seconds, for the
    whole exchange; for a stream it bounds the time to its first byte of headers only."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes = b""
    content_type: str = ""
    timeout: float = 30.0
    before_send: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete HTTP answer; header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Stream:
    """The start of an answer whose body comes in pieces."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


class Transport(Protocol):
    """Sends requests. Both methods raise Unreachable when there is no answer or it breaks off."""

    async def request(self, call: Call) -> Answer:
        """Sends and reads the whole answer, whatever its status."""

    def stream(self, call: Call) -> AbstractAsyncContextManager[Stream]:
        """Sends and hands out the body as it comes; leaving the context ends the connection."""

    async def close(self) -> None:
        """Ends all connections."""


class AioTransport:
    """The session of the official client: its TLS, proxies and pool."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._session: aiohttp.ClientSession | None = None
        self._opened = 0

    async def request(self, call: Call) -> Answer:
        async with self._send(call, aiohttp.ClientTimeout(total=call.timeout, connect=CONNECT_SECONDS)) as response:
            body = await response.read()
            return Answer(response.status, _lower(response.headers), body)

    @contextlib.asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Stream]:
        async with self._send(call, aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS)) as response:
            yield Stream(response.status, _lower(response.headers), response.content.iter_any())

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    @contextlib.asynccontextmanager
    async def _send(self, call: Call, timeout: aiohttp.ClientTimeout) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            authorization = await self._connection.authorization()
            response = await self._open(call, authorization, timeout)
            if response.status == 401 and await self._connection.renew(authorization):
                response.release()
                response = await self._open(call, await self._connection.authorization(), timeout)
            try:
                yield response
            finally:
                # A half-read body cannot be reused; a read one gives its connection back.
                response.release() if response.content.at_eof() else response.close()
        except TimeoutError as error:
            raise Unreachable(f"{self._where()}: no answer in time") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(f"{self._where()}: {_cause(error)}") from error

    async def _open(self, call: Call, authorization: str, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        session = await self._current()
        url = self._connection.url(call.path, call.query)
        headers = {"Accept": "application/json", "User-Agent": "ome-gateway"}
        if authorization:
            headers["Authorization"] = authorization
        if call.content_type:
            headers["Content-Type"] = call.content_type
        if call.before_send is not None:
            call.before_send()
        send = session.request(
            call.method, url, headers=headers, data=call.body or None, timeout=timeout, allow_redirects=False,
            proxy=self._connection.proxy, server_hostname=self._connection.tls_server_name,
        )  # fmt: skip
        return await asyncio.wait_for(send, call.timeout)

    async def _current(self) -> aiohttp.ClientSession:
        """The session; a new one after the certificates changed."""
        if self._session is None or self._opened != self._connection.epoch:
            await self.close()
            self._session, self._opened = self._connection.open(), self._connection.epoch
        return self._session

    def _where(self) -> str:
        return f"cannot reach the API server {self._connection.server}"


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _cause(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        inner: BaseException = error.certificate_error if hasattr(error, "certificate_error") else error.os_error
        return getattr(inner, "verify_message", "") or (inner.reason if isinstance(inner, ssl.SSLError) else str(inner))
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        if number and number > 0:
            return os.strerror(number)
        return error.os_error.strerror or str(error.os_error)
    return str(error) or type(error).__name__
