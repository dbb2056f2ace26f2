"""Errors of calls: one class per gRPC code, with the details that the gateway sends.

An error without these details did not come from the gateway but from the connection to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

DOMAIN = "stateway.dev"
"""The domain of every reason that the gateway gives."""

GATEWAY_UNREACHABLE = "GATEWAY_UNREACHABLE"
"""Reason of errors of the connection."""

_DETAILS = "grpc-status-details-bin"
# The channel fails a call like this when it has no connection, so the call was never sent.
_NEVER_SENT = ("failed to connect to all addresses", "errors resolving", "DNS resolution failed")
_HINT_UNREACHABLE = "Is the gateway running (`stateway serve`), and is the address right?"
_HINT_DEADLINE = "Use a longer timeout, or run `stateway providers list` to see which provider is slow."


@dataclass(frozen=True)
class Violation:
    """One field of the request that is wrong."""

    field: str
    description: str


@dataclass(frozen=True)
class ErrorDetails:
    """What is known about an error beside its code and its message."""

    reason: str = ""
    domain: str = ""
    hint: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    retry_after: timedelta | None = None
    violations: tuple[Violation, ...] = ()


class StatewayError(Exception):
    """Why a call did not do what was asked.

    `reason` is stable and meant for programs, for example `EXECUTION_NOT_FOUND`; `message` and `hint` are
    meant for people.
    """

    code: grpc.StatusCode = grpc.StatusCode.UNKNOWN

    def __init__(
        self,
        message: str,
        details: ErrorDetails = ErrorDetails(),
        *,
        code: grpc.StatusCode | None = None,
        was_sent: bool = True,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = details.reason
        self.domain = details.domain
        self.hint = details.hint
        self.metadata = dict(details.metadata)
        self.retry_after = details.retry_after
        self.violations = details.violations
        # False only if the request certainly did not reach the gateway.
        self.was_sent = was_sent
        if code is not None:
            self.code = code

    @property
    def is_from_gateway(self) -> bool:
        """Whether the gateway sent the error; otherwise the connection to it failed."""
        return bool(self.reason) and self.domain == DOMAIN

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        hint = f"\nhint: {self.hint}" if self.hint else ""
        return f"{self.message}{reason}{hint}"


class InvalidArgument(StatewayError):
    """The request is not valid; `violations` names the fields."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class NotFound(StatewayError):
    """The named resource does not exist."""

    code = grpc.StatusCode.NOT_FOUND


class AlreadyExists(StatewayError):
    """The id is taken, or the request id was used with another request."""

    code = grpc.StatusCode.ALREADY_EXISTS


class PermissionDenied(StatewayError):
    """The caller may not do this."""

    code = grpc.StatusCode.PERMISSION_DENIED


class Unauthenticated(StatewayError):
    """The caller is not known."""

    code = grpc.StatusCode.UNAUTHENTICATED


class FailedPrecondition(StatewayError):
    """The state of the execution does not allow this."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class Aborted(StatewayError):
    """The etag does not match any more, or the session was ended."""

    code = grpc.StatusCode.ABORTED


class OutOfRange(StatewayError):
    """A cursor has expired, or the response is too large."""

    code = grpc.StatusCode.OUT_OF_RANGE


class Unimplemented(StatewayError):
    """The provider does not have the capability."""

    code = grpc.StatusCode.UNIMPLEMENTED


class ResourceExhausted(StatewayError):
    """A limit is reached; `retry_after` is the pause before the next try, if the gateway names one."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class Unavailable(StatewayError):
    """The gateway or the provider cannot be reached."""

    code = grpc.StatusCode.UNAVAILABLE


class DeadlineExceeded(StatewayError):
    """No response came in time."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED


class Internal(StatewayError):
    """A defect of the gateway or of a provider."""

    code = grpc.StatusCode.INTERNAL


_CLASSES: dict[grpc.StatusCode, type[StatewayError]] = {
    kind.code: kind for kind in StatewayError.__subclasses__()
}


def make_error(
    code: grpc.StatusCode, message: str, details: ErrorDetails = ErrorDetails(), *, was_sent: bool = True
) -> StatewayError:
    """An error of the class that belongs to the code."""
    return _CLASSES.get(code, StatewayError)(message, details, code=code, was_sent=was_sent)


def from_rpc(error: grpc.aio.AioRpcError) -> StatewayError:
    """The typed form of an error of the gRPC library."""
    code, message = error.code(), error.details() or ""
    details = _decode(error.trailing_metadata() or ())
    if details is not None:
        return make_error(code, message, details)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return make_error(code, "no response before the deadline", ErrorDetails(hint=_HINT_DEADLINE))
    if code is grpc.StatusCode.UNAVAILABLE:
        unreachable = ErrorDetails(reason=GATEWAY_UNREACHABLE, hint=_HINT_UNREACHABLE)
        text = f"the gateway cannot be reached: {message}"
        return make_error(code, text, unreachable, was_sent=not any(text in message for text in _NEVER_SENT))
    return make_error(code, message)


def _decode(trailers: Iterable[tuple[str, Any]]) -> ErrorDetails | None:
    """The details in the trailers of a response; none if the gateway did not send them."""
    encoded = next((value for key, value in trailers if key == _DETAILS), None)
    if not isinstance(encoded, bytes):
        return None
    status = status_pb2.Status()
    try:
        status.ParseFromString(encoded)
    except DecodeError:
        return None
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    advice, bad = error_details_pb2.LocalizedMessage(), error_details_pb2.BadRequest()
    retry_after: timedelta | None = None
    for detail in status.details:
        detail.Unpack(info) or detail.Unpack(advice) or detail.Unpack(bad)
        if detail.Unpack(retry):
            retry_after = retry.retry_delay.ToTimedelta()
    if not info.reason:
        return None
    violations = tuple(Violation(found.field, found.description) for found in bad.field_violations)
    return ErrorDetails(
        info.reason, info.domain, advice.message, dict(info.metadata), retry_after, violations
    )
