"""One task, as a handler sees it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

from stateway.types import Usage, payload_json
from stateway.v1 import workers_pb2 as pb


class StopSignal:
    """Asks a handler to stop. Handlers in threads and coroutines can both wait for it."""

    def __init__(self) -> None:
        self._in_thread = threading.Event()
        self._in_loop = asyncio.Event()

    def is_set(self) -> bool:
        """Whether the handler is asked to stop."""
        return self._in_thread.is_set()

    async def wait(self) -> None:
        """Returns when the handler is asked to stop."""
        await self._in_loop.wait()

    def wait_in_thread(self, timeout: float | None = None) -> bool:
        """Blocks until the handler is asked to stop; false if the timeout (seconds) passes first."""
        return self._in_thread.wait(timeout)

    def _set(self) -> None:
        self._in_thread.set()
        self._in_loop.set()


class Task:
    """One attempt of a step."""

    def __init__(self, task: pb.Task, send: Callable[[pb.TaskHeartbeat], None]) -> None:
        self._task = task
        self._send = send
        self._lock = threading.Lock()
        self._usage: Usage | None = None
        self.cancelled = StopSignal()
        """The handler should stop: the execution is cancelled or rolls back, the attempt went to another
        worker, or the worker stops. The handler may stop early or finish, and returns or raises as always."""
        self.withdrawn = StopSignal()
        """The result is not wanted any more. An asynchronous handler is cancelled by then."""

    @property
    def token(self) -> str:
        """Names this hand-out of the attempt. Another hand-out has another token: it is no idempotency key."""
        return self._task.task_token

    @property
    def execution(self) -> str:
        """`providers/{provider}/executions/{execution}`."""
        return self._task.execution

    @property
    def step(self) -> str:
        return self._task.step

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 1."""
        return self._task.attempt

    @property
    def action(self) -> str:
        """The action of the step in the definition."""
        return self._task.action

    @property
    def role(self) -> str:
        return self._task.role

    @property
    def input(self) -> Any:
        """The input of the step, decoded from JSON. Of a compensation: the output of the step."""
        return payload_json(self._task.input)

    @property
    def input_json(self) -> bytes:
        """The input as it came: JSON."""
        return self._task.input.data or b"null"

    @property
    def feedback(self) -> str | None:
        """Message of a validator or a person about the last attempt; a corrected output should follow it."""
        return self._task.feedback or None

    @property
    def compensation(self) -> bool:
        """Whether the task compensates the step."""
        return self._task.compensation

    @property
    def outcome_unknown(self) -> bool:
        """Only with `compensation`: the step may or may not have completed."""
        return self._task.outcome_unknown

    @property
    def model_policy(self) -> str:
        """The policy by which the worker picks its model; may be empty."""
        return self._task.model_policy

    @property
    def expire_time(self) -> datetime | None:
        """When the attempt times out."""
        if not self._task.HasField("expire_time"):
            return None
        return self._task.expire_time.ToDatetime(timezone.utc)

    @property
    def heartbeat_timeout(self) -> timedelta | None:
        """The handler must call `heartbeat` at least this often, if the step asks for it."""
        timeout = self._task.heartbeat_timeout.ToTimedelta()
        return timeout or None

    def heartbeat(self, progress: float = 0.0, detail: str = "") -> None:
        """Reports that the attempt continues, with its progress from 0 to 1. Never blocks."""
        self._send(pb.TaskHeartbeat(task_token=self.token, progress=progress, detail=detail))

    def report_usage(self, input_tokens: int = 0, output_tokens: int = 0, cost_micros: int = 0) -> None:
        """Adds to the usage of the attempt, which is sent with its answer, also when the task fails."""
        with self._lock:
            self._usage = (self._usage or Usage()) + Usage(input_tokens, output_tokens, cost_micros)

    @property
    def usage(self) -> Usage | None:
        """What was reported so far."""
        with self._lock:
            return self._usage

    def _cancel(self) -> None:
        self.cancelled._set()

    def _withdraw(self) -> None:
        self.withdrawn._set()
        self.cancelled._set()
