"""Mutual TLS from files that are read again when they change (cert-manager and the kubelet replace them)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import grpc


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of PEM files: certificate chain, its private key, CA bundle of the other side."""

    cert: str
    key: str
    ca: str


def _stamp(files: TlsFiles) -> tuple[tuple[int, int], ...]:
    stats = [Path(path).stat() for path in (files.cert, files.key, files.ca)]
    return tuple((stat.st_mtime_ns, stat.st_ino) for stat in stats)


class _Reloader:
    """Gives gRPC a new configuration for the handshake when a file changed; an unreadable pair keeps the old one."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._seen = _stamp(files)

    def configuration(self) -> grpc.ServerCertificateConfiguration:
        files = self._files
        pair = (Path(files.key).read_bytes(), Path(files.cert).read_bytes())
        return grpc.ssl_server_certificate_configuration([pair], root_certificates=Path(files.ca).read_bytes())

    def fetch(self) -> grpc.ServerCertificateConfiguration | None:
        with self._lock:
            try:
                stamp = _stamp(self._files)
                if stamp == self._seen:
                    return None
                configuration = self.configuration()
            except OSError:
                return None
            self._seen = stamp
            return configuration


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Server side: clients must show a certificate of the CA; raises OSError naming an unreadable file."""
    reloader = _Reloader(files)
    return grpc.dynamic_ssl_server_credentials(
        reloader.configuration(), cast(Any, reloader.fetch), require_client_authentication=True
    )


def channel_credentials(files: TlsFiles) -> grpc.ChannelCredentials:
    """Client side: shows the certificate and trusts the CA only; raises OSError naming an unreadable file."""
    return grpc.ssl_channel_credentials(
        root_certificates=Path(files.ca).read_bytes(),
        private_key=Path(files.key).read_bytes(),
        certificate_chain=Path(files.cert).read_bytes(),
    )


def files_of(cert: str, key: str, ca: str) -> TlsFiles | None:
    """The three paths when all are given, else None (plain text, for loopback)."""
    return TlsFiles(cert, key, ca) if cert and key and ca else None


__all__: Sequence[str] = ("TlsFiles", "channel_credentials", "files_of", "server_credentials")
