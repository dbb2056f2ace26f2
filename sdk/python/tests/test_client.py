"""The client against the real gateway, and its retries against a server that fails on purpose."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

import stateway
from conftest import Gateway, Proxy, until
from stateway import Client, SubState, _back_off, _methods, input_of, output_of
from stateway.v1 import approvals_pb2, executions_pb2, providers_pb2

GATE = """
name: gate
steps:
  - {name: sign, signal: go, timeout: 5m}
output: {got: "${steps.sign.output.by}"}
"""

RELEASE = """
name: release
steps:
  - name: approve
    approval: {role: manager, expiresAfter: 1h, onReject: cancel}
"""


async def test_an_execution_is_started_read_listed_counted_signalled_and_waited_for(gateway: Gateway) -> None:
    async with Client(gateway.address) as client:
        applied = await client.apply_definition(GATE)
        assert applied.changed and applied.definition.name == "definitions/gate"
        started = await client.start("definitions/gate", {"n": 1}, id="one", labels={"team": "a"})
        assert started.name == "providers/builtin/executions/one"
        read = await client.get(started.name)
        assert input_of(read) == {"n": 1} and read.labels["team"] == "a"
        assert not (await client.get(started.name, full=False)).HasField("input")
        for number in range(4):
            await client.start("definitions/gate", id=f"more-{number}")
        listed = [execution.name async for execution in client.list("providers/builtin", page_size=2)]
        assert len(listed) == len(set(listed)) == 5
        waiting = client.list(filter='sub_state = WAITING AND labels.team = "a"')
        assert [execution.name async for execution in waiting] == [started.name]
        counts = (await client.count("providers/builtin")).counts
        assert {SubState(one.sub_state): one.execution_count for one in counts}[SubState.WAITING] == 5
        not_yet = await client.wait(started.name, timeout=0.3)
        assert not not_yet.reached and SubState(not_yet.execution.sub_state) is SubState.WAITING
        assert (await client.wait(started.name, SubState.WAITING, timeout=5)).reached
        await client.signal(started.name, "go", {"by": "ada"})
        done = await client.wait(started.name)
        assert done.reached and SubState(done.execution.sub_state).is_finished
        assert output_of(await client.get(started.name)) == {"got": "ada"}
        explained = await client.explain(started.name)
        assert explained.summary
        assert (await client.get_step(started.name, "sign")).attempts
        kinds = [event.native_type async for event in client.events(started.name, page_size=2)]
        newest = [event.native_type async for event in client.events(started.name, newest_first=True)]
        assert len(kinds) > 3 and newest == kinds[::-1]
        await client.purge(started.name)
        with pytest.raises(stateway.NotFound):
            await client.get(started.name)


async def test_executions_are_paused_resumed_retried_and_cancelled(gateway: Gateway) -> None:
    async with Client(gateway.address) as client:
        long = await client.start("providers/memory/definitions/long", id="long")
        paused = await client.pause(long.name, comment="lunch")
        assert SubState(paused.sub_state) is SubState.WAITING
        assert SubState((await client.resume(long.name)).sub_state) is SubState.RUNNING
        flaky = await client.start("providers/memory/definitions/flaky")
        await client.wait(flaky.name, SubState.BACKING_OFF, timeout=10)
        retried = await client.retry_now(flaky.name)
        assert SubState(retried.sub_state) is SubState.RUNNING
        cancelled = await client.cancel(long.name, kill=True, comment="enough")
        assert cancelled.reason == executions_pb2.REASON_KILLED
        await client.apply_definition(GATE)
        gate = await client.start("definitions/gate")
        await client.cancel(gate.name)
        assert (await client.wait(gate.name, timeout=5)).execution.reason == executions_pb2.REASON_CANCELLED
        again = await client.retry_from(gate.name, step="sign")
        assert again.name == gate.name and SubState(again.sub_state) is SubState.WAITING
        providers = [provider.name async for provider in client.list_providers()]
        assert providers == ["providers/builtin", "providers/memory"]
        assert (await client.get_provider("providers/builtin")).capabilities.start_idempotent


async def test_payloads_triggers_and_revisions(gateway: Gateway) -> None:
    triggered = GATE.replace("name: gate", "name: gate\ntrigger: {event: order.created}")
    async with Client(gateway.address) as client:
        await client.apply_definition(triggered)
        published = await client.publish_event("order.created", {"n": 7}, request_id="e-1")
        assert len(published.executions) == 1
        again = await client.publish_event("order.created", {"n": 7}, request_id="e-1")
        assert again.executions == published.executions
        name = published.executions[0]
        large = {"text": "x" * 100_000}
        await client.signal(name, "go", {"by": large})
        await client.wait(name)
        assert json.loads(await client.read_input(name)) == {"n": 7}
        assert json.loads(await client.read_output(name)) == {"got": large}
        with pytest.raises(stateway.NotFound):
            await client.read_output("providers/builtin/executions/none")
        disabled = await client.disable_trigger("definitions/gate", comment="too many")
        assert disabled.disabled.comment == "too many"
        assert (await client.publish_event("order.created")).refused
        assert not (await client.enable_trigger("definitions/gate")).HasField("disabled")
        running = await client.start("definitions/gate")
        changed = await client.apply_definition(triggered.replace("output: {", "output: {more: 1, "))
        adopted = await client.adopt_definition(running.name)
        assert adopted.revision == changed.definition.revision
        counted = await client.purge_executions('end_time < "2100-01-01T00:00:00Z"')
        assert counted.purge_count == 1
        await client.purge_executions('end_time < "2100-01-01T00:00:00Z"', force=True)
        with pytest.raises(stateway.NotFound):
            await client.get(name)


async def test_errors_are_typed_and_carry_their_reason(gateway: Gateway) -> None:
    async with Client(gateway.address) as client:
        with pytest.raises(stateway.NotFound) as missing:
            await client.get("providers/memory/executions/none")
        assert missing.value.reason == "EXECUTION_NOT_FOUND" and missing.value.is_from_gateway
        with pytest.raises(stateway.InvalidArgument) as wrong:
            await client.list_page(filter="substate = RUNNING")
        assert wrong.value.reason == "INVALID_FILTER" and wrong.value.metadata["column"] == "1"
        assert "sub_state" in wrong.value.hint
        await client.start("providers/memory/definitions/long", id="taken")
        with pytest.raises(stateway.AlreadyExists):
            await client.start("providers/memory/definitions/hello", id="taken")
        with pytest.raises(stateway.Aborted):
            await client.pause("providers/memory/executions/taken", etag='W/"other"')
        with pytest.raises(stateway.InvalidArgument) as invalid:
            await client.apply_definition("name: x\nsteps: []\n")
        assert invalid.value.violations


async def test_a_server_that_never_answers_is_given_up_at_the_deadline() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with Client(f"127.0.0.1:{port}", timeout=0.2) as client:
        begun = asyncio.get_running_loop().time()
        with pytest.raises(stateway.DeadlineExceeded):
            await client.get("providers/memory/executions/x")
        with pytest.raises(stateway.DeadlineExceeded):
            await client.get("providers/memory/executions/x", timeout=0)
        assert asyncio.get_running_loop().time() - begun < 5
    server.close()


async def test_approvals_are_listed_watched_and_decided(gateway: Gateway) -> None:
    manager = Client(gateway.address, actor="grace", roles=["manager"])
    async with Client(gateway.address) as client, manager, Client(gateway.address, actor="bob") as bob:
        await client.apply_definition(RELEASE)
        watch = manager.watch_approvals()
        assert isinstance(await anext(watch), stateway.Bookmark)
        granted = await client.start("definitions/release", id="good")
        change = await anext(watch)
        assert isinstance(change, stateway.Added) and change.item.execution == granted.name
        pending = [approval async for approval in manager.list_approvals()]
        assert [approval.name for approval in pending] == [change.item.name]
        with pytest.raises(stateway.PermissionDenied) as denied:
            await bob.decide_approval(pending[0].name, grant=True)
        assert denied.value.reason == "ROLE_REQUIRED"
        decided = await manager.decide_approval(pending[0].name, grant=True, comment="looks good")
        assert decided.state == approvals_pb2.Approval.GRANTED
        assert decided.decision.decided_by == "grace" and decided.decision.comment == "looks good"
        change = await anext(watch)
        assert isinstance(change, stateway.Removed) and change.item.state == approvals_pb2.Approval.GRANTED
        await watch.aclose()
        assert (await client.wait(granted.name, timeout=5)).execution.sub_state == SubState.SUCCEEDED.value
        rejected = await client.start("definitions/release", id="bad")
        (approval,) = [approval async for approval in manager.list_approvals()]
        await manager.decide_approval(approval.name, grant=False)
        ended = (await client.wait(rejected.name, timeout=5)).execution
        assert SubState(ended.sub_state) is SubState.FAILED


def retry_until_the_deadline(client: Client) -> None:
    """Outlasts a restart of the gateway, which takes longer on a busy machine than the default retries."""
    client._caller = dataclasses.replace(client._caller, back_off=_back_off.WAIT)


async def test_a_wait_survives_kills_of_the_gateway(gateway: Gateway) -> None:
    async with Client(gateway.address) as client:
        retry_until_the_deadline(client)
        await client.apply_definition(GATE)
        started = await client.start("definitions/gate")
        waiting = asyncio.create_task(client.wait(started.name, timeout=30))
        for _ in range(3):
            await asyncio.sleep(0.3)
            gateway.kill()
            gateway.start()
        await client.signal(started.name, "go", {"by": "x"})
        done = await waiting
        assert done.reached and SubState(done.execution.sub_state) is SubState.SUCCEEDED


async def test_a_wait_survives_a_crash_in_its_first_second(gateway: Gateway) -> None:
    async with Client(gateway.address) as starter:
        await starter.apply_definition(GATE)
        started = await starter.start("definitions/gate")
    # This client has made no other call, and the gateway stays away longer than a call is retried.
    async with Client(gateway.address) as client:
        waiting = asyncio.create_task(client.wait(started.name))
        await asyncio.sleep(0.5)
        gateway.kill()
        await asyncio.sleep(2)
        assert not waiting.done()
        gateway.start()
        retry_until_the_deadline(client)
        await client.signal(started.name, "go", {"by": "x"}, timeout=10)
        assert (await waiting).reached


async def test_a_wait_survives_a_crash_before_it_begins(gateway: Gateway) -> None:
    async with Client(gateway.address) as client:
        await client.apply_definition(GATE)
        started = await client.start("definitions/gate")
        gateway.kill()
        waiting = asyncio.create_task(client.wait(started.name, SubState.WAITING, timeout=30))
        await asyncio.sleep(2)
        assert not waiting.done()
        gateway.start()
        assert (await waiting).reached


async def test_a_wait_outlasts_more_failures_than_a_watch(monkeypatch: pytest.MonkeyPatch, gateway: Gateway) -> None:
    monkeypatch.setattr(_back_off, "WAIT", dataclasses.replace(_back_off.WAIT, first=0.01, longest=0.01))
    monkeypatch.setattr(_back_off, "WATCH", dataclasses.replace(_back_off.WATCH, first=0.01, longest=0.01))
    async with Client(gateway.address) as client:
        started = await client.start("providers/memory/definitions/long")
        gateway.kill()
        begun = asyncio.get_running_loop().time()
        with pytest.raises(stateway.Unavailable):
            await client.wait(started.name, timeout=1.5)
        assert 1.4 < asyncio.get_running_loop().time() - begun < 5
        gateway.start()


async def test_a_wait_reports_once_that_the_gateway_is_away(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client(gateway.address) as client:
        started = await client.start("providers/memory/definitions/long")
        gateway.kill()
        with pytest.raises(stateway.Unavailable):
            await client.wait(started.name, timeout=2)
        gateway.start()
    (record,) = [record for record in caplog.records if record.name == "stateway.client"]
    assert record.levelname == "WARNING" and started.name in record.message and "retr" in record.message


async def test_a_wait_for_a_gateway_that_was_never_reached_fails_soon(gateway: Gateway) -> None:
    gateway.kill()
    for address in (gateway.address, "stateway.invalid:7380"):
        async with Client(address) as client:
            with pytest.raises(stateway.Unavailable) as error:
                await asyncio.wait_for(client.wait(NAME), 10)
            assert not error.value.was_sent


async def test_a_late_answer_at_the_end_of_a_wait_is_no_error() -> None:
    async with Flaky() as server, Client(server.address) as client:
        server.delays["WaitExecution"] = 5
        response = await client.wait(NAME, timeout=0.3)
        assert not response.reached and len(server.calls["GetExecution"]) == 1
        server.sub_state = SubState.ERROR
        assert (await client.wait(NAME, SubState.ERROR, timeout=0.1)).reached
        server.delays["GetExecution"] = 30
        with pytest.raises(stateway.DeadlineExceeded):
            await client.wait(NAME, timeout=0.1)


async def test_starts_during_kills_of_the_gateway_happen_once_each(gateway: Gateway) -> None:
    async with Client(gateway.address) as client:
        await client.apply_definition(GATE)
        stop = asyncio.Event()

        async def kill() -> None:
            while not stop.is_set():
                await asyncio.sleep(0.3)
                gateway.kill()
                await asyncio.to_thread(gateway.start)

        killer = asyncio.create_task(kill())
        names = []
        for number in range(120):
            while True:
                # The same request id for every try, as a program would that repeats after an error.
                try:
                    started = await client.start("definitions/gate", {"n": number}, request_id=f"r-{number}")
                    break
                except stateway.Unavailable:
                    await asyncio.sleep(0.1)
            names.append(started.name)
            await asyncio.sleep(0.01)
        stop.set()
        await killer
        listed = {execution.name async for execution in client.list("providers/builtin")}
        assert len(names) == len(set(names)) == 120 and listed == set(names)


class Flaky:
    """A server whose methods fail a given number of times, and that counts their calls."""

    def __init__(self) -> None:
        self.calls: dict[str, list[Any]] = {}
        self.failures: dict[str, int] = {}
        self.delays: dict[str, float] = {}
        self.capabilities = providers_pb2.Capabilities()
        self.sub_state = SubState.RUNNING

    async def __aenter__(self) -> Flaky:
        self.server = grpc.aio.server()
        self.server.add_generic_rpc_handlers((Methods(self),))
        port = self.server.add_insecure_port("127.0.0.1:0")
        await self.server.start()
        self.address = f"127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.server.stop(None)

    async def answer(self, method: Any, request: Any, context: Any) -> Any:
        name = method.path.rpartition("/")[2]
        self.calls.setdefault(name, []).append(request)
        if self.failures.get(name, 0) > 0:
            self.failures[name] -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "busy", trailing_metadata=(busy(),))
        await asyncio.sleep(self.delays.get(name, 0))
        if method is _methods.GET:
            return executions_pb2.Execution(name=request.name, sub_state=f"SUB_STATE_{self.sub_state.name}")
        if method is _methods.GET_PROVIDER:
            return providers_pb2.Provider(name=request.name, capabilities=self.capabilities)
        return method.response()


class Methods(grpc.GenericRpcHandler):
    def __init__(self, flaky: Flaky) -> None:
        self.flaky = flaky
        every = [value for value in vars(_methods).values() if isinstance(value, _methods.Method)]
        self.methods = {method.path: method for method in every}

    def service(self, call: Any) -> Any:
        method = self.methods[call.method]

        async def answer(request: Any, context: Any) -> Any:
            return await self.flaky.answer(method, request, context)

        return grpc.unary_unary_rpc_method_handler(
            answer, method.request.FromString, method.response.SerializeToString
        )


def busy() -> tuple[str, bytes]:
    """Details of an error of the gateway."""
    info, packed = error_details_pb2.ErrorInfo(reason="PROVIDER_UNAVAILABLE", domain="stateway.dev"), any_pb2.Any()
    packed.Pack(info)
    return "grpc-status-details-bin", status_pb2.Status(code=14, details=[packed]).SerializeToString()


NAME = "providers/p/executions/e"


async def test_reads_are_retried_three_times_and_no_more() -> None:
    async with Flaky() as server, Client(server.address) as client:
        server.failures["GetExecution"] = 3
        await client.get(NAME)
        assert len(server.calls["GetExecution"]) == 4
        server.failures["GetExecution"] = 9
        with pytest.raises(stateway.Unavailable) as error:
            await client.get(NAME)
        assert error.value.reason == "PROVIDER_UNAVAILABLE" and len(server.calls["GetExecution"]) == 8
    async with Flaky() as server, Client(server.address, retries=False) as client:
        server.failures["GetExecution"] = 1
        with pytest.raises(stateway.Unavailable):
            await client.get(NAME)


async def test_a_write_is_retried_under_one_request_id_where_a_repetition_is_harmless() -> None:
    async with Flaky() as server, Client(server.address) as client:
        server.failures["CancelExecution"] = 2
        await client.cancel(NAME)
        ids = {request.request_id for request in server.calls["CancelExecution"]}
        assert len(server.calls["CancelExecution"]) == 3 and len(ids) == 1 and "" not in ids
        server.failures["PauseExecution"] = 1
        with pytest.raises(stateway.Unavailable):
            await client.pause(NAME, etag="W/1")
        assert len(server.calls["PauseExecution"]) == 1, "its etag would refuse the repetition"


async def test_starts_signals_and_retries_are_repeated_only_by_providers_that_recognise_them() -> None:
    calls: list[tuple[str, str, Callable[..., Any]]] = [
        ("StartExecution", "start_idempotent", lambda c, **kw: c.start("providers/p/definitions/d", **kw)),
        ("SignalExecution", "signal_idempotent", lambda c, **kw: c.signal(NAME, "go", **kw)),
        ("RetryNow", "retry_now_idempotent", lambda c, **kw: c.retry_now(NAME, **kw)),
        ("RetryFrom", "retry_from_idempotent", lambda c, **kw: c.retry_from(NAME, **kw)),
    ]
    for method, capability, call in calls:
        async with Flaky() as server, Client(server.address) as client:
            server.failures[method] = 1
            with pytest.raises(stateway.Unavailable) as error:
                await call(client)
            assert len(server.calls[method]) == 1 and "cannot recognise" in error.value.hint
            server.failures[method] = 1
            await call(client, at_least_once=True)
            assert len(server.calls[method]) == 3
            setattr(server.capabilities, capability, True)
            server.failures[method] = 1
            await call(client)
            assert len(server.calls[method]) == 5
            assert len({request.request_id for request in server.calls[method][3:]}) == 1


async def test_a_start_that_was_never_sent_is_repeated_on_every_provider(gateway: Gateway) -> None:
    gateway.kill()
    async with Client(gateway.address) as client:
        retry_until_the_deadline(client)
        starting = asyncio.create_task(client.start("providers/memory/definitions/hello", timeout=20))
        await asyncio.to_thread(gateway.start)
        assert (await starting).name.startswith("providers/memory/executions/")


async def test_calls_reconnect_after_a_cut_connection(gateway: Gateway) -> None:
    async with Proxy(gateway.address) as proxy, Client(proxy.address) as client:
        started = await client.start("providers/memory/definitions/long")
        for _ in range(5):
            proxy.cut()
            assert (await client.get(started.name)).name == started.name
        await until(lambda: proxy.opened >= 2)
