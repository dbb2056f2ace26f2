"""The worker against the real gateway: handlers, failures, feedback, progress and cancellation."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any


from conftest import ROOT, TIMEOUT, Gateway, until
from stateway import Category, Client, SubState, Task, TaskError, Worker, output_of
from stateway.v1 import executions_pb2

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
