"""Watches and workers that are ended at an inconvenient moment."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any

import pytest

import stateway.worker
from conftest import Gateway, until
from stateway import Client, Interrupted, Worker
from stateway.worker.events import WorkerEvent
from stateway.worker.session import Session


async def next_of(watch: Any) -> Any:
    return await anext(watch, None)


async def ended(reading: asyncio.Task[Any]) -> None:
    # `wait_for` would cancel the task, which ends a closed watch too.
    await asyncio.wait({reading}, timeout=2)
    assert reading.done() and reading.result() is None


async def test_a_watch_that_connects_ends_when_it_is_closed() -> None:
    with socket.socket() as silent:
        # Connections are accepted and nothing is ever answered.
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        async with Client("127.0.0.1:%d" % silent.getsockname()[1]) as client:
            watch = client.watch("providers/builtin")
            reading = asyncio.create_task(next_of(watch))
            await asyncio.sleep(0.2)
            assert not reading.done()
            await watch.aclose()
            await ended(reading)


async def test_a_watch_that_pauses_ends_when_it_is_closed(gateway: Gateway) -> None:
    async with Client(gateway.address) as client:
        watch = client.watch("providers/builtin")
        await anext(watch)
        gateway.kill()
        while not isinstance(change := await anext(watch), Interrupted):
            pass
        assert change.error
        watch._not_before = asyncio.get_running_loop().time() + 30
        reading = asyncio.create_task(next_of(watch))
        await asyncio.sleep(0.1)
        await watch.aclose()
        await ended(reading)


async def test_a_stop_while_a_worker_begins_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker("127.0.0.1:1")

    class StoppedSession(Session):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            worker.stop()

    monkeypatch.setattr(stateway.worker, "Session", StoppedSession)
    await asyncio.wait_for(worker.serve(), 2)


async def test_an_observer_that_fails_does_not_end_the_worker(gateway: Gateway) -> None:
    observed: list[WorkerEvent] = []

    def observe(event: WorkerEvent) -> None:
        observed.append(event)
        raise ValueError("a mistake")

    worker = Worker(gateway.address, roles=["r"], observe=observe)
    serving = asyncio.create_task(worker.serve())
    await until(lambda: observed)
    begun = time.monotonic()
    worker.stop()
    await asyncio.wait_for(serving, 5)
    assert len(observed) == 2 and time.monotonic() - begun < 5
