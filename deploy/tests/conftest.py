"""What the tests of the deployment share: programs, certificates and the real binary.

`cargo xtask deploy` installs everything that they need. A program that is missing fails the test that needs it; no
test is skipped.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm/stateway"


def program(name: str) -> str:
    """A program of the packages of these tests, or of the system."""
    own = pathlib.Path(sys.executable).parent / name
    found = str(own) if own.exists() else shutil.which(name)
    assert found, f"{name} is not installed; `cargo xtask deploy` installs it"
    return found


def run(*command: str | os.PathLike[str], check: bool = True, **options) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=300, **options
    )
    assert not check or done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="session")
def binary() -> pathlib.Path:
    """The real binary."""
    return pathlib.Path(os.environ["STATEWAY_BINARY"]).resolve()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with an authority (ca.crt) and a certificate for the name `stateway` (tls.crt, tls.key)."""
    folder = tmp_path_factory.mktemp("certificates")
    openssl = program("openssl")
    new = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    run(*new, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=test", cwd=folder)
    run(
        *new, "-keyout", "tls.key", "-out", "tls.crt", "-subj", "/CN=stateway",
        "-addext", "subjectAltName=DNS:stateway,DNS:localhost", "-addext", "basicConstraints=CA:FALSE",
        "-CA", "ca.crt", "-CAkey", "ca.key", cwd=folder,
    )  # fmt: skip
    return folder


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The closing line that `cargo xtask test` counts."""
    counts = [len(terminalreporter.stats.get(what, [])) for what in ("passed", "failed", "error", "skipped")]
    passed, failed, errors, skipped = counts
    terminalreporter.write_line("")
    terminalreporter.write_line(f"{passed} passed, {failed + errors} failed, {skipped} skipped")
