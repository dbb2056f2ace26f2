"""The commands that the reference pages show: every one exists with its options, and those with an output run."""

from __future__ import annotations

import functools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT, Gateway
from reader import BINARY, LONG, Terminal, blocks, commands, pages

DOCS = ROOT / "docs"


@functools.cache
def help_of(*path: str) -> str:
    done = subprocess.run([BINARY, *path, "--help"], capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, f"stateway {' '.join(path)}: {done.stderr}"
    return done.stdout


def subcommands(text: str) -> set[str]:
    listed = re.search(r"^Commands:\n(.*?)(?:\n\n|\Z)", text, re.DOTALL | re.MULTILINE)
    return set(re.findall(r"^  ([a-z-]+)", listed.group(1), re.MULTILINE)) if listed else set()


def check(command: str) -> None:
    """The subcommand exists, and its help lists each option."""
    words = shlex.split(command)[1:]
    path: list[str] = []
    while known := subcommands(help_of(*path)):
        named = [number for number, word in enumerate(words) if word in known]
        if not named:
            # Some commands take a name or a subcommand.
            assert re.search(r"^Usage: .* <NAME>", help_of(*path), re.MULTILINE), f"`{command}`: no such command"
            break
        path.append(words.pop(named[0]))
    shown = help_of(*path)
    for word in words:
        if option := re.match(r"(--[a-z][a-z-]*|-[a-z]$)", word):
            listed = re.search(rf"(?<![\w-]){re.escape(option.group(1))}(?![\w-])", shown)
            assert listed, f"`{command}`: no option {option.group(1)}"


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_in_a_page_exists_with_its_options(page: pathlib.Path) -> None:
    for command in commands(page):
        check(command)


def test_a_wrong_command_or_option_is_noticed() -> None:
    for command in ("stateway lst", "stateway list --fliter x", "stateway definitions aply", "stateway history x --bran 1"):
        with pytest.raises(AssertionError):
            check(command)
    assert sum(len(commands(page)) for page in pages()) > 60


def test_the_commands_of_the_memory_provider(tmp_path: pathlib.Path) -> None:
    page = DOCS / "providers/memory.md"
    (config,) = [text for _, language, text in blocks(page) if language == "toml" and "kind" in text]
    gateway = Gateway(tmp_path, config)
    terminal = Terminal(tmp_path, gateway)
    try:
        played = sum(terminal.play(text) for _, language, text in blocks(page) if language == "console")
    finally:
        gateway.stop()
    assert played == 13


BACK = """
name: rerun
steps:
  - {name: draft, agent: writer, action: draft}
  - {name: charge, agent: writer, action: charge, dependsOn: [draft], input: {amount: 10}}
"""


def test_the_commands_of_the_page_about_recovery(tmp_path: pathlib.Path) -> None:
    page = DOCS / "recovery.md"
    (tmp_path / "rerun.yaml").write_text(BACK)
    (tmp_path / "v2.yaml").write_text(BACK.replace("amount: 10", "amount: 11"))
    # `charge` fails whenever it runs, so that the execution stays failed and can be run again.
    (tmp_path / "work.sh").write_text("#!/bin/sh\ntest $STATEWAY_ACTION = draft && echo '{}'\n")
    (tmp_path / "work.sh").chmod(0o755)
    gateway = Gateway(tmp_path)
    terminal = Terminal(tmp_path, gateway)
    try:
        terminal.run("stateway definitions apply rerun.yaml")
        terminal.start("stateway worker --role writer --exec ./work.sh")
        terminal.run("stateway start rerun --id r-17")
        terminal.run("stateway wait builtin/r-17", 1)
        shown = [command for command in commands(page) if "builtin/r-17" in command]
        assert len(shown) == 11
        for command in shown:
            # A replay under another definition that gives another result ends with 8.
            terminal.run(command, 8 if "--definition" in command else 0)
            if command.startswith("stateway retry-from"):
                terminal.run("stateway wait builtin/r-17", 1)
        assert re.search(r"executions? checked in .* no problem found", terminal.run("stateway verify --all"))
    finally:
        terminal.close()
        gateway.stop()


def test_the_commands_of_the_page_about_access_rules(tmp_path: pathlib.Path) -> None:
    page = DOCS / "access.md"
    tables = [text for _, language, text in blocks(page) if language == "toml"]
    (rules,) = [text for text in tables if text.startswith("[[access.rules]]\nname = \"billing-team\"")]
    (cases,) = [text for text in tables if "[[cases]]" in text]
    (tenants,) = [text for text in tables if "name = \"members\"" in text]
    keys = "[authentication.api_keys]\nfile = \"keys.json\"\n"
    (tmp_path / "stateway.toml").write_text(keys + rules)
    (tmp_path / "cases.toml").write_text(cases)
    all_shown = commands(page)
    shown = [command for command in all_shown if "keys create" not in command]
    assert (len(all_shown), len(shown)) == (5, 3)
    # The check opens the file of keys.
    create = "stateway keys create --file keys.json --subject ada --key-role billing"
    for command in [create, *shown]:
        done = subprocess.run(
            [BINARY, *shlex.split(command)[1:]], cwd=tmp_path, capture_output=True, text=True, timeout=LONG
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        if "explain" in command:
            assert "billing-team" in done.stdout
    # The example of two tenants.
    (tmp_path / "stateway.toml").write_text(keys + tenants)
    for command in [*(it for it in all_shown if it not in shown), "stateway config check stateway.toml"]:
        subprocess.run([BINARY, *shlex.split(command)[1:]], cwd=tmp_path, check=True, timeout=LONG)


CARD = """
name: card
steps:
  - name: charge
    agent: payments
    timeout: 1m
    input: {amount: "${input.amount}"}
    retryPolicy: {maxRetries: 1, initialDelay: 100ms}
"""
CHARGE = """#!/bin/sh
case $STATEWAY_ATTEMPT in
  1) echo 'card gateway timed out' >&2; exit 69 ;;
  *) echo 'card declined' >&2; exit 69 ;;
esac
"""
SAGA = """
name: order-saga
steps:
  - {name: pick, signal: picked}
  - {name: charge, agent: till, timeout: 30s, dependsOn: [pick]}
"""
# A provider whose engine has definitions with numbered revisions.
NUMBERED = """
import asyncio
import sys

from stateway.provider import Provider, not_found, serve
from stateway.provider.v1 import provider_pb2


class Numbered(Provider):
    name, version, table = "numbered", "1", "table.toml"
    applied = []

    def get(self, id, full):
        raise not_found(id)

    def list(self, request):
        return provider_pb2.ListExecutionsResponse()

    def list_definitions(self, request):
        return provider_pb2.ListDefinitionsResponse()

    def get_definition(self, request):
        return self.applied[-1]

    def apply_definition(self, request):
        revision = str(len(self.applied) + 1)
        revisions = [revision, *(it.revision for it in reversed(self.applied))]
        self.applied.append(
            provider_pb2.Definition(
                name=request.name, revision=revision, revisions=revisions, source=request.source,
                labels=request.labels, changed=True,
            )
        )
        return self.applied[-1]

    def validate_definition(self, request):
        return provider_pb2.ValidateDefinitionResponse()


asyncio.run(serve(Numbered, sys.argv[1]))
"""


def block_of_cli(command: str) -> str:
    """The block of docs/cli.md that begins with this command."""
    shown = [text for _, language, text in blocks(DOCS / "cli.md") if language == "console"]
    (found,) = [text for text in shown if text.startswith(f"$ stateway {command}")]
    return found


def test_the_outputs_of_the_page_about_the_command_line(tmp_path: pathlib.Path) -> None:
    (tmp_path / "card.yaml").write_text(CARD)
    (tmp_path / "saga.yaml").write_text(SAGA)
    (tmp_path / "new.yaml").write_text(SAGA.replace("30s", "1m"))
    for program, text in (("charge.sh", CHARGE), ("hold.sh", "#!/bin/sh\nexec sleep 600\n")):
        (tmp_path / program).write_text(text)
        (tmp_path / program).chmod(0o755)
    gateway = Gateway(tmp_path)
    terminal = Terminal(tmp_path, gateway)
    try:
        # An execution whose only retry failed too.
        terminal.run("stateway definitions apply card.yaml")
        terminal.start("stateway worker --id billing --role payments --exec ./charge.sh")
        terminal.run("""stateway start card --id order-17 --input '{"amount":20}'""")
        terminal.run("stateway wait builtin/order-17", 1)
        assert terminal.play(block_of_cli("get builtin/order-17 --step charge")) == 1
        terminal.run("stateway purge builtin/order-17 --yes")
        # Two executions, one of which has begun the step that the new revision changes.
        terminal.run("stateway definitions apply saga.yaml")
        for id in ("order-18", "order-17"):
            terminal.run(f"stateway start order-saga --id {id} --label tenant=blue")
        terminal.run("stateway signal builtin/order-18 picked")
        terminal.start("stateway worker --role till --exec ./hold.sh")
        begun = "stateway get builtin/order-18 --step charge | grep '^state *running'"
        terminal.run(f"until {begun}; do sleep 0.1; done")
        terminal.run("stateway definitions apply new.yaml")
        adopt = block_of_cli("definitions adopt").replace("--yes\n", "--yes   # exits 4\n", 1)
        assert terminal.play(adopt) == 1
    finally:
        terminal.close()
        gateway.stop()


def test_a_definition_in_the_language_of_an_engine_is_applied_as_the_page_shows(tmp_path: pathlib.Path) -> None:
    (tmp_path / "approve.asl.json").write_text("{}")
    (tmp_path / "numbered.py").write_text(NUMBERED)
    shutil.copy(ROOT / "examples/python-provider/table.toml", tmp_path)
    gateway = Gateway(tmp_path, '[providers.payments]\nkind = "remote"\naddress = "unix:numbered.sock"\n')
    terminal = Terminal(tmp_path, gateway)
    try:
        terminal.start(f"{sys.executable} numbered.py unix:numbered.sock")
        terminal.run("until stateway definitions list --provider payments; do sleep 0.1; done")
        assert terminal.play(block_of_cli("definitions apply approve.asl.json")) == 1
    finally:
        terminal.close()
        gateway.stop()


def test_the_backup_of_the_page_about_the_built_in_engine(tmp_path: pathlib.Path) -> None:
    (command,) = commands(DOCS / "builtin.md")
    backups = tmp_path / "backups"
    backups.mkdir()
    gateway = Gateway(tmp_path, '[providers.builtin]\nkind = "builtin"\nbackups = "backups"\n')
    try:
        Terminal(tmp_path, gateway).run(command)
        (stored,) = backups.iterdir()
        assert stored.name == command.split()[-1]
        Terminal(tmp_path, gateway).run(f"stateway verify --store {stored}")
    finally:
        gateway.stop()


def test_the_commands_of_the_pages_about_tls_keys_and_the_audit_log(tmp_path: pathlib.Path) -> None:
    assert shutil.which("openssl"), "the page about deployment needs openssl"

    def block(page: str, language: str, text: str) -> str:
        (found,) = [it for _, its, it in blocks(DOCS / page) if its == language and text in it]
        return found

    def run(script: str) -> str:
        done = subprocess.run(
            ["sh", "-e", "-c", script],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{BINARY.parent}{os.pathsep}{os.environ['PATH']}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONG,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}"
        return done.stdout

    tls = block("security.md", "toml", "[server.tls]\ncert = \"server.pem\"\nkey = \"server.key\"\n")
    config = tls + block("security.md", "toml", "who = { role = \"admin\" }") + "[audit]\nfile = \"audit.jsonl\"\n"
    (tmp_path / "stateway.toml").write_text(config)
    run(block("deploy.md", "sh", "openssl req"))
    begin = block("security.md", "sh", "--subject root")
    assert begin.endswith("\nstateway serve --config stateway.toml\n")
    run(begin.removesuffix("stateway serve --config stateway.toml\n"))
    gateway = Gateway(tmp_path, config)
    try:
        port = gateway.address.split(":")[1]
        whoami, health = (block("security.md", "sh", " whoami\n"), block("deploy.md", "sh", " health\n"))
        assert re.search(r"^subject +root$", run(whoami.replace("7380", port)), re.MULTILINE)
        run(health.replace("7380", port))
        run(block("audit.md", "sh", "stateway audit verify"))
    finally:
        gateway.stop()
