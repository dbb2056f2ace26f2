"""What a test build of a provider offers to `stateway conformance`: scenes, faults and restarts."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stateway.provider.v1 import staging_pb2
from stateway.types import SubState


class CannotStage(Exception):
    """The engine cannot show this. The message is the reason that the report prints for the skipped tests."""


@dataclass(frozen=True)
class Workload:
    """Something that the tests may start: it stays open until it is ended."""

    definition: str
    input: Any
    other_input: Any
    # An input that `retry_from` takes for the step it begins with, if it takes one.
    step_input: Any = None


class Staging:
    """Brings the engine into states that tests need. Implement the scenes that the engine can show."""

    restartable: bool = False
    """Whether the engine keeps its executions when the provider is replaced by a new one."""

    def reset(self) -> Awaitable[Workload] | Workload:
        """Makes the engine empty, and returns what the tests may start."""
        raise NotImplementedError("a staging service implements `reset`")

    def execution_state(self, state: str, qualifiers: Mapping[str, str]) -> Awaitable[str] | str:
        """An execution in this native state. Returns its id, as all methods below."""
        raise CannotStage("the provider does not stage native states of executions")

    def step_state(self, state: str, qualifiers: Mapping[str, str]) -> Awaitable[str] | str:
        """An open execution with a step in this native state."""
        raise CannotStage("the provider does not stage native states of steps")

    def open_steps(self, states: Sequence[SubState]) -> Awaitable[str] | str:
        """An open execution whose open steps show these states."""
        raise CannotStage("the provider does not stage several open steps")

    def no_metadata(self) -> Awaitable[str] | str:
        """An open execution of which the engine shows no attempts."""
        raise CannotStage("the engine shows attempts of every execution")

    def backing_off(self, attempt: int) -> Awaitable[str] | str:
        """This attempt has failed and another one is scheduled, far from now."""
        raise CannotStage("the engine does not show attempts")

    def awaiting_signal(self, signal: str) -> Awaitable[str] | str:
        """Waits for a signal, twice one after the other."""
        raise CannotStage("the engine does not show which signal it waits for")

    def stuck(self) -> Awaitable[str] | str:
        """Stuck: only a resume helps."""
        raise CannotStage("executions of this engine are never stuck")

    def cleans_up(self) -> Awaitable[str] | str:
        """Takes a while to clean up when it is cancelled."""
        raise CannotStage("executions of this engine do not clean up")

    def succeeded(self) -> Awaitable[str] | str:
        """Finished, and the work was done."""
        raise CannotStage("the provider does not stage successes")

    def failed(self) -> Awaitable[str] | str:
        """Finished, and the work was not done: step `first` succeeded, then step `second` failed."""
        raise CannotStage("the provider does not stage failures")

    def stage(self, scene: staging_pb2.Scene) -> Awaitable[str] | str:
        """Chooses the method for a scene."""
        kind = scene.WhichOneof("scene")
        if kind == "native":
            native = scene.native.native_state
            is_step = scene.native.scope == staging_pb2.NativeScene.STEP
            show = self.step_state if is_step else self.execution_state
            return show(native.state, dict(native.qualifiers))
        if kind == "steps":
            return self.open_steps([SubState(state) for state in scene.steps.sub_states])
        if kind == "backing_off":
            return self.backing_off(scene.backing_off.attempt)
        if kind == "awaiting_signal":
            return self.awaiting_signal(scene.awaiting_signal.signal)
        plain = {
            "no_metadata": self.no_metadata,
            "stuck": self.stuck,
            "cleans_up": self.cleans_up,
            "succeeded": self.succeeded,
            "failed": self.failed,
        }
        if kind not in plain:
            raise CannotStage(f"the provider does not know the scene `{kind}`")
        return plain[kind]()
