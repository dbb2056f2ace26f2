"""Reports in the log that the gateway is away, without a line for each retry."""

from __future__ import annotations

import logging
import time

from stateway.errors import StatewayError

# Seconds between two reports of one outage.
_INTERVAL = 30.0


class Outage:
    """Logs the first failure of an outage, then one line every 30 seconds."""

    def __init__(self, log: logging.Logger, subject: str) -> None:
        self._log = log
        self._subject = subject
        self._next_report: float | None = None

    def report(self, error: StatewayError) -> None:
        """A try failed, and another one follows."""
        now = time.monotonic()
        if self._next_report is None or now >= self._next_report:
            self._next_report = now + _INTERVAL
            self._log.warning("%s: %s; retrying", self._subject, error.message)

    def end(self) -> bool:
        """A try succeeded. Returns whether an outage was reported before."""
        was_reported = self._next_report is not None
        self._next_report = None
        return was_reported
