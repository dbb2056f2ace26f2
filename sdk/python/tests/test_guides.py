"""The guides in docs/guides: their files are written, their commands run, and their outputs compared."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from conftest import ROOT, Gateway

GUIDES = ROOT / "docs/guides"
LONG = 120.0
BINARY = pathlib.Path(os.environ["STATEWAY_BINARY"]).resolve()

# Texts that differ from run to run.
VARIABLE = [
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "HASH"),
    (re.compile(r"\d+(\.\d+)? ?(ms|s|min|bytes)\b"), "NUMBER"),
    (re.compile(r"\d+/s"), "RATE"),
    (re.compile(r"\s+"), " "),
]


def blocks(guide: pathlib.Path) -> list[tuple[str, str, str]]:
    """Every fenced block: the line before it, its language and its text."""
    return re.findall(r"([^\n]*)\n\n```([a-z]+)\n(.*?)```", guide.read_text(), re.DOTALL)


def write_files(guide: pathlib.Path, folder: pathlib.Path) -> list[str]:
    """Writes the files that the guide tells the reader to create."""
    names = []
    for before, _, text in blocks(guide):
        if found := re.search(r"Create `([a-z.]+)`:$", before):
            file = folder / found.group(1)
            file.write_text(text)
            if file.suffix == ".sh":
                file.chmod(0o755)
            names.append(file.name)
    return names


def plain(line: str) -> str:
    for pattern, word in VARIABLE:
        line = pattern.sub(word, line)
    return line.strip()


def compare(command: str, shown: list[str], printed: str) -> None:
    """The lines that the guide shows are those that were printed; `…` stands for any further lines."""
    actual = [plain(line) for line in printed.splitlines()]
    for number, line in enumerate(shown):
        if line == "…":
            return
        assert number < len(actual), f"{command}: {line!r} is missing in\n{printed}"
        assert plain(line) == actual[number], command
    assert len(actual) <= len(shown), f"{command}: the guide does not show {actual[len(shown) :]}"


class Terminal:
    """A shell in the folder of a reader, with `stateway` on its path."""

    def __init__(self, folder: pathlib.Path, gateway: Gateway) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "PATH": f"{BINARY.parent}{os.pathsep}{os.environ['PATH']}",
            "STATEWAY_SERVER": f"http://{gateway.address}",
        }
        self.background: list[subprocess.Popen[bytes]] = []

    def run(self, command: str, code: int = 0) -> str:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONG,
        )
        assert done.returncode == code, f"{command}: exit code {done.returncode}\n{done.stdout}"
        return done.stdout

    def start(self, command: str) -> None:
        self.background.append(
            subprocess.Popen(["sh", "-c", f"exec {command}"], cwd=self.folder, env=self.environment)
        )

    def play(self, text: str) -> int:
        """Runs the commands of a `console` block and compares what they print; `&` starts a program."""
        text = text.replace("\\\n    ", "")
        commands = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)
        for line, shown in commands:
            if line.endswith(" &"):
                self.start(line.removesuffix(" &"))
                continue
            command, _, remark = line.partition("   # ")
            code = int(remark.removeprefix("exits ")) if remark else 0
            compare(command, shown.splitlines(), self.run(command, code))
        return len(commands)

    def close(self) -> None:
        for process in self.background:
            process.terminate()
        for process in self.background:
            process.wait(timeout=LONG)


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
    assert write_files(guide, terminal.folder) == ["report.yaml", "fetch.sh", "worker.py"]
    commands = 0
    for _, language, text in blocks(guide):
        if language == "console":
            commands += terminal.play(text)
        elif "stateway worker" in text:
            terminal.start("stateway worker --role reader --exec ./fetch.sh")
        elif "venv/bin/python worker.py" in text:
            terminal.start(f"{sys.executable} worker.py {gateway.address}")
    assert commands == 9


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
