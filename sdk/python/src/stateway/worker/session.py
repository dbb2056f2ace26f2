"""The loop of a worker: one connection after the other, with one set of task records."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import grpc

from stateway import _back_off, _methods
from stateway._channel import Metadata
from stateway._outage import Outage
from stateway.errors import ErrorDetails, StatewayError, from_rpc, make_error
from stateway.v1 import workers_pb2 as pb
from stateway.worker.records import Begun, TaskRecords
from stateway.worker.events import Connected, Disconnected, Refused, Stopping, WorkerEvent
from stateway.worker.handler import Handlers, answer, is_asynchronous
from stateway.worker.heartbeats import Heartbeats
from stateway.worker.outbox import Outbox
from stateway.worker.task import Task

_log = logging.getLogger("stateway.worker")

# The lease of a gateway that does not name one, in seconds.
_LEASE = 15.0
# The shortest time between two signs of life, whatever the lease.
_SHORTEST_LIFE = 0.02
# How long the gateway may take to end the stream after the last message.
_GOODBYE = 1.0
# Another worker connected with the same id. Reconnecting would take the id back from it.
_REPLACED = "REPLACED"

_FINAL = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.FAILED_PRECONDITION,
}


@dataclass
class _Run:
    """A handler at work."""

    token: str
    task: Task
    work: asyncio.Task[None]
    # Cancelling does not stop a thread.
    can_cancel: bool


class Session:
    """A worker at work. Everything here runs in the event loop that `run` was called in."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        metadata: Metadata,
        offer: pb.Offer,
        handlers: Handlers,
        drain: float,
        observe: Callable[[WorkerEvent], None],
    ) -> None:
        self._stream = channel.stream_stream(
            _methods.STREAM_TASKS.path,
            request_serializer=pb.StreamTasksRequest.SerializeToString,
            response_deserializer=pb.StreamTasksResponse.FromString,
        )
        self._metadata = metadata
        self._offer = offer
        self._handlers = handlers
        self._drain = drain
        self._observe = observe
        self._loop = asyncio.get_running_loop()
        self._records = TaskRecords(offer.capacity)
        self._runs: dict[int, _Run] = {}
        # Of the current connection; none between two connections.
        self._outbox: Outbox | None = None
        self._heartbeats = Heartbeats(self._loop, self._send)
        self._lease = _LEASE
        self._stopping = False
        # Set when nothing is left to do, or when the time for it is over.
        self._over = asyncio.Event()
        self._failures = 0
        self._outage = Outage(_log, "the worker is disconnected")

    async def run(self) -> None:
        """Works until it is stopped. Raises the error of a gateway that will never accept this worker."""
        try:
            while True:
                error = await self._connection()
                if error is None or self._over.is_set():
                    return
                if _is_final(error):
                    raise error
                self._failures += 1
                asked = error.retry_after.total_seconds() if error.retry_after else None
                pause = _back_off.WORKER.spread_pause(self._failures, asked) or 0.0
                self._report(Disconnected(error))
                try:
                    await asyncio.wait_for(self._over.wait(), pause)
                except (asyncio.TimeoutError, TimeoutError):
                    pass
                if self._over.is_set():
                    return
        finally:
            await self._end_handlers()

    def stop_from_any_thread(self) -> None:
        """As `stop`."""
        try:
            self._loop.call_soon_threadsafe(self.stop)
        except RuntimeError:
            pass  # The worker has ended, and with it the loop.

    def stop(self) -> None:
        """Takes no more tasks; handlers may finish. The second call gives running tasks back immediately."""
        if self._stopping:
            self._over.set()
            return
        self._stopping = True
        given_back = self._records.give_back_ready()
        if self._outbox is not None:
            self._outbox.send(pb.StreamTasksRequest(offer=self._current_offer()))
            self._outbox.release(given_back, begun=False)
        self._loop.call_later(self._drain, self._over.set)
        self._report(Stopping(self._records.busy))
        self._check_over()

    async def _connection(self) -> StatewayError | None:
        """One connection, from the offer to its end. No error: the worker was stopped."""
        outbox = self._outbox = Outbox()
        outbox.send(pb.StreamTasksRequest(offer=self._current_offer()))
        for unacknowledged in self._records.unacknowledged():
            outbox.send(unacknowledged)
        call = self._stream(metadata=self._metadata)
        writer = asyncio.ensure_future(_write(call, outbox))
        reader = asyncio.ensure_future(self._read(call))
        life = asyncio.ensure_future(self._show_life(outbox))
        over = asyncio.ensure_future(self._over.wait())
        self._begin()
        try:
            await asyncio.wait({reader, over}, return_when=asyncio.FIRST_COMPLETED)
            if reader.done():
                return _ending(reader)
            await self._say_goodbye(outbox, writer, reader)
            return None
        finally:
            self._outbox = None
            call.cancel()
            await _cancel(writer, reader, life, over)

    async def _say_goodbye(
        self, outbox: Outbox, writer: asyncio.Future[None], reader: asyncio.Future[StatewayError]
    ) -> None:
        """Gives back what is not done, and lets what was sent arrive before the connection ends."""
        outbox.release(self._records.give_back_ready(), begun=False)
        outbox.release(self._records.give_back_running(), begun=True)
        outbox.close()
        await asyncio.wait({writer}, timeout=_GOODBYE)
        await asyncio.wait({reader}, timeout=_GOODBYE)

    async def _read(self, call: Any) -> StatewayError:
        """Takes in messages until the connection or the gateway ends the session."""
        try:
            while True:
                response = await call.read()
                if response is grpc.aio.EOF:
                    return make_error(grpc.StatusCode.UNAVAILABLE, "the gateway closed the stream")
                closed = self._receive(response)
                if closed is not None:
                    return closed
        except grpc.aio.AioRpcError as error:
            return from_rpc(error)

    def _receive(self, response: pb.StreamTasksResponse) -> StatewayError | None:
        """Takes in one message; an error ends the session."""
        kind = response.WhichOneof("message")
        if kind == "task":
            if self._stopping:
                self._release(response.task.task_token)
            else:
                self._records.take(response.task)
                self._begin()
        elif kind == "accepted":
            self._records.settle(response.accepted.task_token)
        elif kind == "cancelled":
            self._cancel(response.cancelled.task_token)
        elif kind == "withdrawn":
            self._withdraw(response.withdrawn.task_token)
        elif kind == "refused":
            refused = response.refused
            self._records.settle(refused.task_token)
            self._withdraw(refused.task_token)
            self._report(Refused(refused.task_token, refused.reason, refused.message))
        elif kind == "welcome":
            self._welcome(response.welcome)
        elif kind == "closed":
            return _session_closed(response.closed.reason)
        self._check_over()
        return None

    def _welcome(self, welcome: pb.Welcome) -> None:
        self._failures = 0
        self._lease = welcome.lease_duration.ToTimedelta().total_seconds() or _LEASE
        if welcome.worker_id:
            self._offer.worker_id = welcome.worker_id
        self._report(Connected(welcome.worker_id, timedelta(seconds=self._lease)))

    def _cancel(self, token: str) -> None:
        arrival = self._records.running(token)
        if arrival is not None:
            self._runs[arrival].task._cancel()
        elif self._records.cancel(token):
            self._release(token)

    def _withdraw(self, token: str) -> None:
        arrival = self._records.running(token)
        self._records.withdraw(token)
        if arrival is not None:
            _stop_run(self._runs[arrival])

    def _begin(self) -> None:
        """Begins with tasks while handlers are free. Between two connections nothing begins."""
        while self._outbox is not None and not self._stopping:
            begun = self._records.begin()
            if begun is None:
                return
            task = Task(begun.task, self._heartbeats.put)
            handler = self._handlers.find(task.role, task.action)
            work = asyncio.ensure_future(self._work(begun, task))
            can_cancel = handler is not None and is_asynchronous(handler)
            self._runs[begun.arrival] = _Run(begun.task.task_token, task, work, can_cancel)

    async def _work(self, begun: Begun, task: Task) -> None:
        message = await answer(self._handlers.find(task.role, task.action), task)
        del self._runs[begun.arrival]
        self._heartbeats.drop(task.token)
        if self._records.finish(begun.arrival, task.token, message) and self._outbox is not None:
            self._outbox.send(message)
        self._begin()
        self._check_over()

    async def _show_life(self, outbox: Outbox) -> None:
        while True:
            await asyncio.sleep(max(self._lease / 3, _SHORTEST_LIFE))
            outbox.send(pb.StreamTasksRequest(heartbeat=pb.TaskHeartbeat()))

    async def _end_handlers(self) -> None:
        """Stops the handlers that still run; threads are left to end with the process."""
        runs = list(self._runs.values())
        for run in runs:
            _stop_run(run)
        left = {run.work for run in runs if run.can_cancel}
        if left:
            await asyncio.wait(left, timeout=_GOODBYE)
        for run in self._runs.values():
            run.work.cancel()

    def _send(self, heartbeat: pb.TaskHeartbeat) -> None:
        is_running = self._records.running(heartbeat.task_token) is not None
        if is_running and self._outbox is not None:
            self._outbox.send(pb.StreamTasksRequest(heartbeat=heartbeat))

    def _release(self, token: str) -> None:
        if self._outbox is not None:
            self._outbox.release([token], begun=False)

    def _check_over(self) -> None:
        if self._stopping and self._records.is_clear:
            self._over.set()

    def _current_offer(self) -> pb.Offer:
        offer = pb.Offer()
        offer.CopyFrom(self._offer)
        if self._stopping:
            offer.capacity = offer.prefetch = 0
        return offer

    def _report(self, event: WorkerEvent) -> None:
        if isinstance(event, Connected):
            # After a warning, the default configuration of `logging` must show the end of the outage too.
            again = self._outage.end()
            level = logging.WARNING if again else logging.INFO
            _log.log(level, "connected%s as worker %s", " again" if again else "", event.worker_id)
        elif isinstance(event, Disconnected):
            self._outage.report(event.error)
        elif isinstance(event, Refused):
            _log.warning("the gateway refused an answer: %s: %s", event.reason, event.message)
        else:
            _log.info("stopping: %d handlers are running", event.running)
        try:
            self._observe(event)
        except Exception:
            _log.exception("the function `observe` failed")


async def _write(call: Any, outbox: Outbox) -> None:
    """Sends what is put into the outbox. A broken connection is reported by the reader."""
    try:
        while (message := await outbox.next()) is not None:
            await call.write(message)
        if outbox.overflowed:
            call.cancel()
        await call.done_writing()
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError):
        pass


async def _cancel(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _ending(reader: asyncio.Future[StatewayError]) -> StatewayError:
    """Why a connection ended. The writer cancels the call of a gateway that does not read."""
    if reader.cancelled():
        return make_error(grpc.StatusCode.UNAVAILABLE, "the gateway does not read")
    return reader.result()


def _stop_run(run: _Run) -> None:
    run.task._withdraw()
    if run.can_cancel:
        run.work.cancel()


def _session_closed(reason: str) -> StatewayError:
    hint = "Does another worker run under the same id?" if reason == _REPLACED else ""
    details = ErrorDetails(reason=reason, hint=hint)
    return make_error(grpc.StatusCode.ABORTED, f"the gateway ended the session: {reason}", details)


def _is_final(error: StatewayError) -> bool:
    """Whether another try cannot succeed."""
    return error.reason == _REPLACED or (error.is_from_gateway and error.code in _FINAL)
