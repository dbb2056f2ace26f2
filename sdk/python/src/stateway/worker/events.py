"""What a worker reports beside doing its tasks. No action is needed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from stateway.errors import StatewayError


@dataclass(frozen=True)
class Connected:
    """The gateway knows the worker and sends it tasks."""

    worker_id: str
    lease: timedelta


@dataclass(frozen=True)
class Disconnected:
    """The connection broke or could not be made; the worker reconnects automatically."""

    error: StatewayError


@dataclass(frozen=True)
class Refused:
    """The gateway refused an answer; the result is not recorded."""

    task_token: str
    reason: str
    message: str


@dataclass(frozen=True)
class Stopping:
    """The worker takes no more tasks and finishes those that have begun."""

    running: int


WorkerEvent = Connected | Disconnected | Refused | Stopping
