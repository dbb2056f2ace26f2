"""Errors of a provider: a kind, a reason, and what the caller should know."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import timedelta
from typing import TypeAlias

import grpc
from google.protobuf import any_pb2
from google.rpc import status_pb2

from stateway.provider.v1 import error_pb2

Context: TypeAlias = "grpc.aio.ServicerContext[object, object]"

# The trailer of an error has at most 8 KiB. The message is in it twice, once with up to three bytes for each
# byte; the detail is in Base64, which makes it a third longer.
_MAX_TEXT_BYTES = 512
_MAX_DETAIL_BYTES = 4 * 1024
# The gateway ignores longer reasons.
_MAX_REASON_BYTES = 63


class ErrorKind(enum.IntEnum):
    """The kind of an error; it decides how the gateway treats it."""

    NOT_FOUND = 1
    """The execution, definition or step does not exist."""
    ALREADY_EXISTS = 2
    """It exists already, with other content."""
    INVALID_ARGUMENT = 3
    """The request is wrong in every state."""
    FAILED_PRECONDITION = 4
    """The request is right, but not in the present state."""
    CONFLICT = 5
    """Another change came first."""
    UNSUPPORTED = 6
    """The provider cannot do this."""
    THROTTLED = 7
    """The engine asks to slow down; `retry_after` is its pause."""
    UNAVAILABLE = 8
    """The engine cannot be reached. The outcome of a write is not known."""
    TIMEOUT = 9
    """The engine did not answer in time. The outcome of a write is not known."""
    PERMISSION_DENIED = 10
    """The engine refuses the operation."""
    MALFORMED = 11
    """The answer of the engine cannot be understood."""
    DATA_LOSS = 12
    """Stored data is damaged."""
    EXPIRED = 13
    """The cursor is too old."""
    INTERNAL = 14
    """A defect of the provider."""


_CODES = {
    ErrorKind.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    ErrorKind.ALREADY_EXISTS: grpc.StatusCode.ALREADY_EXISTS,
    ErrorKind.INVALID_ARGUMENT: grpc.StatusCode.INVALID_ARGUMENT,
    ErrorKind.FAILED_PRECONDITION: grpc.StatusCode.FAILED_PRECONDITION,
    ErrorKind.CONFLICT: grpc.StatusCode.ABORTED,
    ErrorKind.UNSUPPORTED: grpc.StatusCode.UNIMPLEMENTED,
    ErrorKind.THROTTLED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    ErrorKind.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    ErrorKind.TIMEOUT: grpc.StatusCode.DEADLINE_EXCEEDED,
    ErrorKind.PERMISSION_DENIED: grpc.StatusCode.PERMISSION_DENIED,
    ErrorKind.MALFORMED: grpc.StatusCode.INTERNAL,
    ErrorKind.DATA_LOSS: grpc.StatusCode.DATA_LOSS,
    ErrorKind.EXPIRED: grpc.StatusCode.OUT_OF_RANGE,
    ErrorKind.INTERNAL: grpc.StatusCode.INTERNAL,
}


class ProviderError(Exception):
    """Raised by a provider to fail or refuse a call. `message` is a fragment without secrets."""

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        reason: str = "",
        hint: str = "",
        native_code: str = "",
        retry_after: timedelta | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = _bounded(message)
        self.reason = reason
        self.hint = hint
        self.native_code = native_code
        self.retry_after = retry_after
        self.metadata = dict(metadata or {})

    def to_detail(self) -> error_pb2.ErrorDetail:
        """The error as the contract has it. If it is too large, it loses metadata and the ends of its texts."""
        detail = error_pb2.ErrorDetail(
            kind=f"ERROR_KIND_{self.kind.name}",
            reason=_bounded(self.reason, _MAX_REASON_BYTES),
            hint=_bounded(self.hint, _MAX_DETAIL_BYTES),
            native_code=_bounded(self.native_code, _MAX_DETAIL_BYTES),
            metadata={_bounded(key, None): _bounded(value, None) for key, value in self.metadata.items()},
        )
        if self.retry_after is not None:
            detail.retry_after.FromTimedelta(self.retry_after)
        if detail.ByteSize() > _MAX_DETAIL_BYTES:
            detail.hint = _bounded(detail.hint)
            detail.native_code = _bounded(detail.native_code)
            detail.ClearField("metadata")
        return detail

    async def abort(self, context: Context) -> None:
        """Ends a call with this error."""
        packed = any_pb2.Any()
        packed.Pack(self.to_detail())
        code = _CODES[self.kind]
        status = status_pb2.Status(code=code.value[0], message=self.message, details=[packed])
        trailers = (("grpc-status-details-bin", status.SerializeToString()),)
        await context.abort(code, self.message, trailing_metadata=trailers)


def not_found(id: str) -> ProviderError:
    """The engine has no execution of this id."""
    return ProviderError(ErrorKind.NOT_FOUND, f"execution `{id}` does not exist")


def definition_not_found(name: str) -> ProviderError:
    """The engine has no definition of this name."""
    return ProviderError(
        ErrorKind.NOT_FOUND, f"definition `{name}` does not exist", reason="DEFINITION_NOT_FOUND"
    )


def already_finished(id: str) -> ProviderError:
    """A write to an execution that has finished."""
    return ProviderError(
        ErrorKind.FAILED_PRECONDITION, f"execution `{id}` has finished", reason="ALREADY_FINISHED"
    )


def not_finished(id: str) -> ProviderError:
    """A purge of an execution that has not finished."""
    return ProviderError(
        ErrorKind.FAILED_PRECONDITION, f"execution `{id}` has not finished", reason="NOT_FINISHED"
    )


def already_exists(id: str) -> ProviderError:
    """The wanted id is taken by another execution."""
    return ProviderError(
        ErrorKind.ALREADY_EXISTS, f"execution `{id}` exists", reason="EXECUTION_ALREADY_EXISTS"
    )


def request_id_reused(request_id: str) -> ProviderError:
    """The request id was used with another request."""
    return ProviderError(
        ErrorKind.ALREADY_EXISTS,
        f"request id `{request_id}` was used with another request",
        reason="REQUEST_ID_REUSED",
    )


def failed_precondition(message: str, reason: str = "") -> ProviderError:
    """The state of the execution does not allow this."""
    return ProviderError(ErrorKind.FAILED_PRECONDITION, message, reason=reason)


def unsupported(what: str) -> ProviderError:
    """The provider cannot do this."""
    return ProviderError(
        ErrorKind.UNSUPPORTED, f"{what} is not supported", reason="CAPABILITY_NOT_SUPPORTED"
    )


def _bounded(text: str, limit: int | None = _MAX_TEXT_BYTES) -> str:
    """The beginning of a text. What UTF-8 cannot express is replaced, because it cannot be sent."""
    encoded = text.encode(errors="replace")
    return encoded[:limit].decode(errors="ignore")
