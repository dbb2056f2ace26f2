"""The worker while the gateway, the worker or the connection between them ends."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

import stateway
from conftest import TIMEOUT, Gateway, Proxy, until
from stateway import Client, SubState, Task, Worker, output_of
from stateway.v1 import executions_pb2
from stateway.worker import Connected, Disconnected, Stopping, WorkerEvent
from test_worker import ONE, working


async def test_a_result_survives_kills_of_the_gateway_and_the_task_runs_once(gateway: Gateway) -> None:
    """The handler finishes while no gateway runs. The answer is kept and delivered after the restart."""
    events: list[WorkerEvent] = []
    worker = Worker(gateway.address, id="steady", observe=events.append)
    runs: list[str] = []
    finish = asyncio.Event()

    @worker.role("r")
    async def work(task: Task) -> Any:
        runs.append(task.token)
        await finish.wait()
        return "kept"

    async with Client(gateway.address) as client, working(worker):
        await client.apply_definition(ONE)
        started = await client.start("definitions/one")
        await until(lambda: runs)
        gateway.kill()
        finish.set()
        await until(lambda: any(isinstance(event, Disconnected) for event in events))
        gateway.start()
        done = await client.wait(started.name, timeout=TIMEOUT)
        assert SubState(done.execution.sub_state) is SubState.SUCCEEDED
        assert output_of(await client.get(started.name)) == {"result": "kept"}
        assert len(runs) == 1, "the task ran once"
        assert sum(isinstance(event, Connected) for event in events) == 2


async def test_a_task_stays_with_its_worker_over_cut_connections(gateway: Gateway) -> None:
    async with Proxy(gateway.address) as proxy:
        events: list[WorkerEvent] = []
        worker = Worker(proxy.address, observe=events.append)
        runs: list[str] = []
        finish = asyncio.Event()

        @worker.role("r")
        async def work(task: Task) -> Any:
            runs.append(task.token)
            await finish.wait()
            return "done"

        async with Client(gateway.address) as client, working(worker):
            await client.apply_definition(ONE)
            started = await client.start("definitions/one")
            await until(lambda: runs)
            for number in range(2, 6):
                proxy.cut()
                await until(lambda: connections(events) == number)
            finish.set()
            assert (await client.wait(started.name, timeout=TIMEOUT)).reached and len(runs) == 1


def connections(events: list[WorkerEvent]) -> int:
    return sum(isinstance(event, Connected) for event in events)


async def test_many_tasks_under_kills_of_the_gateway_are_all_done_and_none_is_recorded_twice(
    gateway: Gateway,
) -> None:
    worker = Worker(gateway.address, capacity=8, prefetch=4)
    done: set[int] = set()

    @worker.role("r")
    def work(task: Task) -> Any:
        time.sleep(0.05)
        done.add(task.input["n"])
        return task.input["n"]

    async with Client(gateway.address) as client, working(worker):
        await client.apply_definition(ONE.replace("timeout: 5m,", 'timeout: 5m, input: {n: "${input.n}"},'))
        for number in range(100):
            await client.start("definitions/one", {"n": number}, id=f"e-{number}")
        for _ in range(5):
            await asyncio.sleep(0.25)
            gateway.kill()
            await asyncio.to_thread(gateway.start)
        for number in range(100):
            name = f"providers/builtin/executions/e-{number}"
            ended = await client.wait(name, timeout=TIMEOUT)
            assert SubState(ended.execution.sub_state) is SubState.SUCCEEDED, ended
            assert output_of(await client.get(name)) == {"result": number}
            events = [event.native_type async for event in client.events(name)]
            assert events.count("StepCompleted") == 1, events
    assert done == set(range(100))


SLOW_WORKER = """
import asyncio, pathlib, sys, time
from stateway import Task, Worker

address, folder, kind = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
worker = Worker(address, capacity=1, prefetch=2, drain=float(sys.argv[4]), id="worker")

if kind == "async":
    @worker.role("r")
    async def work(task):
        (folder / f"begun-{task.execution.rpartition('/')[2]}").touch()
        while not (folder / "finish").exists():
            await asyncio.sleep(0.02)
        return "done"
else:
    @worker.role("r")
    def work(task):
        (folder / f"begun-{task.execution.rpartition('/')[2]}").touch()
        while not (folder / "finish").exists():
            time.sleep(0.02)
        return "done"

worker.run()
"""


def spawn(gateway: Gateway, kind: str, drain: float) -> subprocess.Popen[bytes]:
    script = gateway.folder / "worker.py"
    script.write_text(SLOW_WORKER)
    return subprocess.Popen([sys.executable, script, gateway.address, gateway.folder, kind, str(drain)])


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_sigterm_finishes_what_has_begun_and_gives_back_the_rest(gateway: Gateway, kind: str) -> None:
    async with Client(gateway.address) as client:
        await client.apply_definition(ONE)
        process = spawn(gateway, kind, 30)
        names = [(await client.start("definitions/one", id=f"e{number}")).name for number in range(3)]
        await until((gateway.folder / "begun-e0").exists)
        process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.3)
        assert process.poll() is None, "the handler has not finished"
        (gateway.folder / "finish").touch()
        assert await asyncio.to_thread(process.wait, TIMEOUT) == 0
        assert output_of(await client.get(names[0])) == {"result": "done"}
        for name in names[1:]:
            execution = await client.get(name)
            assert SubState(execution.sub_state) is not SubState.SUCCEEDED
            assert execution.waits[0].kind == executions_pb2.Wait.CAPACITY, execution
        assert not (gateway.folder / "begun-e1").exists()


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_handler_that_outlasts_the_drain_gives_its_task_back(gateway: Gateway, kind: str) -> None:
    async with Client(gateway.address) as client:
        await client.apply_definition(ONE)
        process = spawn(gateway, kind, 0.2)
        started = await client.start("definitions/one", id="e0")
        await until((gateway.folder / "begun-e0").exists)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, TIMEOUT) == 0
        execution = await client.get(started.name)
        assert execution.waits[0].kind == executions_pb2.Wait.CAPACITY, execution
        assert [worker.task_count async for worker in client.list_workers()] == [0]


async def test_after_a_kill_of_the_worker_another_one_does_the_task(gateway: Gateway) -> None:
    async with Client(gateway.address) as client:
        await client.apply_definition(ONE)
        process = spawn(gateway, "async", 30)
        started = await client.start("definitions/one", id="e0")
        await until((gateway.folder / "begun-e0").exists)
        process.kill()
        process.wait(timeout=TIMEOUT)
        # The same id takes the tasks of the killed process up.
        worker = Worker(gateway.address, id="worker")

        @worker.role("r")
        async def work(task: Task) -> Any:
            return "second"

        async with working(worker):
            done = await client.wait(started.name, timeout=60)
        assert done.reached and output_of(await client.get(started.name)) == {"result": "second"}


async def test_a_worker_whose_id_is_taken_ends_with_replaced(gateway: Gateway) -> None:
    events: list[WorkerEvent] = []
    first, second = (Worker(gateway.address, id="same", roles=["r"], observe=events.append) for _ in range(2))
    serving = asyncio.create_task(first.serve())
    await until(lambda: connections(events) == 1)
    async with working(second):
        with pytest.raises(stateway.Aborted) as error:
            await serving
        assert error.value.reason == "REPLACED"


async def test_a_worker_that_no_gateway_will_accept_ends_with_the_error(gateway: Gateway) -> None:
    with pytest.raises(stateway.StatewayError) as error:
        await Worker(gateway.address, provider="providers/none").serve()
    assert error.value.is_from_gateway
    with pytest.raises(stateway.StatewayError):
        await Worker(gateway.address, provider="providers/memory").serve()


async def test_a_worker_waits_for_its_gateway_and_can_be_stopped_meanwhile(gateway: Gateway) -> None:
    gateway.kill()
    events: list[WorkerEvent] = []
    worker = Worker(gateway.address, roles=["r"], observe=events.append)
    serving = asyncio.create_task(worker.serve())
    await until(lambda: len(events) >= 3)
    assert all(isinstance(event, Disconnected) for event in events)
    worker.stop()
    await asyncio.wait_for(serving, 5)
    assert isinstance(events[-1], Stopping)
    gateway.start()


async def test_an_idle_worker_keeps_its_lease(gateway: Gateway) -> None:
    async with Client(gateway.address) as client:
        worker = Worker(gateway.address, roles=["r"], id="idle", skills=["s"], tenant="acme", version="1.4")
        async with working(worker):
            async def listed() -> bool:
                return bool([one async for one in client.list_workers()])

            await until(listed)
            (one,) = [one async for one in client.list_workers()]
            assert (one.worker_id, list(one.roles), list(one.skills)) == ("idle", ["r"], ["s"])
            assert one.tenant == "acme" and one.connected
            assert one.version == "1.4" and re.fullmatch(r"stateway-python/\d+\.\d+\.\d+", one.sdk)
            seen = one.heartbeat_time.ToDatetime()

            async def alive() -> bool:
                (one,) = [one async for one in client.list_workers()]
                return one.heartbeat_time.ToDatetime() > seen

            await until(alive)
