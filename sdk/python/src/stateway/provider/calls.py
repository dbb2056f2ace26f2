"""How the methods of a provider are called: in threads where they block, bounded by the deadline."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from stateway.provider.errors import Context, ErrorKind, ProviderError
from stateway.provider.threads import DaemonThreads

T = TypeVar("T")

# The most methods that block at the same time; further calls wait for a thread.
MAX_THREADS = 64
# The answer leaves this much before the deadline, so that it arrives in time. Seconds.
_MARGIN = 0.01

_log = logging.getLogger("stateway.provider")
_threads = DaemonThreads(MAX_THREADS)


async def call(method: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a method, which is a coroutine function or runs in a thread."""
    if inspect.iscoroutinefunction(method):
        return await method(*arguments)
    loop = asyncio.get_running_loop()
    result = await loop.run_in_executor(_threads, functools.partial(method, *arguments))
    return await result if inspect.isawaitable(result) else result


async def within(seconds: float | None, work: Awaitable[T]) -> T:
    """The result of the work, or TIMEOUT after this time."""
    try:
        return await asyncio.wait_for(work, None if seconds is None else max(seconds - _MARGIN, 0.001))
    except (asyncio.TimeoutError, TimeoutError):
        raise ProviderError(ErrorKind.TIMEOUT, "the engine did not answer in time") from None


def as_error(error: Exception, method: str) -> ProviderError:
    """What is reported of an exception. The text of a defect goes to the log, because it may hold secrets."""
    if isinstance(error, ProviderError):
        return error
    if isinstance(error, ConnectionError):
        return ProviderError(ErrorKind.UNAVAILABLE, "the engine cannot be reached")
    _log.exception("%s failed", method, exc_info=error)
    return ProviderError(
        ErrorKind.INTERNAL,
        f"the provider failed: {type(error).__name__}",
        hint="The log of the provider has the details.",
    )


def remaining(context: Context) -> float | None:
    """Seconds until the deadline of a call; none without a deadline."""
    left = context.time_remaining()
    return None if left is None or left > 1e8 else left
