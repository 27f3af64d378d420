"""A proxy in front of the API server that counts a gateway's writes and can stop one of them halfway."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import dataclass
from typing import Literal

import aiohttp
from aiohttp import web

When = Literal["before", "after"]
HOP_HEADERS = {"connection", "transfer-encoding", "content-encoding", "content-length", "host", "keep-alive"}


@dataclass(frozen=True)
class Write:
    """A request that changes something; ``status`` is the server's answer, 0 while there is none."""

    method: str
    path: str
    body: bytes
    status: int


class FaultProxy:
    """Serves ``url`` in a thread of its own. Requests on Leases pass uncounted.

    ``hold(n, when)`` stops the n-th write from now on: ``before`` it reaches the server, or ``after`` the server has
    applied it but before the client has the answer. ``held`` is set at that moment; ``release`` lets everything go on.
    """

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.url = ""
        self.writes: list[Write] = []
        self.requests = 0
        self.held = threading.Event()
        self._hold: tuple[int, When] | None = None
        self._seen = 0
        self._go: asyncio.Event | None = None
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> FaultProxy:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def stop(self) -> None:
        self._call(lambda: self._stop and self._stop.set())
        self._thread.join(10)

    def hold(self, number: int, when: When) -> None:
        """Arms the proxy for the ``number``-th write (1: the next)."""

        def arm() -> None:
            self.held.clear()
            self._go = asyncio.Event()
            self._hold, self._seen = (number, when), 0

        self._call(arm)

    def release(self) -> None:
        """Disarms it and lets a held write go on."""

        def go() -> None:
            self._hold = None
            if self._go is not None:
                self._go.set()

        self._call(go)

    def _call(self, work: object) -> None:
        done = threading.Event()

        def run() -> None:
            work()  # type: ignore[operator]
            done.set()

        self._loop.call_soon_threadsafe(run)
        assert done.wait(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        application = web.Application(client_max_size=8 * 1024 * 1024)
        application.router.add_route("*", "/{path:.*}", self._handle)
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as self._session:
            runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0, backlog=512).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            self._ready.set()
            await self._stop.wait()
            await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        counted = request.method not in ("GET", "HEAD") and "/leases" not in request.path
        body = await request.read()
        stop_here: When | None = None
        if counted:
            self._seen += 1
            if self._hold is not None and self._seen == self._hold[0]:
                stop_here = self._hold[1]
            place = len(self.writes)
            self.writes.append(Write(request.method, request.path, body, 0))
        if stop_here == "before":
            await self._wait()
        headers = {key: value for key, value in request.headers.items() if key.lower() not in HOP_HEADERS}
        async with self._session.request(
            request.method, f"{self.upstream}{request.raw_path}", data=body or None, headers=headers
        ) as answer:
            if counted:
                self.writes[place] = Write(request.method, request.path, body, answer.status)
                data = await answer.read()
                if stop_here == "after":
                    await self._wait()
                kept = {k: v for k, v in answer.headers.items() if k.lower() not in HOP_HEADERS}
                return web.Response(status=answer.status, body=data, headers=kept)
            return await self._stream(request, answer)

    async def _wait(self) -> None:
        assert self._go is not None
        go = self._go
        self.held.set()
        await go.wait()

    @staticmethod
    async def _stream(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status)
        for key, value in answer.headers.items():
            if key.lower() not in HOP_HEADERS:
                response.headers[key] = value
        await response.prepare(request)
        with contextlib.suppress(ConnectionError, aiohttp.ClientError):
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
        return response
