"""How long to wait before the next try, and after how many tries to stop."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class BackOff:
    """Pauses that double up to a limit. Times are seconds."""

    first: float
    longest: float
    # The most tries after the first one.
    most: int

    def pause(self, retry: int, asked: float | None, spread: float) -> float | None:
        """The pause before retry number `retry` (from 1), or none after the last one.

        A pause that the gateway asks for is never shortened. `spread` from 0 to 1 shortens the pause by up
        to a half, so that many clients do not reconnect at the same moment.
        """
        if retry > self.most:
            return None
        full = min(self.first * (1 << min(retry - 1, 16)), self.longest)
        return max(full - full * spread / 2, asked or 0.0)

    def spread_pause(self, retry: int, asked: float | None = None) -> float | None:
        """`pause` with a random spread."""
        return self.pause(retry, asked, random.random())


CALL = BackOff(first=0.1, longest=2.0, most=3)
"""For single calls: the caller waits, so the pauses are short."""

WATCH = BackOff(first=0.1, longest=5.0, most=12)
"""For watches, and for waits on an engine that is away: long enough for a restart of the gateway."""

WAIT = BackOff(first=0.1, longest=2.0, most=2**31)
"""For waits whose gateway went away: a wait ends at its own deadline."""

WORKER = BackOff(first=0.05, longest=2.0, most=2**31)
"""For workers: a worker waits for its gateway as long as it takes."""
