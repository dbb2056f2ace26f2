"""The two providers of the examples, each with its real engine, as the gateway calls them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest

from conftest import ROOT, TIMEOUT, until
from stateway.provider import ProviderError
from stateway.provider.v1 import observation_pb2 as pb
from stateway.provider.v1 import provider_pb2
from test_provider import Peer

PARCELS = ROOT / "examples/python-provider"
DBOS = ROOT / "examples/dbos-provider"
FULL = provider_pb2.VIEW_FULL


@contextlib.contextmanager
def program(*arguments: Any, cwd: pathlib.Path, stdout: int | None = None) -> Any:
    command = [sys.executable, *map(str, arguments)]
    process = subprocess.Popen(command, cwd=cwd, stdout=stdout, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=TIMEOUT)


@contextlib.asynccontextmanager
async def provider(folder: pathlib.Path, script: pathlib.Path, *arguments: str) -> AsyncIterator[Peer]:
    with program(script, f"unix:{folder}/p.sock", *arguments, cwd=folder):
        await until((folder / "p.sock").exists)
        async with grpc.aio.insecure_channel(f"unix:{folder}/p.sock") as channel:
            yield Peer(channel)


async def start(peer: Peer, definition: str, input: Any, request_id: str, **fields: Any) -> Any:
    body = pb.Payload(data=json.dumps(input).encode())
    request = provider_pb2.StartExecutionRequest(
        definition=definition, input=body, request_id=request_id, **fields
    )
    return await peer.send("Provider/StartExecution", request, pb.Observation)


async def shows(peer: Peer, id: str, holds: Callable[[Any], Any]) -> Any:
    async def check() -> Any:
        seen = await peer.get(id, FULL)
        return seen if holds(seen) else None

    return await until(check)


def test_the_provider_of_the_small_engine_is_short() -> None:
    assert len((PARCELS / "provider.py").read_text().splitlines()) <= 150


async def test_a_parcel_is_packed_picked_up_and_found_after_a_restart(tmp_path: pathlib.Path) -> None:
    async with provider(tmp_path, PARCELS / "provider.py") as peer:
        started = await start(peer, "parcel", {"to": "Oslo"}, "r1", labels={"team": "a"})
        waiting = await shows(peer, started.id, lambda seen: seen.steps[1].waits)
        assert waiting.native_state.state == "open" and waiting.labels["team"] == "a"
        assert (waiting.steps[1].waits[0].kind, waiting.steps[1].waits[0].name) == (pb.Wait.SIGNAL, "picked-up")
        signal = provider_pb2.SignalExecutionRequest(id=started.id, signal="picked-up", request_id="r2")
        done = await peer.send("Provider/SignalExecution", signal, pb.Observation)
        assert done.native_state.state == "done"
        fragile = await start(peer, "fragile", None, "r3")
        resting = await shows(peer, fragile.id, lambda seen: seen.steps[0].native_state.state == "resting")
        retry = resting.steps[0].retry
        assert (retry.attempt, retry.max_attempt_count) == (1, 4) and retry.HasField("next_attempt_time")
        assert retry.last_error.message == "the paper is torn"
    async with provider(tmp_path, PARCELS / "provider.py") as peer:
        assert (await peer.get(started.id, FULL)).output.data == b'{"packed":{"to":"Oslo"}}'
        again = await start(peer, "parcel", {"to": "Oslo"}, "r1", labels={"team": "a"})
        assert again.id == started.id, "a repeated request starts nothing"


async def test_workflows_of_dbos_show_queue_sleep_message_failure_and_fork(tmp_path: pathlib.Path) -> None:
    database = f"sqlite:///{tmp_path}/shop.sqlite"
    arguments = ("--database", database, "--workflow", "parcel")
    with program(DBOS / "app.py", database, cwd=tmp_path, stdout=subprocess.PIPE) as app:
        while await asyncio.to_thread(app.stdout.readline) != b"ready\n":
            assert app.poll() is None, "the application ended"
        async with provider(tmp_path, DBOS / "provider.py", *arguments) as peer:
            started = await start(peer, "parcel", {"item": "vase", "dries": 4}, "r1", labels={"team": "a"})
            assert started.native_state.state == "ENQUEUED" and started.labels["team"] == "a"
            sleeping = await shows(
                peer, started.id, lambda seen: seen.steps and seen.steps[-1].native_state.state == "sleeping"
            )
            assert sleeping.native_state.state == "PENDING" and sleeping.retry.attempt == 1
            assert sleeping.steps[-1].waits[0].kind == pb.Wait.TIMER
            receiving = await shows(
                peer, started.id, lambda seen: seen.steps[-1].native_state.state == "receiving"
            )
            assert receiving.steps[-1].waits[0].kind == pb.Wait.CALLBACK
            body = pb.Payload(data=b'"ada"')
            signal = provider_pb2.SignalExecutionRequest(
                id=started.id, signal="picked-up", payload=body, request_id="r2"
            )
            await peer.send("Provider/SignalExecution", signal, pb.Observation)
            # The workflow may have ended before the repetition, which is then refused.
            with contextlib.suppress(grpc.aio.AioRpcError):
                await peer.send("Provider/SignalExecution", signal, pb.Observation)
            messages = sqlite3.connect(tmp_path / "shop.sqlite").execute("SELECT count(*) FROM notifications")
            assert messages.fetchone() == (1,), "a repeated signal is delivered once"
            done = await shows(peer, started.id, lambda seen: seen.native_state.state == "SUCCESS")
            assert json.loads(done.output.data) == {"packed": "vase", "by": "ada"}
            broken = await start(peer, "parcel", {"item": "x", "fragile": True}, "r3")
            failed = await shows(peer, broken.id, lambda seen: seen.native_state.state == "ERROR")
            assert failed.last_error.native_code == "DBOSMaxStepRetriesExceeded", failed.last_error
            assert failed.steps[0].native_state.qualifiers["result"] == "error"
            retry = provider_pb2.RetryFromRequest(id=broken.id, request_id="r4")
            forked = await peer.send("Provider/RetryFrom", retry, pb.Observation)
            assert forked.id != broken.id and forked.forked_from == broken.id
            await shows(peer, forked.id, lambda seen: seen.native_state.state == "ERROR")
        app.kill()
        app.stdout.close()


async def test_two_starts_of_one_request_at_the_same_time_start_one_workflow_of_dbos(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(DBOS)
    from provider import Dbos  # type: ignore[import-not-found]
    from staging import DbosStaging  # type: ignore[import-not-found]

    database = f"sqlite:///{tmp_path}/shop.sqlite"
    DbosStaging(database, "parcel").reset()
    shop = Dbos(database, ["parcel"])
    # Where both are about to enqueue at the same time, both go on together.
    together, enqueue = threading.Barrier(2, timeout=1), shop.client.enqueue

    def enqueue_together(*arguments: Any, **options: Any) -> Any:
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait()
        return enqueue(*arguments, **options)

    shop.client.enqueue = enqueue_together

    def request(id: str) -> provider_pb2.StartExecutionRequest:
        return provider_pb2.StartExecutionRequest(definition="parcel", request_id="r1", execution_id=id)

    starts = (asyncio.to_thread(shop.start, request(id)) for id in ("one", "two"))
    results = await asyncio.gather(*starts, return_exceptions=True)
    await shop.close()
    assert sorted(type(result).__name__ for result in results) == ["Observation", "ProviderError"], results
    [refused] = (result for result in results if isinstance(result, ProviderError))
    assert refused.reason == "REQUEST_ID_REUSED"
    workflows = sqlite3.connect(tmp_path / "shop.sqlite").execute("SELECT count(*) FROM workflow_status")
    assert workflows.fetchone() == (1,)


async def test_dbos_refuses_what_it_does_not_know(tmp_path: pathlib.Path) -> None:
    arguments = ("--database", f"sqlite:///{tmp_path}/empty.sqlite", "--workflow", "parcel", "--staging")
    async with provider(tmp_path, DBOS / "provider.py", *arguments) as peer:
        start = provider_pb2.StartExecutionRequest(definition="no-such-workflow", request_id="r1")
        refused = await peer.refused("Provider/StartExecution", start)
        assert refused[:2] == ("NOT_FOUND", "DEFINITION_NOT_FOUND")
        purge = provider_pb2.PurgeExecutionRequest(id="none", request_id="r1")
        assert (await peer.refused("Provider/PurgeExecution", purge))[0] == "NOT_FOUND"


async def test_a_watch_reports_more_jobs_than_a_page_has_and_none_of_them_as_removed(tmp_path: pathlib.Path) -> None:
    count = 10_500
    async with provider(tmp_path, PARCELS / "provider.py") as peer:
        fields = {"recipe": "letter", "state": "done", "steps": [], "labels": {}, "mailbox": [], "created": 1.0}
        jobs = ((f"j-{number}", json.dumps({"id": f"j-{number}", **fields})) for number in range(count))
        with sqlite3.connect(tmp_path / "parcels.db", timeout=TIMEOUT) as database:
            database.executemany("INSERT INTO jobs (id, body) VALUES (?, ?)", jobs)
        database.close()
        watch = peer.channel.unary_stream(
            "/stateway.provider.v1.Provider/WatchExecutions",
            request_serializer=provider_pb2.WatchExecutionsRequest.SerializeToString,
            response_deserializer=provider_pb2.WatchExecutionsResponse.FromString,
        )
        request = provider_pb2.WatchExecutionsRequest(scope=provider_pb2.WatchExecutionsRequest.ALL)
        request.open_timeout.FromSeconds(30)
        kinds: list[str | None] = []
        async for response in watch(request):
            kinds.append(response.WhichOneof("item"))
            if kinds[-1] == "in_sync":
                await start(peer, "letter", {}, "r1")
            elif "in_sync" in kinds[-2:]:
                break
        assert kinds == ["seen"] * count + ["in_sync", "seen"]


async def test_jobs_behind_a_thousand_open_ones_are_worked_on(tmp_path: pathlib.Path) -> None:
    async with provider(tmp_path, PARCELS / "provider.py") as peer:
        steps = [{"name": "sign", "listen": "signed", "state": "listening", "attempt": 0}]
        fields = {"recipe": "letter", "state": "open", "steps": steps, "labels": {}, "mailbox": [], "created": 1.0}
        fragile = await start(peer, "fragile", None, "r1")
        with sqlite3.connect(tmp_path / "parcels.db", timeout=TIMEOUT) as database:
            jobs = ((f"j-{number}", json.dumps({"id": f"j-{number}", **fields})) for number in range(1100))
            database.executemany("INSERT INTO jobs (id, body) VALUES (?, ?)", jobs)
        database.close()
        await shows(peer, fragile.id, lambda seen: seen.steps[0].retry.attempt >= 2)


async def test_an_outage_of_the_database_of_dbos_is_an_outage_and_no_defect(tmp_path: pathlib.Path) -> None:
    # Nothing listens at this port.
    arguments = ("--database", "postgresql+psycopg://x:x@127.0.0.1:1/x", "--workflow", "parcel")
    requests: dict[str, Any] = {
        "CheckHealth": provider_pb2.CheckHealthRequest(),
        "GetExecution": provider_pb2.GetExecutionRequest(id="a"),
        "StartExecution": provider_pb2.StartExecutionRequest(definition="parcel", request_id="r"),
        "ListExecutions": provider_pb2.ListExecutionsRequest(page_size=5),
        "SignalExecution": provider_pb2.SignalExecutionRequest(id="a", signal="s", request_id="r"),
        "CancelExecution": provider_pb2.CancelExecutionRequest(id="a", request_id="r"),
        "ResumeExecution": provider_pb2.ResumeExecutionRequest(id="a", request_id="r"),
        "RetryFrom": provider_pb2.RetryFromRequest(id="a", request_id="r"),
        "PurgeExecution": provider_pb2.PurgeExecutionRequest(id="a", request_id="r"),
    }
    async with provider(tmp_path, DBOS / "provider.py", *arguments) as peer:
        for method, request in requests.items():
            refused = await peer.refused(f"Provider/{method}", request)
            assert refused[0] == "UNAVAILABLE", (method, refused)
