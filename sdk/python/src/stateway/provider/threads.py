"""Threads for methods that block. They are daemons: a method that never returns does not keep the process alive."""

from __future__ import annotations

import functools
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

_Work = tuple["Future[Any]", Callable[[], Any]]


class DaemonThreads(ThreadPoolExecutor):
    """As its base class, whose threads the interpreter joins at exit: these threads end with the process."""

    def __init__(self, max_threads: int) -> None:
        super().__init__(max_threads)
        self._limit = max_threads
        self._waiting: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        self._count = 0
        # Threads that are free, less the work that waits for one.
        self._free = 0
        self._guard = threading.Lock()

    def submit(self, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.put((future, functools.partial(method, *args, **kwargs)))
        with self._guard:
            self._free -= 1
            is_needed = self._free < 0 and self._count < self._limit
            if is_needed:
                self._count += 1
                self._free += 1
        if is_needed:
            name = f"stateway-provider-{self._count}"
            threading.Thread(target=self._run, name=name, daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Waits for nothing: the threads end with the process."""

    def _run(self) -> None:
        while True:
            future, work = self._waiting.get()
            if future.set_running_or_notify_cancel():
                _complete(future, work)
            # While the thread waits, the result must not be kept in memory.
            del future, work
            with self._guard:
                self._free += 1


def _complete(future: Future[Any], work: Callable[[], Any]) -> None:
    try:
        result = work()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
