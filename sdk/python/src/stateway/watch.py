"""Watches that continue by themselves.

After a broken connection a watch resumes from its last cursor, so nothing is lost and nothing is reported
twice. If that is not possible (the cursor has expired, or there is none), the watch reports `Resync` and then
the current set again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, TypeAlias, TypeVar, Union

import grpc
from google.protobuf.message import Message

from stateway import _back_off
from stateway._caller import Caller
from stateway._methods import Method
from stateway.errors import OutOfRange, StatewayError, from_rpc, make_error

T = TypeVar("T")


@dataclass(frozen=True)
class Added(Generic[T]):
    """The item exists, or passes the filter now."""

    item: T


@dataclass(frozen=True)
class Modified(Generic[T]):
    """The item changed."""

    item: T


@dataclass(frozen=True)
class Removed(Generic[T]):
    """The item was removed or no longer matches the filter; shown in its last known state."""

    item: T


@dataclass(frozen=True)
class Bookmark:
    """The current set is complete, or nothing has happened for a while."""

    # The providers that do not answer.
    unreachable: tuple[str, ...] = ()


@dataclass(frozen=True)
class Resync:
    """Changes were missed. The current set follows: forget every item that is not in it."""


@dataclass(frozen=True)
class Interrupted:
    """The connection broke. The watch resumes automatically; no action is needed."""

    error: StatewayError


Change: TypeAlias = Union[Added[T], Modified[T], Removed[T], Bookmark, Resync, Interrupted]

# Reports of a response: the change, if its kind is known, and the cursor after it.
Decode: TypeAlias = Callable[[Any], "tuple[Change[T] | None, str]"]

# Codes under which a break of the connection may be reported.
_BROKEN = {
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.ABORTED,
}
# Codes after which another try may succeed.
_TEMPORARY = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
}


class Watch(AsyncIterator["Change[T]"], Generic[T]):
    """Changes as they come. The watch does not end automatically; `aclose` or leaving `async with` ends it."""

    def __init__(self, caller: Caller, method: Method[Any, Any], request: Message, decode: Decode[T]) -> None:
        self._caller = caller
        self._open_stream = caller.channel.unary_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        self._request = request
        self._decode = decode
        self._stream: Any = None
        self._is_open = False
        self._cursor: str = getattr(request, "cursor", "")
        # Something was reported that a new current set would report again.
        self._reported = False
        self._resync = False
        # Tries in a row that brought nothing.
        self._failures = 0
        self._not_before = 0.0
        self._ended = False
        # Wakes up a pause before the next connection.
        self._closed = asyncio.Event()

    @property
    def cursor(self) -> str:
        """Where a later watch can resume; empty before the first cursor, and for approvals."""
        return self._cursor

    async def __aenter__(self) -> Watch[T]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends the watch, also while another coroutine waits for a change."""
        self._end()

    def __aiter__(self) -> Watch[T]:
        return self

    async def __anext__(self) -> Change[T]:
        while not self._ended:
            if self._resync:
                self._resync = False
                return Resync()
            try:
                if not self._is_open:
                    await self._open()
                    continue
                response = await self._stream.read()
            except grpc.aio.AioRpcError as error:
                if self._has_ended():
                    break
                return self._failed(from_rpc(error))
            except asyncio.CancelledError:
                # `aclose` cancels the stream while another coroutine reads it.
                if self._has_ended():
                    break
                raise
            if response is grpc.aio.EOF:
                closed = make_error(grpc.StatusCode.UNAVAILABLE, "the gateway closed the stream")
                return self._broken(closed)
            change = self._take(response)
            if change is not None:
                return change
        raise StopAsyncIteration

    def _has_ended(self) -> bool:
        return self._ended

    async def _open(self) -> None:
        delay = self._not_before - asyncio.get_running_loop().time()
        if delay > 0:
            await self._pause(delay)
        if self._has_ended():
            return
        request = type(self._request).FromString(self._request.SerializeToString())
        if hasattr(request, "cursor"):
            request.cursor = self._cursor
        # `_end` cancels it, also while it connects.
        self._stream = self._open_stream(request, metadata=self._caller.metadata)
        try:
            await self._stream.wait_for_connection()
        except BaseException:
            self._close_stream()
            raise
        self._is_open = True
        if not self._cursor and self._reported:
            self._resync = True
            self._reported = False

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._closed.wait(), seconds)
        except (asyncio.TimeoutError, TimeoutError):
            pass

    def _take(self, response: Any) -> Change[T] | None:
        self._failures = 0
        change, cursor = self._decode(response)
        if cursor:
            self._cursor = cursor
        elif isinstance(change, Resync):
            self._cursor = ""
        self._reported = True
        return change

    def _failed(self, error: StatewayError) -> Change[T]:
        """What follows an error: a new start, another try, or the end."""
        if isinstance(error, OutOfRange) and error.reason == "CURSOR_EXPIRED" and self._cursor:
            self._close_stream()
            self._cursor = ""
            self._reported = False
            return Resync()
        is_temporary = error.retry_after is not None or error.code in _TEMPORARY
        if is_temporary or (not error.is_from_gateway and error.code in _BROKEN):
            return self._broken(error)
        self._end()
        raise error

    def _broken(self, error: StatewayError) -> Change[T]:
        self._close_stream()
        self._failures += 1
        asked = error.retry_after.total_seconds() if error.retry_after else None
        pause = _back_off.WATCH.spread_pause(self._failures, asked)
        if pause is None:
            self._end()
            raise error
        self._not_before = asyncio.get_running_loop().time() + pause
        return Interrupted(error)

    def _end(self) -> None:
        self._ended = True
        self._closed.set()
        self._close_stream()

    def _close_stream(self) -> None:
        self._is_open = False
        if self._stream is not None:
            self._stream.cancel()
            self._stream = None


def decode_with(item: str) -> Decode[Any]:
    """Reads responses whose item has this field; the other fields have the same names in every watch."""

    def decode(response: Any) -> tuple[Change[Any] | None, str]:
        cursor: str = getattr(response, "cursor", "")
        kind = response.Kind.Name(response.kind) if response.kind in response.Kind.values() else ""
        if kind == "BOOKMARK":
            return Bookmark(tuple(response.unreachable)), cursor
        if kind == "RESYNC":
            return Resync(), cursor
        made: dict[str, Callable[[Any], Change[Any]]] = {
            "ADDED": Added,
            "MODIFIED": Modified,
            "REMOVED": Removed,
        }
        if kind in made and response.HasField(item):
            return made[kind](getattr(response, item)), cursor
        return None, cursor

    return decode
