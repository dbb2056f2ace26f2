"""The connection to a gateway, and the headers that name the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import grpc

from stateway.errors import ErrorDetails, make_error

Metadata = tuple[tuple[str, str], ...]

MAX_MESSAGE_BYTES = 64 * 1024 * 1024

_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # This package decides about retries; a retry of the channel could carry a write out twice.
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
    # A gateway that restarts is found again within two seconds.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.min_reconnect_backoff_ms", 5_000),
    # Without pings a stream would wait for ever behind a connection that was dropped without a message.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # Newer versions of gRPC wait this long for the answer to a ping, by default a minute.
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.use_local_subchannel_pool", 1),
    # The gateway listens on loopback, which no proxy can reach.
    ("grpc.enable_http_proxy", 0),
]


def open_channel(
    address: str,
    credentials: grpc.ChannelCredentials | None = None,
    options: Sequence[tuple[str, Any]] = (),
) -> grpc.aio.Channel:
    """A channel that connects with its first call and reconnects automatically."""
    target = _target(address)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        # A channel belongs to the event loop in which it was created.
        raise RuntimeError("create the client inside a coroutine") from None
    # Of an option that is given twice, the last one counts.
    merged = [*_OPTIONS, *options]
    if credentials is None:
        return grpc.aio.insecure_channel(target, options=merged)
    return grpc.aio.secure_channel(target, credentials, options=merged)


def _target(address: str) -> str:
    target = address.removeprefix("http://").removesuffix("/")
    is_socket = target.startswith("unix:")
    host, _, port = target.rpartition(":")
    is_port = port.isdecimal() and 0 < int(port) < 65536
    if is_socket or (host and "/" not in target and is_port):
        return target
    hint = "An address looks like 127.0.0.1:7380 or http://127.0.0.1:7380."
    if address.startswith("https://"):
        hint = "For TLS, give the address as HOST:PORT, and `credentials=grpc.ssl_channel_credentials(…)`."
    raise make_error(
        grpc.StatusCode.INVALID_ARGUMENT,
        f"`{address}` is not the address of a gateway",
        ErrorDetails(
            reason="INVALID_SERVER_URL",
            hint=hint,
        ),
    )


def identity(actor: str | None, roles: Iterable[str] = ()) -> Metadata:
    """The headers that name the caller; none without an actor."""
    if isinstance(roles, str):
        raise TypeError(f"`roles` must be a list of roles, for example [{roles!r}]")
    listed = tuple(roles)
    if actor is None and not listed:
        return ()
    if actor is None:
        raise make_error(
            grpc.StatusCode.INVALID_ARGUMENT,
            "`roles` are given without an `actor`",
            ErrorDetails(reason="INVALID_IDENTITY", hint="Give the name of the caller as `actor`, or leave out `roles`."),
        )
    for role in listed:
        if not _is_word(role) or "," in role:
            raise _invalid_identity("role", role)
    if not _is_word(actor):
        raise _invalid_identity("actor", actor)
    headers = [("x-stateway-actor", actor)]
    if listed:
        headers.append(("x-stateway-roles", ",".join(listed)))
    return tuple(headers)


def _is_word(text: str) -> bool:
    return bool(text) and all(33 <= ord(character) <= 126 for character in text)


def _invalid_identity(what: str, name: str) -> Exception:
    return make_error(
        grpc.StatusCode.INVALID_ARGUMENT,
        f"`{name}` cannot be the {what} of a call",
        ErrorDetails(
            reason="INVALID_IDENTITY",
            hint="Write one word of plain ASCII, without blanks and commas.",
        ),
    )
