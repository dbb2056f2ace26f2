"""The worker: takes step tasks from the gateway and answers them.

    worker = Worker(capacity=4)

    @worker.role("shipping")
    async def ship(task: Task) -> dict:
        return {"parcel": f"to {task.input['address']}"}

    worker.run()

The worker reconnects under the same id. Answers are sent again until the gateway has stored or refused them. A
task that arrives twice runs once. SIGTERM and SIGINT let running handlers finish and give back the other tasks.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import signal
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import grpc

from stateway._channel import identity, open_channel
from stateway.v1 import workers_pb2 as pb
from stateway.worker.events import Connected, Disconnected, Refused, Stopping, WorkerEvent
from stateway.worker.failure import TaskError
from stateway.worker.handler import Handler, Handlers
from stateway.worker.session import Session
from stateway.worker.task import StopSignal, Task

__all__ = [
    "Connected",
    "Disconnected",
    "Handler",
    "Refused",
    "StopSignal",
    "Stopping",
    "Task",
    "TaskError",
    "Worker",
    "WorkerEvent",
]

H = TypeVar("H", bound=Callable[[Task], Any])

DRAIN = 30.0
"""Seconds that handlers may continue after a stop, by default."""


def _sdk_version() -> str:
    try:
        return importlib.metadata.version("stateway")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


class Worker:
    """A worker. Decorate handlers with `role`, `action` or `any_task`, then call `run` or await `serve`.

    An `async def` handler runs in the event loop and must not block it. A plain `def` handler runs in a thread
    of its own. A handler returns the output of the step, any JSON value, or raises `TaskError`.
    """

    def __init__(
        self,
        address: str = "127.0.0.1:7380",
        *,
        capacity: int = 1,
        prefetch: int = 0,
        roles: Iterable[str] = (),
        skills: Iterable[str] = (),
        tenant: str = "",
        provider: str = "",
        id: str = "",
        version: str = "",
        actor: str | None = None,
        drain: float = DRAIN,
        observe: Callable[[WorkerEvent], None] = lambda event: None,
        credentials: grpc.ChannelCredentials | None = None,
        channel_options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        """`capacity` is the number of tasks at the same time; `prefetch` further tasks may wait on the worker.
        `id` is random by default; choose it if the process after a crash should take up its tasks. Operators see
        `version`, the version of your program. The worker
        works in the name of `actor`, who then cannot decide about approvals of these steps. `drain` is the
        time in seconds that handlers have after a stop.
        """
        self._address = address
        self._metadata = identity(actor)
        self._drain = drain
        self._observe = observe
        self._credentials = credentials
        self._channel_options = channel_options
        self._handlers = Handlers()
        self._session: Session | None = None
        self._stops = 0
        # Reentrant, because a signal may call `stop` in the thread that has the lock.
        self._guard = threading.RLock()
        self._offer = pb.Offer(
            worker_id=id or str(uuid.uuid4()),
            roles=list(roles),
            skills=list(skills),
            capacity=max(capacity, 1),
            prefetch=max(prefetch, 0),
            tenant=tenant,
            provider=provider,
            version=version,
            sdk=f"stateway-python/{_sdk_version()}",
        )

    @property
    def id(self) -> str:
        """The id of the worker."""
        return self._offer.worker_id

    def role(self, role: str, action: str | None = None) -> Callable[[H], H]:
        """Takes tasks of this role; the handler does them all, or only those with the action."""
        if role not in self._offer.roles:
            self._offer.roles.append(role)
        return self._decorator(role, action)

    def action(self, action: str) -> Callable[[H], H]:
        """The handler does tasks with this action, of every role that the worker has."""
        return self._decorator(None, action)

    def any_task(self, handler: H) -> H:
        """The handler does every task that has no other handler."""
        return self._decorator(None, None)(handler)

    def _decorator(self, role: str | None, action: str | None) -> Callable[[H], H]:
        def decorate(handler: H) -> H:
            self._handlers.add(role, action, handler)
            return handler

        return decorate

    def run(self) -> None:
        """Works until SIGTERM or SIGINT. A second signal gives running tasks back immediately."""
        asyncio.run(self._run_with_signals())

    async def _run_with_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                loop.add_signal_handler(number, self.stop)
            except NotImplementedError:  # Windows.
                signal.signal(number, lambda *_: self.stop())
        await self.serve()

    async def serve(self) -> None:
        """Works until `stop` is called. Waits for a gateway that cannot be reached.

        Raises `StatewayError` if the gateway will never accept this worker, for example because its provider
        has no tasks for workers. A worker serves once.
        """
        channel = open_channel(self._address, self._credentials, self._channel_options)
        try:
            session = Session(
                channel, self._metadata, self._offer, self._handlers, self._drain, self._observe
            )
            with self._guard:
                # Another thread may have called `stop` in the meantime.
                if self._stops > 0:
                    return
                self._session = session
            await session.run()
        finally:
            await channel.close()

    def stop(self) -> None:
        """Takes no more tasks and lets running handlers finish. Can be called from any thread.

        The second call gives running tasks back immediately.
        """
        with self._guard:
            self._stops += 1
            session = self._session
        if session is not None:
            session.stop_from_any_thread()
