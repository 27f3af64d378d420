"""Mutual TLS from PEM files that are read again when they change (rotation by cert-manager or a Secret volume)."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar, cast

import grpc

from services.kit import logs

_log = logs.get(__name__)
T = TypeVar("T")
_Stamp = tuple[tuple[int, int, int], ...]


class TlsError(Exception):
    """TLS files that cannot be used; the message names the file and what is wrong."""


@dataclass(frozen=True, slots=True)
class ClientTls:
    """What a client needs for mutual TLS: PEM files, and the name the server's certificate has to carry where that is
    not the target's host."""

    ca: str
    cert: str
    key: str
    server_name: str = ""


class Watched(Generic[T]):
    """A value made from files: `get` makes it anew when one of them changed. While the new files are unusable (half
    written, certificate and key of different rotations) the last good value stays, with a warning."""

    def __init__(self, files: tuple[str, ...], make: Callable[[], T]) -> None:
        self._files = files
        self._make = make
        self._lock = threading.Lock()
        self._stamp = _stamp(files)
        self._value = make()

    def get(self) -> tuple[T, bool]:
        """The value, and whether it is a new one. Called from gRPC's threads."""
        with self._lock:
            try:
                stamp = _stamp(self._files)
                if stamp == self._stamp:
                    return self._value, False
                self._value = self._make()
            except TlsError as error:
                _log.warning("TLS files changed and are unusable; the last good ones stay", error=str(error))
                return self._value, False
            self._stamp = stamp
            _log.info("TLS files reloaded", files=list(self._files))
            return self._value, True


def server_credentials(cert: str, key: str, client_ca: str) -> grpc.ServerCredentials:
    """Credentials that ask every client for a certificate of `client_ca`; each handshake looks whether the files
    changed. TlsError when they are unusable at the start."""

    def configuration() -> grpc.ServerCertificateConfiguration:
        pair = check(cert, key, client_ca)
        return grpc.ssl_server_certificate_configuration([(pair.key, pair.cert)], pair.ca)

    watched = Watched((cert, key, client_ca), configuration)

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        value, fresh = watched.get()
        return value if fresh else None

    # The stubs do not know that None means "unchanged".
    fetcher = cast("Callable[[], grpc.ServerCertificateConfiguration]", fetch)
    return grpc.dynamic_ssl_server_credentials(watched.get()[0], fetcher, require_client_authentication=True)


def client_credentials(tls: ClientTls) -> Watched[grpc.ChannelCredentials]:
    """Credentials of a client, made anew when the files change; TlsError when they are unusable at the start."""

    def make() -> grpc.ChannelCredentials:
        pair = check(tls.cert, tls.key, tls.ca)
        return grpc.ssl_channel_credentials(pair.ca, pair.key, pair.cert)

    return Watched((tls.ca, tls.cert, tls.key), make)


@dataclass(frozen=True, slots=True)
class _Pair:
    cert: bytes
    key: bytes
    ca: bytes


def check(cert: str, key: str, ca: str) -> _Pair:
    """Reads the three files and refuses what a handshake would stumble over."""
    pair = _Pair(_read(cert), _read(key), _read(ca))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_verify_locations(cadata=pair.ca.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise TlsError(f"{ca} holds no PEM certificate: {_reason(error)}") from None
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise TlsError(f"{cert} and {key} are no certificate with its key: {_reason(error)}") from None
    return pair


def _no_password() -> str:
    raise ValueError("an encrypted key is not supported")


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", "") or error)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise TlsError(f"{path}: {error.strerror}") from None


def _stamp(files: tuple[str, ...]) -> _Stamp:
    stamps = []
    for name in files:
        try:
            stat = Path(name).stat()
        except OSError as error:
            raise TlsError(f"{name}: {error.strerror}") from None
        stamps.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return tuple(stamps)
