"""Handlers: which one does which task, how it runs, and the message that answers the task."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Callable
from typing import Any

from stateway.types import Category, json_payload
from stateway.v1 import executions_pb2
from stateway.v1 import workers_pb2 as pb
from stateway.worker.failure import TaskError
from stateway.worker.task import Task

Handler = Callable[[Task], Any]

MAX_MESSAGE_BYTES = 4 * 1024
"""The longest message of a failure that is sent."""

_log = logging.getLogger("stateway.worker")


class Handlers:
    """The handlers of a worker. The most specific one does a task: role and action, action, role, any."""

    def __init__(self) -> None:
        self._handlers: dict[tuple[str | None, str | None], Handler] = {}

    def add(self, role: str | None, action: str | None, handler: Handler) -> None:
        """Adds a handler; two for the same role and action are a mistake."""
        if (role, action) in self._handlers:
            raise ValueError(f"role {role!r} and action {action!r} already have a handler")
        self._handlers[role, action] = handler

    def find(self, role: str, action: str) -> Handler | None:
        """The handler for a task."""
        for key in ((role, action), (None, action), (role, None), (None, None)):
            if key in self._handlers:
                return self._handlers[key]
        return None


def is_asynchronous(handler: Handler) -> bool:
    """Whether calling the handler returns a coroutine; other handlers run in threads."""
    call = getattr(handler, "__call__", None)
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


async def answer(handler: Handler | None, task: Task) -> pb.StreamTasksRequest:
    """Runs a handler to its end. Whatever the handler does, the result is one message."""
    try:
        return await _outcome(handler, task)
    except Exception as error:
        # For example a `retry_after` that is not a `timedelta`. Without a result the task would never end.
        _log.error("the result of step %s cannot be sent (%s)", task.step, task.execution, exc_info=error)
        failed = pb.TaskFailed(
            task_token=task.token,
            category="ERROR_CATEGORY_AGENT_ERROR",
            message=_bounded(f"the result of the handler cannot be sent: {error!r}"),
            effects_unknown=True,
        )
        return pb.StreamTasksRequest(failed=failed)


async def _outcome(handler: Handler | None, task: Task) -> pb.StreamTasksRequest:
    try:
        if handler is None:
            raise TaskError(f"this worker has no handler for role `{task.role}` and action `{task.action}`")
        result = handler(task) if is_asynchronous(handler) else _in_thread(handler, task)
        return _completed(task, await result)
    except TaskError as error:
        return _failed(task, error)
    except asyncio.CancelledError:
        return _failed(task, TaskError("the handler was cancelled", effects_unknown=True))
    except Exception as error:
        _log.warning("the handler of step %s failed (%s)", task.step, task.execution, exc_info=error)
        return _failed(task, TaskError(str(error) or type(error).__name__))
    except BaseException as error:
        # An exit of a handler ends its task, not the worker.
        text = f"the handler was ended by {type(error).__name__}: {error}"
        return _failed(task, TaskError(text, effects_unknown=True))


async def _in_thread(handler: Handler, task: Task) -> Any:
    """Runs a blocking handler in a separate thread.

    The thread is a daemon, so a handler that does not end cannot keep the process from ending. Cancelling does
    not end a thread: its place stays busy until the handler returns.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def report(result: Any, error: BaseException | None) -> None:
        if not ended.done():
            ended.set_result((result, error))

    def work() -> None:
        result, failure = None, None
        try:
            result = context.run(handler, task)
        except BaseException as error:
            failure = error
        try:
            loop.call_soon_threadsafe(report, result, failure)
        except RuntimeError:
            pass  # The worker has ended, and with it the loop.

    threading.Thread(target=work, name=f"stateway-{task.step}", daemon=True).start()
    result, failure = await asyncio.shield(ended)
    if failure is not None:
        raise failure
    return await result if inspect.isawaitable(result) else result


def _completed(task: Task, output: Any) -> pb.StreamTasksRequest:
    try:
        payload = json_payload(output)
    except (TypeError, ValueError, RecursionError) as error:
        text = f"the output cannot be written as JSON: {error}"
        # The handler has done its work, so a rollback must compensate the step.
        return _failed(task, TaskError(text, effects_unknown=True))
    completed = pb.TaskCompleted(task_token=task.token, output=payload, usage=_usage(task))
    return pb.StreamTasksRequest(completed=completed)


def _failed(task: Task, error: TaskError) -> pb.StreamTasksRequest:
    failed = pb.TaskFailed(
        task_token=task.token,
        category=f"ERROR_CATEGORY_{Category(error.category).name}",
        message=_bounded(error.message),
        code=error.code,
        usage=_usage(task),
        no_retry=error.no_retry,
        effects_unknown=error.effects_unknown,
    )
    if error.retry_after is not None:
        failed.retry_after.FromTimedelta(error.retry_after)
    return pb.StreamTasksRequest(failed=failed)


def _usage(task: Task) -> executions_pb2.Usage | None:
    usage = task.usage
    return None if usage is None else usage.to_message()


def _bounded(message: str) -> str:
    encoded = message.encode(errors="replace")
    if len(encoded) <= MAX_MESSAGE_BYTES:
        return encoded.decode()
    return encoded[:MAX_MESSAGE_BYTES].decode(errors="ignore") + "…"
