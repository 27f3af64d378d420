"""HTTP for ``ApiServer``: an aiohttp application that answers requests, streams watches and calls webhooks."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from sandbox.api.admission import WebhookAnswer, WebhookCall
from sandbox.api.bodies import LIMIT
from sandbox.api.handler import ApiServer, error_response
from sandbox.api.messages import Request, Response
from sandbox.api.status import StatusError, internal, too_large
from sandbox.api.watch import Watch

BOOKMARK_SECONDS = 60.0
STEP_SECONDS = 0.05
WATCH_TIMEOUT_SECONDS = 1800.0

Resolver = Callable[[str, int], tuple[str, int] | None]


@dataclass(frozen=True)
class Tls:
    """Server certificate and key (PEM files), and optionally the authority of client certificates."""

    cert: Path
    key: Path
    client_ca: Path | None = None

    def context(self) -> ssl.SSLContext:
        """The server's TLS settings."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        if self.client_ca:
            context.load_verify_locations(self.client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL
        return context


@dataclass
class HttpServer:
    """A running server. ``port`` is the real one; ``stop`` ends watches and connections."""

    api: ApiServer
    host: str = "127.0.0.1"
    port: int = 0
    tls: Tls | None = None
    resolve: Resolver = field(default=lambda name, port: None)
    """Where the Service of a webhook listens (``name.namespace.svc`` and port); None when nowhere."""
    bookmark_seconds: float = BOOKMARK_SECONDS
    _runner: web.AppRunner | None = None
    _session: aiohttp.ClientSession | None = None
    _collecting: asyncio.Task[None] | None = None
    _watches: set[Watch] = field(default_factory=set)

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}"

    async def start(self) -> None:
        """Listens and begins the loop of garbage collection. Raises ``OSError`` when the port cannot be had."""
        application = web.Application(client_max_size=LIMIT + 1)
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._session = aiohttp.ClientSession()
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        context = self.tls.context() if self.tls else None
        site = web.TCPSite(self._runner, self.host, self.port, ssl_context=context, backlog=512)
        try:
            await site.start()
        except OSError:
            await self.stop()
            raise
        self.port = self._runner.addresses[0][1]
        self._collecting = asyncio.create_task(self._collect())

    async def stop(self) -> None:
        """Ends everything."""
        if self._collecting is not None:
            self._collecting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._collecting
        for watch in list(self._watches):
            watch.close()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def _collect(self) -> None:
        while True:
            await asyncio.sleep(STEP_SECONDS)
            if not self.api.collector.idle:
                self.api.collect()

    async def _serve(self, incoming: web.Request) -> web.StreamResponse:
        try:
            body = await incoming.read()
        except web.HTTPRequestEntityTooLarge:
            return _plain(error_response(too_large()))
        request = Request(
            incoming.method,
            incoming.path,
            dict(incoming.query),
            {name.lower(): value for name, value in incoming.headers.items()},
            body,
        )
        answer = await self._answer(request)
        if isinstance(answer, Watch):
            return await self._stream(incoming, answer)
        return _plain(answer)

    async def _answer(self, request: Request) -> Response | Watch:
        steps = self.api.steps(request)
        try:
            call = next(steps)
            while True:
                call = steps.send(await self._call(call))
        except StopIteration as end:
            answer: Response | Watch = end.value
            return answer
        except StatusError as error:
            return error_response(error)
        except Exception as error:  # the server must outlive a fault of its own
            incoming = f"{request.method} {request.path}"
            self.on_fault(incoming, error)
            return error_response(internal(f"{type(error).__name__} while answering {incoming}"))

    def on_fault(self, request: str, error: Exception) -> None:
        """Tells about a fault of the server itself; by default through the loop's exception handler."""
        context = {"message": f"fault while answering {request}", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)

    async def _call(self, call: WebhookCall) -> WebhookAnswer:
        assert self._session is not None
        parts = urlsplit(call.url)
        place = self.resolve(parts.hostname or "", parts.port or 443)
        url = call.url
        if place is not None:
            url = parts._replace(netloc=f"{place[0]}:{place[1]}").geturl()
        try:
            context = ssl.create_default_context(cadata=call.ca or None)
            timeout = aiohttp.ClientTimeout(total=call.timeout_seconds)
            async with self._session.post(
                url, data=call.body, ssl=context, timeout=timeout, server_hostname=parts.hostname,
                headers={"Content-Type": "application/json", "Accept": "application/json"},
            ) as response:  # fmt: skip
                if response.status != 200:
                    return ConnectionError(f"expected webhook response of status 200, got {response.status}")
                return await response.read()
        except TimeoutError:
            return TimeoutError(f'Post "{call.url}": context deadline exceeded')
        except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
            return ConnectionError(f'Post "{call.url}": {error}')

    async def _stream(self, incoming: web.Request, watch: Watch) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": watch.content_type, "Cache-Control": "no-cache"})
        response.enable_chunked_encoding()
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        watch.on_ready = ready.set
        ready.set()
        seconds = watch.timeout_seconds or WATCH_TIMEOUT_SECONDS
        ends = loop.time() + seconds
        watch.bookmark_each(self.bookmark_seconds)
        self._watches.add(watch)
        try:
            await response.prepare(incoming)
            while True:
                ready.clear()
                frames = watch.drain()
                if frames:
                    await response.write(b"".join(frames))
                    continue
                if watch.closed:
                    break
                left = ends - loop.time()
                if left <= 0:
                    watch.close()
                    continue
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ready.wait(), min(left, self.bookmark_seconds))
            await response.write_eof()
        except ConnectionError:
            pass  # the client went away: nothing is owed to it
        finally:
            self._watches.discard(watch)
            watch.close()
        return response


def _plain(answer: Response) -> web.Response:
    response = web.Response(status=answer.status, body=answer.body, headers=dict(answer.headers))
    for value in answer.warning_headers():
        response.headers.add("Warning", value)
    return response
