"""The time that a search may take: processor time, which other programs on the machine do not
shorten, and a limit for whoever waits."""

from __future__ import annotations

import time

from gradcheck_cli.domain.search import WAIT
from gradcheck_cli.domain.thresholds import Seconds


class Budget:
    """`seconds` of this process from now on, within `WAIT` times as long by the clock."""

    def __init__(self, seconds: Seconds) -> None:
        self._work_end = time.process_time() + seconds
        self._wait_end = time.monotonic() + WAIT * seconds

    @property
    def left(self) -> Seconds:
        """What may still be used; at most 0 where all is spent."""
        waits = (self._wait_end - time.monotonic()) / WAIT
        return min(self._work_end - time.process_time(), waits)

    @property
    def is_spent(self) -> bool:
        return self.left <= 0

    def part(self, seconds: Seconds) -> Budget:
        """So many seconds, and not more than are left."""
        return Budget(min(seconds, self.left))
