"""Connect another workflow engine to a gateway: subclass `Provider`, then call `main` or `serve`."""

from __future__ import annotations

from typing import Any

from stateway.provider.cursor import decode_cursor, encode_cursor
from stateway.provider.errors import (
    ErrorKind,
    ProviderError,
    already_exists,
    already_finished,
    definition_not_found,
    failed_precondition,
    not_finished,
    not_found,
    request_id_reused,
    unsupported,
)
from stateway.provider.listener import SocketError
from stateway.provider.polling import watch_by_polling
from stateway.provider.provider import DECLARED, Gone, Health, InSync, Observation, Provider, Watched
from stateway.provider.server import Server, main, mutual_tls, serve
from stateway.provider.staging import CannotStage, Staging, Workload
from stateway.provider.start_errors import AddressError, ClassError, StartError, TableError
from stateway.provider.table import StateTable
from stateway.provider.v1 import observation_pb2
from stateway.types import SubState, json_payload

__all__ = [
    "DECLARED",
    "AddressError",
    "CannotStage",
    "ClassError",
    "ErrorKind",
    "Gone",
    "Health",
    "InSync",
    "Observation",
    "Provider",
    "ProviderError",
    "Server",
    "SocketError",
    "Staging",
    "StartError",
    "StateTable",
    "SubState",
    "TableError",
    "Watched",
    "Workload",
    "already_exists",
    "already_finished",
    "decode_cursor",
    "definition_not_found",
    "encode_cursor",
    "failed_precondition",
    "main",
    "mutual_tls",
    "not_finished",
    "not_found",
    "payload",
    "request_id_reused",
    "serve",
    "unsupported",
    "watch_by_polling",
]


def payload(value: Any) -> observation_pb2.Payload:
    """A payload with this value as JSON."""
    made = json_payload(value)
    return observation_pb2.Payload(data=made.data, content_type=made.content_type)
