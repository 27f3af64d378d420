"""Virtual time, a transport that answers by script, and one that is the sandbox's API server with faults on demand."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
from collections import deque
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import orjson
import yaml

from gateway.kube.client import KubeClient
from gateway.kube.errors import Unreachable
from gateway.kube.transport import Answer, Call, Stream
from sandbox.api.handler import ApiServer
from sandbox.api.messages import Request, Response
from sandbox.api.watch import Watch
from sandbox.clock import VirtualClock
from sandbox.store import Store

CRDS = Path(__file__).parents[3] / "deploy" / "crds"
ISVCS = "/apis/ome.io/v1beta1/namespaces/team/inferenceservices"
START = datetime(2026, 12, 1, tzinfo=UTC)


async def settle(rounds: int = 60) -> None:
    """Lets every task run that can, without any time passing."""
    for _ in range(rounds):
        await asyncio.sleep(0)


class Time:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.sleeps: list[float] = []
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def __call__(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds - 1000.0)

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.seconds + max(0.0, seconds), next(self._order), woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Time passes, and whoever is due runs at its moment."""
        end = self.seconds + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            at, _, woken = heapq.heappop(self._sleepers)
            self.seconds = max(self.seconds, at)
            if not woken.done():
                woken.set_result(None)
                await settle()
        self.seconds = end
        await settle()


def obj(name: str, rv: int, uid: str = "", namespace: str = "team", **extra: Any) -> dict[str, Any]:
    """An InferenceService as the API server would send it."""
    metadata = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}", "resourceVersion": str(rv)}
    metadata |= extra.pop("metadata", {})
    return {"apiVersion": "ome.io/v1beta1", "kind": "InferenceService", "metadata": metadata, **extra}


def isvc(name: str) -> dict[str, Any]:
    """An InferenceService to create."""
    body = {"runtime": {"name": "rt"}}
    return {"apiVersion": "ome.io/v1beta1", "kind": "InferenceService", "metadata": {"name": name}, "spec": body}


def page(*items: dict[str, Any], rv: int, token: str = "") -> Answer:
    metadata = {"resourceVersion": str(rv)} | ({"continue": token} if token else {})
    body = {"apiVersion": "ome.io/v1beta1", "kind": "InferenceServiceList", "metadata": metadata, "items": list(items)}
    return Answer(200, {}, orjson.dumps(body))


def status(code: int, reason: str, message: str = "said so", details: Any = None, **headers: str) -> Answer:
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    if details is not None:
        body["details"] = details
    return Answer(code, {name.replace("_", "-"): text for name, text in headers.items()}, orjson.dumps(body))


def frame(event: str, body: Any) -> bytes:
    return orjson.dumps({"type": event, "object": body}) + b"\n"


def bookmark(rv: int) -> bytes:
    return frame("BOOKMARK", {"kind": "InferenceService", "metadata": {"resourceVersion": str(rv)}})


class Script:
    """A watch that sends what a test tells it, then ends (`end`), breaks (`fail`) or stays silent."""

    def __init__(self, code: int = 200, body: bytes = b"") -> None:
        self.code = code
        self.closed = False
        self._queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        if body:
            self.send(body)
            self.end()

    def send(self, *frames: bytes) -> None:
        for each in frames:
            self._queue.put_nowait(each)

    def fail(self, error: Exception) -> None:
        self._queue.put_nowait(error)

    def end(self) -> None:
        self._queue.put_nowait(None)

    async def chunks(self) -> AsyncIterator[bytes]:
        while (item := await self._queue.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item


class ScriptTransport:
    """Answers lists and watches in the order given; without an answer left it fails the test by its log."""

    def __init__(self) -> None:
        self.answers: deque[Answer | Exception] = deque()
        self.watches: deque[Script | Exception] = deque()
        self.calls: list[Call] = []
        self.unexpected: list[Call] = []

    async def request(self, call: Call) -> Answer:
        self.calls.append(call)
        if not self.answers:
            self.unexpected.append(call)
            raise Unreachable("the script has ended")
        answer = self.answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer

    @contextlib.asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Stream]:
        self.calls.append(call)
        script = self.watches.popleft() if self.watches else Script()
        if isinstance(script, Exception):
            raise script
        try:
            yield Stream(script.code, {}, script.chunks())
        finally:
            script.closed = True

    async def close(self) -> None:
        pass

    @property
    def versions(self) -> list[str]:
        """The resourceVersions that watches were asked from."""
        return [call.query["resourceVersion"] for call in self.calls if "watch" in call.query]

    @property
    def lists(self) -> list[Call]:
        return [call for call in self.calls if "watch" not in call.query]


class Cluster:
    """The sandbox's API server in this process, as a transport. `fault` sees every call first and may raise or answer
    in its place; `log` has the calls that reached the server."""

    def __init__(self, crds: bool = True) -> None:
        self.api = ApiServer(Store(VirtualClock(START)), seed=1)
        self.log: list[Call] = []
        self.fault: Callable[[Call], Answer | None] = lambda call: None
        self.after: Callable[[Call], None] = lambda call: None
        self._watches: set[Watch] = set()
        self.do("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ome"}})
        self.do("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        if crds:
            self.install()

    def install(self) -> None:
        """The suite's CRDs."""
        for file in sorted(CRDS.glob("ome.io_*.yaml")):
            self.do("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", yaml.safe_load(file.read_text()))

    def do(self, method: str, url: str, body: Any = b"", **headers: str) -> dict[str, Any]:
        """What somebody else does to the cluster."""
        answer = self.api.handle(Request.of(method, url, body, **headers))
        assert isinstance(answer, Response) and answer.status < 300, answer
        return answer.json()

    @property
    def writes(self) -> list[Call]:
        return [call for call in self.log if call.method != "GET"]

    @property
    def client(self) -> KubeClient:
        return KubeClient(self)

    async def request(self, call: Call) -> Answer:
        answer = self._send(call)
        assert isinstance(answer, Response | Answer)
        return Answer(answer.status, {name.lower(): text for name, text in answer.headers.items()}, answer.body)

    def _send(self, call: Call) -> Response | Watch | Answer:
        if call.before_send is not None:
            call.before_send()
        refused = self.fault(call)
        if refused is not None:
            return refused
        self.log.append(call)
        headers = {"content-type": call.content_type} if call.content_type else {}
        request = Request(call.method, unquote(call.path), dict(call.query), headers, call.body)
        answer = self.api.handle(request)
        self.after(call)
        return answer

    @contextlib.asynccontextmanager
    async def stream(self, call: Call) -> AsyncIterator[Stream]:
        answer = self._send(call)
        if not isinstance(answer, Watch):
            yield Stream(answer.status, answer.headers, _once(answer.body))
            return
        self._watches.add(answer)
        try:
            yield Stream(200, {}, self._frames(answer))
        finally:
            self._watches.discard(answer)
            answer.close()

    async def _frames(self, watch: Watch) -> AsyncIterator[bytes]:
        ready = asyncio.Event()
        watch.on_ready = ready.set
        while watch in self._watches:
            ready.clear()
            for each in watch.drain():
                yield each
            if watch.closed:
                return
            await ready.wait()
        raise Unreachable("connection reset")

    def drop(self) -> None:
        """All watches lose their connection."""
        for watch in list(self._watches):
            self._watches.discard(watch)
            watch.on_ready()

    async def close(self) -> None:
        pass


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body
