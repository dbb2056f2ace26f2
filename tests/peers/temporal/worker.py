"""A Temporal worker for tests: one workflow type that runs a script, and activities that do as they are told.

    worker.py ADDRESS FOLDER

Commands come on stdin, one JSON object per line: {"begin": NAMESPACE} starts a worker of the queue `lab` in a
namespace, {"end": NAMESPACE} stops it. "cache": N sets how many workflows it keeps (default 100; without a cache
every workflow task replays the history), "activities": N how many activities it runs at a time (default 100). Each answer is one line on stdout: `ready NAMESPACE`, `ended NAMESPACE`.
FOLDER/NAME holds what an activity or a workflow that looks at NAME is told: `hold`, `go`, `fail`.
"""

import asyncio
import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

QUEUE = "lab"
LOOK = 0.02
FOLDER = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(".")


def told(name: str) -> str:
    try:
        return (FOLDER / name).read_text()
    except FileNotFoundError:
        return "hold"


@activity.defn
async def succeed(what: dict) -> dict:
    return what


@activity.defn
async def fail(what: dict) -> None:
    delay = what.get("next_retry_delay")
    raise ApplicationError(
        what.get("message", "card declined"),
        type=what.get("type", "PaymentError"),
        non_retryable=what.get("non_retryable", False),
        next_retry_delay=timedelta(seconds=delay) if delay else None,
    ) from ValueError("limit exceeded")


@activity.defn
async def obey(what: dict) -> dict:
    """Runs until it is told to go or to fail; a cancellation ends it when it heartbeats."""
    while True:
        match told(what["name"]):
            case "go":
                return {"done": what["name"]}
            case "fail":
                raise ApplicationError(f"{what['name']} was told to fail", type="ToldToFail")
        if what.get("heartbeat", True):
            activity.heartbeat({"progress": 1})
        await asyncio.sleep(LOOK)


@activity.defn
async def ruled(what: dict) -> dict:
    """The same as obey, under a name that rules of the server can match."""
    return await obey(what)


@activity.defn
async def elsewhere(what: dict) -> None:
    """Someone else completes it: its task stays open."""
    activity.raise_complete_async()


def seconds(value) -> timedelta | None:
    return None if value is None else timedelta(seconds=value)


def retry_policy(policy: dict | None) -> RetryPolicy | None:
    if policy is None:
        return None
    return RetryPolicy(
        initial_interval=timedelta(seconds=policy.get("initial", 1)),
        backoff_coefficient=policy.get("coefficient", 2.0),
        maximum_interval=seconds(policy.get("maximum_interval")),
        maximum_attempts=policy.get("maximum", 0),
        non_retryable_error_types=policy.get("non_retryable_types"),
    )


@workflow.defn(name="Script")
class Script:
    """Runs the steps of its input in order. A step is an object with one key, the kind of the step."""

    def __init__(self) -> None:
        self.received: dict[str, list] = {}
        self.updates: dict[str, object] = {}

    @workflow.signal(dynamic=True)
    def any_signal(self, name: str, args: Sequence[RawValue]) -> None:
        values = [workflow.payload_converter().from_payload(raw.payload) for raw in args]
        self.received.setdefault(name, []).append(values[0] if values else None)

    @workflow.update(name="set")
    async def set(self, value: dict) -> dict:
        if value.get("wait"):
            await workflow.wait_condition(lambda: "release" in self.received)
        self.updates.update(value)
        return {"set": value}

    @set.validator
    def check_set(self, value: dict) -> None:
        if value.get("refuse"):
            raise ApplicationError("the value was refused", type="Refused")

    @workflow.query(name="received")
    def ask_received(self) -> dict:
        return self.received

    @workflow.run
    async def run(self, script: dict) -> object:
        result = None
        try:
            for step in script.get("steps", []):
                result = await self.step(step)
        except asyncio.CancelledError:
            for step in script.get("on_cancel", []):
                await self.step(step)
            raise
        return result

    async def step(self, step: dict) -> object:
        ((kind, value),) = step.items()
        return await getattr(self, f"do_{kind}")(value)

    async def do_activity(self, value: dict) -> object:
        return await workflow.execute_activity(
            value.get("type", "succeed"),
            value.get("input", {}),
            activity_id=value.get("id"),
            task_queue=value.get("queue"),
            start_to_close_timeout=timedelta(seconds=value.get("start_to_close", 600)),
            schedule_to_close_timeout=seconds(value.get("schedule_to_close")),
            schedule_to_start_timeout=seconds(value.get("schedule_to_start")),
            heartbeat_timeout=seconds(value.get("heartbeat")),
            retry_policy=retry_policy(value.get("retry")),
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )

    async def do_local_activity(self, value: dict) -> object:
        return await workflow.execute_local_activity(
            value.get("type", "succeed"),
            value.get("input", {}),
            activity_id=value.get("id"),
            start_to_close_timeout=timedelta(seconds=value.get("start_to_close", 600)),
            retry_policy=retry_policy(value.get("retry")),
            local_retry_threshold=seconds(value.get("threshold")),
        )

    async def do_timer(self, value: dict) -> None:
        await workflow.sleep(value["seconds"], summary=value.get("summary"))

    async def do_cancelled_timer(self, value: dict) -> None:
        timer = asyncio.create_task(workflow.sleep(value["seconds"]))
        await workflow.sleep(0.01)
        timer.cancel()

    async def do_signal(self, name: str) -> object:
        await workflow.wait_condition(lambda: bool(self.received.get(name)))
        return self.received[name].pop(0)

    async def do_memo(self, value: dict) -> None:
        workflow.upsert_memo(value)

    async def do_child(self, value: dict) -> object:
        options = {"id": value["id"]} if "id" in value else {}
        return await workflow.execute_child_workflow(
            "Script",
            {"steps": value.get("steps", [])},
            task_queue=value.get("queue"),
            run_timeout=seconds(value.get("run_timeout")),
            retry_policy=retry_policy(value.get("retry")),
            **options,
        )

    async def do_parallel(self, branches: list) -> list:
        return await asyncio.gather(*(self.step(step) for step in branches))

    async def do_catch(self, step: dict) -> object:
        try:
            return await self.step(step)
        except Exception as error:
            return {"caught": str(error)}

    async def do_continue_as_new(self, script: dict) -> None:
        workflow.continue_as_new(script)

    async def do_fail(self, value: dict) -> None:
        raise ApplicationError(
            value.get("message", "order rejected"),
            type=value.get("type", "OrderError"),
            non_retryable=value.get("non_retryable", False),
        )

    async def do_return(self, value: object) -> object:
        return value

    async def do_break(self, name: str) -> None:
        """Fails the workflow task until the name is told to go."""
        if told(name) != "go":
            raise RuntimeError("the workflow code has a defect")

    async def do_change(self, name: str) -> None:
        """Code that changes while a run is open: a timer first, an activity once the name is told to go."""
        if told(name) == "go":
            await self.do_activity({"id": "changed"})
        else:
            await workflow.sleep(0.2)

    async def do_spin(self, value: dict) -> None:
        """Holds the workflow task until its worker is to end: the worker looks frozen to the server. Nothing else
        of this process runs meanwhile, so a file tells the end."""
        until = time.monotonic() + value["seconds"]
        while time.monotonic() < until and told(f"end-{workflow.info().namespace}") != "go":
            time.sleep(LOOK)

    async def do_ignore_cancel(self, name: str) -> None:
        while not self.received.get(name):
            try:
                await workflow.wait_condition(lambda: bool(self.received.get(name)))
            except asyncio.CancelledError:
                pass


async def serve(client: Client, command: dict, stop: asyncio.Event) -> None:
    worker = Worker(
        client,
        task_queue=QUEUE,
        workflows=[Script],
        activities=[succeed, fail, obey, ruled, elsewhere],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_cached_workflows=command.get("cache", 100),
        max_concurrent_activities=command.get("activities", 100),
        # A restarted worker continues after this time.
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
        max_concurrent_workflow_task_polls=2,
        max_concurrent_activity_task_polls=2,
        # A heartbeat is sent at most this much later, so that an activity learns soon that it is cancelled.
        max_heartbeat_throttle_interval=timedelta(milliseconds=200),
        graceful_shutdown_timeout=timedelta(0),
        debug_mode=True,
    )
    async with worker:
        print(f"ready {client.namespace}", flush=True)
        await stop.wait()


async def serve_or_exit(client: Client, command: dict, stop: asyncio.Event) -> None:
    """A worker that cannot run ends the process: a test that waits for it must not wait for long."""
    try:
        await serve(client, command, stop)
    except Exception:
        traceback.print_exc()
        os._exit(1)


async def main() -> None:
    # The tests cause failures on purpose, and stdout carries the answers: neither the SDK nor its core may log.
    logging.disable(logging.CRITICAL)
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter="OFF"))))
    client = await Client.connect(sys.argv[1])
    workers: dict[str, tuple[asyncio.Event, asyncio.Task]] = {}
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    print("listening", flush=True)
    while line := await reader.readline():
        command = json.loads(line)
        if namespace := command.get("begin"):
            stop = asyncio.Event()
            scoped = Client(client.service_client, namespace=namespace)
            workers[namespace] = (stop, asyncio.create_task(serve_or_exit(scoped, command, stop)))
        if namespace := command.get("end"):
            if begun := workers.pop(namespace, None):
                begun[0].set()
                await asyncio.wait([begun[1]], timeout=10)
            print(f"ended {namespace}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
