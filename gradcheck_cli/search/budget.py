"""The time that a search may take: processor time, which other programs on the machine do not
shorten, and a limit by the clock for the person who waits."""

from __future__ import annotations

import time

from gradcheck_cli.domain.search import WAIT
from gradcheck_cli.domain.thresholds import Enough, Seconds

_STEP: Enough = 0.25
"""Part of the time by the clock. A step that took longer is not expected to take as long again."""


class Budget:
    """`seconds` of this process's time from now on, within `wait` seconds by the clock (default:
    WAIT times as long)."""

    def __init__(self, seconds: Seconds, wait: Seconds | None = None) -> None:
        self._wait = WAIT * seconds if wait is None else wait
        self._looked, self._longest = time.monotonic(), 0.0
        self._work_end = time.process_time() + seconds
        self._wait_end = self._looked + self._wait

    @property
    def left(self) -> Seconds:
        """The time that is left; at most 0 if all is spent."""
        return min(self._work_end - time.process_time(), self.wait)

    @property
    def wait(self) -> Seconds:
        """The time that is left by the clock."""
        return self._wait_end - time.monotonic()

    @property
    def is_spent(self) -> bool:
        """Whether no further step should begin: the longest one between two looks at this may not
        end in time by the clock."""
        now = time.monotonic()
        self._longest, self._looked = max(self._longest, now - self._looked), now
        return self.left <= 0 or self.wait <= min(self._longest, _STEP * self._wait)

    def part(self, seconds: Seconds) -> Budget:
        """A budget of so many seconds, but not more than are left."""
        return Budget(min(seconds, self.left), min(WAIT * seconds, self.wait))
