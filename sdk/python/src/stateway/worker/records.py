"""The tasks of a worker: ready, running, or answered and not yet acknowledged.

Bookkeeping only: nothing here waits, sends or runs. A token names at most one record, so a task that
arrives twice runs once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stateway.v1 import workers_pb2 as pb


@dataclass
class Ready:
    """The task has arrived and has not begun."""

    arrival: int


@dataclass
class Running:
    """A handler works on the task."""

    arrival: int


@dataclass
class Answered:
    """The answer is kept until the gateway has stored or refused it."""

    answer: pb.StreamTasksRequest


Place = Ready | Running | Answered


@dataclass(frozen=True)
class Begun:
    """A task to begin with."""

    # Distinguishes this run from a later one with the same token.
    arrival: int
    task: pb.Task


class TaskRecords:
    """The tasks that a worker has, by their tokens."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._busy = 0
        self._arrivals = 0
        self._ready: deque[tuple[int, pb.Task]] = deque()
        self._places: dict[str, Place] = {}

    @property
    def busy(self) -> int:
        """The number of running handlers, those of withdrawn tasks included."""
        return self._busy

    @property
    def is_clear(self) -> bool:
        """Whether no handler runs and every answer is acknowledged."""
        return self._busy == 0 and not self._places

    def take(self, task: pb.Task) -> None:
        """Takes a task, unless it is here already."""
        if task.task_token in self._places:
            return
        self._arrivals += 1
        self._places[task.task_token] = Ready(self._arrivals)
        self._ready.append((self._arrivals, task))

    def begin(self) -> Begun | None:
        """The next task to begin with, if a handler is free."""
        while self._busy < self._capacity and self._ready:
            arrival, task = self._ready.popleft()
            if self._places.get(task.task_token) != Ready(arrival):
                continue
            self._places[task.task_token] = Running(arrival)
            self._busy += 1
            return Begun(arrival, task)
        return None

    def finish(self, arrival: int, token: str, answer: pb.StreamTasksRequest) -> bool:
        """Stores the answer of a handler that has ended. Whether the answer is still wanted."""
        self._busy -= 1
        if self._places.get(token) != Running(arrival):
            return False
        self._places[token] = Answered(answer)
        return True

    def settle(self, token: str) -> None:
        """The gateway has stored the answer or refused it."""
        if isinstance(self._places.get(token), Answered):
            del self._places[token]

    def cancel(self, token: str) -> bool:
        """The task should be stopped, and its answer is still wanted.

        Whether the task had not begun: then it is removed and must be given back.
        """
        if isinstance(self._places.get(token), Ready):
            del self._places[token]
            return True
        return False

    def withdraw(self, token: str) -> bool:
        """The task need not be done any more. Whether its handler runs and must be stopped.

        An answer that is on its way stays: the gateway accepts or refuses it.
        """
        place = self._places.get(token)
        if isinstance(place, (Ready, Running)):
            del self._places[token]
        return isinstance(place, Running)

    def running(self, token: str) -> int | None:
        """The arrival of the task if a handler works on it."""
        place = self._places.get(token)
        return place.arrival if isinstance(place, Running) else None

    def unacknowledged(self) -> Iterator[pb.StreamTasksRequest]:
        """The answers that the gateway has not acknowledged."""
        return (place.answer for place in list(self._places.values()) if isinstance(place, Answered))

    def give_back_ready(self) -> list[str]:
        """Removes the tasks that have not begun, and returns their tokens."""
        self._ready.clear()
        return self._give_back(lambda place: isinstance(place, Ready))

    def give_back_running(self) -> list[str]:
        """Removes the tasks that have begun and are not answered, and returns their tokens."""
        return self._give_back(lambda place: isinstance(place, Running))

    def _give_back(self, which: Callable[[Place], bool]) -> list[str]:
        tokens = [token for token, place in self._places.items() if which(place)]
        for token in tokens:
            del self._places[token]
        return tokens
