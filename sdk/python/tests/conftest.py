"""Fixtures of the tests: the real gateway in a folder of its own, and connections that can be cut."""

from __future__ import annotations

import asyncio
import inspect
import os
import pathlib
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
TIMEOUT = 20.0

CONFIG = """
[providers.memory]
kind = "memory"
[providers.builtin]
kind = "builtin"
"""


class Gateway:
    """The real binary. It keeps its port and its folder over restarts."""

    def __init__(self, folder: pathlib.Path, config: str = CONFIG) -> None:
        self.folder = folder
        self.listen = "127.0.0.1:0"
        (folder / "stateway.toml").write_text(config)
        self.start()

    def start(self) -> None:
        binary = os.path.abspath(os.environ["STATEWAY_BINARY"])
        self.log = open(self.folder / "log", "ab")
        self.process = subprocess.Popen(
            [binary, "serve", "--listen", self.listen], stderr=subprocess.PIPE, cwd=self.folder
        )
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.write(line)
            if found := re.search(rb"https?://(127\.0\.0\.1:\d+)", line):
                self.listen = self.address = found.group(1).decode()
                return
        raise RuntimeError(f"the gateway ended before it listened: see {self.log.name}")

    def kill(self) -> None:
        """SIGKILL: nothing is cleaned up."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(timeout=TIMEOUT)
        assert self.process.stderr is not None
        self.process.stderr.close()
        self.log.close()


class Proxy:
    """Passes connections on to the gateway, and cuts them on request."""

    def __init__(self, target: str) -> None:
        self.host, port = target.split(":")
        self.port = int(port)
        self.connections: list[asyncio.StreamWriter] = []
        self.opened = 0

    async def __aenter__(self) -> Proxy:
        self.server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = "127.0.0.1:%d" % self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.server.close()
        self.cut()

    def cut(self) -> None:
        """Resets every open connection."""
        for writer in self.connections:
            writer.transport.abort()
        self.connections.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        try:
            upstream, downstream = await asyncio.open_connection(self.host, self.port)
        except OSError:
            writer.transport.abort()
            return
        self.connections += [writer, downstream]
        await asyncio.gather(_pump(reader, downstream), _pump(upstream, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.transport.abort()


@pytest.fixture
def gateway(tmp_path: pathlib.Path) -> Iterator[Gateway]:
    running = Gateway(tmp_path)
    yield running
    running.stop()


async def until(holds: Callable[[], Any], timeout: float = TIMEOUT) -> Any:
    """Waits until the condition holds, and returns its value. The condition may be a coroutine function."""
    deadline = time.monotonic() + timeout
    while True:
        value = holds()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        assert time.monotonic() < deadline, "the condition does not hold in time"
        await asyncio.sleep(0.02)


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs coroutine functions in an event loop of their own, bounded in time."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**arguments), 60))
    return True


# Lines for the end of the report of `cargo xtask test`.
REMARKS: list[str] = []


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line that `cargo xtask test` counts."""
    for remark in REMARKS:
        terminalreporter.write_line(f"summary: {remark}")
    count = {name: len(terminalreporter.stats.get(name, [])) for name in ("passed", "failed", "error", "skipped")}
    failed = count["failed"] + count["error"]
    terminalreporter.write_line(f"\n{count['passed']} passed, {failed} failed, {count['skipped']} skipped")
