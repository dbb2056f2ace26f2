"""How a call is made: deadline, request id, and retries where a repetition is harmless.

Only UNAVAILABLE is retried (AIP-194). A write is retried under the same request id. Starts, signals and
retries of executions are repeated only if the provider recognises a repetition, or if the request certainly
was not sent. A write with an etag is tried once: if it was carried out and its response was lost, the etag
that it changed would refuse the repetition.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, field, replace

import grpc

from stateway import _back_off, _methods
from stateway._back_off import BackOff
from stateway._channel import Metadata
from stateway._methods import Method, Request, Response
from stateway.errors import StatewayError, Unavailable, from_rpc
from stateway.v1 import providers_pb2

# A year is as good as for ever, and fits into the header `grpc-timeout`.
_LONGEST_TIMEOUT = 365 * 24 * 3600.0
# The gRPC library takes a timeout of 0 for none.
_SHORTEST_TIMEOUT = 0.001
_HINT_NOT_REPEATED = (
    "The write may have been carried out, and the provider cannot recognise a repetition. "
    "Read before repeating it."
)


@dataclass(frozen=True)
class Repeat:
    """The capability that makes a repetition of a write harmless, and the provider that must have it.

    Without a provider the gateway chooses it, so every provider must have the capability.
    """

    capability: str
    provider: str | None


@dataclass
class Contact:
    """Whether the gateway has answered a call of this client."""

    answered: bool = False


@dataclass(frozen=True)
class Caller:
    """A channel with what every call over it has in common."""

    channel: grpc.aio.Channel
    timeout: float
    metadata: Metadata = ()
    back_off: BackOff = _back_off.CALL
    contact: Contact = field(default_factory=Contact)

    async def read(self, method: Method[Request, Response], request: Request, timeout: float | None) -> Response:
        """Makes a call that changes nothing, or that is harmless to repeat."""
        return await self._make(method, request, timeout, self.back_off, None)

    async def write(
        self,
        method: Method[Request, Response],
        request: Request,
        timeout: float | None,
        repeat: Repeat | None = None,
    ) -> Response:
        """Makes a call that writes, under one request id for every try."""
        if not getattr(request, "request_id"):
            setattr(request, "request_id", str(uuid.uuid4()))
        back_off = replace(self.back_off, most=0) if getattr(request, "etag", "") else self.back_off
        return await self._make(method, request, timeout, back_off, repeat)

    async def _make(
        self,
        method: Method[Request, Response],
        request: Request,
        timeout: float | None,
        back_off: BackOff,
        repeat: Repeat | None,
    ) -> Response:
        clock = asyncio.get_running_loop().time
        deadline = clock() + min(self.timeout if timeout is None else timeout, _LONGEST_TIMEOUT)
        retry = 0
        while True:
            try:
                return await self.once(method, request, deadline - clock())
            except StatewayError as failed:
                error = failed
            is_safe = repeat is None or not error.was_sent
            while True:
                retry += 1
                pause = _next_pause(back_off, error, retry)
                if pause is None or clock() + pause >= deadline:
                    raise error
                await asyncio.sleep(pause)
                if is_safe:
                    break
                assert repeat is not None
                may_repeat = await self._may_repeat(repeat, deadline - clock())
                if may_repeat:
                    break
                if may_repeat is False:
                    error.hint = _HINT_NOT_REPEATED
                    raise error

    async def once(self, method: Method[Request, Response], request: Request, timeout: float) -> Response:
        """One try."""
        call = self.channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        try:
            response = await call(request, timeout=max(timeout, _SHORTEST_TIMEOUT), metadata=self.metadata)
        except grpc.aio.AioRpcError as failed:
            error = from_rpc(failed)
            self.contact.answered |= error.is_from_gateway
            raise error from None
        self.contact.answered = True
        return response

    async def read_parts(
        self, method: Method[Request, Response], request: Request, timeout: float | None
    ) -> bytes:
        """Reads a payload that comes in parts. A stream that breaks is not resumed: the call fails."""
        call = self.channel.unary_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        limit = self.timeout if timeout is None else timeout
        parts: list[bytes] = []
        try:
            async for part in call(request, timeout=limit, metadata=self.metadata):
                parts.append(getattr(part, "data"))
        except grpc.aio.AioRpcError as error:
            raise from_rpc(error) from None
        return b"".join(parts)

    async def _may_repeat(self, repeat: Repeat, timeout: float) -> bool | None:
        """Asks the gateway whether a repetition is harmless; `None` if it cannot be asked yet."""
        try:
            if repeat.provider is not None:
                one = providers_pb2.GetProviderRequest(name=repeat.provider)
                return _offers(await self.once(_methods.GET_PROVIDER, one, timeout), repeat)
            every = providers_pb2.ListProvidersRequest()
            page = await self.once(_methods.LIST_PROVIDERS, every, timeout)
        except Unavailable:
            return None
        except StatewayError:
            return False
        is_all = not page.next_page_token
        return is_all and all(_offers(provider, repeat) for provider in page.providers)


def _offers(provider: providers_pb2.Provider, repeat: Repeat) -> bool:
    return bool(getattr(provider.capabilities, repeat.capability))


def _next_pause(back_off: BackOff, error: StatewayError, retry: int) -> float | None:
    if not isinstance(error, Unavailable):
        return None
    asked = error.retry_after.total_seconds() if error.retry_after else None
    return back_off.spread_pause(retry, asked)


def provider_of(name: str) -> str | None:
    """`providers/{provider}` at the beginning of a name."""
    parts = name.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 and parts[0] == "providers" else None
