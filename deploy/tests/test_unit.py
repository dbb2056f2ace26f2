"""The unit for systemd: accepted and rated by systemd-analyze, and its filter compared with the system calls that the
gateway makes."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile

from conftest import DEPLOY, program, run

UNIT = DEPLOY / "systemd/stateway.service"

# 0 is the best rating. A unit without hardening has 9.6.
WORST = 1.6

NOBODY = 65534
CONFIG = """
[server]
listen = "127.0.0.1:0"
monitoring_listen = "127.0.0.1:0"
[providers.builtin]
kind = "builtin"
path = "stateway.db"
backups = "backups"
"""
DEFINITION = """
name: one
timeout: 1h
steps:
  - {name: wipe, agent: ops, timeout: 1m}
"""


def test_systemd_accepts_the_unit(binary: pathlib.Path, tmp_path: pathlib.Path) -> None:
    unit = tmp_path / "stateway.service"
    # The binary must exist where the unit names it.
    text = UNIT.read_text().replace("/usr/local/bin/stateway", str(binary))
    unit.write_text(text)
    done = run(program("systemd-analyze"), "verify", "--man=no", "--recursive-errors=no", unit, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, ""), done.stderr
    unit.write_text(text.replace("ProtectHome=yes", "ProtectHom=yes"))
    done = run(program("systemd-analyze"), "verify", "--man=no", "--recursive-errors=no", unit, check=False)
    assert "ProtectHom" in done.stderr


def test_the_unit_is_hardened() -> None:
    worst = str(int(WORST * 10))
    command = ["security", "--offline=true", "--no-pager", f"--threshold={worst}", "--json=short"]
    done = run(program("systemd-analyze"), *command, UNIT, check=False)
    exposed = [it["name"] for it in json.loads(done.stdout) if it["exposure"]]
    assert done.returncode == 0, f"exposed: {exposed}"


def test_the_gateway_makes_only_the_system_calls_that_the_unit_allows(binary: pathlib.Path) -> None:
    """A start, an execution, a backup and a shutdown under strace, by a user without privileges as in the unit."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "stateway.toml").write_text(CONFIG)
        (folder / "one.yaml").write_text(DEFINITION)
        (folder / "backups").mkdir()
        user = {"user": NOBODY, "group": NOBODY} if os.geteuid() == 0 else {}
        if user:
            for path in (folder, folder / "backups"):
                os.chown(path, NOBODY, NOBODY)
        trace = folder / "trace"
        command = [program("strace"), "-f", "-qq", "-o", str(trace), str(binary), "serve"]
        strace = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, **user)
        assert strace.stderr
        said = []
        for line in strace.stderr:
            said.append(line)
            if found := re.search(r"listening on (http://\S+)", line):
                break
        else:
            raise AssertionError(f"the gateway does not start: {said}")
        gateway = int(run("ps", "-o", "pid=", "--ppid", str(strace.pid)).stdout.split()[0])
        try:
            call = [binary, "--server", found.group(1)]
            run(*call, "health")
            run(*call, "definitions", "apply", folder / "one.yaml")
            run(*call, "start", "one", "--id", "one-1")
            run(*call, "cancel", "builtin/one-1")
            run(*call, "admin", "backup", "copy.db")
        finally:
            os.kill(gateway, signal.SIGTERM)
            strace.wait(timeout=60)
        # A line is `PID name(arguments…`; others report signals and ends.
        made = set(re.findall(r"^\d+ +(\w+)\(", trace.read_text(), re.MULTILINE))
    assert "accept4" in made and made & {"fsync", "fdatasync"}, made
    assert made <= allowed(), made - allowed()
    assert "mount" not in allowed() and "setuid" not in allowed()


def allowed() -> set[str]:
    filters = re.findall(r"^SystemCallFilter=(.*)$", UNIT.read_text(), re.MULTILINE)
    allowed: set[str] = set()
    for line in filters:
        names = line.removeprefix("~").split()
        calls = set().union(*(members(name) for name in names))
        allowed = allowed - calls if line.startswith("~") else allowed | calls
    # Systemd itself starts the process with this one.
    return allowed | {"execve"}


def members(name: str) -> set[str]:
    if not name.startswith("@"):
        return {name}
    found: set[str] = set()
    for line in run(program("systemd-analyze"), "syscall-filter", name).stdout.splitlines()[1:]:
        word = line.strip()
        if word and not word.startswith("#"):
            found |= members(word)
    return found
