"""Mutual TLS: who gets in, and certificates that change while the server runs."""
# ruff: noqa: ASYNC240 - the files are tiny and the tests own their loop

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import grpc
import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ome.gc.v1 import gc_pb2, gc_pb2_grpc
from services.kit import channel as channels
from services.kit import tls
from services.kit.channel import connect
from services.kit.server import RpcServer
from services.kit.settings import ServiceSettings


class Authority:
    """A certificate authority that issues for `localhost`."""

    def __init__(self, name: str) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.cert = self._build(self.name, self.key, authority=True)

    def issue(self, name: str, directory: Path, prefix: str) -> tuple[str, str]:
        """Writes a certificate and key; answers their paths."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        cert = self._build(subject, key, authority=False)
        paths = directory / f"{prefix}.pem", directory / f"{prefix}.key"
        replace(paths[0], cert.public_bytes(serialization.Encoding.PEM))
        replace(
            paths[1],
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
        )
        return str(paths[0]), str(paths[1])

    def write(self, path: Path) -> str:
        replace(path, self.cert.public_bytes(serialization.Encoding.PEM))
        return str(path)

    def _build(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, authority: bool) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        )
        return builder.sign(self.key, hashes.SHA256())


def replace(path: Path, data: bytes) -> None:
    """As a Secret volume does: the new file takes the old one's name at once."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(data)
    fresh.replace(path)


@dataclass
class Files:
    server: Authority
    client: Authority
    settings: ServiceSettings
    tls: tls.ClientTls
    directory: Path


@pytest.fixture
def files(tmp_path: Path) -> Files:
    server, client = Authority("server authority"), Authority("client authority")
    cert, key = server.issue("server", tmp_path, "server")
    client_cert, client_key = client.issue("gateway", tmp_path, "client")
    settings = ServiceSettings(tls_cert=cert, tls_key=key, tls_client_ca=client.write(tmp_path / "client-ca.pem"))
    trust = server.write(tmp_path / "server-ca.pem")
    return Files(server, client, settings, tls.ClientTls(trust, client_cert, client_key, "localhost"), tmp_path)


async def call(address: str, client: tls.ClientTls | None) -> list[str]:
    async with connect(address, tls=client) as channel:
        answer = await gc_pb2_grpc.GcServiceStub(channel).Plan(gc_pb2.PlanRequest(), timeout=3)
        return list(answer.incomplete)


async def refused(address: str, client: tls.ClientTls | None) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(address, client)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_only_clients_with_a_certificate_get_in(files: Files, sample: ModuleType, tmp_path: Path) -> None:
    server = RpcServer(files.settings, sample.register)
    await server.start()
    assert await call(server.address, files.tls) == ["ok"]
    await refused(server.address, None)
    stranger = Authority("stranger").issue("gateway", tmp_path, "stranger")
    await refused(server.address, tls.ClientTls(files.tls.ca, *stranger, "localhost"))
    trust_only = grpc.ssl_channel_credentials(Path(files.tls.ca).read_bytes())
    options = [("grpc.ssl_target_name_override", "localhost")]
    async with grpc.aio.secure_channel(server.address, trust_only, options) as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await gc_pb2_grpc.GcServiceStub(channel).Plan(gc_pb2.PlanRequest(), timeout=3)
    await server.stop()


async def test_a_rotated_server_certificate_is_served(files: Files, sample: ModuleType, tmp_path: Path) -> None:
    server = RpcServer(files.settings, sample.register)
    await server.start()
    assert await call(server.address, files.tls) == ["ok"]
    other = Authority("next authority")
    new_trust = tls.ClientTls(other.write(tmp_path / "next-ca.pem"), files.tls.cert, files.tls.key, "localhost")
    await refused(server.address, new_trust)
    other.issue("server", tmp_path, "server")
    assert await call(server.address, new_trust) == ["ok"]
    await refused(server.address, files.tls)
    await server.stop()


async def test_a_rotated_client_authority_is_asked_for(files: Files, sample: ModuleType, tmp_path: Path) -> None:
    server = RpcServer(files.settings, sample.register)
    await server.start()
    other = Authority("next client authority")
    pair = other.issue("gateway", tmp_path, "next-client")
    next_client = tls.ClientTls(files.tls.ca, *pair, "localhost")
    await refused(server.address, next_client)
    other.write(Path(files.settings.tls_client_ca))
    assert await call(server.address, next_client) == ["ok"]
    await refused(server.address, files.tls)
    await server.stop()


@pytest.mark.parametrize("damage", ["half", "other key", "gone"])
async def test_unusable_new_files_leave_the_old_ones(
    files: Files, sample: ModuleType, tmp_path: Path, damage: str
) -> None:
    server = RpcServer(files.settings, sample.register)
    await server.start()
    cert, key = Path(files.settings.tls_cert), Path(files.settings.tls_key)
    good = cert.read_bytes(), key.read_bytes()
    if damage == "half":
        replace(cert, good[0][:100])
    elif damage == "other key":
        replace(key, Path(files.server.issue("x", tmp_path, "x")[1]).read_bytes())
    else:
        cert.unlink()
    assert await call(server.address, files.tls) == ["ok"]
    files.server.issue("server", tmp_path, "server")
    assert await call(server.address, files.tls) == ["ok"]
    await server.stop()


async def test_a_client_follows_its_rotated_certificate(
    files: Files, sample: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "RELOAD_SECONDS", 0.0)
    server = RpcServer(files.settings, sample.register)
    await server.start()
    address = server.address
    async with connect(address, tls=files.tls) as channel:
        stub = gc_pb2_grpc.GcServiceStub(channel)
        running = stub.Plan(gc_pb2.PlanRequest(), timeout=10, metadata=(("x-test", "sleep:0.5"),))
        assert (await stub.Plan(gc_pb2.PlanRequest(), timeout=3)).incomplete == ["ok"]
        other = Authority("next client authority")
        other.write(Path(files.settings.tls_client_ca))
        other.issue("gateway", tmp_path, "client")
        assert (await stub.Plan(gc_pb2.PlanRequest(), timeout=3)).incomplete == ["ok"]
        assert (await running).incomplete == ["ok"], "a call on the old connection goes on"
        await server.drain(1)
        # A new server asks for the new authority from the first handshake on: only a followed rotation gets in.
        again = RpcServer(files.settings.model_copy(update={"listen": address}), sample.register)
        await again.start()
        assert (await stub.Plan(gc_pb2.PlanRequest(), timeout=5, wait_for_ready=True)).incomplete == ["ok"]
        await again.stop()


def test_faults_name_the_file(files: Files, tmp_path: Path) -> None:
    settings = files.settings
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    with pytest.raises(tls.TlsError, match=r"junk\.pem"):
        tls.server_credentials(settings.tls_cert, settings.tls_key, str(junk))
    with pytest.raises(tls.TlsError, match=r"junk\.pem"):
        tls.server_credentials(str(junk), settings.tls_key, settings.tls_client_ca)
    with pytest.raises(tls.TlsError, match=r"server\.pem and .*client\.key are no certificate with its key"):
        tls.server_credentials(settings.tls_cert, files.tls.key, settings.tls_client_ca)
    with pytest.raises(tls.TlsError, match=r"none\.pem: No such file"):
        tls.client_credentials(tls.ClientTls(str(tmp_path / "none.pem"), files.tls.cert, files.tls.key))
