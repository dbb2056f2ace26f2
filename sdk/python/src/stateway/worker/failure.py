"""How a task fails."""

from __future__ import annotations

from datetime import timedelta

from stateway.types import Category


class TaskError(Exception):
    """Raised by a handler to fail its task.

    Any other exception fails the task as `AGENT_ERROR`.
    """

    def __init__(
        self,
        message: str,
        category: Category = Category.AGENT_ERROR,
        *,
        code: str = "",
        retry_after: timedelta | None = None,
        no_retry: bool = False,
        effects_unknown: bool = False,
    ) -> None:
        """`retry_after` is the shortest time before the next attempt. With `no_retry` the step is not retried,
        whatever its policy. With `effects_unknown` the attempt may have taken effect although it failed,
        so that a rollback compensates the step.
        """
        super().__init__(message)
        self.message = str(message)
        self.category = category
        self.code = code
        self.retry_after = retry_after
        self.no_retry = no_retry
        self.effects_unknown = effects_unknown
