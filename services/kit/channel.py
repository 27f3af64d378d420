"""Client channels to the suite's services: round robin over replicas, retries, keepalive, deadlines, traces, TLS."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import grpc
import grpc.aio

from services.kit import metrics, tracing
from services.kit.addresses import split_host_port
from services.kit.tls import ClientTls, Watched, client_credentials

DEFAULT_DEADLINE_SECONDS = 10.0
MAX_MESSAGE_BYTES = 4 * 1024 * 1024
RELOAD_SECONDS = 1.0
OLD_CHANNEL_SECONDS = 60.0
_SERVICE_CONFIG = json.dumps(
    {
        "loadBalancingConfig": [{"round_robin": {}}],
        # A replica that drains says so by its health before it refuses calls.
        "healthCheckConfig": {"serviceName": ""},
        "methodConfig": [
            {
                "name": [{}],
                "retryPolicy": {
                    "maxAttempts": 4,
                    "initialBackoff": "0.05s",
                    "maxBackoff": "1s",
                    "backoffMultiplier": 3,
                    # CANCELLED is what the core of a stopping server answers to calls it has not handed over; a
                    # call that is cancelled here is never tried again.
                    "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"],
                },
            }
        ],
    }
)


def connect(
    target: str,
    *,
    tls: ClientTls | None = None,
    deadline_seconds: float = DEFAULT_DEADLINE_SECONDS,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
) -> grpc.aio.Channel:
    """A channel to `target`; it connects when first used, and again whenever needed.

    `target` is HOST:PORT (every address of the name is used), a list IP:PORT,IP:PORT, or a gRPC target with a scheme
    (`dns:///name:port`, `ipv4:...`). Calls go round robin over what serves, are tried again on UNAVAILABLE, get
    `deadline_seconds` where the caller names no timeout, carry the current trace and count in the metrics. With `tls`
    the connection is mutual TLS. ValueError for a bad target, tls.TlsError for unusable files.
    """
    options = _options(max_message_bytes, tls)
    address = resolve_target(target)
    if tls is None:
        return _Channel(_Plain(lambda: grpc.aio.insecure_channel(address, options)), deadline_seconds)
    return _Channel(_Secure(client_credentials(tls), address, options), deadline_seconds)


def resolve_target(target: str) -> str:
    """The gRPC target of what a user writes; ValueError names the remedy."""
    scheme, colon, rest = target.partition(":")
    if colon and scheme in ("dns", "ipv4", "ipv6", "unix", "unix-abstract", "passthrough") and not rest.isdigit():
        return target
    parts = [part.strip() for part in target.split(",") if part.strip()]
    hosts = [split_host_port(part)[0] for part in parts]
    if not parts:
        raise ValueError("expected HOST:PORT, for example 127.0.0.1:7101")
    if len(parts) == 1 and not _version(hosts[0]):
        return f"dns:///{parts[0]}"
    versions = {_version(host) for host in hosts}
    if versions not in ({4}, {6}):
        raise ValueError("a list of targets holds IP addresses of one version; for a name use a single HOST:PORT")
    return f"ipv{versions.pop()}:{','.join(parts)}"


def _version(host: str) -> int:
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return 0


def _options(max_message_bytes: int, tls: ClientTls | None) -> list[tuple[str, Any]]:
    options: list[tuple[str, Any]] = [
        ("grpc.service_config", _SERVICE_CONFIG),
        ("grpc.enable_retries", 1),
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 5_000),
        ("grpc.dns_min_time_between_resolutions_ms", 5_000),
        # The services are near; a proxy of the environment is meant for the outside.
        ("grpc.enable_http_proxy", 0),
    ]
    if tls is not None and tls.server_name:
        options.append(("grpc.ssl_target_name_override", tls.server_name))
    return options


class _Source(Protocol):
    """Where calls find the channel to go by."""

    def current(self) -> grpc.aio.Channel: ...
    async def close(self, grace: float | None) -> None: ...


class _Plain:
    """One channel for good."""

    def __init__(self, make: Callable[[], grpc.aio.Channel]) -> None:
        self._channel = make()

    def current(self) -> grpc.aio.Channel:
        return self._channel

    async def close(self, grace: float | None) -> None:
        await self._channel.close(grace)


class _Secure:
    """A channel whose credentials follow their files: gRPC fixes a channel's client certificate when it is made, so
    a change makes a new channel for later calls, and the old one lives until its calls have ended."""

    def __init__(
        self,
        credentials: Watched[grpc.ChannelCredentials],
        address: str,
        options: Sequence[tuple[str, Any]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._credentials = credentials
        self._address = address
        self._options = options
        self._clock = clock
        self._looked = clock()
        self._channel = grpc.aio.secure_channel(address, credentials.get()[0], options)
        self._closing: set[asyncio.Task[None]] = set()

    def current(self) -> grpc.aio.Channel:
        now = self._clock()
        if now - self._looked >= RELOAD_SECONDS:
            self._looked = now
            credentials, fresh = self._credentials.get()
            if fresh:
                old = self._channel
                self._channel = grpc.aio.secure_channel(self._address, credentials, self._options)
                task = asyncio.ensure_future(old.close(OLD_CHANNEL_SECONDS))
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
        return self._channel

    async def close(self, grace: float | None) -> None:
        for task in self._closing:
            task.cancel()
        await self._channel.close(grace)


class _Method:
    """A multi-callable of any of the four kinds that adds trace, deadline and figures to each call.

    gRPC's own client interceptors start a task per call and nearly double its cost.
    """

    def __init__(
        self, source: _Source, make: Callable[[grpc.aio.Channel], Callable[..., Any]], method: str, deadline: float
    ) -> None:
        self._source = source
        self._make = make
        self._method = method
        self._deadline = deadline
        self._channel = source.current()
        self._inner = make(self._channel)

    def __call__(self, *args: Any, timeout: float | None = None, metadata: Any = None, **kwargs: Any) -> Any:
        channel = self._source.current()
        if channel is not self._channel:
            self._channel, self._inner = channel, self._make(channel)
        started = time.perf_counter()
        span = tracing.start_client_span(self._method)
        sent = grpc.aio.Metadata(*(metadata or ()), *tracing.headers(span))
        deadline = self._deadline if timeout is None else timeout
        call = self._inner(*args, timeout=deadline, metadata=sent, **kwargs)

        def done(finished: grpc.aio.Call) -> None:
            code = _code(finished)
            metrics.observe_client(self._method, code, time.perf_counter() - started)
            tracing.finish(span, code)

        call.add_done_callback(done)
        return call


def _code(call: grpc.aio.Call) -> grpc.StatusCode:
    """The status code of a call that is done: asking for it does not wait, so one step ends the coroutine."""
    asking = call.code()
    try:
        asking.send(None)
    except StopIteration as answer:
        code: grpc.StatusCode = answer.value
        return code
    asking.close()
    return grpc.StatusCode.UNKNOWN


class _Channel(grpc.aio.Channel):
    """A channel whose methods are `_Method`s; everything else is the current inner channel's."""

    def __init__(self, source: _Source, deadline: float) -> None:
        self._source = source
        self._deadline = deadline

    def _method(self, kind: str, method: str, *args: Any, **kwargs: Any) -> Any:
        def make(channel: grpc.aio.Channel) -> Callable[..., Any]:
            made: Callable[..., Any] = getattr(channel, kind)(method, *args, **kwargs)
            return made

        return _Method(self._source, make, method, self._deadline)

    def unary_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return self._method("unary_unary", method, *args, **kwargs)

    def unary_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return self._method("unary_stream", method, *args, **kwargs)

    def stream_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return self._method("stream_unary", method, *args, **kwargs)

    def stream_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return self._method("stream_stream", method, *args, **kwargs)

    async def close(self, grace: float | None = None) -> None:
        await self._source.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._source.current().get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._source.current().wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._source.current().channel_ready()

    async def __aenter__(self) -> _Channel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
