"""The guides in docs/guides: their files are written, their commands run, and their outputs compared."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from conftest import ROOT, Gateway
from reader import BINARY, Terminal, blocks, compare, write_files

GUIDES = ROOT / "docs/guides"


@pytest.fixture
def terminal(tmp_path: pathlib.Path, gateway: Gateway) -> Iterator[Terminal]:
    folder = tmp_path / "reader"
    folder.mkdir()
    terminal = Terminal(folder, gateway)
    yield terminal
    terminal.close()


def printed_by(guide: pathlib.Path, command: str) -> list[str]:
    """The output that the guide shows after a command."""
    text = guide.read_text()
    shown = re.search(re.escape(command) + r".*?\n```\n\nIt prints:\n\n```text\n(.*?)```", text, re.DOTALL)
    assert shown is not None, command
    return shown.group(1).splitlines()


def final(lines: list[str]) -> list[str]:
    """Without the states before the last: a watch skips a state that lasts only a moment."""
    return [line for line in lines if not re.match(r"(SUB_STATE_)?(RUNNING|BACKING_OFF|WAITING)\b", line)]


def test_the_first_execution_in_the_readme(terminal: Terminal) -> None:
    (text,) = [text for _, language, text in blocks(ROOT / "README.md") if language == "console"]
    terminal.folder = ROOT
    assert terminal.play(text) == 4


SERVICE = GUIDES / "service.md"


def begin_service(terminal: Terminal) -> None:
    files = ["parcel.yaml", "worker.sh", "service.py", "service.mts"]
    assert write_files(SERVICE, terminal.folder) == files
    terminal.run("stateway definitions apply parcel.yaml")
    terminal.start("stateway worker --role payments --role shipping --exec ./worker.sh")


def test_the_service_in_python(terminal: Terminal, gateway: Gateway) -> None:
    begin_service(terminal)
    printed = terminal.run(f"{sys.executable} service.py {gateway.address}")
    shown = printed_by(SERVICE, "venv/bin/python service.py")
    assert final(printed.splitlines()) == final(shown)
    assert "BACKING_OFF charge" in printed


def test_the_service_in_typescript(terminal: Terminal, gateway: Gateway) -> None:
    assert shutil.which("npm"), "the guide needs Node.js and npm"
    begin_service(terminal)
    (install,) = re.findall(r"^npm install .*$", SERVICE.read_text(), re.MULTILINE)
    shutil.copy(ROOT / "proto/stateway.v1.binpb", terminal.folder)
    terminal.run("npm init -y")
    terminal.run(f"{install} --no-audit --no-fund")
    printed = terminal.run(f"npx tsx service.mts {gateway.address} 2>&1 | grep -v '^npm warn'")
    shown = printed_by(SERVICE, "npx tsx service.mts")
    assert final(printed.splitlines()) == final(shown)


def test_the_guide_for_workers(terminal: Terminal, gateway: Gateway) -> None:
    guide = GUIDES / "worker.md"
    printed = terminal.folder / "printed"
    assert write_files(guide, terminal.folder) == ["report.yaml", "fetch.sh", "worker.py"]
    commands = 0
    for _, language, text in blocks(guide):
        if language == "console":
            commands += terminal.play(text)
        elif "stateway worker" in text:
            terminal.start("stateway worker --role reader --exec ./fetch.sh", printed)
        elif "venv/bin/python worker.py" in text:
            terminal.start(f"{sys.executable} worker.py {gateway.address}")
    assert commands == 9
    # The guide shows the lines about its first execution.
    lines = [line for line in printed.read_text().splitlines() if re.search(r"^connected|of r-1:", line)]
    compare("stateway worker", printed_by(guide, "--exec ./fetch.sh"), "\n".join(lines))


def test_the_guide_about_more_machines_up_to_the_cluster(terminal: Terminal) -> None:
    guide = GUIDES / "outgrow.md"
    assert write_files(guide, terminal.folder) == ["order.sh", "cluster.toml", "node.sh", "stateway.toml"]
    local = [text for _, language, text in blocks(guide) if language == "console"][0]
    assert terminal.play(local.replace("$STATEWAY", str(ROOT))) == 5
    terminal.run("sh -n node.sh && stateway config check stateway.toml")


def test_the_guide_for_operators(tmp_path: pathlib.Path) -> None:
    guide = GUIDES / "operator.md"
    assert write_files(guide, tmp_path) == ["stateway.toml", "guard.yaml"]
    gateway = Gateway(tmp_path, (tmp_path / "stateway.toml").read_text())
    terminal = Terminal(tmp_path, gateway)
    commands = 0
    try:
        for _, language, text in blocks(guide):
            if language == "console":
                commands += terminal.play(text)
            elif "stateway worker" in text:
                terminal.start(text.strip())
            elif "stateway list --filter" in text:
                lists = [line.partition("   #")[0] for line in text.splitlines()]
                for command in lists:
                    if command.startswith("stateway list"):
                        terminal.run(command)
    finally:
        terminal.close()
        gateway.stop()
    assert commands == 14


def test_the_guide_about_outgrowing_one_machine(terminal: Terminal) -> None:
    """The files are accepted, and everything before the cluster works. `crates/cli/tests/restate` runs the rest."""
    guide = GUIDES / "outgrow.md"
    assert {"cluster.toml", "stateway.toml"} <= set(write_files(guide, terminal.folder))
    check = [BINARY, "config", "check", "stateway.toml"]
    subprocess.run(check, cwd=terminal.folder, check=True)
    text = guide.read_text()
    # The definitions are examples of the repository, and the configured provider could run them.
    moved = set(re.findall(r"stateway (?:definitions migrate|start) ([a-z-]+)", text))
    assert moved
    terminal.environment["STATEWAY"] = str(ROOT)
    for name in moved:
        terminal.run(f"stateway definitions validate $STATEWAY/examples/{name}/{name}.yaml")
    before, _, after = text.partition("Start a cluster of three nodes\n")
    assert after
    page = terminal.folder / "before.md"
    page.write_text(before)
    for _, language, shown in blocks(page):
        if language == "console":
            terminal.play(shown)
