"""The state table: what each native state means. The gateway applies it; the provider checks it when it starts."""

from __future__ import annotations

import functools
import pathlib
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from stateway.provider.start_errors import TableError
from stateway.provider.v1 import observation_pb2 as pb
from stateway.v1 import executions_pb2

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

VERSION = 1
SUB_STATES = ("running", "waiting", "backing-off", "error", "succeeded", "failed")
TERMINAL = ("succeeded", "failed")
SCOPES = ("execution", "step")
BASES = ("NATIVE", "DERIVED")
REASONS = tuple(name.removeprefix("REASON_") for name in executions_pb2.Reason.keys()[1:])

# The type of each key. Keys outside of `_OPTIONAL` are required.
TABLE_KEYS: Mapping[str, type] = {
    "version": int,
    "kind": str,
    "title": str,
    "summary": str,
    "qualifiers": dict,
    "rows": list,
}
ROW_KEYS: Mapping[str, type] = {
    "native": str,
    "sub_state": str,
    "terminal": bool,
    "source": str,
    "scope": str,
    "when": dict,
    "reason": str,
    "refine": bool,
    "basis": str,
    "note": str,
}
_OPTIONAL = frozenset({"qualifiers", "rows", "scope", "when", "reason", "refine", "basis", "note"})
_TYPE_NAMES = {int: "an integer", str: "a string", dict: "a table", list: "a list of tables", bool: "true or false"}
_CHOICES = {"sub_state": SUB_STATES, "reason": REASONS, "scope": SCOPES, "basis": BASES}
_MAX_BYTES = 256 * 1024


class StateTable:
    """A table in the format of `provider-tables/`."""

    def __init__(self, text: str) -> None:
        self.text = text

    @classmethod
    def read(cls, path: str | pathlib.Path) -> StateTable:
        """The table in a file."""
        return cls(pathlib.Path(path).read_text(encoding="utf-8"))

    @functools.cached_property
    def _content(self) -> dict[str, Any]:
        try:
            return tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            raise TableError(f"not valid TOML: {error}") from None

    def check(self) -> None:
        """Raises `TableError` if the table breaks a rule of the format. The message names the row.

        The gateway checks the table again, with the rules of its own version.
        """
        if len(self.text.encode()) > _MAX_BYTES:
            raise TableError("the table is larger than 256 KiB")
        _check_keys(self._content, TABLE_KEYS)
        if self._content["version"] != VERSION:
            found = self._content["version"]
            raise TableError(f"table version {found} is unknown; this package reads version {VERSION}")
        qualifiers = self._content.get("qualifiers", {})
        _check_texts("qualifiers", qualifiers)
        rows = self._content.get("rows", [])
        if not all(isinstance(row, dict) for row in rows):
            raise TableError("`rows` must be a list of tables")
        if not rows:
            raise TableError("the table needs at least one row")
        for position, row in enumerate(rows, 1):
            try:
                _check_row(row, qualifiers)
            except TableError as error:
                label = _label(row)
                place = f"row {position} ({label})" if label else f"row {position}"
                raise TableError(f"{place}: {error}") from None
        _check_ambiguity(rows)

    def is_final(self, observation: pb.Observation) -> bool:
        """Whether the row of the execution's native state is final. The row with most conditions applies."""
        state = observation.native_state
        rows = [
            row
            for row in self._content.get("rows", [])
            if row.get("scope", "execution") == "execution"
            and row.get("native") == state.state
            and all(state.qualifiers.get(name) == value for name, value in row.get("when", {}).items())
        ]
        best: Mapping[str, Any] = max(rows, key=lambda row: len(row.get("when", {})), default={})
        return bool(best.get("terminal", False))


def _check_keys(found: Mapping[str, Any], keys: Mapping[str, type]) -> None:
    for key in found:
        if key not in keys:
            raise TableError(f"unknown key `{key}`; known keys: {', '.join(sorted(keys))}")
    for key, wanted in keys.items():
        if key not in found:
            if key in _OPTIONAL:
                continue
            raise TableError(f"`{key}` is missing")
        # `True` is an `int` too.
        if type(found[key]) is not wanted:
            raise TableError(f"`{key}` must be {_TYPE_NAMES[wanted]}")


def _check_texts(key: str, texts: Mapping[str, Any]) -> None:
    for name, text in texts.items():
        if not isinstance(text, str):
            raise TableError(f"`{key}.{name}` must be a string")


def _check_row(row: Mapping[str, Any], qualifiers: Iterable[str]) -> None:
    _check_keys(row, ROW_KEYS)
    for key in ("native", "source"):
        if not row[key]:
            raise TableError(f"`{key}` is empty")
    for key, words in _CHOICES.items():
        if key in row and row[key] not in words:
            raise TableError(f"`{key}` is `{row[key]}`; use one of {', '.join(words)}")
    is_terminal = row["sub_state"] in TERMINAL
    if row["terminal"] != is_terminal:
        word = "true" if is_terminal else "false"
        raise TableError(f"`terminal` must be {word}, because `sub_state` is `{row['sub_state']}`")
    if is_terminal and row.get("refine", False):
        raise TableError("a row with `terminal = true` cannot have `refine = true`")
    when = row.get("when", {})
    _check_texts("when", when)
    for name in when:
        if name not in qualifiers:
            raise TableError(f"qualifier `{name}` is not declared under [qualifiers]")


def _check_ambiguity(rows: list[dict[str, Any]]) -> None:
    for second, row in enumerate(rows):
        for first, earlier in enumerate(rows[:second]):
            if _may_both_apply(earlier, row):
                places = f"rows {first + 1} and {second + 1} ({_label(row)})"
                raise TableError(f"{places} can both apply, and neither is more specific")


def _may_both_apply(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Rows of one state with equally many qualifiers must have different values of a common qualifier."""
    when, other_when = one.get("when", {}), other.get("when", {})
    return (
        one.get("scope", "execution") == other.get("scope", "execution")
        and one["native"] == other["native"]
        and len(when) == len(other_when)
        and not any(name in other_when and other_when[name] != value for name, value in when.items())
    )


def _label(row: Mapping[str, Any]) -> str:
    """The native state and the qualifiers of a row, also of a row that breaks a rule."""
    native, when = row.get("native", ""), row.get("when", {})
    if not isinstance(when, dict) or not when:
        return str(native)
    return f"{native} ({', '.join(f'{name} = {value}' for name, value in sorted(when.items()))})"
