"""The state table: what each native state means. The gateway applies and checks it; this module only reads it."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

from stateway.provider.v1 import observation_pb2 as pb

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class StateTable:
    """A table in the format of `provider-tables/`."""

    def __init__(self, text: str) -> None:
        self.text = text
        rows: list[dict[str, Any]] = tomllib.loads(text).get("rows", [])
        self._executions = [row for row in rows if row.get("scope", "execution") == "execution"]

    @classmethod
    def read(cls, path: str | pathlib.Path) -> StateTable:
        """The table in a file."""
        return cls(pathlib.Path(path).read_text(encoding="utf-8"))

    def is_final(self, observation: pb.Observation) -> bool:
        """Whether the row of the execution's native state is final. The row with most conditions applies."""
        state = observation.native_state
        rows = [
            row
            for row in self._executions
            if row.get("native") == state.state
            and all(state.qualifiers.get(name) == value for name, value in row.get("when", {}).items())
        ]
        best = max(rows, key=lambda row: len(row.get("when", {})), default={})
        return bool(best.get("terminal", False))
