"""The server of providers: its socket, its connections, its errors and its end."""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

import stateway
from conftest import TIMEOUT, Gateway, until
from stateway import Client
from stateway.provider import (
    ErrorKind,
    Observation,
    Provider,
    ProviderError,
    Server,
    SocketError,
    Watched,
    not_found,
)
from stateway.provider.v1 import observation_pb2, provider_pb2
from test_provider import TABLE, Jobs, Peer, served

LONG = "ä" * 10_000
MAX_TRAILER_BYTES = 8 * 1024


class LongErrors(Jobs):
    """Every field of every error is as long as it can be."""

    async def get(self, id: str, full: bool) -> Observation:
        sizes = {"large": 20_000, "small": 10}
        raise ProviderError(
            ErrorKind.NOT_FOUND,
            LONG,
            reason="R" * 100 if id == "large" else "A_REASON",
            hint=LONG,
            native_code=LONG,
            retry_after=timedelta(seconds=7),
            metadata={"a\ud800": "x" * sizes[id], "b": "y"},
        )


async def test_an_error_fits_into_its_trailer_and_keeps_its_kind(tmp_path: pathlib.Path) -> None:
    async with served(tmp_path, LongErrors) as peer:
        for id in ("large", "small"):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await peer.get(id)
            assert caught.value.code() is grpc.StatusCode.NOT_FOUND
            trailers = dict(caught.value.trailing_metadata() or ())
            details = trailers["grpc-status-details-bin"]
            assert isinstance(details, bytes)
            message = (caught.value.details() or "").encode()
            # Percent-encoding and Base64, names and the 32 bytes that HTTP/2 counts for each entry.
            size = 3 * len(message) + (len(details) + 2) // 3 * 4 + 200
            assert size <= MAX_TRAILER_BYTES, size
            kind, reason, _, detail = await peer.refused(
                "Provider/GetExecution", provider_pb2.GetExecutionRequest(id=id)
            )
            assert kind == "NOT_FOUND" and detail.retry_after.seconds == 7
            assert detail.hint.startswith("ä") and detail.native_code.startswith("ä")
            assert len(reason) <= 63


async def test_short_metadata_is_kept(tmp_path: pathlib.Path) -> None:
    detail = ProviderError(ErrorKind.CONFLICT, "m", metadata={"a": "x" * 3000, "b": "y"}).to_detail()
    assert dict(detail.metadata) == {"a": "x" * 3000, "b": "y"}


CONFIG = """
[providers.jobs]
kind = "remote"
address = "unix:{path}"
{options}
"""


@asynccontextmanager
async def behind_gateway(folder: pathlib.Path, provider: type[Provider], options: str = "") -> AsyncIterator[Client]:
    path = folder / "p.sock"
    server = Server(provider, f"unix:{path}")
    await server.start()
    gateway = await asyncio.to_thread(Gateway, folder, CONFIG.format(path=path, options=options))
    try:
        async with Client(gateway.address) as client:

            async def is_described() -> bool:
                return len((await client.get_provider("providers/jobs")).table) > 0

            await until(is_described)
            yield client
    finally:
        await asyncio.to_thread(gateway.stop)
        await server.stop()


async def test_a_long_error_passes_through_the_gateway_with_its_kind(tmp_path: pathlib.Path) -> None:
    async with behind_gateway(tmp_path, LongErrors) as client:
        for id in ("large", "small"):
            with pytest.raises(stateway.NotFound):
                await client.get(f"providers/jobs/executions/{id}")


def frame(kind: int, flags: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + bytes(4) + payload


async def test_pings_without_calls_do_not_end_the_connection(tmp_path: pathlib.Path) -> None:
    async with served(tmp_path):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "p.sock"))
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, b""))
        answered: list[bytes] = []

        async def read() -> None:
            while True:
                head = await reader.readexactly(9)
                payload = await reader.readexactly(int.from_bytes(head[:3], "big"))
                assert head[3] != 7, f"GOAWAY: {payload!r}"
                if head[3] == 6 and head[4] & 1:
                    answered.append(payload)

        reading = asyncio.create_task(read())
        sent = [bytes([number] * 8) for number in range(6)]
        for ping in sent:
            writer.write(frame(6, 0, ping))
            await asyncio.sleep(0.6)
            if reading.done():
                await reading
        assert answered == sent
        reading.cancel()
        writer.close()


async def call(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        await Peer(channel).get("a")


async def test_a_socket_in_use_is_not_replaced(tmp_path: pathlib.Path) -> None:
    async with served(tmp_path) as peer:
        second = Server(Jobs, f"unix:{tmp_path}/p.sock")
        with pytest.raises(SocketError, match="p.sock.*another process uses this socket"):
            await second.start()
        await peer.get("a")
        await call(f"unix:{tmp_path}/p.sock")
    assert list(tmp_path.iterdir()) == [], "the socket and the folder of its creation are removed"


async def test_a_file_is_not_deleted(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "p.sock"
    path.write_text("data")
    with pytest.raises(SocketError, match="not a socket"):
        await Server(Jobs, f"unix:{path}").start()
    assert path.read_text() == "data" and list(tmp_path.iterdir()) == [path]


async def test_the_socket_of_a_killed_process_is_replaced(tmp_path: pathlib.Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "p.sock"))
    async with served(tmp_path) as peer:
        await peer.get("a")


async def test_a_stop_leaves_the_socket_of_a_newer_process(tmp_path: pathlib.Path) -> None:
    address = f"unix:{tmp_path}/p.sock"
    old = Server(Jobs, address)
    await old.start()
    os.unlink(tmp_path / "p.sock")
    new = Server(Jobs, address)
    await new.start()
    await old.stop()
    await call(address)
    await new.stop()
    assert list(tmp_path.iterdir()) == []


async def test_a_relative_path_is_that_of_the_start(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    server = Server(Jobs, "unix:p.sock")
    await server.start()
    monkeypatch.chdir("/")
    await call(f"unix:{tmp_path}/p.sock")
    await server.stop()
    assert list(tmp_path.iterdir()) == []


def test_a_scheme_that_contradicts_the_credentials_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="https"):
        Server(Jobs, "https://127.0.0.1:7400")
    with pytest.raises(ValueError, match="http is not encrypted"):
        Server(Jobs, "http://127.0.0.1:7400", credentials=grpc.ssl_server_credentials([(b"key", b"certificate")]))


class Ends(Provider):
    """Reports the end of executions and nothing before."""

    name, version, table = "ends", "1", TABLE

    def __init__(self) -> None:
        self.state = "open"

    async def get(self, id: str, full: bool) -> Observation:
        if id == "hangs":
            await asyncio.Event().wait()
        if id != "a":
            raise not_found(id)
        return Observation(id=id, native_state=observation_pb2.NativeState(state=self.state))

    async def watch_end(self, id: str) -> AsyncIterator[Watched]:
        await asyncio.sleep(1.5)
        self.state = "done"
        yield await self.get(id, False)


async def test_a_watch_of_the_end_needs_only_the_end(tmp_path: pathlib.Path) -> None:
    async with served(tmp_path, Ends) as peer:
        watch = peer.channel.unary_stream(
            "/stateway.provider.v1.Provider/WatchExecutions",
            request_serializer=provider_pb2.WatchExecutionsRequest.SerializeToString,
            response_deserializer=provider_pb2.WatchExecutionsResponse.FromString,
        )

        def items(id: str) -> Any:
            request = provider_pb2.WatchExecutionsRequest(scope=provider_pb2.WatchExecutionsRequest.END, id=id)
            request.open_timeout.FromTimedelta(timedelta(seconds=0.5))
            request.heartbeat_interval.FromTimedelta(timedelta(seconds=1))
            return watch(request)

        found = [item async for item in items("a")]
        assert [item.WhichOneof("item") for item in found] == ["heartbeat", "heartbeat", "seen"]
        assert found[-1].seen.native_state.state == "done"
        codes = {"none": grpc.StatusCode.NOT_FOUND, "hangs": grpc.StatusCode.DEADLINE_EXCEEDED}
        for id, code in codes.items():
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                [item async for item in items(id)]
            assert refused.value.code() is code


async def test_a_client_waits_for_an_end_that_is_all_that_a_provider_reports(tmp_path: pathlib.Path) -> None:
    async with behind_gateway(tmp_path, Ends) as client:
        waited = await client.wait("providers/jobs/executions/a", timeout=TIMEOUT)
        assert stateway.SubState(waited.execution.sub_state) is stateway.SubState.SUCCEEDED


HANGS = """
import asyncio, pathlib, sys, threading
from stateway.provider import InSync, Provider, main

class Hangs(Provider):
    name, version, table = "hangs", "1", {table!r}

    def get(self, id, full):
        pathlib.Path("hangs").touch()
        threading.Event().wait()

    async def watch_all(self):
        yield InSync()
        await asyncio.to_thread(self.get, "a", False)

    async def close(self):
        await asyncio.to_thread(threading.Event().wait)

main(Hangs)
"""


@contextmanager
def hanging(folder: pathlib.Path) -> Iterator[subprocess.Popen[bytes]]:
    (folder / "hangs.py").write_text(HANGS.format(table=str(TABLE)))
    command = [sys.executable, "hangs.py", "unix:p.sock"]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=TIMEOUT)


@pytest.mark.parametrize("method", ["GetExecution", "WatchExecutions"])
async def test_sigterm_ends_the_process_while_a_method_hangs(tmp_path: pathlib.Path, method: str) -> None:
    get = provider_pb2.GetExecutionRequest(id="a")
    watch = provider_pb2.WatchExecutionsRequest(scope=provider_pb2.WatchExecutionsRequest.ALL)
    request: Message = get if method == "GetExecution" else watch
    with hanging(tmp_path) as process:
        await until((tmp_path / "p.sock").exists)
        async with grpc.aio.insecure_channel(f"unix:{tmp_path}/p.sock") as channel:
            send: Any = channel.unary_stream(
                f"/stateway.provider.v1.Provider/{method}",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=bytes,
            )
            calls = [send(request) for _ in range(3)]
            reading = [asyncio.ensure_future(one.read()) for one in calls]
            await until((tmp_path / "hangs").exists)
            begun = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, TIMEOUT) == 0
            assert time.monotonic() - begun < 8
            await asyncio.gather(*reading, return_exceptions=True)
    assert not (tmp_path / "p.sock").exists()


async def test_a_program_whose_socket_is_in_use_says_so(tmp_path: pathlib.Path) -> None:
    async with served(tmp_path):
        with hanging(tmp_path) as process:
            _, stderr = await asyncio.to_thread(process.communicate, timeout=TIMEOUT)
        assert process.returncode == 1
        assert stderr.decode() == (
            f"error: cannot listen at `{tmp_path}/p.sock`: another process uses this socket; stop that process first\n"
        )
