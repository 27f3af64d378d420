"""Over HTTP: watches as streams, admission webhooks over HTTPS, TLS, tokens and limits."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sandbox.api.access import Attributes, User, Users
from sandbox.api.handler import ApiServer
from sandbox.clock import SystemClock
from sandbox.http import HttpServer, Tls
from sandbox.store import Store

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    names: list[x509.GeneralName] = [x509.DNSName("hook.ome.svc"), x509.IPAddress(ip_address("127.0.0.1"))]
    cert = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (tmp_path / "cert.pem").write_bytes(cert.public_bytes(serialization.Encoding.PEM))
    pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (tmp_path / "key.pem").write_bytes(key.private_bytes(*pem))
    return Tls(tmp_path / "cert.pem", tmp_path / "key.pem")


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    running = HttpServer(ApiServer(Store(SystemClock())), bookmark_seconds=0.2)
    await running.start()
    yield running
    await running.stop()


@pytest.fixture
async def client(server: HttpServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(server.url) as session:
        yield session


async def frame(response: aiohttp.ClientResponse) -> dict[str, Any]:
    line = await asyncio.wait_for(response.content.readline(), 10)
    value: dict[str, Any] = json.loads(line)
    return value


async def test_watch_streams_and_ends(client: aiohttp.ClientSession) -> None:
    async with client.get(f"{CONFIGMAPS}?watch=1&timeoutSeconds=2&allowWatchBookmarks=true") as response:
        assert response.status == 200
        await client.post(CONFIGMAPS, json={"metadata": {"name": "a"}})
        first = await frame(response)
        while first["type"] == "BOOKMARK":
            first = await frame(response)
        assert first["type"] == "ADDED" and first["object"]["metadata"]["name"] == "a"
        kinds = [json.loads(line)["type"] async for line in response.content]
        assert kinds and set(kinds) == {"BOOKMARK"}


async def test_body_limit_and_warning_header(client: aiohttp.ClientSession) -> None:
    async with client.post(CONFIGMAPS, data=b"x" * (3 * 1024 * 1024 + 2)) as response:
        assert response.status == 413 and (await response.json())["reason"] == "RequestEntityTooLarge"
    body = {"metadata": {"name": "w"}, "nope": 1}
    async with client.post(f"{CONFIGMAPS}?fieldValidation=Warn", json=body) as response:
        assert response.status == 201 and response.headers["Warning"] == '299 - "unknown field \\"nope\\""'


async def test_garbage_is_collected_by_itself(client: aiohttp.ClientSession) -> None:
    owner = await (await client.post(CONFIGMAPS, json={"metadata": {"name": "owner"}})).json()
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    await client.post(CONFIGMAPS, json={"metadata": {"name": "child", "ownerReferences": [reference]}})
    await client.delete(f"{CONFIGMAPS}/owner")
    for _ in range(200):
        async with client.get(f"{CONFIGMAPS}/child") as response:
            if response.status == 404:
                return
        await asyncio.sleep(0.02)
    raise AssertionError("the child of a deleted owner stays")


async def test_tls_and_tokens(tls: Tls) -> None:
    def readers(user: dict[str, Any], asked: Attributes) -> bool:
        return "system:masters" in user["groups"] or asked.verb in ("get", "list")

    users = Users({"root": User("admin", groups=["system:masters"]), "ro": User("reader", uid="7")}, readers)
    running = HttpServer(ApiServer(Store(SystemClock()), users=users), tls=tls)
    await running.start()
    try:
        trust = ssl.create_default_context(cafile=str(tls.cert))
        async with aiohttp.ClientSession(running.url, connector=aiohttp.TCPConnector(ssl=trust)) as session:

            async def ask(method: str, path: str, token: str, body: Any = None) -> tuple[int, Any]:
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                async with session.request(method, path, json=body, headers=headers) as response:
                    return response.status, await response.json(content_type=None)

            assert (await ask("GET", CONFIGMAPS, ""))[0] == 401
            assert (await ask("GET", CONFIGMAPS, "bad"))[1]["reason"] == "Unauthorized"
            assert (await ask("GET", "/version", ""))[0] == 200
            assert (await ask("GET", CONFIGMAPS, "ro"))[0] == 200
            status, error = await ask("POST", CONFIGMAPS, "ro", {"metadata": {"name": "a"}})
            assert status == 403 and error["message"] == (
                'configmaps is forbidden: User "reader" cannot create resource "configmaps" in API group "" in the '
                'namespace "default"'
            )
            reviews = "/apis/authentication.k8s.io/v1/tokenreviews"
            status, review = await ask("POST", reviews, "root", {"spec": {"token": "ro"}})
            assert status == 201 and review["status"]["user"]["username"] == "reader"
            assert not (await ask("POST", reviews, "root", {"spec": {"token": "x"}}))[1]["status"].get("authenticated")
            access = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
            spec = {"user": "reader", "groups": [], "resourceAttributes": {"verb": "patch", "resource": "pods"}}
            assert (await ask("POST", access, "root", {"spec": spec}))[1]["status"]["allowed"] is False
            spec["resourceAttributes"] = {"verb": "get", "resource": "pods"}
            assert (await ask("POST", access, "root", {"spec": spec}))[1]["status"]["allowed"] is True
    finally:
        await running.stop()


async def test_port_in_use(server: HttpServer) -> None:
    with pytest.raises(OSError, match="address already in use"):
        await HttpServer(ApiServer(Store(SystemClock())), port=server.port).start()


Judge = Callable[[dict[str, Any]], dict[str, Any]]


class Hook:
    """A webhook server that answers what ``judge`` says and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.judge: Judge = lambda request: {"allowed": True}
        self.delay = 0.0

    async def answer(self, incoming: web.Request) -> web.Response:
        request = (await incoming.json())["request"]
        self.asked.append(request)
        await asyncio.sleep(self.delay)
        response = {"uid": request["uid"], **self.judge(request)}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


@pytest.fixture
async def hook(server: HttpServer, tls: Tls) -> AsyncIterator[Hook]:
    hook = Hook()
    application = web.Application()
    application.router.add_post("/validate", hook.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls.context()).start()
    port = runner.addresses[0][1]
    server.resolve = lambda name, _: ("127.0.0.1", port) if name == "hook.ome.svc" else None
    yield hook
    await runner.cleanup()


def configuration(tls: Tls, **more: Any) -> dict[str, Any]:
    service = {"namespace": "ome", "name": "hook", "path": "/validate"}
    webhook = {
        "name": "check.example.com",
        "clientConfig": {"service": service, "caBundle": base64.b64encode(tls.cert.read_bytes()).decode()},
        "rules": [{"apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"], "operations": ["*"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }
    return {"metadata": {"name": "checks"}, "webhooks": [webhook]}


async def post(client: aiohttp.ClientSession, name: str, query: str = "", **meta: Any) -> tuple[int, dict[str, Any]]:
    body = {"metadata": {"name": name, **meta}, "data": {"x": "1"}}
    async with client.post(CONFIGMAPS + query, json=body) as response:
        return response.status, {**await response.json(), "warning": response.headers.get("Warning")}


async def test_webhook_refuses_and_warns(client: aiohttp.ClientSession, tls: Tls, hook: Hook) -> None:
    await client.post(CONFIGURATIONS, json=configuration(tls))
    hook.judge = lambda request: {
        "allowed": False,
        "status": {"message": "not today", "code": 422, "reason": "Invalid"},
    }
    status, error = await post(client, "a")
    assert status == 422 and error["message"] == 'admission webhook "check.example.com" denied the request: not today'
    assert error["reason"] == "Invalid"
    hook.judge = lambda request: {"allowed": False}
    status, error = await post(client, "a")
    assert status == 400 and error["message"].endswith("denied the request without explanation")
    hook.judge = lambda request: {"allowed": True, "warnings": ["mind the gap"]}
    status, made = await post(client, "a")
    assert status == 201 and made["warning"] == '299 - "mind the gap"'
    await client.patch(
        f"{CONFIGMAPS}/a", json={"data": {"x": "2"}}, headers={"Content-Type": "application/merge-patch+json"}
    )
    await client.delete(f"{CONFIGMAPS}/a")
    create, update, delete = hook.asked[-3:]
    assert create["operation"] == "CREATE" and create["object"]["data"] == {"x": "1"} and create["oldObject"] is None
    assert (
        create["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
        and create["namespace"] == "default"
    )
    assert update["operation"] == "UPDATE" and update["oldObject"]["data"] == {"x": "1"}
    assert update["object"]["data"] == {"x": "2"} and create["userInfo"]["username"]
    assert delete["operation"] == "DELETE" and delete["object"] is None and delete["oldObject"]["data"] == {"x": "2"}


async def test_webhook_selectors_and_dry_run(client: aiohttp.ClientSession, tls: Tls, hook: Hook) -> None:
    chosen = configuration(
        tls,
        objectSelector={"matchLabels": {"check": "yes"}},
        namespaceSelector={
            "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["default"]}]
        },
    )
    await client.post(CONFIGURATIONS, json=chosen)
    assert (await post(client, "a"))[0] == 201 and hook.asked == []
    assert (await post(client, "b", labels={"check": "yes"}))[0] == 201 and len(hook.asked) == 1
    assert (await post(client, "c", "?dryRun=All", labels={"check": "yes"}))[0] == 201 and hook.asked[1][
        "dryRun"
    ] is True


async def test_webhook_failure_policy_and_timeout(client: aiohttp.ClientSession, tls: Tls, hook: Hook) -> None:
    await client.post(CONFIGURATIONS, json=configuration(tls, timeoutSeconds=1))
    hook.delay = 5
    status, error = await post(client, "a")
    assert status == 500 and error["reason"] == "InternalError"
    assert 'failed calling webhook "check.example.com": failed to call webhook: ' in error["message"]
    assert "context deadline exceeded" in error["message"]
    await client.delete(f"{CONFIGURATIONS}/checks")
    await client.post(CONFIGURATIONS, json=configuration(tls, timeoutSeconds=1, failurePolicy="Ignore"))
    assert (await post(client, "a"))[0] == 201
    await client.delete(f"{CONFIGURATIONS}/checks")
    stranger = {"service": {"namespace": "ome", "name": "absent"}, "caBundle": ""}
    await client.post(CONFIGURATIONS, json=configuration(tls, clientConfig=stranger))
    assert (await post(client, "b"))[0] == 500


async def test_a_write_during_a_webhook_call_is_seen(client: aiohttp.ClientSession, tls: Tls, hook: Hook) -> None:
    assert (await post(client, "a"))[0] == 201
    await client.post(CONFIGURATIONS, json=configuration(tls))
    hook.delay = 0.3
    headers = {"Content-Type": "application/merge-patch+json"}
    stale = await (await client.get(f"{CONFIGMAPS}/a")).json()
    slow = asyncio.create_task(client.patch(f"{CONFIGMAPS}/a", json={"data": {"y": "1"}}, headers=headers))
    put = asyncio.create_task(client.put(f"{CONFIGMAPS}/a", json={**stale, "data": {"z": "1"}}))
    answers = [(await slow).status, (await put).status]
    final = (await (await client.get(f"{CONFIGMAPS}/a")).json())["data"]
    assert answers in ([200, 409], [200, 200])
    assert final == ({"x": "1", "y": "1"} if answers == [200, 409] else {"z": "1", "y": "1"})
