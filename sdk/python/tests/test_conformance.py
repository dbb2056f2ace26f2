"""The providers in Python pass the contract kit over the wire, and work behind the real gateway."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import socket
import subprocess
import sys
from typing import Any

import pytest
import trustme

import conftest
import stateway
from conftest import TIMEOUT, Gateway, until
from stateway import Added, Client, Modified, SubState
from stateway.v1 import executions_pb2
from test_docs import follow_guide
from test_examples import DBOS, PARCELS, program


async def conformance(name: str, folder: pathlib.Path, *command: Any) -> dict[str, int]:
    """Starts a test build of a provider and runs every case against it. Returns how many cases ended how."""
    path = folder / "kit.sock"
    with program(command[0], f"unix:{path}", *command[1:], "--staging", cwd=folder):
        await until(path.exists)
        binary = os.environ["STATEWAY_BINARY"]
        ran = await asyncio.to_thread(
            subprocess.run,
            [binary, "conformance", f"unix:{path}", "-o", "json"],
            capture_output=True,
            text=True,
            timeout=120,
        )
    cases = [json.loads(line) for line in ran.stdout.splitlines()]
    failed = [case for case in cases if case["result"] == "failed"]
    assert ran.returncode == 0 and not failed, (failed, ran.stderr)
    counts = {word: sum(case["result"] == word for case in cases) for word in ("passed", "failed", "skipped")}
    unexplained = [case for case in cases if case["result"] == "skipped" and not case.get("reason")]
    assert not unexplained
    conftest.REMARKS.append(
        f"conformance of {name}: {len(cases)} cases, {counts['passed']} passed, {counts['failed']} failed, "
        f"{counts['skipped']} skipped"
    )
    return counts


async def test_the_provider_of_the_small_engine_conforms(tmp_path: pathlib.Path) -> None:
    counts = await conformance("examples/python-provider", tmp_path, PARCELS / "provider.py")
    assert counts["passed"] >= 131, counts


async def test_the_provider_of_dbos_conforms(tmp_path: pathlib.Path) -> None:
    arguments = ("--database", f"sqlite:///{tmp_path}/kit.sqlite", "--workflow", "parcel")
    counts = await conformance("examples/dbos-provider", tmp_path, DBOS / "provider.py", *arguments)
    assert counts["passed"] >= 110, counts


async def test_the_provider_of_the_guide_conforms(tmp_path: pathlib.Path) -> None:
    follow_guide(tmp_path)
    counts = await conformance("docs/python-provider.md", tmp_path, tmp_path / "main.py")
    assert counts["passed"] >= 78, counts


CONFIG = """
[providers.parcels]
kind = "remote"
address = "unix:{path}"
"""


async def test_a_client_uses_a_python_provider_through_the_gateway_and_over_kills(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "p.sock"
    gateway = Gateway(tmp_path, CONFIG.format(path=path))
    command = [sys.executable, PARCELS / "provider.py", f"unix:{path}"]
    try:
        async with Client(gateway.address) as client:
            with pytest.raises(stateway.Unavailable):
                await client.get("providers/parcels/executions/x", timeout=2)
            provider = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)

            async def is_served() -> bool:
                health = (await client.get_provider("providers/parcels")).capabilities
                return health.start and health.watch_all

            await until(is_served)
            watch = client.watch("providers/parcels")
            seen: dict[str, SubState] = {}

            async def follow() -> None:
                async for change in watch:
                    if isinstance(change, (Added, Modified)):
                        seen[change.item.name.rpartition("/")[2]] = SubState(change.item.sub_state)

            following = asyncio.create_task(follow())
            await client.start("providers/parcels/definitions/letter", {"to": "Oslo"}, id="l-0")
            await until(lambda: seen.get("l-0") is SubState.WAITING)
            explained = await client.explain("providers/parcels/executions/l-0")
            assert explained.row.native_state == "open" and explained.row.refine
            fragile = await client.start("providers/parcels/definitions/fragile", id="f-0")
            shown = await client.wait(fragile.name, SubState.BACKING_OFF, timeout=TIMEOUT)
            assert shown.execution.retry.last_error.message == "the paper is torn"
            for number in range(1, 6):
                provider.kill()
                provider.wait(timeout=TIMEOUT)
                provider = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
                name = f"l-{number}"
                while True:
                    try:
                        await client.start("providers/parcels/definitions/letter", id=name, request_id=name)
                        break
                    except stateway.Unavailable:
                        await asyncio.sleep(0.1)
                await client.signal(f"providers/parcels/executions/l-{number - 1}", "signed")
                await until(lambda: seen.get(f"l-{number - 1}") is SubState.SUCCEEDED)
                await until(lambda: seen.get(name) is SubState.WAITING)
            listed = {execution.name async for execution in client.list("providers/parcels")}
            assert {name.rpartition("/")[2] for name in listed} == {f"l-{n}" for n in range(6)} | {"f-0"}
            await watch.aclose()
            await following
            cancelled = await client.cancel("providers/parcels/executions/l-5")
            assert cancelled.reason == executions_pb2.REASON_CANCELLED
            provider.terminate()
            assert provider.wait(timeout=TIMEOUT) == 0
    finally:
        gateway.stop()


async def test_a_provider_with_mutual_tls_takes_only_its_gateway(tmp_path: pathlib.Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    for name in ("localhost", "gateway"):
        certificate = authority.issue_cert(name)
        certificate.private_key_pem.write_to_path(tmp_path / f"{name}.key")
        certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / f"{name}.pem")
    trustme.CA().issue_cert("gateway").private_key_and_cert_chain_pem.write_to_path(tmp_path / "stranger.pem")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    files = [tmp_path / name for name in ("localhost.pem", "localhost.key", "ca.pem")]
    arguments = [PARCELS / "provider.py", f"localhost:{port}", "--staging", "--tls", *files]

    def check(identity: str) -> subprocess.CompletedProcess[str]:
        options = ["--ca-file", tmp_path / "ca.pem", "--identity-file", tmp_path / identity, "--filter", "get::"]
        command = [os.environ["STATEWAY_BINARY"], "conformance", f"https://localhost:{port}", *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    with program(*arguments, cwd=tmp_path):
        passed = await until(lambda: (ran := check("gateway.pem")).returncode == 0 and ran)
        assert "4 cases, 4 passed" in passed.stdout
        assert check("stranger.pem").returncode != 0
