"""What surrounds every call a server takes: one interceptor for trace, logs, metrics, deadline, drain and errors.

One interceptor instead of six, and each method wrapped once instead of per call, keeps the overhead small next to the
call itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Any, NoReturn, TypeAlias

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from services.kit import errors, logs, metrics, tracing

EXEMPT = ("/grpc.health.", "/grpc.reflection.")
"""Infrastructure services: no deadline is asked of their calls, and a drain ends rather than refuses them."""
RETRY_SECONDS = 1.0
QUIET_SECONDS = 0.1
MAX_REQUEST_ID = 128
_NO_DEADLINE = "every call needs a deadline; set a timeout (buf curl --timeout 5s, grpcurl -max-time 5)"

_log = logs.get(__name__)
_Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
_Behaviour: TypeAlias = Callable[[Any, _Context], Any]
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


class _Malformed:
    """Stands for a request whose bytes are no message of the method's type."""

    __slots__ = ("detail",)

    def __init__(self, detail: str) -> None:
        self.detail = detail


class Calls(grpc.aio.ServerInterceptor):
    """The server's calls. `max_deadline` in seconds bounds calls with a single answer; `long_lived` are the full
    names (`/package.Service/Method`) of streams that end with UNAVAILABLE as soon as a drain begins; such a method
    sends no initial metadata of its own."""

    def __init__(self, max_deadline: float, long_lived: Collection[str] = ()) -> None:
        self._max_deadline = max_deadline
        self._long_lived = frozenset(long_lived)
        self._handlers: dict[str, _Handler] = {}
        self._active: set[asyncio.Task[Any]] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._draining = asyncio.Event()
        self._closing = asyncio.Event()
        self._last_arrival = 0.0

    @property
    def in_flight(self) -> int:
        """Calls that a drain waits for."""
        return len(self._active)

    def refuse(self) -> None:
        """From now on new calls get UNAVAILABLE with RetryInfo, and long-lived streams end with it."""
        self._draining.set()

    async def idle(self, seconds: float) -> bool:
        """Waits until no call is in flight, at most `seconds`; False if some still are."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def quiet(self, seconds: float) -> None:
        """Waits until no call has arrived for QUIET_SECONDS, at most `seconds`.

        The core drops calls that it has not handed over when the server stops, and their clients see CANCELLED, which
        few try again. Clients that watch health, or try elsewhere when refused, are gone after a moment.
        """
        end = time.monotonic() + seconds
        self._last_arrival = time.monotonic()
        while (now := time.monotonic()) < end and now - self._last_arrival < QUIET_SECONDS:  # noqa: ASYNC110
            await asyncio.sleep(min(end, self._last_arrival + QUIET_SECONDS) - now)

    def close(self) -> None:
        """Ends the streams of health and reflection, which would hold up the server's stop."""
        self._closing.set()

    def abandon(self) -> int:
        """Cancels the calls still in flight; they answer UNAVAILABLE. Returns how many there were."""
        for task in self._active:
            task.cancel()
        return len(self._active)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[_Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Handler | None:
        """The wrapped handler of the method; None (UNIMPLEMENTED) for one that does not exist."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        method = handler_call_details.method
        wrapped = self._handlers.get(method)
        if wrapped is None:
            wrapped = self._handlers[method] = self._wrap(method, handler)
        return wrapped

    def _wrap(self, method: str, handler: _Handler) -> _Handler:
        exempt = method.startswith(EXEMPT)
        decode = _decoder(handler.request_deserializer)
        unary = not handler.response_streaming
        behaviour = _behaviour(handler)
        ends = self._closing if exempt else self._draining if method in self._long_lived else None
        run = self._unary(behaviour) if unary else self._stream(behaviour, ends)

        async def call(request: Any, context: _Context) -> Any:
            if handler.request_streaming:
                request = _checked(request)
            if exempt:
                return await _infrastructure(run, request, context)
            return await self._call(method, run, request, context, unary)

        make = {
            (False, False): grpc.unary_unary_rpc_method_handler,
            (False, True): grpc.unary_stream_rpc_method_handler,
            (True, False): grpc.stream_unary_rpc_method_handler,
            (True, True): grpc.stream_stream_rpc_method_handler,
        }[(handler.request_streaming, handler.response_streaming)]
        return make(call, decode, handler.response_serializer)

    async def _call(self, method: str, run: _Behaviour, request: Any, context: _Context, unary: bool) -> Any:
        """One call: span, request id, admission, the behaviour, its errors, the figures."""
        started = time.perf_counter()
        span = tracing.start_server_span(method, context.invocation_metadata() or ())
        logs.bind(request_id=_request_id(request, context), method=method)
        code = grpc.StatusCode.OK
        failure: errors.RpcError | None = None
        try:
            limit = self._admit(request, context)
            answer = await self._tracked(run, request, context, limit if unary else None)
        except errors.RpcError as error:
            failure, code = error, error.code
        except grpc.aio.AbortError:
            code = _code(context)
            raise
        except asyncio.CancelledError:
            code = grpc.StatusCode.DEADLINE_EXCEEDED if context.time_remaining() == 0 else grpc.StatusCode.CANCELLED
            raise
        except NotImplementedError:
            # A generated servicer's method that nobody overrode.
            failure, code = errors.unimplemented(f"{method} is not implemented"), grpc.StatusCode.UNIMPLEMENTED
        except Exception:
            _log.exception("call failed")
            failure, code = errors.internal(tracing.trace_id()), grpc.StatusCode.INTERNAL
        else:
            return answer
        finally:
            seconds = time.perf_counter() - started
            tracing.finish(span, code)
            metrics.observe_server(method, code, seconds)
            if code is not grpc.StatusCode.OK:
                reason = failure.reason if failure else ""
                _log.info("call ended", code=code.name, reason=reason, seconds=round(seconds, 6))
        return await _abort(context, failure)

    def _admit(self, request: Any, context: _Context) -> float | None:
        """Refuses what must not run; answers the limit in seconds where it is shorter than the caller's deadline."""
        if self._draining.is_set():
            self._last_arrival = time.monotonic()
            raise errors.unavailable(RETRY_SECONDS, "the server is shutting down; try again", "DRAINING")
        if isinstance(request, _Malformed):
            raise _malformed(request)
        remaining = context.time_remaining()
        if remaining is None:
            raise errors.invalid_argument("MISSING_DEADLINE", [errors.Violation("grpc-timeout", _NO_DEADLINE)])
        if remaining <= 0:
            raise errors.deadline_exceeded("the deadline had passed before the call started")
        return self._max_deadline if remaining > self._max_deadline else None

    async def _tracked(self, run: _Behaviour, request: Any, context: _Context, limit: float | None) -> Any:
        task = asyncio.current_task()
        assert task is not None
        self._active.add(task)
        self._idle.clear()
        try:
            if limit is None:
                return await run(request, context)
            async with asyncio.timeout(limit) as timeout:
                return await run(request, context)
        except TimeoutError:
            if limit is None or not timeout.expired():
                raise
            raise errors.deadline_exceeded(f"the call ran longer than the server allows ({limit:g} s)") from None
        except asyncio.CancelledError:
            if self._draining.is_set() and not context.cancelled() and context.time_remaining() != 0:
                task.uncancel()
                raise errors.unavailable(RETRY_SECONDS, "the server shut down; try again", "DRAINING") from None
            raise
        finally:
            self._active.discard(task)
            if not self._active:
                self._idle.set()

    def _unary(self, behaviour: _Behaviour) -> _Behaviour:
        async def run(request: Any, context: _Context) -> Any:
            answer = behaviour(request, context)
            return await answer if inspect.isawaitable(answer) else answer

        return run

    def _stream(self, behaviour: _Behaviour, ends: asyncio.Event | None) -> _Behaviour:
        async def pump(request: Any, context: _Context) -> None:
            answer = behaviour(request, context)
            if hasattr(answer, "__aiter__"):
                async with contextlib.aclosing(answer):
                    async for message in answer:
                        await context.write(message)
            elif inspect.isawaitable(answer):
                await answer  # the behaviour writes to the context itself

        if ends is None:
            return pump
        end = ends

        async def until_drain(request: Any, context: _Context) -> None:
            # The first message would carry these, and while it is under way the core takes no status.
            await context.send_initial_metadata(())
            work = asyncio.ensure_future(pump(request, context))
            drain = asyncio.ensure_future(end.wait())
            try:
                await asyncio.wait((work, drain), return_when=asyncio.FIRST_COMPLETED)
                if not work.done():
                    gone = errors.unavailable(RETRY_SECONDS, "the server is shutting down; try again", "DRAINING")
                    await _abort(context, gone)
                work.result()
            finally:
                work.cancel()
                drain.cancel()

        return until_drain


async def _infrastructure(run: _Behaviour, request: Any, context: _Context) -> Any:
    """A call of health or reflection: no deadline, no span, no line in the log but for a fault of ours."""
    try:
        if isinstance(request, _Malformed):
            raise _malformed(request)
        return await run(request, context)
    except errors.RpcError as error:
        failure = error
    except grpc.aio.AbortError:
        raise
    except Exception:
        _log.exception("call failed")
        failure = errors.internal(tracing.trace_id() or "none")
    return await _abort(context, failure)


def _behaviour(handler: _Handler) -> _Behaviour:
    found: Any = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
    behaviour: _Behaviour = found
    return behaviour


def _decoder(decode: Callable[[bytes], Any] | None) -> Callable[[bytes], Any] | None:
    """gRPC answers UNKNOWN when a deserializer raises; ours hands the fault on to the call."""
    if decode is None:
        return None

    def safe(data: bytes) -> Any:
        try:
            return decode(data)
        except (DecodeError, ValueError) as error:
            return _Malformed(str(error))

    return safe


def _malformed(request: _Malformed) -> errors.RpcError:
    text = f"the request is not a message of this method: {request.detail}"
    return errors.invalid_argument("MALFORMED_MESSAGE", [errors.Violation("request", text)])


async def _checked(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for request in requests:
        if isinstance(request, _Malformed):
            raise _malformed(request)
        yield request


def _request_id(request: Any, context: _Context) -> str:
    """The caller's id of the request: its field `meta.request_id`, else the header `x-request-id`, else a new one."""
    found = getattr(getattr(request, "meta", None), "request_id", "")
    if not found:
        found = next((value for key, value in context.invocation_metadata() or () if key == "x-request-id"), "")
    return found[:MAX_REQUEST_ID] if isinstance(found, str) and found else os.urandom(8).hex()


def _code(context: _Context) -> grpc.StatusCode:
    """The code of a behaviour that aborted by itself; grpc.aio keeps it as a number."""
    raw: Any = context.code()
    if isinstance(raw, grpc.StatusCode):
        return raw
    return next((code for code in grpc.StatusCode if code.value[0] == raw), grpc.StatusCode.UNKNOWN)


async def _abort(context: _Context, failure: errors.RpcError) -> NoReturn:
    status = failure.status().SerializeToString()
    await context.abort(failure.code, failure.message, ((errors.STATUS_METADATA_KEY, status),))
