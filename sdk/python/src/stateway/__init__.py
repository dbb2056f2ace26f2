"""Stateway in Python: a client, a worker and a base class for providers.

- `Client` starts, reads, watches and controls executions.
- `Worker` does the tasks of steps.
- `stateway.provider.Provider` connects another workflow engine to a gateway.
"""

from stateway.client import Client
from stateway.errors import (
    Aborted,
    AlreadyExists,
    DeadlineExceeded,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    NotFound,
    OutOfRange,
    PermissionDenied,
    ResourceExhausted,
    StatewayError,
    Unauthenticated,
    Unavailable,
    Unimplemented,
    Violation,
)
from stateway.types import (
    Category,
    SubState,
    Usage,
    input_of,
    is_finished,
    json_payload,
    output_of,
    payload_json,
)
from stateway.watch import Added, Bookmark, Change, Interrupted, Modified, Removed, Resync, Watch
from stateway.worker import Task, TaskError, Worker

__all__ = [
    "Aborted",
    "Added",
    "AlreadyExists",
    "Bookmark",
    "Category",
    "Change",
    "Client",
    "DeadlineExceeded",
    "FailedPrecondition",
    "Internal",
    "Interrupted",
    "InvalidArgument",
    "Modified",
    "NotFound",
    "OutOfRange",
    "PermissionDenied",
    "Removed",
    "ResourceExhausted",
    "Resync",
    "StatewayError",
    "SubState",
    "Task",
    "TaskError",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Usage",
    "Violation",
    "Watch",
    "Worker",
    "input_of",
    "is_finished",
    "json_payload",
    "output_of",
    "payload_json",
]
