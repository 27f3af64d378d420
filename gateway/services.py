"""The decision services as the gateway calls them: one call, its deadline, and what its failing means."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import grpc
import grpc.aio
from google.protobuf.message import Message

from services.kit import errors, logs

_log = logs.get(__name__)

_TERMINAL = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.ALREADY_EXISTS,
        # Services have no quota on this call: what they refuse is the size of this very request.
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)


class Failing(enum.Enum):
    """What a failed call means for the object it was about."""

    TRANSIENT = "transient"
    """Try again after a back-off; the object is not to blame."""
    TERMINAL = "terminal"
    """The same request fails again: no retry until the object or an interest changes."""
    UNIMPLEMENTED = "unimplemented"
    """The service does not decide this yet."""


class CallError(Exception):
    """A call to a service failed. `retry_after` is in seconds, 0 when the service named none."""

    def __init__(self, service: str, failing: Failing, code: str, message: str, retry_after: float = 0.0) -> None:
        super().__init__(f"{service} answered {code}: {message}")
        self.service = service
        self.failing = failing
        self.code = code
        self.message = message
        self.retry_after = retry_after

    @property
    def shared(self) -> bool:
        """The service is away, for every object alike."""
        return self.code == grpc.StatusCode.UNAVAILABLE.name


class Method(Protocol):
    """A unary stub method."""

    def __call__(self, request: Any, *, timeout: float) -> Awaitable[Any]: ...


class Service:
    """A service by its `Reconcile` method. Logs once that it is away and once that it is back; then `on_back` runs."""

    def __init__(
        self, name: str, target: str, method: Method, seconds: float, on_back: Callable[[], None] | None = None
    ) -> None:
        self.name = name
        self._target = target
        self._method = method
        self._seconds = seconds
        self._away = False
        self._on_back = on_back

    async def ask(self, request: Message) -> Any:
        """The answer to `request`; CallError when there is none."""
        try:
            answer = await self._method(request, timeout=self._seconds)
        except grpc.aio.AioRpcError as error:
            failure = errors.read(error)
            if failure.code is grpc.StatusCode.UNAVAILABLE:
                self._gone(failure.message)
            else:
                self._there()
            raise CallError(
                self.name, _meaning(failure.code), failure.code.name, failure.message, failure.retry_after or 0.0
            ) from None
        self._there()
        return answer

    def _gone(self, message: str) -> None:
        if not self._away:
            self._away = True
            _log.warning(
                "service is away; its objects are tried again", peer=self.name, target=self._target, cause=message
            )

    def _there(self) -> None:
        if self._away:
            self._away = False
            _log.info("service is back", peer=self.name, target=self._target)
            if self._on_back is not None:
                self._on_back()


def _meaning(code: grpc.StatusCode) -> Failing:
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return Failing.UNIMPLEMENTED
    return Failing.TERMINAL if code in _TERMINAL else Failing.TRANSIENT
