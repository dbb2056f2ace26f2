"""The base class of providers: one method per verb, capabilities from the methods that a subclass has."""

from __future__ import annotations

import difflib
import inspect
import pathlib
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeAlias, Union

from stateway.provider.errors import unsupported
from stateway.provider.start_errors import ClassError, TableError
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


def _instead_of(name: str) -> str:
    """What to do about a name in `declares` that is not in `DECLARED`."""
    if name in VERBS:
        methods = " and ".join(f"`{verb}`" for verb in VERBS[name])
        return f"; implement the method{'s' if len(VERBS[name]) > 1 else ''} {methods} instead"
    similar = difflib.get_close_matches(name, DECLARED, 1)
    meant = f"; did you mean `{similar[0]}`?" if similar else "."
    return f", which is unknown{meant} Known: {', '.join(sorted(DECLARED))}"


def _takes(method: object, count: int) -> bool:
    """Whether a method can be called with this many arguments. A method without a signature is not refused."""
    try:
        signature = inspect.signature(method)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


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
        declared: object = cls.declares
        if not isinstance(declared, AbstractSet):
            found = type(declared).__name__
            raise ClassError(
                f'{cls.__name__}.declares must be a set of names, for example {{"labels"}}, not a {found}'
            )
        for name in sorted(cls.declares - DECLARED):
            raise ClassError(f"{cls.__name__}.declares has `{name}`{_instead_of(name)}")
        return sorted({name for name, verbs in VERBS.items() if cls._has(name, verbs)} | cls.declares)

    @classmethod
    def _has(cls, name: str, verbs: tuple[str, ...]) -> bool:
        missing = [verb for verb in verbs if not cls._implements(verb)]
        if missing and len(missing) < len(verbs):
            needed = " and ".join(f"`{verb}`" for verb in verbs)
            raise ClassError(
                f"{cls.__name__} does not implement `{missing[0]}`; the capability `{name}` needs {needed}"
            )
        return not missing

    @classmethod
    def _implements(cls, verb: str) -> bool:
        return getattr(cls, verb) is not getattr(Provider, verb)

    def check(self) -> None:
        """Raises `StartError` for mistakes that would break calls. A server checks its provider when it starts."""
        own = type(self).__name__
        if not self._implements("get"):
            raise ClassError(f"{own} does not implement `get`; every provider needs `get(self, id, full)`")
        self.capabilities()
        verbs = [verb for verbs in VERBS.values() for verb in verbs]
        for verb in filter(self._implements, ("get", "health", *verbs)):
            parameters = list(inspect.signature(getattr(Provider, verb)).parameters)
            if not _takes(getattr(self, verb), len(parameters) - 1):
                raise ClassError(f"{own}.{verb} takes other arguments than `{verb}({', '.join(parameters)})`")
            if verb.startswith("watch_") and inspect.iscoroutinefunction(getattr(self, verb)):
                raise ClassError(f"{own}.{verb} must be an asynchronous generator: `async def` with `yield`")
        self._check_table()

    def _check_table(self) -> None:
        path = getattr(self, "table", None)
        if not isinstance(path, (str, pathlib.Path)):
            if type(self).state_table is Provider.state_table:
                raise ClassError(f"{type(self).__name__}.table must be the path of the file with the state table")
            path = "state_table()"
        try:
            self.state_table().check()
        except OSError as error:
            raise TableError(f"state table `{path}`: cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise TableError(f"state table `{path}`: {error}") from None

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
