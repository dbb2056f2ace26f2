"""Heartbeats on their way from handlers, which may run in threads, to the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from stateway.v1 import workers_pb2 as pb


class Heartbeats:
    """Passes heartbeats of handlers on to the event loop; of each task only the newest one waits."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, send: Callable[[pb.TaskHeartbeat], None]
    ) -> None:
        self._loop = loop
        self._send = send
        self._lock = threading.Lock()
        self._waiting: dict[str, pb.TaskHeartbeat] = {}

    def put(self, heartbeat: pb.TaskHeartbeat) -> None:
        """Called by handlers, from any thread."""
        with self._lock:
            is_first = not self._waiting
            self._waiting[heartbeat.task_token] = heartbeat
        if is_first:
            try:
                self._loop.call_soon_threadsafe(self._flush)
            except RuntimeError:
                pass  # The worker has ended, and with it the loop.

    def drop(self, token: str) -> None:
        """Forgets the heartbeat of a task that has ended."""
        with self._lock:
            self._waiting.pop(token, None)

    def _flush(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for heartbeat in waiting.values():
            self._send(heartbeat)
