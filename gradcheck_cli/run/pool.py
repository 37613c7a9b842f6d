"""The workers of a run: one thread for each engine here, one process for each engine there."""

from __future__ import annotations

import math
import queue
import threading
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import field
from typing import Any

from gradcheck_cli.domain.evaluation import Failure
from gradcheck_cli.domain.placement import HOST, Placement
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.engines.tracebacks import short_dump
from gradcheck_cli.run import channel
from gradcheck_cli.run.process import Died, Process, Spent, TimedOut, TookTooMuch
from gradcheck_cli.run.replies import answering

IMPORT_LIMIT_S = 300.0  # a cold disk may need a minute for a framework; a hung import must end
SECOND_CHANCE = 0.5  # of the time that each task of a group had before one of them hung
_HOPELESS_HANGS = 2
_IMPORT_ATTEMPTS = 2  # a worker that dies twice before it is ready would die again
_LAST = (1 << 62, 0)  # after every task


@dataclass(frozen=True, slots=True)
class Task:
    """Questions for one engine, to be answered in order. Tasks of a lower `priority` go first.

    `timeout` is in seconds, `memory` in gigabytes. What hangs once hangs again as a rule: where a
    task was not done in time, others of its `group` have less (SECOND_CHANCE), and after two such
    tasks no more are asked.
    """

    key: Any
    engine: str
    questions: Sequence[Any]
    timeout: float
    priority: int = 0
    memory: float = math.inf
    group: Any = None
    placement: Placement = HOST


@dataclass(frozen=True, slots=True)
class Done:
    """The answers to a task. There are fewer than questions only where `failure` says why; the
    first question without an answer is the one that was being worked on."""

    task: Task
    answers: list[Any] = field(default_factory=list)
    failure: Failure | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Imported:
    """An engine's worker is ready for the first time."""

    engine: str
    version: str
    seconds: float


class Pool:
    """Runs tasks on worker processes; what comes back stands in `results` as Imported and Done.

    At most `jobs` workers are busy at once. After `close` and `kill` the pool is empty and can be
    used again: `start` starts fresh workers.
    """

    def __init__(self, jobs: int | None = None, show_output: bool = False) -> None:
        self.results: queue.SimpleQueue[Imported | Done] = queue.SimpleQueue()
        self._permits = threading.BoundedSemaphore(jobs) if jobs else None
        self._show_output = show_output
        self._keepers: dict[tuple[str, Placement], _Keeper] = {}

    def start(self, engine: str, target: str, placement: Placement = HOST) -> None:
        """Starts the worker for `engine`, whose class is "module:Class", unless that was done. It
        has one for each placement: what a framework has set up for a device stays.

        Workers import at the same time, so the sooner they are all started the better.
        """
        if (engine, placement) not in self._keepers:
            keeper = _Keeper(
                engine, target, placement, self.results, self._permits, self._show_output
            )
            self._keepers[engine, placement] = keeper
            keeper.start()

    def submit(self, task: Task) -> None:
        self._keepers[task.engine, task.placement].submit(task)

    def close(self) -> None:
        """Ends all workers in good order. Every task must be done."""
        for keeper in self._keepers.values():
            keeper.finish()
        self._forget()

    def kill(self) -> None:
        """Ends all workers at once, whatever they do. Tasks under way are lost."""
        for keeper in self._keepers.values():
            keeper.kill()
        self._forget()

    def _forget(self) -> None:
        """Waits for workers that end. What is started after that are workers of its own, and none
        of the old answers reaches it."""
        ended, self._keepers = self._keepers, {}
        self.results = queue.SimpleQueue()
        for keeper in ended.values():
            keeper.join()


class _Keeper(threading.Thread):
    """Keeps one engine's worker alive and fed."""

    def __init__(
        self,
        engine: str,
        target: str,
        placement: Placement,
        results: queue.SimpleQueue[Imported | Done],
        permits: threading.BoundedSemaphore | None,
        show_output: bool,
    ) -> None:
        super().__init__(name=f"keeper of {engine}", daemon=True)
        self._engine = engine
        self._target = target
        self._placement = placement
        self._results = results
        self._permits = permits
        self._show_output = show_output
        self._tasks: queue.PriorityQueue[tuple[tuple[int, int], Task | None]] = (
            queue.PriorityQueue()
        )
        self._count = 0
        self._process: Process | None = None
        self._lock = threading.Lock()  # a worker is never born after `kill`
        self._killed = False
        self._hopeless: Failure | None = None
        self._announced = False
        self._hung: Counter[Any] = Counter()  # how often tasks of a group had no answer in time
        self._met: dict[Any, list[Task]] = {}  # what the worker was asked, by group
        self._last: Any = None  # of them

    def submit(self, task: Task) -> None:
        self._count += 1  # first in, first out within a priority
        self._tasks.put(((task.priority, self._count), task))

    def finish(self) -> None:
        self._tasks.put((_LAST, None))

    def kill(self) -> None:
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._process.kill()
        self._tasks.put(((-1, 0), None))

    def run(self) -> None:
        with self._permits or nullcontext():
            self._ensure()
        while True:
            task = self._tasks.get()[1]
            if task is None or self._killed:
                break
            with self._permits or nullcontext():
                done = self._perform(task)
            if not self._killed:
                self._results.put(done)
        if self._process is not None:
            if self._killed:
                self._process.release()
            else:
                self._process.close()

    def _perform(self, task: Task) -> Done:
        """A crash counts where the worker has met no other spec: it may be what that one left.
        Elsewhere all that was requested of this spec is asked again, of a worker of its own: so it
        gets what it gets alone, where it crashes at its hundredth call, too."""
        strangers = bool(self._met.keys() - {task.group})
        before = list(self._met.get(task.group, ()))
        done = self._attempt(task)
        if strangers and done.failure is not None and done.failure.kind == "crashed":
            for earlier in before:
                self._attempt(earlier)
            done = self._attempt(task)
        return done

    def _attempt(self, task: Task) -> Done:
        hangs = self._hung[task.group]
        if hangs == _HOPELESS_HANGS:  # each costs its time and an import
            words = f"was not asked: {hangs} questions about it had no answer in time"
            return Done(task, failure=Failure("timed-out", words))
        process = self._ensure()
        if process is None:
            return Done(task, failure=self._hopeless)
        boundary = bool(self._met) and task.group != self._last
        self._met.setdefault(task.group, []).append(task)
        self._last = task.group
        start = time.monotonic()
        answers: list[Any] = []
        failure = None
        limit = task.timeout * SECOND_CHANCE**hangs
        try:
            process.ask(task.questions, boundary)
            for question in task.questions:
                answer = process.answer(start + limit, task.memory * 1e9)
                answers.append(answering(answer, question, self._engine))
        except Spent:
            self._drop()
            return self._attempt(task)
        except TimedOut:
            self._drop()
            if task.group is not None:
                self._hung[task.group] += 1
            failure = Failure("timed-out", f"gave no answer within {limit:g} s")
        except TookTooMuch as error:
            self._drop()
            failure = Failure("out-of-memory", str(error))
        except (Died, EngineFault) as error:
            words = short_dump(process.last_words)
            self._drop()
            failure = Failure("crashed", f"the worker process {_was(error)}", words)
        except Exception as error:  # a thread that ends would leave the run waiting for ever
            self._drop()
            words = f"the question could not be asked: {type(error).__name__}: {error}"
            failure = Failure("raised", words, traceback.format_exc())
        return Done(task, answers, failure, time.monotonic() - start)

    def _ensure(self) -> Process | None:
        """A worker that is ready, or None where there is no hope of one (`_hopeless` says why)."""
        if self._process is not None or self._hopeless is not None:
            return self._process
        for _ in range(_IMPORT_ATTEMPTS):
            with self._lock:
                if self._killed:
                    return None
                try:
                    process = self._process = Process(
                        self._target, self._show_output, self._placement
                    )
                except OSError as error:
                    words = f"the worker process cannot be started: {error}"
                    self._hopeless = Failure("crashed", words)
                    return None
            failure = self._await_import(process)
            if failure is None:
                return process
            self._drop()
            self._hopeless = failure
            if failure.kind != "crashed":
                break
        return None

    def _await_import(self, process: Process) -> Failure | None:
        try:
            message = process.receive(time.monotonic() + IMPORT_LIMIT_S)
        except TimedOut:
            words = f"{self._engine} was not imported within {IMPORT_LIMIT_S:g} s"
            return Failure("timed-out", words, process.last_words)
        except Died as error:
            words = f"the worker process {_was(error)} while {self._engine} was being imported"
            return Failure("crashed", words, process.last_words)
        if isinstance(message, channel.Unusable):
            what = "imported" if message.detail else "used"
            words = f"{self._engine} cannot be {what}: {message.message}"
            return Failure("raised", words, message.detail)
        if not isinstance(message, channel.Ready):
            return Failure("crashed", f"the worker process of {self._engine} broke its channel")
        self._hopeless = None
        if not self._announced:
            self._announced = True
            self._results.put(Imported(self._engine, message.version, message.seconds))
        return None

    def _drop(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        self._met.clear()
        if process is not None:
            process.release()


def _was(error: Died | EngineFault) -> str:
    """ "killed by SIGSEGV" reads "was killed by SIGSEGV"; the other ends are verbs already."""
    words = f"broke its channel: {error}" if isinstance(error, EngineFault) else str(error)
    return f"was {words}" if words.startswith("killed") else words
