"""A watch for engines that push nothing: reads everything again and again, and reports the differences."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

from stateway.provider.provider import Gone, InSync, Observation, Watched


async def watch_by_polling(
    read: Callable[[], Awaitable[Iterable[Observation]]], interval: float = 0.5
) -> AsyncIterator[Watched]:
    """Reports what `read` returns, every `interval` seconds. Use it where reading everything is cheap."""
    known: dict[str, bytes] = {}
    is_in_sync = False
    while True:
        present: dict[str, bytes] = {}
        for seen in await read():
            # Equal observations have equal bytes, whatever the order of their maps.
            present[seen.id] = seen.SerializeToString(deterministic=True)
            if known.get(seen.id) != present[seen.id]:
                yield seen
        for id in known.keys() - present.keys():
            yield Gone(id)
        known = present
        if not is_in_sync:
            is_in_sync = True
            yield InSync()
        await asyncio.sleep(interval)
