"""The calls of the service `Executions`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import timedelta
from typing import Any

from stateway import _back_off, _methods
from stateway._caller import Caller, Repeat, provider_of
from stateway._outage import Outage
from stateway._pages import pages
from stateway.errors import DeadlineExceeded, NotFound, Unavailable
from stateway.types import SubState, json_payload
from stateway.v1 import executions_pb2 as pb
from stateway.watch import Watch, decode_with

# One call of a wait asks for no more, so that neither the gateway's longest deadline nor a proxy ends it.
_LONGEST_WAIT = 300.0
_SHORTEST_WAIT = 0.05
# The gateway answers a little before the deadline. An earlier answer means that it is shutting down.
_EARLY = 0.5
# A call that lasted longer had reached a gateway.
_REACHED = 2.0

# How long the execution may take to be read after the deadline of a wait.
_LATE = 5.0
# The gateway is shutting down.
_DRAINING = "GATEWAY_DRAINING"

_log = logging.getLogger("stateway.client")

_GONE = ("EXECUTION_NOT_FOUND", "EXECUTION_FORGOTTEN")


class ExecutionCalls:
    """Start, read, watch and control executions.

    Names are `providers/{provider}/executions/{execution}`, and `providers/-` for all providers. Inputs and
    payloads are any JSON value. `timeout` is in seconds and covers all tries. `etag` makes a write
    conditional; such a write is tried once. `request_id` is the idempotency key, random by default; choose it
    if another process may repeat the request. With `at_least_once`, a write is also retried where the
    provider cannot recognise a repetition, so it may be carried out twice.
    """

    _caller: Caller

    async def start(
        self,
        definition: str,
        input: Any = None,
        *,
        parent: str = "",
        id: str = "",
        labels: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        delay: timedelta | None = None,
        wait: bool = False,
        request_id: str = "",
        at_least_once: bool = False,
        timeout: float | None = None,
    ) -> pb.Execution:
        """Starts an execution of `definitions/{definition}` or of a definition of a provider.

        With `wait`, answers when the execution has finished, or shortly before `timeout`.
        """
        request = pb.StartExecutionRequest(
            parent=parent,
            definition=definition,
            execution_id=id,
            labels=dict(labels or {}),
            options=dict(options or {}),
            wait=wait,
            request_id=request_id,
        )
        if input is not None:
            request.input.CopyFrom(json_payload(input))
        if delay is not None:
            request.delay.FromTimedelta(delay)
        repeat = Repeat("start_idempotent", parent or provider_of(definition))
        return await self._caller.write(
            _methods.START, request, timeout, None if at_least_once else repeat
        )

    async def get(self, name: str, *, full: bool = True, timeout: float | None = None) -> pb.Execution:
        """Reads an execution, with its input and output unless `full` is false."""
        view = pb.EXECUTION_VIEW_FULL if full else pb.EXECUTION_VIEW_BASIC
        request = pb.GetExecutionRequest(name=name, view=view)
        return await self._caller.read(_methods.GET, request, timeout)

    def list(
        self,
        parent: str = "providers/-",
        *,
        filter: str = "",
        page_size: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[pb.Execution]:
        """Every execution that passes the filter. Use `list_page` to see which providers did not answer."""
        request = pb.ListExecutionsRequest(parent=parent, filter=filter, page_size=page_size)
        return pages(self._caller, _methods.LIST, request, "executions", timeout)

    async def list_page(
        self,
        parent: str = "providers/-",
        *,
        filter: str = "",
        page_size: int = 0,
        page_token: str = "",
        timeout: float | None = None,
    ) -> pb.ListExecutionsResponse:
        """One page of executions."""
        request = pb.ListExecutionsRequest(
            parent=parent, filter=filter, page_size=page_size, page_token=page_token
        )
        return await self._caller.read(_methods.LIST, request, timeout)

    async def count(
        self, parent: str = "providers/-", *, timeout: float | None = None
    ) -> pb.CountExecutionsResponse:
        """Counts executions by sub-state."""
        request = pb.CountExecutionsRequest(parent=parent)
        return await self._caller.read(_methods.COUNT, request, timeout)

    def watch(
        self,
        parent: str = "",
        *,
        names: Iterable[str] = (),
        filter: str = "",
        cursor: str = "",
    ) -> Watch[pb.Execution]:
        """Follows a collection of executions, or up to 100 single executions by their names.

        The watch does not end automatically, not even when the execution has finished.
        """
        if isinstance(names, str):
            raise TypeError(f"`names` must be a list of names, for example [{names!r}]")
        request = pb.WatchExecutionsRequest(
            parent=parent, names=list(names), filter=filter, cursor=cursor
        )
        return Watch(self._caller, _methods.WATCH, request, decode_with("execution"))

    async def wait(
        self, name: str, *until: SubState, timeout: float | None = None
    ) -> pb.WaitExecutionResponse:
        """Waits until the execution has finished or shows one of the given sub-states.

        The wait outlasts a crash and a restart of the gateway; the logger `stateway.client` reports that the
        gateway is away. Without a timeout the wait lasts as long as needed. When the timeout passes first,
        `reached` is false and the execution is shown as it is.

        Raises `Unavailable` if the client has never reached the gateway, or if the gateway is away when the
        timeout passes.
        """
        for state in until:
            if not isinstance(state, SubState):
                raise TypeError(f"`until` must be members of SubState, such as SubState.ERROR, not {state!r}")
        request = pb.WaitExecutionRequest(name=name, sub_states=[f"SUB_STATE_{state.name}" for state in until])
        clock = asyncio.get_running_loop().time
        deadline = None if timeout is None else clock() + timeout
        outage = Outage(_log, f"wait for {name}")
        reached, retry = False, 0
        while True:
            left = None if deadline is None else max(deadline - clock(), 0.0)
            part = max(_LONGEST_WAIT if left is None else min(left, _LONGEST_WAIT), _SHORTEST_WAIT)
            is_last = left is not None and left <= part
            begun = clock()
            asked: float | None = None
            try:
                answer = await self._caller.once(_methods.WAIT, request, part)
            except DeadlineExceeded:
                # The answer of a busy gateway is late.
                if is_last:
                    return await self._read_after_wait(name, until)
                retry = 0
                continue
            except Unavailable as error:
                is_away = not error.is_from_gateway or error.reason == _DRAINING
                is_broken = is_away and error.was_sent
                reached = reached or is_broken or clock() - begun > _REACHED
                if is_away and (reached or self._caller.contact.answered):
                    back_off = _back_off.WAIT
                else:
                    back_off = _back_off.WATCH if reached else self._caller.back_off
                retry += 1
                asked = error.retry_after.total_seconds() if error.retry_after else None
                pause = back_off.spread_pause(retry, asked)
                if pause is None or (deadline is not None and clock() >= deadline):
                    raise
                if back_off is _back_off.WAIT:
                    outage.report(error)
            else:
                reached = True
                outage.end()
                is_early = clock() - begun + _EARLY < part
                if answer.reached or (is_last and not is_early):
                    return answer
                if not is_early:
                    retry = 0
                    continue
                retry += 1
                pause = _back_off.WATCH.spread_pause(retry)
                if pause is None:
                    return answer
            await asyncio.sleep(pause if deadline is None else min(pause, max(deadline - clock(), 0.0)))

    async def _read_after_wait(self, name: str, until: tuple[SubState, ...]) -> pb.WaitExecutionResponse:
        """The result of a wait whose last answer did not come before its deadline."""
        execution = await self.get(name, full=False, timeout=_LATE)
        state = SubState(execution.sub_state)
        return pb.WaitExecutionResponse(execution=execution, reached=state.is_finished or state in until)

    def events(
        self,
        name: str,
        *,
        branch: str = "",
        newest_first: bool = False,
        full: bool = False,
        page_size: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[pb.Event]:
        """The whole history of an execution."""
        request = pb.ListEventsRequest(
            parent=name,
            branch=branch,
            order_by="sequence desc" if newest_first else "",
            view=pb.EXECUTION_VIEW_FULL if full else pb.EXECUTION_VIEW_BASIC,
            page_size=page_size,
        )
        return pages(self._caller, _methods.LIST_EVENTS, request, "events", timeout)

    async def get_step(self, name: str, step: str, *, timeout: float | None = None) -> pb.StepDetail:
        """Reads one step of an execution with its input, its output and every attempt."""
        request = pb.GetStepRequest(name=f"{name}/steps/{step}")
        return await self._caller.read(_methods.GET_STEP, request, timeout)

    async def explain(self, name: str, *, timeout: float | None = None) -> pb.ExplainExecutionResponse:
        """Explains why an execution shows its sub-state."""
        return await self._caller.read(_methods.EXPLAIN, pb.ExplainExecutionRequest(name=name), timeout)

    async def signal(
        self,
        name: str,
        signal: str,
        payload: Any = None,
        *,
        request_id: str = "",
        etag: str = "",
        at_least_once: bool = False,
        timeout: float | None = None,
    ) -> pb.Execution:
        """Sends a signal."""
        request = pb.SignalExecutionRequest(name=name, signal=signal, request_id=request_id, etag=etag)
        if payload is not None:
            request.payload.CopyFrom(json_payload(payload))
        repeat = Repeat("signal_idempotent", provider_of(name))
        return await self._caller.write(
            _methods.SIGNAL, request, timeout, None if at_least_once else repeat
        )

    async def cancel(
        self,
        name: str,
        *,
        kill: bool = False,
        compensate: bool | None = None,
        comment: str = "",
        request_id: str = "",
        etag: str = "",
        timeout: float | None = None,
    ) -> pb.Execution:
        """Cancels an execution; with `kill`, ends it immediately and without compensation."""
        mode = pb.CancelExecutionRequest.KILL if kill else pb.CancelExecutionRequest.GRACEFUL
        compensation = {
            None: pb.COMPENSATION_UNSPECIFIED,
            True: pb.COMPENSATION_COMPENSATE,
            False: pb.COMPENSATION_SKIP,
        }[compensate]
        request = pb.CancelExecutionRequest(
            name=name, mode=mode, compensation=compensation, comment=comment, request_id=request_id, etag=etag
        )
        return await self._caller.write(_methods.CANCEL, request, timeout)

    async def pause(
        self,
        name: str,
        *,
        comment: str = "",
        request_id: str = "",
        etag: str = "",
        timeout: float | None = None,
    ) -> pb.Execution:
        """Pauses an execution until it is resumed."""
        request = pb.PauseExecutionRequest(name=name, comment=comment, request_id=request_id, etag=etag)
        return await self._caller.write(_methods.PAUSE, request, timeout)

    async def resume(
        self, name: str, *, request_id: str = "", etag: str = "", timeout: float | None = None
    ) -> pb.Execution:
        """Resumes a paused execution."""
        request = pb.ResumeExecutionRequest(name=name, request_id=request_id, etag=etag)
        return await self._caller.write(_methods.RESUME, request, timeout)

    async def retry_now(
        self,
        name: str,
        *,
        step: str = "",
        request_id: str = "",
        etag: str = "",
        at_least_once: bool = False,
        timeout: float | None = None,
    ) -> pb.Execution:
        """Makes the next attempt now, of one step or of every step that backs off."""
        request = pb.RetryNowRequest(name=name, step=step, request_id=request_id, etag=etag)
        repeat = Repeat("retry_now_idempotent", provider_of(name))
        return await self._caller.write(
            _methods.RETRY_NOW, request, timeout, None if at_least_once else repeat
        )

    async def retry_from(
        self,
        name: str,
        *,
        step: str = "",
        from_start: bool = False,
        input: Any = None,
        feedback: str = "",
        id: str = "",
        request_id: str = "",
        etag: str = "",
        at_least_once: bool = False,
        timeout: float | None = None,
    ) -> pb.Execution:
        """Runs an execution again from a step on (default: from where it failed).

        A succeeded execution is forked: the response is the new execution, with `id` if given.
        """
        request = pb.RetryFromRequest(
            name=name, feedback=feedback, execution_id=id, request_id=request_id, etag=etag
        )
        if step:
            request.step = step
        if from_start:
            request.start.SetInParent()
        if input is not None:
            request.input.CopyFrom(json_payload(input))
        repeat = Repeat("retry_from_idempotent", provider_of(name))
        return await self._caller.write(
            _methods.RETRY_FROM, request, timeout, None if at_least_once else repeat
        )

    async def adopt_definition(
        self,
        name: str,
        *,
        revision: str = "",
        request_id: str = "",
        etag: str = "",
        timeout: float | None = None,
    ) -> pb.Execution:
        """Offers another revision of its definition to an execution (default: the current revision)."""
        request = pb.AdoptDefinitionRequest(name=name, revision=revision, request_id=request_id, etag=etag)
        return await self._caller.write(_methods.ADOPT_DEFINITION, request, timeout)

    async def read_input(self, name: str, *, timeout: float | None = None) -> bytes:
        """Reads the input of an execution or of a step (`…/steps/{step}`), whatever its size."""
        request = pb.ReadPayloadRequest(name=name, source=pb.ReadPayloadRequest.INPUT)
        return await self._caller.read_parts(_methods.READ_PAYLOAD, request, timeout)

    async def read_output(self, name: str, *, timeout: float | None = None) -> bytes:
        """Reads the output of an execution or of a step (`…/steps/{step}`), whatever its size."""
        request = pb.ReadPayloadRequest(name=name, source=pb.ReadPayloadRequest.OUTPUT)
        return await self._caller.read_parts(_methods.READ_PAYLOAD, request, timeout)

    async def purge(
        self, name: str, *, request_id: str = "", etag: str = "", timeout: float | None = None
    ) -> None:
        """Removes the record of a finished execution."""
        request = pb.PurgeExecutionRequest(name=name, request_id=request_id, etag=etag)
        tries = CountedCaller(self._caller)
        try:
            await tries.write(_methods.PURGE, request, timeout)
        except NotFound as error:
            # The first try may have removed the execution before its response was lost.
            if not (tries.answer_lost and error.reason in _GONE):
                raise


class CountedCaller(Caller):
    """A caller that remembers whether the response to a request was lost."""

    answer_lost: bool

    def __init__(self, caller: Caller) -> None:
        super().__init__(caller.channel, caller.timeout, caller.metadata, caller.back_off, caller.contact)
        object.__setattr__(self, "answer_lost", False)

    async def once(self, method: Any, request: Any, timeout: float) -> Any:
        try:
            return await super().once(method, request, timeout)
        except Unavailable as error:
            if error.was_sent:
                object.__setattr__(self, "answer_lost", True)
            raise
