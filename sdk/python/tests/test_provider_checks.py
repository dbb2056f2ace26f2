"""Mistakes in a provider: those that can be seen are reported when the provider starts, with what to correct."""

from __future__ import annotations

import json
import logging
import os
import pathlib
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from conftest import ROOT, TIMEOUT
from stateway.provider import Observation, Server, StartError, StateTable, TableError, Watched
from stateway.provider.table import BASES, REASONS, ROW_KEYS, SUB_STATES, TABLE_KEYS
from stateway.provider.v1 import identity_pb2, provider_pb2
from test_provider import Jobs, served

HEAD = 'version = 1\nkind = "memory"\ntitle = "K"\nsummary = "s"\n'
ROW = '[[rows]]\nnative = "a"\nsub_state = "running"\nterminal = false\nsource = "seen"\n'


def row(**changed: str | None) -> str:
    """A row of a table with other values, as TOML; none leaves the key out."""
    fields: dict[str, str | None] = {
        "native": '"b"',
        "sub_state": '"running"',
        "terminal": "false",
        "source": '"seen"',
        **changed,
    }
    return "[[rows]]\n" + "".join(f"{key} = {value}\n" for key, value in fields.items() if value is not None)


BROKEN = {
    HEAD + 'x = "\n"': "(at line 5, column 6)",
    HEAD: "the table needs at least one row",
    HEAD + "rows = 1\n": "`rows` must be a list of tables",
    HEAD.replace("= 1", "= 2") + ROW: "table version 2 is unknown; this package reads version 1",
    HEAD.replace('title = "K"\n', "") + ROW: "`title` is missing",
    HEAD.replace('"K"', "7") + ROW: "`title` must be a string",
    "x = 1\n" + HEAD + ROW: "unknown key `x`; known keys: kind, qualifiers, rows, summary, title, version",
    HEAD + ROW + row(x="1"): "row 2 (b): unknown key `x`; known keys: basis, native, note",
    HEAD + ROW + row(source=None): "row 2 (b): `source` is missing",
    HEAD + ROW + row(source='""'): "row 2 (b): `source` is empty",
    HEAD + ROW + row(native=None): "row 2: `native` is missing",
    HEAD + ROW + row(native='""'): "row 2: `native` is empty",
    HEAD + ROW + row(terminal='"no"'): "row 2 (b): `terminal` must be true or false",
    HEAD + ROW + row(sub_state='"active"'): (
        "row 2 (b): `sub_state` is `active`; use one of running, waiting, backing-off, error, succeeded, failed"
    ),
    HEAD + ROW + row(reason='"CANCELED"'): "row 2 (b): `reason` is `CANCELED`; use one of CANCELLED, TIMED_OUT",
    HEAD + ROW + row(scope='"task"'): "row 2 (b): `scope` is `task`; use one of execution, step",
    HEAD + ROW + row(basis='"DEFAULTED"'): "row 2 (b): `basis` is `DEFAULTED`; use one of NATIVE, DERIVED",
    HEAD + ROW + row(sub_state='"failed"'): (
        "row 2 (b): `terminal` must be true, because `sub_state` is `failed`"
    ),
    HEAD + ROW + row(terminal="true"): "row 2 (b): `terminal` must be false, because `sub_state` is `running`",
    HEAD + ROW + row(sub_state='"failed"', terminal="true", refine="true"): (
        "row 2 (b): a row with `terminal = true` cannot have `refine = true`"
    ),
    HEAD + ROW + row(when='{ q = "1" }'): "row 2 (b (q = 1)): qualifier `q` is not declared under [qualifiers]",
    HEAD + ROW + row(when="{ q = 1 }"): "row 2 (b (q = 1)): `when.q` must be a string",
    HEAD + ROW + row(native='"a"'): "rows 1 and 2 (a) can both apply, and neither is more specific",
    HEAD + f'[qualifiers]\nq = "q"\nr = "r"\n{ROW}' + row(when='{ q = "1" }') + row(when='{ r = "1" }'): (
        "rows 2 and 3 (b (r = 1)) can both apply, and neither is more specific"
    ),
}


@pytest.mark.parametrize("text", BROKEN, ids=BROKEN.values())
def test_a_broken_table_is_refused_with_its_row_and_the_gateway_refuses_it_too(
    tmp_path: pathlib.Path, text: str
) -> None:
    with pytest.raises(TableError) as refused:
        StateTable(text).check()
    assert BROKEN[text] in str(refused.value) and "\n" not in str(refused.value)
    (tmp_path / "table.toml").write_text(text)
    config = tmp_path / "stateway.toml"
    config.write_text('[providers.m]\nkind = "memory"\ntable = "table.toml"\n')
    checked = subprocess.run(
        [os.environ["STATEWAY_BINARY"], "config", "check", config], capture_output=True, timeout=TIMEOUT
    )
    assert checked.returncode == 2, checked.stderr


def test_every_table_of_this_repository_is_accepted() -> None:
    tables = [*(ROOT / "provider-tables").glob("*.toml"), *(ROOT / "examples").glob("*/table.toml")]
    assert len(tables) >= 7
    for table in tables:
        StateTable.read(table).check()
    StateTable(
        HEAD + f'[qualifiers]\nq = "q"\n{ROW}' + row(when='{ q = "1" }') + row(when='{ q = "2" }') + row(scope='"step"')
    ).check()


def test_the_words_of_a_table_are_those_of_its_schema() -> None:
    schema = json.loads((ROOT / "provider-tables/schema.json").read_text())
    fields = schema["$defs"]["row"]["properties"]
    assert set(TABLE_KEYS) == set(schema["properties"]) and set(ROW_KEYS) == set(fields)
    assert list(SUB_STATES) == fields["sub_state"]["enum"] and list(BASES) == fields["basis"]["enum"]
    assert set(REASONS) == set(fields["reason"]["enum"])


MAIN = """
from stateway.provider import Observation, Provider, main

class Jobs(Provider):
    name, version, table = "jobs", "1", "table.toml"

    def get(self, id, full):
        return Observation(id=id)
{more}

main({made})
"""


def started(folder: pathlib.Path, more: str = "", *arguments: str, made: str = "Jobs", code: str = MAIN) -> str:
    """What a program prints that cannot start."""
    if not (folder / "table.toml").exists():
        (folder / "table.toml").write_text(HEAD + ROW)
    (folder / "main.py").write_text(code.format(more=more, made=made))
    ran = subprocess.run(
        [sys.executable, "main.py", *(arguments or ("unix:p.sock",))],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert ran.returncode == 1, ran.stderr
    return "\n".join(line for line in ran.stderr.splitlines() if "add_port" not in line)


def test_a_program_with_a_broken_table_does_not_start(tmp_path: pathlib.Path) -> None:
    (tmp_path / "table.toml").write_text(HEAD + ROW.replace("running", "active"))
    assert started(tmp_path) == (
        "error: state table `table.toml`: row 1 (a): `sub_state` is `active`; "
        "use one of running, waiting, backing-off, error, succeeded, failed"
    )
    (tmp_path / "table.toml").write_text(HEAD + "x = ")
    assert started(tmp_path).startswith("error: state table `table.toml`: not valid TOML: ")
    assert started(tmp_path, '    table = "none.toml"\n').startswith(
        "error: state table `none.toml`: cannot be read: No such file or directory"
    )
    assert not (tmp_path / "p.sock").exists()


async def test_a_server_with_a_broken_table_does_not_start(tmp_path: pathlib.Path) -> None:
    (tmp_path / "table.toml").write_text(HEAD + ROW.replace("false", "true"))

    class Broken(Jobs):
        table = tmp_path / "table.toml"

    with pytest.raises(TableError, match=r"table.toml`: row 1 \(a\): `terminal` must be false"):
        await Server(Broken, f"unix:{tmp_path}/p.sock").start()


async def test_a_table_that_breaks_while_the_provider_runs_is_sent_to_the_gateway(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "table.toml"
    file.write_text(HEAD + ROW)

    class Edited(Jobs):
        table = file

    async with served(tmp_path, Edited) as peer:
        file.write_text("broken = ")
        request = identity_pb2.DescribeRequest()
        described = await peer.send("Identity/Describe", request, identity_pb2.DescribeResponse)
        assert described.state_table == "broken = ", "the gateway refuses it with its place"


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ('    declares = {"step"}', "Jobs.declares has `step`, which is unknown; did you mean `steps`? Known: "),
        ('    declares = {"start"}', "Jobs.declares has `start`; implement the method `start` instead"),
        ('    declares = "labels"', 'Jobs.declares must be a set of names, for example {"labels"}, not a str'),
        ("    get = Provider.get", "Jobs does not implement `get`; every provider needs `get(self, id, full)`"),
        ("    def get(self, id): pass", "Jobs.get takes other arguments than `get(self, id, full)`"),
        ("    def start(self): pass", "Jobs.start takes other arguments than `start(self, request)`"),
        ("    async def watch_all(self): return []", "Jobs.watch_all must be an asynchronous generator"),
        ("    def list_definitions(self, request): pass", "Jobs does not implement `get_definition`; "),
        ("    table = None", "Jobs.table must be the path of the file with the state table"),
    ],
)
def test_a_program_whose_class_has_a_mistake_does_not_start(tmp_path: pathlib.Path, more: str, error: str) -> None:
    assert started(tmp_path, more).startswith(f"error: {error}")


def test_a_program_that_gives_an_object_instead_of_the_class_does_not_start(tmp_path: pathlib.Path) -> None:
    assert started(tmp_path, made="Jobs()") == (
        "error: a server creates the provider itself: give it the class `Jobs`, not an object of it"
    )


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("p.sock", "`p.sock` is not an address; use `unix:/path/of/socket` or `host:port`"),
        ("tcp://127.0.0.1:1", "`tcp://127.0.0.1:1` is not an address; use `unix:/path/of/socket` or `host:port`"),
        ("unix:", "`unix:` is not an address; use `unix:/path/of/socket` or `host:port`"),
        ("0.0.0.0:7400", "`0.0.0.0:7400` can be reached from other machines: give credentials (`--tls`)"),
        ("https://127.0.0.1:7400", "`https://127.0.0.1:7400` needs credentials (`--tls`), because https is encrypted"),
        ("unix:none/p.sock", "cannot listen at `{folder}/none/p.sock`: No such file or directory"),
    ],
)
def test_a_program_with_a_wrong_address_does_not_start(tmp_path: pathlib.Path, address: str, error: str) -> None:
    assert started(tmp_path, "", address) == f"error: {error.format(folder=tmp_path)}"


async def test_a_program_whose_port_is_in_use_does_not_start(tmp_path: pathlib.Path) -> None:
    server = Server(Jobs, "127.0.0.1:0")
    address = (await server.start()).removeprefix("http://")
    printed = started(tmp_path, "", address)
    await server.stop()
    assert printed == f"error: cannot listen at `{address}`: the address cannot be used, or another process uses it"


def test_a_program_with_certificates_that_cannot_be_read_does_not_start(tmp_path: pathlib.Path) -> None:
    printed = started(tmp_path, "", "127.0.0.1:7400", "--tls", "a.pem", "a.key", "ca.pem")
    assert printed == "error: cannot read `a.pem`: No such file or directory"


class Nonsense(Jobs):
    """Returns other types than the contract has."""

    async def get(self, id: str, full: bool) -> Observation:
        answer: Any = {"none": None, "dict": {"id": id}}[id]
        return answer  # type: ignore[no-any-return]

    async def list(self, request: provider_pb2.ListExecutionsRequest) -> provider_pb2.ListExecutionsResponse:
        answer: Any = []
        return answer  # type: ignore[no-any-return]

    async def watch_all(self) -> AsyncIterator[Watched]:
        answer: Any = "a"
        yield answer


async def test_an_answer_of_another_type_is_reported_with_its_method(tmp_path: pathlib.Path) -> None:
    get, page = provider_pb2.GetExecutionRequest, provider_pb2.ListExecutionsRequest
    async with served(tmp_path, Nonsense) as peer:
        wrong = {
            "Nonsense.get returned NoneType instead of Observation": ("Provider/GetExecution", get(id="none")),
            "Nonsense.get returned dict instead of Observation": ("Provider/GetExecution", get(id="dict")),
            "Nonsense.list returned list instead of ListExecutionsResponse": (
                "Provider/ListExecutions",
                page(page_size=1),
            ),
        }
        for message, (method, request) in wrong.items():
            kind, _, found, detail = await peer.refused(method, request)
            assert (kind, found) == ("INTERNAL", f"the provider has a defect: {message}")
        ids = provider_pb2.ObserveExecutionsRequest(ids=["none"])
        answer = await peer.send("Provider/ObserveExecutions", ids, provider_pb2.ObserveExecutionsResponse)
        assert "Nonsense.get returned NoneType" in answer.results[0].error.message
        request = provider_pb2.WatchExecutionsRequest(scope=provider_pb2.WatchExecutionsRequest.ALL)
        _, _, found, _ = await peer.refused("Provider/WatchExecutions", request)
        assert found == (
            "the provider has a defect: Nonsense.watch_all yielded str instead of Observation, InSync or Gone"
        )


class NeverInSync(Jobs):
    async def watch_all(self) -> AsyncIterator[Watched]:
        yield await self.get("a", False)


async def test_a_watch_that_ends_before_it_is_in_sync_is_logged(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    request = provider_pb2.WatchExecutionsRequest(scope=provider_pb2.WatchExecutionsRequest.ALL)
    for provider, is_logged in ((Jobs, False), (NeverInSync, True)):
        caplog.clear()
        async with served(tmp_path, provider) as peer:
            watch = peer.channel.unary_stream(
                "/stateway.provider.v1.Provider/WatchExecutions",
                request_serializer=provider_pb2.WatchExecutionsRequest.SerializeToString,
                response_deserializer=provider_pb2.WatchExecutionsResponse.FromString,
            )
            with caplog.at_level(logging.WARNING):
                [response async for response in watch(request)]
        logged = "NeverInSync.watch_all ended before it yielded InSync()" in caplog.text
        assert logged == is_logged


def test_errors_at_the_start_have_one_type() -> None:
    assert issubclass(TableError, StartError)
    assert issubclass(TableError, ValueError), "the TOML parser raised a ValueError before"
