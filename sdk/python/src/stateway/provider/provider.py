"""The base class of providers: one method per verb, capabilities from the methods that a subclass has."""

from __future__ import annotations

import pathlib
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, Union

from stateway.provider.errors import unsupported
from stateway.provider.table import StateTable
from stateway.provider.v1 import observation_pb2, provider_pb2

Observation: TypeAlias = observation_pb2.Observation


@dataclass(frozen=True)
class Health:
    """How the engine is."""

    engine_version: str = ""
    # One line for an operator.
    detail: str = ""


@dataclass(frozen=True)
class Gone:
    """An execution that the engine no longer has."""

    id: str


@dataclass(frozen=True)
class InSync:
    """Everything that existed when the watch was opened has been reported."""


Watched: TypeAlias = Union[Observation, Gone, InSync]

# Which methods a capability consists of.
VERBS: Mapping[str, tuple[str, ...]] = {
    "start": ("start",),
    "list": ("list",),
    "count": ("count",),
    "history": ("history",),
    "watch_all": ("watch_all",),
    "watch_one": ("watch_one",),
    "watch_end": ("watch_end",),
    "signal": ("signal",),
    "cancel": ("cancel",),
    "kill": ("kill",),
    "pause": ("pause",),
    "resume": ("resume",),
    "retry_now": ("retry_now",),
    "retry_from": ("retry_from",),
    "purge": ("purge",),
    "definitions": ("list_definitions", "get_definition"),
    "apply_definition": ("apply_definition", "validate_definition"),
}

DECLARED = frozenset(
    {
        "start_idempotent",
        "start_delayed",
        "list_hints",
        "history_newest_first",
        "signal_idempotent",
        "cancel_compensation",
        "retry_now_idempotent",
        "retry_from_idempotent",
        "steps",
        "retries",
        "payloads",
        "labels",
    }
)
"""Capabilities that no method shows; a subclass lists those that it has in `declares`."""


class Provider:
    """An adapter to one workflow engine.

    Implement `get` and every verb that the engine supports; a verb that is not implemented is a capability
    that the provider does not have. Methods are `async def`, or plain `def` where they block: those run in
    threads. A provider reports what the engine shows and never a sub-state. It raises `ProviderError`.

    The base class refuses labels, delays, options, choices about compensation and arguments of `retry_from`
    that the provider does not declare, ends every call at its deadline, and leaves payloads out where the
    contract forbids them.
    """

    name: str = "provider"
    """The name of the program, for example `acme-jobs`."""
    version: str = ""
    """The version of the program."""
    table: str | pathlib.Path
    """The file with the state table."""
    declares: frozenset[str] = frozenset()
    """The capabilities of `DECLARED` that the provider has."""
    options: frozenset[str] = frozenset()
    """The names of the options that `start` takes."""
    retry_from_takes: frozenset[str] = frozenset()
    """What `retry_from` takes of `input`, `feedback`, `from_start` and `execution_id`."""

    @classmethod
    def capabilities(cls) -> list[str]:
        """What the provider can do."""
        unknown = cls.declares - DECLARED
        if unknown:
            raise TypeError(f"{cls.__name__} declares unknown capabilities: {sorted(unknown)}")
        return sorted({name for name, verbs in VERBS.items() if cls._has(name, verbs)} | cls.declares)

    @classmethod
    def _has(cls, name: str, verbs: tuple[str, ...]) -> bool:
        own = [verb for verb in verbs if getattr(cls, verb) is not getattr(Provider, verb)]
        if own and len(own) < len(verbs):
            raise TypeError(f"{cls.__name__} has {own}, and the capability `{name}` needs {list(verbs)}")
        return bool(own)

    def state_table(self) -> StateTable:
        """The state table, read again for every description."""
        return StateTable.read(self.table)

    async def close(self) -> None:
        """Called when the provider stops."""

    def health(self) -> Awaitable[Health] | Health:
        """Asks the engine whether it works. Called every few seconds."""
        return Health()

    def get(self, id: str, full: bool) -> Awaitable[Observation] | Observation:
        """Reads one execution; with `full` also its input and output. An unknown one is NOT_FOUND."""
        raise NotImplementedError("a provider implements `get`")

    def start(self, request: provider_pb2.StartExecutionRequest) -> Awaitable[Observation] | Observation:
        """Starts an execution."""
        raise unsupported("start")

    def list(
        self, request: provider_pb2.ListExecutionsRequest
    ) -> Awaitable[provider_pb2.ListExecutionsResponse] | provider_pb2.ListExecutionsResponse:
        """Lists executions, newest first where the engine can."""
        raise unsupported("list")

    def count(
        self,
    ) -> Awaitable[Iterable[provider_pb2.ExecutionGroup]] | Iterable[provider_pb2.ExecutionGroup]:
        """Counts all executions, in groups that show the same state. The example of a group stands for each of
        its executions; its id may be empty."""
        raise unsupported("count")

    def history(
        self, request: provider_pb2.ListEventsRequest
    ) -> Awaitable[provider_pb2.ListEventsResponse] | provider_pb2.ListEventsResponse:
        """Returns a page of the history of an execution."""
        raise unsupported("history")

    def watch_all(self) -> AsyncIterator[Watched]:
        """Every execution as it is now, then `InSync`, then changes."""
        raise unsupported("watch_all")

    def watch_one(self, id: str) -> AsyncIterator[Watched]:
        """One execution as it is now, then `InSync`, then changes. Ends after the finished execution."""
        raise unsupported("watch_one")

    def watch_end(self, id: str) -> AsyncIterator[Watched]:
        """The finished execution, or `Gone`; nothing else is needed. The execution may have finished already.

        `get` is called before, so that an unknown execution is refused.
        """
        raise unsupported("watch_end")

    def signal(self, request: provider_pb2.SignalExecutionRequest) -> Awaitable[Observation] | Observation:
        """Sends a signal."""
        raise unsupported("signal")

    def cancel(self, request: provider_pb2.CancelExecutionRequest) -> Awaitable[Observation] | Observation:
        """Cancels an execution, which may clean up first."""
        raise unsupported("cancel")

    def kill(self, request: provider_pb2.CancelExecutionRequest) -> Awaitable[Observation] | Observation:
        """Ends an execution immediately."""
        raise unsupported("kill")

    def pause(self, request: provider_pb2.PauseExecutionRequest) -> Awaitable[Observation] | Observation:
        """Pauses an execution."""
        raise unsupported("pause")

    def resume(self, request: provider_pb2.ResumeExecutionRequest) -> Awaitable[Observation] | Observation:
        """Resumes an execution that is paused or stuck."""
        raise unsupported("resume")

    def retry_now(self, request: provider_pb2.RetryNowRequest) -> Awaitable[Observation] | Observation:
        """Makes the next attempt now."""
        raise unsupported("retry_now")

    def retry_from(self, request: provider_pb2.RetryFromRequest) -> Awaitable[Observation] | Observation:
        """Runs an execution again from a step on."""
        raise unsupported("retry_from")

    def purge(self, request: provider_pb2.PurgeExecutionRequest) -> Awaitable[None] | None:
        """Removes the record of a finished execution."""
        raise unsupported("purge")

    def list_definitions(
        self, request: provider_pb2.ListDefinitionsRequest
    ) -> Awaitable[provider_pb2.ListDefinitionsResponse] | provider_pb2.ListDefinitionsResponse:
        """Lists the definitions of the engine."""
        raise unsupported("definitions")

    def get_definition(
        self, request: provider_pb2.GetDefinitionRequest
    ) -> Awaitable[provider_pb2.Definition] | provider_pb2.Definition:
        """Reads one definition of the engine."""
        raise unsupported("definitions")

    def apply_definition(
        self, request: provider_pb2.ApplyDefinitionRequest
    ) -> Awaitable[provider_pb2.Definition] | provider_pb2.Definition:
        """Creates a definition or a new revision of it."""
        raise unsupported("apply_definition")

    def validate_definition(
        self, request: provider_pb2.ValidateDefinitionRequest
    ) -> (
        Awaitable[provider_pb2.ValidateDefinitionResponse] | provider_pb2.ValidateDefinitionResponse
    ):
        """Asks the engine whether it would accept a definition."""
        raise unsupported("apply_definition")
