"""Watches: the current set, changes, and what happens after breaks and restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

import stateway
from conftest import Gateway, Proxy
from stateway import Added, Bookmark, Client, Interrupted, Modified, Removed, Resync, SubState
from stateway.v1 import executions_pb2

GATE = """
name: gate
steps:
  - {name: sign, signal: go, timeout: 5m}
"""


async def without_breaks(
    watch: stateway.Watch[executions_pb2.Execution],
) -> AsyncIterator[stateway.Change[executions_pb2.Execution]]:
    async for change in watch:
        if not isinstance(change, Interrupted):
            yield change


async def test_a_watch_reports_the_current_set_then_a_bookmark_then_changes(gateway: Gateway) -> None:
    async with Client(gateway.address) as client:
        await client.apply_definition(GATE)
        first = await client.start("definitions/gate", id="first")
        async with client.watch("providers/builtin", filter="sub_state = WAITING") as watch:
            change = await anext(watch)
            assert isinstance(change, Added) and change.item.name == first.name
            assert isinstance(await anext(watch), Bookmark) and watch.cursor
            second = await client.start("definitions/gate", id="second")
            change = await anext(watch)
            assert isinstance(change, Added) and change.item.name == second.name
            await client.signal(first.name, "go")
            change = await anext(watch)
            assert isinstance(change, Removed) and change.item.name == first.name
        with pytest.raises(StopAsyncIteration):
            await anext(watch)


async def test_a_watch_of_an_unknown_execution_ends_with_an_error(gateway: Gateway) -> None:
    async with Client(gateway.address) as client:
        watch = client.watch(names=["providers/builtin/executions/none"])
        with pytest.raises(stateway.NotFound):
            await anext(watch)
        with pytest.raises(StopAsyncIteration):
            await anext(watch)


async def test_after_a_cut_connection_a_watch_resumes_and_misses_nothing(gateway: Gateway) -> None:
    async with Client(gateway.address) as client, Proxy(gateway.address) as proxy, Client(proxy.address) as far:
        await client.apply_definition(GATE)
        watch = far.watch("providers/builtin")
        assert isinstance(await anext(watch), Bookmark)
        for number in range(20):
            # The change happens while the watch has no connection.
            proxy.cut()
            await client.start("definitions/gate", id=f"e-{number}")
        seen: list[str] = []
        async for change in without_breaks(watch):
            assert not isinstance(change, Resync), "a cursor of a running gateway is valid"
            if isinstance(change, Added):
                seen.append(change.item.name.rpartition("/")[2])
            if len(seen) == 20:
                break
        assert seen == [f"e-{number}" for number in range(20)]


async def test_a_later_watch_resumes_from_a_cursor(gateway: Gateway) -> None:
    async with Client(gateway.address) as client:
        await client.apply_definition(GATE)
        await client.start("definitions/gate", id="before")
        async with client.watch("providers/builtin") as watch:
            async for change in watch:
                if isinstance(change, Bookmark):
                    break
        await client.start("definitions/gate", id="after")
        async with client.watch("providers/builtin", cursor=watch.cursor) as resumed:
            async for change in resumed:
                if not isinstance(change, Bookmark):
                    break
            assert isinstance(change, Added) and change.item.name.endswith("/after")


async def test_after_a_kill_of_the_gateway_a_watch_reports_resync_and_the_current_set(gateway: Gateway) -> None:
    async with Client(gateway.address) as client:
        await client.apply_definition(GATE)
        first = await client.start("definitions/gate", id="first")
        watch = client.watch("providers/builtin")
        assert isinstance(await anext(watch), Added) and isinstance(await anext(watch), Bookmark)
        gateway.kill()
        change = await anext(watch)
        assert isinstance(change, Interrupted) and isinstance(change.error, stateway.Unavailable)
        gateway.start()
        changes = without_breaks(watch)
        assert isinstance(await anext(changes), Resync)
        change = await anext(changes)
        assert isinstance(change, Added) and change.item.name == first.name
        assert isinstance(await anext(changes), Bookmark)
        await client.signal(first.name, "go")
        async for change in changes:
            if isinstance(change, Modified) and SubState(change.item.sub_state) is SubState.SUCCEEDED:
                break
        await watch.aclose()


async def test_an_expired_cursor_begins_again_with_resync(gateway: Gateway) -> None:
    async with Client(gateway.address) as client:
        await client.apply_definition(GATE)
        await client.start("definitions/gate", id="first")
        async with client.watch("providers/builtin") as watch:
            async for change in watch:
                if isinstance(change, Bookmark):
                    break
        gateway.kill()
        gateway.start()
        resumed = client.watch("providers/builtin", cursor=watch.cursor)
        changes = without_breaks(resumed)
        assert isinstance(await anext(changes), Resync)
        assert isinstance(await anext(changes), Added)
        await resumed.aclose()


async def test_a_watch_of_approvals_begins_again_with_resync_after_a_kill(gateway: Gateway) -> None:
    release = "name: release\nsteps:\n  - {name: approve, approval: {role: manager, expiresAfter: 1h}}\n"
    async with Client(gateway.address) as client:
        await client.apply_definition(release)
        await client.start("definitions/release", id="first")
        watch = client.watch_approvals()
        assert isinstance(await anext(watch), Added) and isinstance(await anext(watch), Bookmark)
        gateway.kill()
        gateway.start()
        kinds = []
        async for change in watch:
            if not isinstance(change, Interrupted):
                kinds.append(type(change).__name__)
            if isinstance(change, Bookmark):
                break
        assert kinds == ["Resync", "Added", "Bookmark"], kinds
        await watch.aclose()


async def test_a_watch_gives_up_on_a_gateway_that_stays_away(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stateway._back_off.WATCH", stateway._back_off.BackOff(0.01, 0.02, 4))
    async with Client(gateway.address) as client:
        watch = client.watch("providers/builtin")
        assert isinstance(await anext(watch), Bookmark)
        gateway.kill()
        with pytest.raises(stateway.Unavailable):
            async for change in watch:
                assert isinstance(change, Interrupted)
        gateway.start()
        await asyncio.sleep(0)


class Scripted(grpc.GenericRpcHandler):
    """A server whose watches send the messages of a script, one script per connection."""

    def __init__(self, *scripts: list[Any]) -> None:
        self.scripts = list(scripts)
        self.cursors: list[str] = []

    def service(self, call: Any) -> Any:
        async def watch(request: Any, context: Any) -> AsyncIterator[Any]:
            self.cursors.append(request.cursor)
            for item in self.scripts.pop(0):
                yield item
            if self.scripts:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "busy")
            await asyncio.Event().wait()

        return grpc.unary_stream_rpc_method_handler(
            watch,
            executions_pb2.WatchExecutionsRequest.FromString,
            executions_pb2.WatchExecutionsResponse.SerializeToString,
        )


def watched(kind: str, name: str = "", cursor: str = "") -> executions_pb2.WatchExecutionsResponse:
    response = executions_pb2.WatchExecutionsResponse(kind=kind, cursor=cursor)
    if name:
        response.execution.name = name
    return response


async def test_a_reader_that_missed_changes_gets_resync_and_resumes_from_the_newest_cursor() -> None:
    script = Scripted(
        [watched("ADDED", "a", "c1"), watched("BOOKMARK", cursor="c2")],
        [watched("RESYNC"), watched("ADDED", "b")],
        [watched("ADDED", "b", "c9"), watched("BOOKMARK", cursor="c9")],
        [watched("REMOVED", "b", "c10")],
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((script,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    found = []
    async with Client(f"127.0.0.1:{port}") as client, client.watch("providers/p") as watch:
        async for change in watch:
            found.append(type(change).__name__)
            if isinstance(change, Removed):
                break
        assert watch.cursor == "c10"
    await server.stop(None)
    assert script.cursors == ["", "c2", "", "c9"]
    assert found == [
        *("Added", "Bookmark", "Interrupted"),
        # The gateway dropped changes, and the connection broke before a new cursor came.
        *("Resync", "Added", "Interrupted"),
        *("Resync", "Added", "Bookmark", "Interrupted"),
        "Removed",
    ]


async def test_a_watch_that_is_closed_while_it_is_read_ends(gateway: Gateway) -> None:
    async with Client(gateway.address) as client:
        watch = client.watch("providers/memory")
        assert isinstance(await anext(watch), Bookmark)

        async def read() -> int:
            return len([change async for change in watch])

        reading = asyncio.create_task(read())
        await asyncio.sleep(0.1)
        await watch.aclose()
        assert await asyncio.wait_for(reading, 5) == 0
