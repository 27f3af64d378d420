"""Configuration, credentials and the real transport, on loopback: what works, and one clear line for what does not."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio
import yaml
from aiohttp import web

from gateway.kube import config
from gateway.kube.client import KubeClient, connect
from gateway.kube.errors import (
    AlreadyExists,
    ConfigError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KindMissing,
    KubeError,
    NotFound,
    NotLeader,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    from_body,
)
from gateway.kube.kinds import ISVC, SECRET
from gateway.kube.transport import AioTransport, Call
from gateway.kube.writer import Writer
from sandbox.api.handler import ApiServer
from sandbox.clock import SystemClock
from sandbox.http import HttpServer
from sandbox.store import Store
from tests.gateway.kube.world import CRDS, isvc, obj, page, status

HOUR = "2126-12-01T00:00:00Z"


def kubeconfig(folder: Path, server: str, user: Any = None, name: str = "config", **cluster: Any) -> str:
    value = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": server} | cluster}],
        "users": [{"name": "u", "user": user or {"token": "t1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    }  # fmt: skip
    (folder / name).write_text(yaml.safe_dump(value))
    return str(folder / name)


class Server:
    """Answers `answer`, or what `handle` says, and remembers how it was asked."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.bodies: list[bytes] = []
        self.tokens: set[str] = {"t1"}
        self.answer = web.Response
        self.body: Any = obj("a", 1)
        self.status = 200
        self.headers: dict[str, str] = {}
        self.five = asyncio.Event()
        self.hang = asyncio.Event()
        self.hang.set()
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        self.hang.set()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if len(self.requests) == 5:
            self.five.set()
        self.bodies.append(await request.read())
        await self.hang.wait()
        if request.headers.get("Authorization", "") not in {f"Bearer {token}" for token in self.tokens}:
            return _answer(status(401, "Unauthorized", "Unauthorized").body, 401)
        body = self.body if isinstance(self.body, bytes) else orjson.dumps(self.body)
        return _answer(body, self.status, self.headers)


def _answer(body: bytes, code: int, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=body, status=code, headers=headers, content_type="application/json")


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    await made.start()
    yield made
    await made.stop()


class Clients:
    def __init__(self) -> None:
        self.made: list[KubeClient] = []

    async def __call__(self, path: str, **env: str) -> KubeClient:
        self.made.append(client := await connect(path, env))
        return client


@pytest_asyncio.fixture
async def client_of() -> AsyncIterator[Clients]:
    clients = Clients()
    yield clients
    for each in clients.made:
        await each.close()


async def test_a_token(tmp_path: Path, server: Server, client_of: Clients) -> None:
    client = await client_of(kubeconfig(tmp_path, server.url + "/"))
    assert (await client.get(ISVC, "team", "a")).uid == "uid-a"
    request = server.requests[-1]
    assert request.raw_path == "/apis/ome.io/v1beta1/namespaces/team/inferenceservices/a"
    assert request.headers["User-Agent"] == "ome-gateway" and request.headers["Accept"] == "application/json"


async def test_kubeconfig_by_environment(tmp_path: Path, server: Server, client_of: Clients) -> None:
    path = kubeconfig(tmp_path, server.url)
    client = await client_of("", KUBECONFIG=f"{tmp_path}/absent:{path}")
    assert (await client.get(ISVC, "team", "a")).name == "a"


async def test_selectors_and_tokens_of_pages_are_escaped_once(
    tmp_path: Path, server: Server, client_of: Clients
) -> None:
    server.body = orjson.loads(page(rv=5).body)
    client = await client_of(kubeconfig(tmp_path, server.url))
    await client.list(ISVC, "team", continue_token="a+b/c=%", labels="k=v,l")
    assert dict(server.requests[-1].query) == {"limit": "500", "continue": "a+b/c=%", "labelSelector": "k=v,l"}


async def test_a_token_file_is_read_again(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    token.write_text("t1\n")
    connection = await config.connect(kubeconfig(tmp_path, server.url, {"tokenFile": "token"}), {})
    seconds = [0.0]
    connection._clock = lambda: seconds[0]
    connection._checked = connection._renewed = 0.0
    assert await connection.authorization() == "Bearer t1"
    token.write_text("t2\n")
    seconds[0] = 59.0
    assert await connection.authorization() == "Bearer t1"
    seconds[0] = 61.0
    assert await connection.authorization() == "Bearer t2"


async def test_a_rotated_token_is_taken_up_at_the_first_401(
    tmp_path: Path, server: Server, client_of: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "RENEW_SECONDS", 0.0)
    (tmp_path / "token").write_text("t1")
    client = await client_of(kubeconfig(tmp_path, server.url, {"tokenFile": "token"}))
    await client.get(ISVC, "team", "a")
    server.tokens = {"t2"}
    (tmp_path / "token").write_text("t2")
    assert (await client.get(ISVC, "team", "a")).name == "a"
    server.tokens = {"t3"}
    before = len(server.requests)
    with pytest.raises(Unauthorized, match="check the token or certificate in the kubeconfig"):
        await client.get(ISVC, "team", "a")
    assert len(server.requests) == before + 1, "the same token is not tried twice"


async def test_all_requests_that_met_the_401_together_go_on(tmp_path: Path, server: Server, client_of: Clients) -> None:
    (tmp_path / "token").write_text("t1")
    path = kubeconfig(tmp_path, server.url, {"tokenFile": "token"})
    made = await config.connect(path, {})
    made._renewed = float("-inf")  # one renewal is due, and only one
    client_of.made.append(client := KubeClient(AioTransport(made)))
    server.tokens = {"t2"}
    (tmp_path / "token").write_text("t2")
    server.hang.clear()
    requests = [asyncio.ensure_future(client.get(ISVC, "team", "a")) for _ in range(5)]
    async with asyncio.timeout(10):
        await server.five.wait()
    server.hang.set()
    assert [each.name for each in await asyncio.gather(*requests)] == ["a"] * 5


async def test_a_secret_is_never_listed(tmp_path: Path, server: Server, client_of: Clients) -> None:
    client = await client_of(kubeconfig(tmp_path, server.url))
    with pytest.raises(KubeError, match="never listed"):
        await client.list(SECRET, "team")
    with pytest.raises(KubeError, match="never listed"):
        await anext(client.watch(SECRET, "team", "1", 60))
    assert server.requests == []


@pytest.mark.parametrize(
    ("code", "reason", "details", "kind"),
    [
        (409, "Conflict", {}, Conflict),
        (409, "AlreadyExists", {"name": "a"}, AlreadyExists),
        (410, "Expired", {}, Gone),
        (410, "Gone", {}, Gone),
        (504, "Timeout", {"causes": [{"reason": "ResourceVersionTooLarge"}]}, Gone),
        (504, "Timeout", {}, KubeError),
        (422, "Invalid", {"causes": [{"field": "metadata.uid", "reason": "FieldValueInvalid"}]}, Conflict),
        (422, "Invalid", {"causes": [{"field": "spec.x", "reason": "FieldValueInvalid"}]}, Invalid),
        (429, "TooManyRequests", {"retryAfterSeconds": 2}, TooManyRequests),
        (403, "Forbidden", {}, Forbidden),
        (418, "Teapot", {"causes": "odd"}, KubeError),
    ],
)
def test_answers_by_what_is_to_be_done(code: int, reason: str, details: Any, kind: type[KubeError]) -> None:
    error = from_body(status(code, reason, "two\nlines", details).body, code, "patch x")
    assert type(error) is kind and str(error).startswith("patch x: two lines")


async def test_a_renewal_is_guarded_by_the_fence_again(
    tmp_path: Path, server: Server, client_of: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "RENEW_SECONDS", 0.0)
    (tmp_path / "token").write_text("t1")
    client = await client_of(kubeconfig(tmp_path, server.url, {"tokenFile": "token"}))
    server.tokens = {"t2"}
    (tmp_path / "token").write_text("t2")
    answers = iter([True, True, False])
    write = Writer(client, lambda: next(answers))
    from tests.gateway.kube.test_writer import pb, revision
    from tests.gateway.kube.test_writer import write as make

    with pytest.raises(NotLeader):
        await write.apply(make(pb.VERB_CREATE, revision()))
    assert len(server.requests) == 1


def plugin(folder: Path, body: str) -> dict[str, Any]:
    (folder / "plugin.py").write_text(body)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable,
            "args": [str(folder / "plugin.py")], "interactiveMode": "Never",
        }
    }  # fmt: skip


PLUGIN = """
import json, pathlib
count = pathlib.Path(__file__).with_suffix(".count")
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
status = {"token": f"t%s"}
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""


async def test_a_credential_plugin_runs_again_when_its_token_expires(tmp_path: Path, server: Server) -> None:
    body = (PLUGIN % "{number}").replace('"token"', '"expirationTimestamp": "2020-01-01T00:00:00Z", "token"')
    connection = await config.connect(kubeconfig(tmp_path, server.url, plugin(tmp_path, body)), {})
    seconds = [0.0]
    connection._clock = lambda: seconds[0]
    connection._checked = 0.0
    assert await connection.authorization() == "Bearer t1"
    seconds[0] = 11.0
    assert await connection.authorization() == "Bearer t2"


async def test_a_credential_plugin_without_expiry_runs_once(tmp_path: Path, server: Server, client_of: Clients) -> None:
    client = await client_of(kubeconfig(tmp_path, server.url, plugin(tmp_path, PLUGIN % "{number}")))
    for _ in range(3):
        await client.get(ISVC, "team", "a")
    assert (tmp_path / "plugin.count").read_text() == "1"


async def test_the_pods_own_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kubernetes.aio.config import incluster_config

    from tests.gateway.kube.certs import Authority

    authority = Authority(tmp_path)
    (tmp_path / "token").write_text("t1\n")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority.ca))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    connection = await config.connect("", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert connection.server == "https://10.0.0.1:443"
    assert (await connection.authorization()).lower() == "bearer t1"
    (tmp_path / "token").unlink()
    with pytest.raises(ConfigError, match="service account cannot be used"):
        await config.connect("", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})


BROKEN = {
    "not YAML": ("clusters: [", r"kubeconfig .*: not YAML in line 1: "),
    "not a mapping": ("- a", r"not a kubeconfig \(no clusters in it\)"),
    "empty": ("", r"not a kubeconfig"),
    "binary": ("\udcff", r"not text in UTF-8"),
    "no context": ("clusters: []\ncontexts: []\ncurrent-context: x", r"x"),
    "no current context": ("clusters: []\ncontexts: []", r"current-context"),
    "clusters of another type": ("clusters: 7\ncontexts: []\ncurrent-context: x", r"kubeconfig"),
}


@pytest.mark.parametrize("what", BROKEN)
async def test_a_broken_kubeconfig_is_one_line(tmp_path: Path, what: str) -> None:
    text, expected = BROKEN[what]
    path = tmp_path / "config"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError, match=expected) as caught:
        await connect(str(path), {})
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("user", "cluster", "expected"),
    [
        ({"client-certificate": "/absent.crt"}, {}, "/absent.crt"),
        ({"client-certificate-data": "!", "client-key-data": "!"}, {}, "config: the client certificate or key cannot"),
        (
            None,
            {"certificate-authority-data": "bm8gUEVN"},
            "config: the certificate authority cannot be used",
        ),
        ({"exec": {"apiVersion": "v1", "command": "/absent-plugin"}}, {}, "credential plugin: .*absent-plugin"),
        ({"exec": {"command": "x"}}, {}, "credential plugin: .*apiVersion"),
        ({"tokenFile": "/absent-token"}, {}, "/absent-token"),
    ],
)
async def test_unusable_credentials_are_one_line(
    tmp_path: Path, user: Any, cluster: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected) as caught:
        await connect(kubeconfig(tmp_path, "https://127.0.0.1:1", user, **cluster), {})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("server", ["", "127.0.0.1:6443", "ftp://x", "https://"])
async def test_a_cluster_without_a_usable_address(tmp_path: Path, server: str) -> None:
    with pytest.raises(ConfigError, match="must be a URL such as"):
        await connect(kubeconfig(tmp_path, server), {})


async def test_no_configuration_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="give --kubeconfig FILE, set KUBECONFIG, or run in a pod"):
        await connect("", {})
    with pytest.raises(ConfigError, match="no such file"):
        await connect(str(tmp_path / "absent"), {})


async def test_a_server_that_is_away(tmp_path: Path, client_of: Clients) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        client = await client_of(kubeconfig(tmp_path, url))
        with pytest.raises(Unreachable) as caught:
            await client.get(ISVC, "team", "a")
    assert str(caught.value) == f"cannot reach the API server {url}: Connection refused"
    assert caught.value.transient


async def test_a_name_that_does_not_resolve(tmp_path: Path, client_of: Clients) -> None:
    client = await client_of(kubeconfig(tmp_path, "http://nowhere.invalid:80"))
    with pytest.raises(Unreachable, match=r"cannot reach the API server http://nowhere.invalid:80: ."):
        await client.get(ISVC, "team", "a")


async def test_a_server_that_does_not_answer(tmp_path: Path, server: Server) -> None:
    transport = AioTransport(await config.connect(kubeconfig(tmp_path, server.url), {}))
    server.hang.clear()
    try:
        with pytest.raises(Unreachable, match="no answer in time"):
            await transport.request(Call("GET", "/x", {}, timeout=0.05))
        with pytest.raises(Unreachable, match="no answer in time"):
            async with transport.stream(Call("GET", "/x", {}, timeout=0.05)):
                pass
    finally:
        await transport.close()


async def test_answers_that_are_no_json(tmp_path: Path, server: Server, client_of: Clients) -> None:
    client = await client_of(kubeconfig(tmp_path, server.url))
    server.body = b"<html>proxy</html>"
    with pytest.raises(KubeError) as caught:
        await client.get(ISVC, "team", "a")
    assert caught.value.reason == "Malformed"
    with pytest.raises(KubeError, match="no list"):
        await client.list(ISVC)
    server.status = 502
    with pytest.raises(KubeError, match="<html>proxy</html>") as caught:
        await client.list(ISVC)
    assert caught.value.code == 502 and caught.value.transient


async def test_a_missing_kind_is_no_missing_object(tmp_path: Path, server: Server, client_of: Clients) -> None:
    """A 404 on the path says nothing about the object: reading it as absent could cost a pin."""
    client = await client_of(kubeconfig(tmp_path, server.url))
    server.status, server.body = 404, b"404 page not found\n"
    with pytest.raises(KindMissing):
        await client.get(ISVC, "team", "a")
    details = {"name": "a", "group": "ome.io", "kind": "inferenceservices"}
    server.body = status(404, "NotFound", 'inferenceservices.ome.io "a" not found', details).body
    with pytest.raises(NotFound):
        await client.get(ISVC, "team", "a")
    assert not issubclass(KindMissing, NotFound)


async def test_throttling_names_its_time(tmp_path: Path, server: Server, client_of: Clients) -> None:
    client = await client_of(kubeconfig(tmp_path, server.url))
    server.status, server.headers = 429, {"Retry-After": "3"}
    server.body = status(429, "TooManyRequests").body
    with pytest.raises(TooManyRequests) as caught:
        await client.get(ISVC, "team", "a")
    assert caught.value.retry_after == 3.0


async def test_tls_with_client_certificates(tmp_path: Path, client_of: Clients) -> None:
    from sandbox.http import Tls
    from tests.gateway.kube.certs import Authority

    authority = Authority(tmp_path)
    cert, key = authority.issue("server", "127.0.0.1")
    mine, my_key = authority.issue("gateway", "gateway")
    http = HttpServer(ApiServer(Store(SystemClock())), tls=Tls(cert, key, authority.ca))
    await http.start()
    try:
        user = {"client-certificate": str(mine), "client-key": str(my_key)}
        good = kubeconfig(tmp_path, http.url, user, **{"certificate-authority": str(authority.ca)})
        client = await client_of(good)
        with pytest.raises(KindMissing):
            await client.list(ISVC)
        other = Authority(tmp_path / "other")
        bad = kubeconfig(tmp_path, http.url, user, "bad", **{"certificate-authority": str(other.ca)})
        stranger = await client_of(bad)
        with pytest.raises(Unreachable, match=r"cannot reach the API server https://127.0.0.1:\d+: .*certificate"):
            await stranger.list(ISVC)
    finally:
        await http.stop()


async def test_the_sandbox_over_http(tmp_path: Path, client_of: Clients) -> None:
    """Lists in pages, a watch with its bookmarks, and writes, over real sockets."""
    http = HttpServer(ApiServer(Store(SystemClock())), bookmark_seconds=0.1)
    await http.start()
    try:
        client = await client_of(kubeconfig(tmp_path, http.url))
        from sandbox.api.messages import Request

        for file in sorted(CRDS.glob("ome.io_*.yaml")):
            path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            http.api.handle(Request.of("POST", path, yaml.safe_load(file.read_text())))
        for number in range(5):
            await client.create(ISVC, "default", orjson.dumps(isvc(f"i{number}")))
        first = await client.list(ISVC, limit=3)
        rest = await client.list(ISVC, limit=3, continue_token=first.continue_token)
        assert [each.name for each in first.items + rest.items] == [f"i{number}" for number in range(5)]
        assert rest.continue_token == ""
        seen: list[str] = []
        async with asyncio.timeout(10):
            async for event in client.watch(ISVC, "", first.resource_version, 60):
                seen.append(event.type)
                if event.type == "OPENED":
                    await client.delete(ISVC, "default", "i0", first.items[0].uid)
                if event.type == "BOOKMARK" and "DELETED" in seen:
                    break
        assert seen[0] == "OPENED" and seen.count("DELETED") == 1
    finally:
        await http.stop()
