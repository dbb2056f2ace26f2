"""What a worker has to send, in order, however slowly the gateway reads.

The outbox holds at most one message per task beside the offer and one sign of life. An answer or a release
replaces the heartbeat of its task, and a newer heartbeat replaces an older one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable

from stateway.v1 import workers_pb2 as pb

MOST_MESSAGES = 65_536
"""More than any gateway hands out to one worker. Beyond that the session ends."""

_Key = tuple[str, str]


class Outbox:
    """The messages of one session that wait to be sent."""

    def __init__(self) -> None:
        self._messages: OrderedDict[_Key, pb.StreamTasksRequest] = OrderedDict()
        self._changed = asyncio.Event()
        self._sent = 0
        self._closed = False
        self.overflowed = False

    def send(self, message: pb.StreamTasksRequest) -> None:
        """Sends a message after those that wait. What it replaces is not sent any more."""
        if self._closed:
            return
        if len(self._messages) >= MOST_MESSAGES:
            self.overflowed = True
            self._messages.clear()
            self.close()
            return
        key, replaced = self._keys(message)
        if replaced is not None:
            self._messages.pop(replaced, None)
        self._messages[key] = message
        self._changed.set()

    def release(self, tokens: Iterable[str], *, begun: bool) -> None:
        """Gives tasks back."""
        for token in tokens:
            released = pb.TaskReleased(task_token=token, begun=begun)
            self.send(pb.StreamTasksRequest(released=released))

    def close(self) -> None:
        """Lets `next` end after the messages that wait."""
        self._closed = True
        self._changed.set()

    async def next(self) -> pb.StreamTasksRequest | None:
        """The next message; none after the outbox was closed and is empty."""
        while not self._messages:
            if self._closed:
                return None
            self._changed.clear()
            await self._changed.wait()
        _, message = self._messages.popitem(last=False)
        return message

    def _keys(self, message: pb.StreamTasksRequest) -> tuple[_Key, _Key | None]:
        """Under which key a message waits, and which other key it replaces."""
        kind = message.WhichOneof("message")
        if kind == "offer":
            return ("offer", ""), None
        if kind == "heartbeat":
            return ("heartbeat", message.heartbeat.task_token), None
        self._sent += 1
        return ("answer", str(self._sent)), ("heartbeat", token_of(message))


def token_of(message: pb.StreamTasksRequest) -> str:
    """The token of the task that a message is about."""
    kind = message.WhichOneof("message")
    return "" if kind in (None, "offer") else str(getattr(message, kind).task_token)
