"""The code in the documentation is the code that runs."""

from __future__ import annotations

import asyncio
import pathlib
import re
import subprocess
import sys

import reader
from conftest import ROOT, TIMEOUT, Gateway
from reader import Terminal
from stateway import Client, Task, Worker
from test_worker import working


def blocks(path: pathlib.Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL)


def test_the_worker_in_the_documentation_is_the_example() -> None:
    code = (ROOT / "examples/python/worker.py").read_text().partition('"""\n\n')[2]
    assert blocks(ROOT / "docs/python.md")[0] == code
    handler = code[code.index("@worker.role") : code.index("\n\n\nworker.run")]
    for readme in ("README.md", "sdk/python/README.md"):
        assert handler in blocks(ROOT / readme)[0]


async def test_the_client_in_the_documentation_runs(gateway: Gateway) -> None:
    (code,) = [block for block in blocks(ROOT / "docs/python.md") if "asyncio.run(main())" in block]
    worker = Worker(gateway.address, capacity=4, roles=["warehouse", "payments", "shipping"])

    @worker.any_task
    async def work(task: Task) -> dict[str, str]:
        return {"reservation": "r-1", "parcel": "p-1"}

    async with Client(gateway.address) as client, working(worker):
        await client.apply_definition((ROOT / "examples/order-saga/order-saga.yaml").read_text())
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", code.replace("127.0.0.1:7380", gateway.address)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "{'parcel': 'p-1'}\n"


GUIDE = ROOT / "docs/python-provider.md"


def follow_guide(folder: pathlib.Path) -> None:
    """Writes the files of the guide, as a reader does."""
    text = GUIDE.read_text()
    found = re.findall(r"(Create|Append to|Replace) `([a-z.]+)`:\n\n```[a-z]+\n(.*?)```", text, re.DOTALL)
    assert [(verb, name) for verb, name, _ in found] == [
        ("Create", "table.toml"),
        ("Create", "bakery.py"),
        ("Create", "main.py"),
        ("Create", "stateway.toml"),
        ("Append to", "bakery.py"),
        ("Create", "staging.py"),
        ("Replace", "main.py"),
    ]
    for verb, name, content in found:
        file = folder / name
        before = file.read_text() if verb == "Append to" else ""
        file.write_text(before + content)


def test_the_commands_of_the_guide_for_providers(tmp_path: pathlib.Path) -> None:
    follow_guide(tmp_path)
    gateway = Gateway(tmp_path, (tmp_path / "stateway.toml").read_text())
    terminal = Terminal(tmp_path, gateway)
    shown = [text for _, language, text in reader.blocks(GUIDE) if language == "console"]
    try:
        terminal.start(f"{sys.executable} main.py unix:bakery.sock --staging")
        # The gateway has a port of its own, so the commands that start programs are left out.
        played = [re.sub(r"^\$ .* &\n", "", text, flags=re.MULTILINE) for text in shown]
        played[-1] = played[-1].replace("unix:test.sock", "unix:bakery.sock")
        assert [terminal.play(text) for text in played] == [2, 4, 1]
    finally:
        terminal.close()
        gateway.stop()


def test_the_mistake_in_the_guide_for_providers_is_printed(tmp_path: pathlib.Path) -> None:
    follow_guide(tmp_path)
    table = tmp_path / "table.toml"
    table.write_text(table.read_text().replace('"running"', '"active"'))
    command = [sys.executable, "main.py", "unix:bakery.sock"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT)
    assert f"```text\n{done.stderr}```" in GUIDE.read_text()
