"""Enumerations of the API under short names, and JSON in payloads."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import Any

from stateway.v1 import executions_pb2 as pb


class SubState(enum.IntEnum):
    """Where an execution or a step is: one of six values on every engine."""

    RUNNING = 1
    WAITING = 2
    BACKING_OFF = 3
    ERROR = 4
    SUCCEEDED = 5
    FAILED = 6

    @property
    def is_finished(self) -> bool:
        """Whether nothing follows any more."""
        return self in (SubState.SUCCEEDED, SubState.FAILED)


class Category(enum.IntEnum):
    """The category of a failure. It decides whether the step is retried."""

    TRANSIENT = 1
    """Temporary, for example a rate limit. Always retried."""
    AGENT_ERROR = 2
    """The worker made a mistake. Retried if the step has a retry policy."""
    TIMEOUT = 3
    """A time limit passed. Not retried unless `retryOn` lists it."""
    VALIDATION = 4
    """The data is wrong. Corrected if the step allows it, otherwise not retried."""
    EXTERNAL = 5
    """A dependency of the worker failed. Retried if the step has a retry policy."""
    GOVERNANCE = 6
    """A policy forbids it. A person has to decide."""


@dataclass(frozen=True)
class Usage:
    """What an attempt cost."""

    input_tokens: int = 0
    output_tokens: int = 0
    # In millionths of the currency unit.
    cost_micros: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cost_micros + other.cost_micros,
        )

    def to_message(self) -> pb.Usage:
        """The usage as the API has it."""
        return pb.Usage(
            input_token_count=self.input_tokens,
            output_token_count=self.output_tokens,
            cost_micros=self.cost_micros,
        )


def json_payload(value: Any) -> pb.Payload:
    """A payload with this value as JSON. Raises `TypeError` or `ValueError` if it is not JSON."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return pb.Payload(data=text.encode(), content_type="application/json")


def payload_json(payload: pb.Payload) -> Any:
    """The value of a payload that is JSON; `None` if the payload is empty."""
    return json.loads(payload.data) if payload.data else None


def is_finished(execution: pb.Execution) -> bool:
    """Whether the execution has succeeded or failed."""
    return SubState(execution.sub_state).is_finished


def output_of(execution: pb.Execution) -> Any:
    """The output of an execution that was read in the full view, decoded from JSON."""
    return payload_json(execution.output)


def input_of(execution: pb.Execution) -> Any:
    """The input of an execution that was read in the full view, decoded from JSON."""
    return payload_json(execution.input)
