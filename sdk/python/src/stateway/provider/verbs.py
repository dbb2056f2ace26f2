"""The service `Provider`: one method per verb, around the methods of a provider object."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, TypeVar

from stateway.provider.calls import as_error, call
from stateway.provider.errors import ErrorKind, ProviderError, unsupported
from stateway.provider.provider import Gone, Health, InSync, Observation, Provider, Watched
from stateway.provider.v1 import provider_pb2 as pb

# The most executions that are read at the same time for one ObserveExecutions.
_READS = 16
# The most ids of one ObserveExecutions.
_MAX_OBSERVED = 1_000
# How often a stream reports that it is alive, if the gateway does not say. Seconds.
_HEARTBEAT = 10.0
_OPEN_TIMEOUT = 10.0

Handler = Callable[[Any], Awaitable[Any]]
_Answer = TypeVar("_Answer")
_log = logging.getLogger("stateway.provider")


class Verbs:
    """Checks requests, calls the provider, and keeps payloads out of answers that must not have them."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.capabilities = frozenset(provider.capabilities())
        self.handlers = self._handlers()

    def _handlers(self) -> dict[str, tuple[type[Any], type[Any], Handler]]:
        """Request, response and handler of every unary method, by its name."""
        return {
            "CheckHealth": (pb.CheckHealthRequest, pb.CheckHealthResponse, self.health),
            "StartExecution": (pb.StartExecutionRequest, Observation, self.start),
            "GetExecution": (pb.GetExecutionRequest, Observation, self.get),
            "ObserveExecutions": (pb.ObserveExecutionsRequest, pb.ObserveExecutionsResponse, self.observe),
            "ListExecutions": (pb.ListExecutionsRequest, pb.ListExecutionsResponse, self.list),
            "CountExecutions": (pb.CountExecutionsRequest, pb.CountExecutionsResponse, self.count),
            "ListEvents": (pb.ListEventsRequest, pb.ListEventsResponse, self.history),
            "SignalExecution": (pb.SignalExecutionRequest, Observation, self.verb("signal")),
            "CancelExecution": (pb.CancelExecutionRequest, Observation, self.cancel),
            "PauseExecution": (pb.PauseExecutionRequest, Observation, self.verb("pause")),
            "ResumeExecution": (pb.ResumeExecutionRequest, Observation, self.verb("resume")),
            "RetryNow": (pb.RetryNowRequest, Observation, self.verb("retry_now")),
            "RetryFrom": (pb.RetryFromRequest, Observation, self.retry_from),
            "PurgeExecution": (pb.PurgeExecutionRequest, pb.PurgeExecutionResponse, self.purge),
            "ListDefinitions": (
                pb.ListDefinitionsRequest,
                pb.ListDefinitionsResponse,
                self.plain("definitions", "list_definitions", pb.ListDefinitionsResponse),
            ),
            "GetDefinition": (
                pb.GetDefinitionRequest,
                pb.Definition,
                self.plain("definitions", "get_definition", pb.Definition),
            ),
            "ApplyDefinition": (
                pb.ApplyDefinitionRequest,
                pb.Definition,
                self.plain("apply_definition", "apply_definition", pb.Definition),
            ),
            "ValidateDefinition": (
                pb.ValidateDefinitionRequest,
                pb.ValidateDefinitionResponse,
                self.plain("apply_definition", "validate_definition", pb.ValidateDefinitionResponse),
            ),
        }

    def need(self, capability: str) -> None:
        """Refuses what the provider cannot do."""
        if capability not in self.capabilities:
            raise unsupported(capability)

    async def answer(self, wanted: type[_Answer], method: str, *arguments: Any) -> _Answer:
        """The result of a method of the provider. A result of another type is a defect."""
        found = await call(getattr(self.provider, method), *arguments)
        if not isinstance(found, wanted):
            raise self._defect(f"{method} returned {type(found).__name__} instead of {wanted.__name__}")
        return found

    def _defect(self, what: str) -> ProviderError:
        message = f"the provider has a defect: {type(self.provider).__name__}.{what}"
        _log.error("%s", message)
        return ProviderError(ErrorKind.INTERNAL, message, hint="Correct the code of the provider.")

    def plain(self, capability: str, method: str, wanted: type[Any]) -> Handler:
        """A verb that needs no further check."""

        async def handle(request: Any) -> Any:
            self.need(capability)
            return await self.answer(wanted, method, request)

        return handle

    def verb(self, name: str) -> Handler:
        """A write that answers with the execution."""

        async def handle(request: Any) -> Observation:
            self.need(name)
            return without_payloads(await self.answer(Observation, name, request))

        return handle

    async def health(self, request: pb.CheckHealthRequest) -> pb.CheckHealthResponse:
        health = await self.answer(Health, "health")
        return pb.CheckHealthResponse(engine_version=health.engine_version, detail=health.detail)

    async def get(self, request: pb.GetExecutionRequest) -> Observation:
        is_full = request.view == pb.VIEW_FULL
        seen = await self.answer(Observation, "get", request.id, is_full)
        return seen if is_full else without_payloads(seen)

    async def observe(self, request: pb.ObserveExecutionsRequest) -> pb.ObserveExecutionsResponse:
        """Reads the executions one by one, several at the same time."""
        if len(request.ids) > _MAX_OBSERVED:
            raise ProviderError(ErrorKind.INVALID_ARGUMENT, f"`ids` has more than {_MAX_OBSERVED} ids")
        free = asyncio.Semaphore(_READS)

        async def one(id: str) -> pb.ObservedExecution:
            async with free:
                try:
                    seen = await self.answer(Observation, "get", id, False)
                    return pb.ObservedExecution(observation=without_payloads(seen))
                except Exception as error:
                    failed = as_error(error, "ObserveExecutions")
                    detail = failed.to_detail()
                    detail.message = failed.message
                    return pb.ObservedExecution(error=detail)

        results = await asyncio.gather(*(one(id) for id in request.ids))
        return pb.ObserveExecutionsResponse(results=results)

    async def start(self, request: pb.StartExecutionRequest) -> Observation:
        self.need("start")
        if request.labels:
            self.need("labels")
        if request.HasField("delay"):
            self.need("start_delayed")
        unknown = sorted(set(request.options) - self.provider.options)
        if unknown:
            raise ProviderError(
                ErrorKind.INVALID_ARGUMENT,
                f"option `{unknown[0]}` is not supported",
                reason="OPTION_NOT_SUPPORTED",
                hint=f"Options of this provider: {', '.join(sorted(self.provider.options)) or 'none'}.",
            )
        return without_payloads(await self.answer(Observation, "start", request))

    async def list(self, request: pb.ListExecutionsRequest) -> pb.ListExecutionsResponse:
        self.need("list")
        page = await self.answer(pb.ListExecutionsResponse, "list", request)
        for seen in page.observations:
            without_payloads(seen)
        return page

    async def count(self, request: pb.CountExecutionsRequest) -> pb.CountExecutionsResponse:
        self.need("count")
        return pb.CountExecutionsResponse(groups=await self.answer(Iterable, "count"))

    async def history(self, request: pb.ListEventsRequest) -> pb.ListEventsResponse:
        self.need("history")
        known(pb.ListEventsRequest.Order, request.order)
        if request.order == pb.ListEventsRequest.NEWEST_FIRST:
            self.need("history_newest_first")
        return await self.answer(pb.ListEventsResponse, "history", request)

    async def cancel(self, request: pb.CancelExecutionRequest) -> Observation:
        known(pb.CancelExecutionRequest.Mode, request.mode)
        known(pb.CancelExecutionRequest.Compensation, request.compensation)
        if request.compensation != pb.CancelExecutionRequest.COMPENSATION_UNSPECIFIED:
            self.need("cancel_compensation")
        is_kill = request.mode == pb.CancelExecutionRequest.KILL
        return await self._end("kill" if is_kill else "cancel", request)

    async def _end(self, verb: str, request: pb.CancelExecutionRequest) -> Observation:
        self.need(verb)
        return without_payloads(await self.answer(Observation, verb, request))

    async def retry_from(self, request: pb.RetryFromRequest) -> Observation:
        self.need("retry_from")
        given = {
            "input": request.HasField("input"),
            "feedback": bool(request.feedback),
            "from_start": request.from_start,
            "execution_id": bool(request.execution_id),
        }
        for argument, is_given in given.items():
            if is_given and argument not in self.provider.retry_from_takes:
                raise unsupported(f"retry_from with {argument}")
        return without_payloads(await self.answer(Observation, "retry_from", request))

    async def purge(self, request: pb.PurgeExecutionRequest) -> pb.PurgeExecutionResponse:
        self.need("purge")
        await call(self.provider.purge, request)
        return pb.PurgeExecutionResponse()

    def watch(self, request: pb.WatchExecutionsRequest) -> AsyncIterator[Watched]:
        """The changes of a scope."""
        scopes = {
            pb.WatchExecutionsRequest.ALL: "watch_all",
            pb.WatchExecutionsRequest.ONE: "watch_one",
            pb.WatchExecutionsRequest.END: "watch_end",
        }
        verb = scopes.get(request.scope)
        if verb is None:
            raise unsupported("this scope of a watch")
        self.need(verb)
        arguments = () if verb == "watch_all" else (request.id,)
        changes = getattr(self.provider, verb)(*arguments)
        if not isinstance(changes, AsyncIterable):
            raise self._defect(f"{verb} returned {type(changes).__name__} instead of an asynchronous generator")
        return self._checked(verb, changes)

    async def _checked(self, verb: str, changes: AsyncIterable[Any]) -> AsyncIterator[Watched]:
        is_in_sync = False
        async for item in changes:
            if not isinstance(item, (Observation, InSync, Gone)):
                found = type(item).__name__
                raise self._defect(f"{verb} yielded {found} instead of Observation, InSync or Gone")
            is_in_sync = is_in_sync or isinstance(item, InSync)
            yield item
        if verb == "watch_all" and not is_in_sync:
            own = type(self.provider).__name__
            _log.warning(
                "%s.watch_all ended before it yielded InSync(); the gateway opens it again and reports nothing", own
            )

    def responses(
        self, request: pb.WatchExecutionsRequest, before: Awaitable[None]
    ) -> AsyncIterator[pb.WatchExecutionsResponse]:
        """The messages of a watch: the changes, and heartbeats while nothing changes.

        The first message must come within `open_timeout`, so that an engine that hangs is noticed. A watch of
        the end begins with a heartbeat, the other watches with the first change.
        """
        heartbeat = request.heartbeat_interval.ToTimedelta().total_seconds() or _HEARTBEAT
        opening = request.open_timeout.ToTimedelta().total_seconds() or _OPEN_TIMEOUT
        return _with_heartbeats(self._opened(request, before), opening, heartbeat)

    async def _opened(
        self, request: pb.WatchExecutionsRequest, before: Awaitable[None]
    ) -> AsyncIterator[Watched | None]:
        await before
        changes = self.watch(request)
        if request.scope == pb.WatchExecutionsRequest.END:
            # Nothing may change for a long time. This read shows that the engine answers and has the execution.
            await call(self.provider.get, request.id, False)
            yield None
        async for item in changes:
            yield item


async def _with_heartbeats(
    items: AsyncIterator[Watched | None], opening: float, heartbeat: float
) -> AsyncIterator[pb.WatchExecutionsResponse]:
    patience, is_open = opening, False
    following: asyncio.Future[Watched | None] | None = None
    try:
        while True:
            if following is None:
                following = asyncio.ensure_future(_next(items))
            done, _ = await asyncio.wait({following}, timeout=patience)
            if not done:
                if not is_open:
                    raise ProviderError(ErrorKind.TIMEOUT, "the engine did not answer in time")
                yield pb.WatchExecutionsResponse(heartbeat=pb.Heartbeat())
                continue
            finished, following = following, None
            try:
                yield _response(finished.result())
            except StopAsyncIteration:
                return
            patience, is_open = heartbeat, True
    finally:
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()


async def _next(items: AsyncIterator[Watched | None]) -> Watched | None:
    return await items.__anext__()


def _response(item: Watched | None) -> pb.WatchExecutionsResponse:
    if item is None:
        return pb.WatchExecutionsResponse(heartbeat=pb.Heartbeat())
    if isinstance(item, Gone):
        return pb.WatchExecutionsResponse(gone=item.id)
    if isinstance(item, InSync):
        return pb.WatchExecutionsResponse(in_sync=pb.InSync())
    return pb.WatchExecutionsResponse(seen=without_payloads(item))


def known(values: Any, value: int) -> None:
    """Refuses a value of a request that this version of the contract does not have."""
    if value not in values.values():
        raise ProviderError(ErrorKind.INVALID_ARGUMENT, f"the value {value} is not known")


def without_payloads(seen: Observation) -> Observation:
    """The same observation without what only the full view has."""
    for field in ("input", "output", "forks"):
        seen.ClearField(field)
    return seen
