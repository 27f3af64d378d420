"""Where the API server is and how to prove who we are: the official client's configuration, and its renewal.

Order: the kubeconfig that was named, KUBECONFIG, the pod's own service account, ~/.kube/config.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

import aiohttp
import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config
from yarl import URL

from gateway.kube.errors import ConfigError, Unreachable

TOKEN_FILE_SECONDS = 60.0
RENEW_SECONDS = 10.0
"""Credentials are renewed at most this often, so that a server that refuses everybody is not answered by a plugin run
per request."""

_DEFAULT = "~/.kube/config"
_LIBRARY_LOG = "kubernetes.aio.config.kube_config"


class _Loader(Protocol):
    """What the official loader has beyond the configuration it fills."""

    _user: Any
    token: str

    async def load_from_exec_plugin(self) -> object: ...


class _Rest(RESTClientObject):
    def open(self) -> aiohttp.ClientSession:
        session: aiohttp.ClientSession = self._create_pool_manager()
        return session


Loaded = tuple[Configuration, _Loader | None, _Rest]
Source = Callable[[], Awaitable[Loaded]]


class Connection:
    """The API server's address with credentials that stay valid: `open` gives a session, `authorization` the header."""

    def __init__(self, source: Source, loaded: Loaded, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._configuration, self._loader, self._rest = loaded
        self._clock = clock
        self._checked = self._renewed = clock()
        self._lock = asyncio.Lock()
        self.epoch = 1
        """Goes up when sessions opened before are out of date."""

    @property
    def server(self) -> str:
        """The address, `https://HOST:PORT`."""
        return str(self._configuration.host)

    @property
    def proxy(self) -> str | None:
        """The proxy's URL."""
        return self._configuration.proxy or None

    @property
    def tls_server_name(self) -> str | None:
        """The name to expect in the server's certificate, where it is not the address's."""
        return self._configuration.tls_server_name or None

    def url(self, path: str, query: Mapping[str, str]) -> URL:
        """The whole URL of a path below the server, with its query."""
        suffix = f"?{urlencode(query)}" if query else ""
        return URL(f"{self.server}{path}{suffix}", encoded=True)

    def open(self) -> aiohttp.ClientSession:
        """A new session; the caller closes it."""
        return self._rest.open()

    async def authorization(self) -> str:
        """The Authorization header's value, renewed when it is due; empty with client certificates. Unreachable when
        the credentials cannot be read."""
        try:
            await self._keep_fresh()
            return await self._header()
        except (ConfigError, ConfigException, OSError, ValueError) as error:
            raise Unreachable(f"credentials for {self.server}: {error}", "Credentials") from error

    async def _header(self) -> str:
        settings = await self._configuration.auth_settings()
        return str(settings["BearerToken"]["value"]).strip() if "BearerToken" in settings else ""

    async def renew(self, refused: str) -> bool:
        """After a 401 on the Authorization `refused`: reads everything anew, unless another request has just done so.
        True when something changed and a second try makes sense."""
        async with self._lock:
            if await self._header() != refused:
                return True
            if self._clock() - self._renewed < RENEW_SECONDS:
                return False
            self._renewed = self._clock()
            before = _facts(self._configuration)
            try:
                configuration, loader, rest = await self._source()
            except ConfigError:
                return False
            self._configuration, self._loader = configuration, loader
            after = _facts(configuration)
            if after[1:] != before[1:]:
                self._rest = rest
                self.epoch += 1
            return after != before

    async def _keep_fresh(self) -> None:
        loader = self._loader
        if loader is None or loader._user is None:
            return
        now = self._clock()
        if "exec" in loader._user:
            # Without an expiry the plugin's word holds until the server says 401.
            if hasattr(loader, "exec_plugin_expiry") and now - self._checked >= RENEW_SECONDS:
                async with self._lock:
                    self._checked = now
                    await loader.load_from_exec_plugin()
                    self._configuration.api_key["BearerToken"] = loader.token
        elif "tokenFile" in loader._user and now - self._checked >= TOKEN_FILE_SECONDS:
            self._checked = now
            fresh, again, _ = await self._source()
            self._configuration.api_key, self._loader = fresh.api_key, again


async def connect(kubeconfig: str = "", env: Mapping[str, str] = os.environ) -> Connection:
    """Reads the configuration. ConfigError, one line naming file and fault, when there is none or it cannot be used;
    nothing is sent yet (but for a credential plugin that has to)."""
    source = _source(kubeconfig, env)
    return Connection(source, await source())


def _source(kubeconfig: str, env: Mapping[str, str]) -> Source:
    if kubeconfig:
        return lambda: _from_files(kubeconfig)
    if env.get("KUBECONFIG"):
        return lambda: _from_files(env["KUBECONFIG"])
    if env.get("KUBERNETES_SERVICE_HOST"):
        return _from_pod
    if Path(_DEFAULT).expanduser().exists():
        return lambda: _from_files(_DEFAULT)
    raise ConfigError("no cluster to talk to: give --kubeconfig FILE, set KUBECONFIG, or run in a pod")


async def _from_pod() -> Loaded:
    configuration = Configuration()
    try:
        load_incluster_config(configuration)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError) as error:
        raise ConfigError(f"the pod's service account cannot be used: {error}") from error
    return configuration, None, _rest(configuration, "the pod's service account")


async def _from_files(paths: str) -> Loaded:
    existing = _existing(paths)
    configuration = Configuration()
    configuration.host = ""
    with _library_log() as said:
        try:
            loader: _Loader = await load_kube_config(  # type: ignore[no-untyped-call]
                os.pathsep.join(map(str, existing)), client_configuration=configuration, persist_config=False
            )
        except Exception as error:  # the library meets odd files with whatever its code happens to raise
            raise ConfigError(f"kubeconfig {paths}: {_text(error)}") from error
    user = loader._user
    if user is not None and "exec" in user and not (configuration.api_key or configuration.cert_file):
        cause = said[-1] if said else "it answered neither a token nor a certificate"
        raise ConfigError(f"kubeconfig {paths}: credential plugin: {_text(cause)}")
    parts = urlsplit(configuration.host)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"kubeconfig {paths}: the cluster's server must be a URL such as https://HOST:PORT")
    return configuration, loader, _rest(configuration, f"kubeconfig {paths}")


def _existing(paths: str) -> list[Path]:
    files = [Path(path).expanduser() for path in paths.split(os.pathsep) if path]
    existing = [file for file in files if _check(file)]
    if not existing:
        raise ConfigError(f"kubeconfig {paths}: no such file")
    return existing


def _check(file: Path) -> bool:
    """Says what is wrong with a kubeconfig before the library stumbles over it; False when the file is not there."""
    try:
        with file.open(encoding="utf-8") as stream:
            value = yaml.safe_load(stream)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ConfigError(f"kubeconfig {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"kubeconfig {file}: not text in UTF-8") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" in line {mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"kubeconfig {file}: not YAML{place}: {getattr(error, 'problem', '') or error}") from error
    if not isinstance(value, dict) or "clusters" not in value:
        raise ConfigError(f"kubeconfig {file}: not a kubeconfig (no clusters in it)")
    return True


def _rest(configuration: Configuration, origin: str) -> _Rest:
    part = "certificate authority"
    try:
        ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        part = "client certificate or key"
        return _Rest(configuration)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigError(f"{origin}: the {part} cannot be used: {_text(error)}") from error


def _facts(configuration: Configuration) -> tuple[object, ...]:
    def content(path: str | None) -> bytes | None:
        try:
            return Path(path).read_bytes() if path else None
        except OSError:
            return None

    return (
        dict(configuration.api_key),
        configuration.host,
        configuration.proxy,
        configuration.verify_ssl,
        content(configuration.ssl_ca_cert),
        content(configuration.cert_file),
        content(configuration.key_file),
    )


@contextlib.contextmanager
def _library_log() -> Iterator[list[str]]:
    """Collects what the library would log: it tells a plugin's failure only there."""
    said: list[str] = []

    def take(record: logging.LogRecord) -> bool:
        said.append(record.getMessage())
        return False

    logger = logging.getLogger(_LIBRARY_LOG)
    logger.addFilter(take)
    try:
        yield said
    finally:
        logger.removeFilter(take)


def _text(error: object) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text.removeprefix("Invalid kube-config file. ")
