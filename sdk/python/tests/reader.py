"""The pages of the documentation as a reader follows them: files are written, commands run, outputs compared."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import subprocess
from typing import Any

from conftest import ROOT, Gateway

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


def blocks(page: pathlib.Path) -> list[tuple[str, str, str]]:
    """Every fenced block: the line before it, its language and its text."""
    return re.findall(r"([^\n]*)\n\n```([a-z]+)\n(.*?)```", page.read_text(), re.DOTALL)


def write_files(guide: pathlib.Path, folder: pathlib.Path) -> list[str]:
    """Writes the files that the guide tells the reader to create."""
    names = []
    for before, _, text in blocks(guide):
        if found := re.search(r"Create `([a-z.]+)`(?:\. [^:]+)?:$", before):
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
        assert plain(line) == actual[number], f"{command}: shown {line!r}, printed {printed.splitlines()[number]!r}"
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

    def start(self, command: str, output: pathlib.Path | None = None) -> None:
        """Starts a program; `output` is the file for what it prints."""
        with contextlib.ExitStack() as files:
            streams: dict[str, Any] = {}
            if output is not None:
                streams = {"stdout": files.enter_context(output.open("wb")), "stderr": subprocess.STDOUT}
            self.background.append(
                subprocess.Popen(["sh", "-c", f"exec {command}"], cwd=self.folder, env=self.environment, **streams)
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


def pages() -> list[pathlib.Path]:
    """Every page that shows commands to users."""
    found = [ROOT / name for name in ("README.md", "SECURITY.md", "deploy/README.md", "examples/README.md")]
    return [*found, *sorted((ROOT / "docs").rglob("*.md"))]


def commands(page: pathlib.Path) -> list[str]:
    """The `stateway` commands in the shell blocks of a page, without their remarks."""
    found = []
    for language, text in re.findall(r"```(sh|console)\n(.*?)```", page.read_text(), re.DOTALL):
        for line in text.replace("\\\n", " ").splitlines():
            if language == "console" and not line.startswith("$ "):
                continue
            line = re.split(r"\s+#\s", line.removeprefix("$ "))[0].removesuffix(" &").strip()
            found += re.findall(r"(?:^|&& |\| )(stateway .*?)(?= \||$)", line)
    return found
