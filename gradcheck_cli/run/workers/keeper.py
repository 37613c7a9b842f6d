"""One worker of an engine: a thread, and a process that is restarted if it dies."""

from __future__ import annotations

import threading
import time
import traceback
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from gradcheck_cli.domain.engines import UNCOMPILED
from gradcheck_cli.domain.evaluation import Failure
from gradcheck_cli.domain.placement import HOST, Placement
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.engines.layer.source_lines import stood_at
from gradcheck_cli.engines.tracebacks import short_dump
from gradcheck_cli.run.workers import channel, memory
from gradcheck_cli.run.workers.process import Died, Process, Spent, TimedOut, TookTooMuch
from gradcheck_cli.run.workers.replies import answering, known_already, unanswered
from gradcheck_cli.run.workers.task import Done, Imported, SoFar, Task

IMPORT_LIMIT_S = 300.0  # a cold disk may need a minute for a framework; a hung import must end
SECOND_CHANCE = 0.5  # of the time that each task of a group had before one of them hung
_HOPELESS_HANGS = 2
_MOST_CRASHES = 8  # of one task: each costs an import, and a layer may crash at every question
_IMPORT_ATTEMPTS = 2  # a worker that dies twice before it is ready would die again


@dataclass(frozen=True, slots=True)
class How:
    """How the workers of an engine are started: its name and class "module:Class", its device,
    whether its printed output is shown, and the working folder (None: the folder of this
    process)."""

    engine: str
    target: str
    placement: Placement = HOST
    show_output: bool = False
    folder: str | None = None


class Tasks(Protocol):
    """Where a worker gets its tasks and leaves its answers: its crew."""

    def take(self, keeper: Keeper) -> Task | None: ...

    def so_far(self, known: SoFar) -> None: ...

    def done(self, done: Done) -> None: ...

    def ready(self, message: Imported) -> None: ...

    def leave(self, keeper: Keeper, task: Task | None = None) -> bool: ...


class Keeper(threading.Thread):
    """Keeps one worker of an engine alive and supplied with tasks."""

    def __init__(self, tasks: Tasks, how: How) -> None:
        super().__init__(name=f"keeper of {how.engine}", daemon=True)
        self._tasks = tasks
        self._how = how
        self._engine = how.engine
        self._process: Process | None = None
        self._lock = threading.Lock()  # a worker is never born after `kill`
        self._killed = False
        self._hopeless: Failure | None = None
        self._hung: Counter[Any] = Counter()  # how often tasks of a group had no answer in time
        self._answered: dict[Any, list[Task]] = {}  # by group
        self._met: set[Any] = set()  # groups that the process was asked about, two of them at most
        self._asked = 0  # tasks of the process
        self._last: Any = None  # group
        self.is_ready = False

    @property
    def held_bytes(self) -> int:
        """The memory of the worker in bytes, or 0 if it is not ready."""
        process = self._process
        return (memory.resident(process.pid) or 0) if process and self.is_ready else 0

    def forget(self, group: object) -> None:
        """Notes that no more questions about the group will come."""
        self._hung.pop(group, None)
        self._answered.pop(group, None)

    def kill(self) -> None:
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._process.kill()

    def run(self) -> None:
        if self._ensure() is not None or not self._tasks.leave(self):
            self._serve()
        if self._process is not None:
            if self._killed:
                self._process.release()
            else:
                self._process.close()

    def _serve(self) -> None:
        while (task := self._tasks.take(self)) is not None:
            done = self._perform(task)
            if self._hopeless is not None and self._tasks.leave(self, task):
                return
            self._tasks.done(done)

    def _perform(self, task: Task) -> Done:
        """Runs a task. A crash counts only if the worker was asked all questions of this spec and
        no others, because another spec may have caused it. After any other crash, a new worker is
        asked all of them again. A spec therefore gets the result that it gets alone, even if it
        crashes at its hundredth call."""
        before = list(self._answered.get(task.group, ()))
        alone = self._met <= {task.group} and self._asked == len(before)
        done = self._attempt(task)
        if not alone and _crashed(done):
            for earlier in before:
                self._attempt(earlier)
            done = self._attempt(task)
        if _crashed(done):
            return self._continue_task(done)
        if done.failure is None:
            self._answered.setdefault(task.group, []).append(task)
        return done

    def _continue_task(self, done: Done) -> Done:
        """Asks a new worker the remaining questions: a crash only costs the question under way."""
        task = done.task
        for _ in range(_MOST_CRASHES):
            at = len(done.answers)
            if not _crashed(done) or self._hopeless is not None or at + 1 == len(task.questions):
                break
            assert done.failure is not None
            lost = unanswered(self._engine, task.questions[at : at + 1], done.failure)
            rest = self._attempt(replace(task, questions=task.questions[at + 1 :]))
            answers, seconds = [*done.answers, *lost, *rest.answers], done.seconds + rest.seconds
            done = Done(task, answers, rest.failure, seconds)
        return done

    def _attempt(self, task: Task) -> Done:
        hangs = self._hung[task.group]
        if hangs == _HOPELESS_HANGS:  # each costs its time and an import
            words = f"was skipped: it had already timed out {hangs} times"
            return Done(task, failure=Failure("timed-out", words))
        process = self._ensure()
        if process is None:
            return Done(task, failure=self._hopeless)
        boundary = self._asked > 0 and task.group != self._last
        if len(self._met) < 2:
            self._met.add(task.group)
        self._asked += 1
        self._last = task.group
        start = time.monotonic()
        answers: list[Any] = []
        failure = None
        limit = task.timeout * SECOND_CHANCE**hangs
        try:
            process.ask(task.questions, boundary)
            for question in task.questions:
                tell = partial(self._tell, task, question)
                answer = process.answer(start + limit, task.memory * 1e9, tell)
                answers.append(answering(answer, question, self._engine))
        except Spent:
            self._drop()
            return self._attempt(task)
        except Exception as error:  # a thread that ends would leave the run waiting for ever
            failure = self._failure_of(error, process, limit)
            self._drop()
            if failure.kind == "timed-out" and task.group is not None:
                self._hung[task.group] += 1
        return Done(task, answers, failure, time.monotonic() - start)

    def _failure_of(self, error: Exception, process: Process, limit: float) -> Failure:
        """Why a process that still exists gave no answer within `limit` seconds."""
        match error:
            case TimedOut():
                dump = process.stack()
                place, words = stood_at(dump), f"gave no answer within {limit:g} s"
                return Failure("timed-out", words, short_dump(dump) if place else "", place=place)
            case TookTooMuch():
                return Failure("out-of-memory", str(error))
            case Died() | EngineFault():
                words = short_dump(process.last_words)
                died = f"the worker process {_was(error)}{_compiled(self._engine)}"
                return Failure("crashed", died, words, place=stood_at(words))
        words = f"the question could not be asked: {type(error).__name__}: {error}"
        return Failure("raised", words, "".join(traceback.format_exception(error)))

    def _tell(self, task: Task, question: object, value: Any) -> None:
        self._tasks.so_far(SoFar(task, known_already(value, question, self._engine)))

    def _ensure(self) -> Process | None:
        """A worker that is ready, or None if none can be started (`_hopeless` says why)."""
        if self._process is not None or self._hopeless is not None:
            return self._process
        for _ in range(_IMPORT_ATTEMPTS):
            with self._lock:
                if self._killed:
                    return None
                try:
                    how = self._how
                    process = self._process = Process(
                        how.target, how.show_output, how.placement, how.folder
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
        self.is_ready = True
        self._tasks.ready(Imported(self._engine, message.version, message.seconds))
        return None

    def _drop(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        self._met.clear()
        self._asked = 0
        if process is not None:
            process.release()


def _crashed(done: Done) -> bool:
    return done.failure is not None and done.failure.kind == "crashed"


def _compiled(engine: str) -> str:
    """Advice after a crash that compiled code may have caused."""
    if engine not in UNCOMPILED:
        return ""
    return f"; `--engine {UNCOMPILED[engine]}` checks the same without its compiler"


def _was(error: Died | EngineFault) -> str:
    """The error as a verb phrase: "killed by SIGSEGV" becomes "was killed by SIGSEGV"; other
    messages are verb phrases already."""
    words = f"broke its channel: {error}" if isinstance(error, EngineFault) else str(error)
    return f"was {words}" if words.startswith("killed") else words
