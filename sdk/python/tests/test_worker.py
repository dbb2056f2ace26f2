"""The worker against the real gateway, with kills of the gateway and of the worker."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

import stateway
from conftest import ROOT, TIMEOUT, Gateway, Proxy, until
from stateway import Category, Client, SubState, Task, TaskError, Worker, output_of
from stateway.v1 import executions_pb2
from stateway.worker import Connected, Disconnected, Stopping, WorkerEvent

ONE = """
name: one
steps:
  - {name: work, agent: r, action: do, timeout: 5m, retryPolicy: {maxRetries: 3, initialDelay: 20ms}}
output: {result: "${steps.work.output}"}
"""


@contextlib.asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[None]:
    serving = asyncio.create_task(worker.serve())
    try:
        yield
    finally:
        worker.stop()
        await serving


async def result(client: Client, definition: str = "definitions/one", input: Any = None) -> Any:
    started = await client.start(definition, input)
    done = await client.wait(started.name, timeout=TIMEOUT)
    assert done.reached, done
    return await client.get(started.name)


async def test_handlers_are_chosen_by_role_and_action_and_may_be_async_or_not(gateway: Gateway) -> None:
    source = """
name: many
steps:
  - {name: a, agent: r, action: first, timeout: 5m, input: {n: 1}}
  - {name: b, agent: r, action: second, timeout: 5m, input: {n: 2}}
  - {name: c, agent: s, action: first, timeout: 5m, input: {n: 3}}
  - {name: d, agent: t, action: other, timeout: 5m, input: {n: 4}}
output: {a: "${steps.a.output}", b: "${steps.b.output}", c: "${steps.c.output}", d: "${steps.d.output}"}
"""
    worker = Worker(gateway.address, capacity=4, roles=["t"])
    loop_thread = threading.get_ident()

    @worker.role("r", action="first")
    async def in_loop(task: Task) -> Any:
        assert threading.get_ident() == loop_thread
        return ["in_loop", task.input["n"]]

    @worker.role("r")
    def in_thread(task: Task) -> Any:
        assert threading.get_ident() != loop_thread
        return ["in_thread", task.input["n"]]

    @worker.role("s")
    def by_role(task: Task) -> Any:
        return ["by_role", task.role, task.step, task.attempt, task.action]

    @worker.any_task
    async def anything(task: Task) -> Any:
        return ["any", task.execution.rpartition("/")[0], task.compensation, task.feedback]

    async with Client(gateway.address) as client, working(worker):
        await client.apply_definition(source)
        assert output_of(await result(client, "definitions/many")) == {
            "a": ["in_loop", 1],
            "b": ["in_thread", 2],
            "c": ["by_role", "s", "c", 1, "first"],
            "d": ["any", "providers/builtin/executions", False, None],
        }


async def test_failures_carry_category_pause_and_usage(gateway: Gateway) -> None:
    worker = Worker(gateway.address)
    begun: list[float] = []

    @worker.role("r")
    def work(task: Task) -> Any:
        begun.append(time.monotonic())
        task.report_usage(input_tokens=10, output_tokens=2, cost_micros=500)
        if task.attempt == 1:
            raise TaskError("busy", Category.TRANSIENT, code="E42", retry_after=timedelta(seconds=0.6))
        if task.attempt == 2:
            raise ValueError("a mistake")
        return task.attempt

    async with Client(gateway.address) as client, working(worker):
        await client.apply_definition(ONE)
        done = await result(client)
        assert output_of(done) == {"result": 3}
        assert begun[1] - begun[0] >= 0.6, "retry_after is longer than the pause of the policy"
        assert (done.usage.input_token_count, done.usage.cost_micros) == (30, 1500)
        attempts = (await client.get_step(done.name, "work")).attempts
        errors = [attempt.error for attempt in attempts]
        assert [errors[0].category, errors[0].native_code] == [executions_pb2.ERROR_CATEGORY_TRANSIENT, "E42"]
        assert [errors[1].category, errors[1].message] == [
            executions_pb2.ERROR_CATEGORY_AGENT_ERROR,
            "a mistake",
        ]


async def test_a_failure_that_no_retry_can_repair_is_not_retried(gateway: Gateway) -> None:
    worker = Worker(gateway.address)
    attempts: list[int] = []

    @worker.role("r")
    async def work(task: Task) -> Any:
        attempts.append(task.attempt)
        raise TaskError("never", Category.TRANSIENT, no_retry=True)

    async with Client(gateway.address) as client, working(worker):
        await client.apply_definition(ONE)
        done = await result(client)
        assert SubState(done.sub_state) is SubState.FAILED and attempts == [1]


async def test_a_handler_sees_the_feedback_of_the_validator_and_corrects_its_output(gateway: Gateway) -> None:
    worker = Worker(gateway.address, capacity=2, skills=["research"])
    feedback: list[str | None] = []

    @worker.role("writer")
    async def write(task: Task) -> Any:
        feedback.append(task.feedback)
        assert task.model_policy == "cheap"
        if task.feedback is None:
            return {"title": "x" * 50, "points": []}
        return {"title": "short", "points": ["a", "b", "c"]}

    @worker.role("reviewer")
    async def review(task: Task) -> Any:
        return {"verdict": "good"}

    async with Client(gateway.address) as client, working(worker):
        await client.apply_definition((ROOT / "examples/agent-correction/brief.yaml").read_text())
        done = await result(client, "definitions/brief", {"topic": "t"})
        assert output_of(done) == {"title": "short", "verdict": "good"}
        assert feedback[0] is None and feedback[1] is not None and "points" in feedback[1]


async def test_progress_is_reported_and_heartbeats_keep_a_task(gateway: Gateway) -> None:
    source = ONE.replace("timeout: 5m,", "timeout: 5m, heartbeatTimeout: 1s,")
    worker = Worker(gateway.address)
    finish = threading.Event()
    runs: list[int] = []

    @worker.role("r")
    def work(task: Task) -> Any:
        runs.append(task.attempt)
        assert task.heartbeat_timeout == timedelta(seconds=1) and task.expire_time is not None
        while not finish.wait(0.2):
            task.heartbeat(0.5, "half way")
        return "done"

    async with Client(gateway.address) as client, working(worker):
        await client.apply_definition(source)
        started = await client.start("definitions/one")

        async def progress() -> bool:
            step = (await client.get(started.name)).steps[0]
            return step.progress.fraction == 0.5 and step.progress.detail == "half way"

        await until(progress)
        await asyncio.sleep(2)
        finish.set()
        assert (await client.wait(started.name, timeout=TIMEOUT)).reached
        assert runs == [1], "the task stayed with its worker"


async def test_a_cancelled_execution_asks_its_handlers_to_stop_and_takes_their_answers(gateway: Gateway) -> None:
    source = """
name: two
steps:
  - {name: a, agent: r, action: wait, timeout: 5m}
  - {name: b, agent: r, action: block, timeout: 5m}
"""
    worker = Worker(gateway.address, capacity=2)
    stopped: list[str] = []

    @worker.action("wait")
    async def waits(task: Task) -> Any:
        await task.cancelled.wait()
        stopped.append("a")
        raise TaskError("stopped early")

    @worker.role("r", action="block")
    def blocks(task: Task) -> Any:
        assert not task.cancelled.is_set()
        assert task.cancelled.wait_in_thread(TIMEOUT) and not task.withdrawn.is_set()
        stopped.append("b")
        return "finished all the same"

    async with Client(gateway.address) as client, working(worker):
        await client.apply_definition(source)
        started = await client.start("definitions/two")
        await until(lambda: running(client, started.name, 2))
        await client.cancel(started.name)
        done = await client.wait(started.name, timeout=TIMEOUT)
        assert done.execution.reason == executions_pb2.REASON_CANCELLED and sorted(stopped) == ["a", "b"]
        summaries = [event.summary async for event in client.events(started.name)]
        assert any("stopped early" in summary for summary in summaries), summaries


async def running(client: Client, name: str, count: int) -> bool:
    events = [event.native_type async for event in client.events(name)]
    return events.count("TaskAssigned") >= count


async def test_a_withdrawn_task_cancels_its_coroutine_and_the_worker_takes_the_next_one(gateway: Gateway) -> None:
    worker = Worker(gateway.address)
    cancelled: list[str] = []

    @worker.role("r")
    async def work(task: Task) -> Any:
        if task.input == "quick":
            return "quick"
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            cancelled.append(task.execution)
            assert task.withdrawn.is_set()
            raise

    async with Client(gateway.address) as client, working(worker):
        await client.apply_definition(ONE.replace("timeout: 5m,", 'timeout: 5m, input: "${input}",'))
        started = await client.start("definitions/one", "slow")
        await until(lambda: running(client, started.name, 1))
        await client.cancel(started.name, kill=True)
        await until(lambda: cancelled == [started.name])
        assert output_of(await result(client, input="quick")) == {"result": "quick"}


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
        worker = Worker(gateway.address, roles=["r"], id="idle", skills=["s"], tenant="acme")
        async with working(worker):
            async def listed() -> bool:
                return bool([one async for one in client.list_workers()])

            await until(listed)
            (one,) = [one async for one in client.list_workers()]
            assert (one.worker_id, list(one.roles), list(one.skills)) == ("idle", ["r"], ["s"])
            assert one.tenant == "acme" and one.connected
            seen = one.heartbeat_time.ToDatetime()

            async def alive() -> bool:
                (one,) = [one async for one in client.list_workers()]
                return one.heartbeat_time.ToDatetime() > seen

            await until(alive)


SHIPMENT = """
name: shipment
steps:
  - {name: ship, agent: shipping, action: Ship it, timeout: 5m}
output: {parcel: "${steps.ship.output.parcel}", by: "${steps.ship.output.by}"}
"""


async def test_the_example_of_the_readme_does_tasks(gateway: Gateway) -> None:
    script = ROOT / "examples/python/worker.py"
    lines = [line for line in script.read_text().splitlines() if line.strip()]
    assert len(lines) <= 16, "the example is about ten lines"
    process = subprocess.Popen([sys.executable, script, gateway.address])
    try:
        async with Client(gateway.address) as client:
            await client.apply_definition(SHIPMENT)
            done = await result(client, "definitions/shipment", {"address": "Oslo"})
            assert output_of(done) == {"parcel": "to Oslo", "by": "shipping"}
    finally:
        process.terminate()
        assert process.wait(timeout=TIMEOUT) == 0
