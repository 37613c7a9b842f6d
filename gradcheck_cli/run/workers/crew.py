"""The workers of one engine. They share a queue, and further workers are started if that pays
off."""

from __future__ import annotations

import heapq
import queue
import threading
from collections.abc import Callable
from typing import Any

from gradcheck_cli.run.workers import memory
from gradcheck_cli.run.workers.keeper import How, Keeper
from gradcheck_cli.run.workers.task import Done, Imported, SoFar, Task

USUAL_IMPORT_S = 2.0  # of a framework, until the first worker says what it took
USUAL_TASK_S = 0.02  # a small layer in one dtype, until tasks were done
USUAL_BYTES = 1e9  # more than any of the frameworks holds after a small layer

_Waiting = tuple[tuple[int, int], Task]


class Crew:
    """The workers of one engine and their queue.

    The worker that takes the first task of a group does the whole group, in order. The state that a
    spec meets in its worker therefore does not depend on the number of workers. Another worker is
    started if the waiting tasks take longer than its start would save (`_pays`).
    """

    def __init__(
        self,
        how: How,
        results: queue.SimpleQueue[Imported | SoFar | Done],
        may_grow: Callable[[int], bool],
    ) -> None:
        self._how = how
        self._results = results
        self._may_grow = may_grow
        self._changed = threading.Condition()
        self._keepers: list[Keeper] = []
        self._shared: list[_Waiting] = []  # heaps
        self._owned: dict[Keeper, list[_Waiting]] = {}
        self._owners: dict[Any, Keeper] = {}
        self._count = 0
        self._finishing = False
        self._killed = False
        self._growing = True
        self._announced = False
        self._import_s = USUAL_IMPORT_S
        self._done = 0
        self._spent_s = 0.0
        with self._changed:
            self._hire()

    @property
    def at_work(self) -> int:
        """How many workers have something to do."""
        busy = self._count > self._done
        return len(self._keepers) if busy else 0

    def submit(self, task: Task) -> None:
        with self._changed:
            self._count += 1  # first in, first out within a priority
            waiting = ((task.priority, self._count), task)
            owner = self._owners.get(task.group)
            heapq.heappush(self._shared if owner is None else self._owned[owner], waiting)
            self._grow()
            self._changed.notify_all()

    def take(self, keeper: Keeper) -> Task | None:
        """The next task for a worker, or None if there will be no more. Blocks."""
        with self._changed:
            while True:
                if self._killed:
                    return None
                task = self._next_task(keeper)
                if task is not None or self._finishing:
                    return task
                self._changed.wait()

    def so_far(self, known: SoFar) -> None:
        """Passes on the part of an answer that is already known."""
        if not self._killed:
            self._results.put(known)

    def done(self, done: Done) -> None:
        """Passes an answer on."""
        with self._changed:
            if self._killed:
                return
            self._done += 1
            self._spent_s += done.seconds
            self._results.put(done)
            self._grow()

    def ready(self, message: Imported) -> None:
        """Notes that a worker is ready. The first one is announced."""
        with self._changed:
            self._import_s = message.seconds
            announced, self._announced = self._announced, True
        if not announced and not self._killed:
            self._results.put(message)

    def leave(self, keeper: Keeper, task: Task | None = None) -> bool:
        """Removes a worker that cannot be started again, together with its current task. The other
        workers get its tasks. Returns False if there are no others."""
        with self._changed:
            if len(self._keepers) == 1:
                return False
            self._growing = False  # another would not start either
            self._keepers.remove(keeper)
            for waiting in self._owned.pop(keeper):
                heapq.heappush(self._shared, waiting)
            if task is not None:
                heapq.heappush(self._shared, ((task.priority, 0), task))
            self._owners = {g: owner for g, owner in self._owners.items() if owner is not keeper}
            self._changed.notify_all()
            return True

    def forget(self, group: object) -> None:
        with self._changed:
            owner = self._owners.pop(group, None)
        if owner is not None:
            owner.forget(group)

    def finish(self) -> None:
        with self._changed:
            self._finishing, self._growing = True, False
            needed = 1 if self._count else 0  # the first one takes what nobody has taken
            late = [keeper for keeper in self._keepers[needed:] if not keeper.is_ready]
            self._changed.notify_all()
        for keeper in late:  # nobody needs them
            keeper.kill()

    def kill(self) -> None:
        with self._changed:
            self._killed = True
            keepers = list(self._keepers)
            self._changed.notify_all()
        for keeper in keepers:
            keeper.kill()

    def join(self) -> None:
        for keeper in list(self._keepers):
            keeper.join()

    def _next_task(self, keeper: Keeper) -> Task | None:
        """The first task that belongs to this worker or to none. Tasks of other workers go to
        them."""
        mine = self._owned[keeper]
        while self._shared:
            owner = self._owners.get(self._shared[0][1].group, keeper)
            if owner is keeper:
                break
            heapq.heappush(self._owned[owner], heapq.heappop(self._shared))
            self._changed.notify_all()
        heap = min((h for h in (mine, self._shared) if h), key=lambda h: h[0][0], default=None)
        if heap is None:
            return None
        task = heapq.heappop(heap)[1]
        self._owners[task.group] = keeper
        return task

    def _grow(self) -> None:
        while self._growing and self._pays() and self._fits():
            self._hire()

    def _pays(self) -> bool:
        """Whether another worker shortens the run. W workers need R / W for tasks of R seconds.
        With one more, which takes S to start, they need (R + S) / (W + 1), which is less if R > W
        S."""
        task_s = self._spent_s / self._done if self._done else USUAL_TASK_S
        waiting = sum(task.expected or task_s for _, task in self._shared)
        return waiting > len(self._keepers) * self._import_s

    def _fits(self) -> bool:
        """Whether another worker is allowed, and memory is left for twice the largest worker."""
        if not self._may_grow(len(self._keepers)):
            return False
        largest = max(keeper.held_bytes for keeper in self._keepers) or USUAL_BYTES
        return memory.available() > 2 * largest

    def _hire(self) -> None:
        keeper = Keeper(self, self._how)
        self._keepers.append(keeper)
        self._owned[keeper] = []
        keeper.start()
