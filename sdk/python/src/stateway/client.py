"""The client: one connection to a gateway, and every call of the API that a platform service needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

import grpc

from stateway._built_in import ApprovalCalls, DefinitionCalls, OtherCalls
from stateway._caller import Caller
from stateway._channel import identity, open_channel
from stateway._executions import ExecutionCalls

DEFAULT_TIMEOUT = 30.0
"""Seconds that a call may take, retries included, unless the call or the client sets another timeout."""


class Client(ExecutionCalls, DefinitionCalls, ApprovalCalls, OtherCalls):
    """A connection to a gateway. It connects with the first call and reconnects automatically.

    Every method raises `StatewayError` or one of its subclasses.
    """

    def __init__(
        self,
        address: str = "127.0.0.1:7380",
        *,
        actor: str | None = None,
        roles: Iterable[str] = (),
        timeout: float = DEFAULT_TIMEOUT,
        retries: bool = True,
        credentials: grpc.ChannelCredentials | None = None,
        channel_options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        """`actor` and `roles` name the caller in every call; an authenticating proxy sets them itself."""
        metadata = identity(actor, roles)
        caller = Caller(open_channel(address, credentials, channel_options), timeout, metadata)
        if not retries:
            caller = replace(caller, back_off=replace(caller.back_off, most=0))
        self._caller = caller

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection; calls that are under way end with an error."""
        await self._caller.channel.close()
