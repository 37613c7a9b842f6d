"""The workers of a run: a crew for each engine."""

from __future__ import annotations

import math
import os
import queue
from functools import cache
from pathlib import Path

from gradcheck_cli.domain.placement import HOST, Placement
from gradcheck_cli.run.workers.crew import Crew
from gradcheck_cli.run.workers.keeper import How
from gradcheck_cli.run.workers.task import Done, Imported, SoFar, Task


class Pool:
    """Runs tasks on worker processes. Their messages arrive in `results` as Imported, SoFar and
    Done.

    Each engine has up to `jobs` workers. Without that number, at most as many workers are busy as
    there are processors, one per engine. Workers run in `folder`, or in the working folder of this
    process. After `close` and `kill` the pool is empty, and `start` starts new workers.
    """

    def __init__(
        self, jobs: int | None = None, show_output: bool = False, folder: str | None = None
    ) -> None:
        self.results: queue.SimpleQueue[Imported | SoFar | Done] = queue.SimpleQueue()
        self._jobs = jobs
        self._show_output = show_output
        self._folder = folder
        self._crews: dict[tuple[str, Placement], Crew] = {}

    @property
    def most(self) -> int:
        """How many workers one engine may have."""
        return self._jobs or cores()

    def start(self, engine: str, target: str, placement: Placement = HOST) -> None:
        """Starts the first worker for `engine`, whose class is "module:Class", unless it was
        started before. Each placement has its own workers, because a framework cannot undo its
        set-up for a device.

        Workers import at the same time, so the sooner they are all started the better.
        """
        if (engine, placement) not in self._crews:
            how = How(engine, target, placement, self._show_output, self._folder)
            self._crews[engine, placement] = Crew(how, self.results, self._may_grow)

    def submit(self, task: Task) -> None:
        self._crews[task.engine, task.placement].submit(task)

    def forget(self, group: object) -> None:
        """Notes that no more questions about the group will come."""
        for crew in self._crews.values():
            crew.forget(group)

    def close(self) -> None:
        """Ends all workers in good order. Every task must be done."""
        for crew in self._crews.values():
            crew.finish()
        self._empty()

    def kill(self) -> None:
        """Ends all workers at once. Tasks under way are lost."""
        for crew in self._crews.values():
            crew.kill()
        self._empty()

    def _may_grow(self, workers: int) -> bool:
        """Whether an engine with this many workers may have another."""
        if self._jobs:
            return workers < self._jobs
        return sum(crew.at_work for crew in list(self._crews.values())) < cores()

    def _empty(self) -> None:
        """Waits until all workers have ended. Workers that are started later are independent of
        them, and receive none of the old answers."""
        ended, self._crews = self._crews, {}
        self.results = queue.SimpleQueue()
        for crew in ended.values():
            crew.join()


@cache
def cores() -> int:
    """The number of processors that this process may use, limited by its container."""
    mine = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        mine = len(os.sched_getaffinity(0))
    return max(1, math.ceil(min(mine, _cpu_limit())))


def _cpu_limit(file: Path = Path("/sys/fs/cgroup/cpu.max")) -> float:
    """The processors of the container (cgroup v2): "QUOTA PERIOD", or "max PERIOD" without a
    limit."""
    try:
        quota, period = file.read_text().split()
        return int(quota) / int(period)
    except (OSError, ValueError):
        return math.inf
