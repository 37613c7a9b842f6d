"""The worker process: one engine, which performs one task after the other.

Run as `python -m gradcheck_cli.run.workers.worker MODULE:CLASS PARENT`. Standard input and output
are the channel to the parent (`channel`). Both are moved to other descriptors first, so that
everything the framework prints goes to standard error, which the parent reads.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from gradcheck_cli.engines.entry_points import REFERENCE
from gradcheck_cli.engines.kit import patience
from gradcheck_cli.run.workers import channel, family, output

if TYPE_CHECKING:
    from gradcheck_cli.engines.base import Engine
    from gradcheck_cli.run.workers.state import Process

OURS = {
    "TruthRequest": "the truth could not be computed",
    "CurveRequest": "the curve of differences could not be drawn",
    "FixRequest": "fixes could not be screened",
}
"""Questions that no user's code and no framework takes part in, and what their failure means."""


USERS = ("LayerProblem", "LiftRequest", "SearchRequest")
"""Questions for which a user's code runs."""


def main() -> None:
    target, parent, where = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    family.join(parent)
    # An entry must stand there once, or every import looks twice.
    sys.path[:] = dict.fromkeys(sys.path)
    line = _Line()
    faulthandler.enable()
    if family.WHERE is not None:
        faulthandler.register(family.WHERE, all_threads=False)
    sys.stdout, sys.stderr = output.bounded(1), output.bounded(2)
    engine = _load(target, where, line)
    if engine is None:
        os._exit(1)
    patience.tell = lambda begins: line.write(channel.Compiling(begins))
    watched: Process | None = None  # as it was before the first code of a user
    while (request := line.read()) is not None:
        if watched is not None and request.boundary and (what := watched.changed()):
            line.write(channel.Spent(what))
            os._exit(0)
        for number, question in enumerate(request.questions, request.first):
            output.refill()
            if watched is None and type(question).__name__ in USERS:
                watched = _process_state()
            line.answer(engine, number, question, watched)
    with contextlib.suppress(Exception):
        engine.close()
    os._exit(0)  # a framework's own farewell can take longer than a run


class _Line:
    """The channel. Only this process may use it: a child that a layer forked and that returns here
    would answer as a second worker."""

    def __init__(self) -> None:
        self._requests, self._answers = _take_channel()
        self._owner = os.getpid()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._let_go)

    def _let_go(self) -> None:
        os.close(self._requests)
        os.close(self._answers)
        family.end_on_return(sys._getframe(1))

    def read(self) -> channel.Request | None:
        return channel.read(self._requests)

    def write(self, message: channel.Message) -> None:
        """Writes a message. Raises TypeError for an answer that may not travel."""
        data = channel.packed(message)
        if os.getpid() != self._owner:
            os._exit(0)
        try:
            channel.write(self._answers, data)
        except BrokenPipeError:
            os._exit(1)

    def answer(self, engine: Engine, number: int, question: Any, watched: Process | None) -> None:
        try:
            value = _answer(engine, question, partial(self._tell, number))
            if watched is not None and type(question).__name__ == "LayerProblem":
                from gradcheck_cli.run.workers.replies import blame_replaced_function

                value = blame_replaced_function(value, watched.replaced)
            self.write(channel.Answer(number, value))
        except TypeError as error:
            from gradcheck_cli.domain.evaluation import Failure
            from gradcheck_cli.run.workers.replies import failed

            failure = Failure("raised", f"its answer cannot be sent: {error}")
            name = engine.capabilities.name
            self.write(channel.Answer(number, failed(name, question, failure)))

    def _tell(self, number: int, value: Any) -> None:
        self.write(channel.SoFar(number, value))


def _process_state() -> Process:
    """The state of the process before it runs code of a user. The code that compares states is
    imported before, so that user code cannot change it unseen."""
    import gradcheck_cli.checks.examination  # noqa: F401
    from gradcheck_cli.run.workers.state import Process

    return Process()


def _take_channel() -> tuple[int, int]:
    """The descriptors of the channel, which no program inherits. Afterwards 0 reads nothing, and 1
    writes to the same place as 2."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


def _load(target: str, where: Sequence[str], line: _Line) -> Engine | None:
    start = time.perf_counter()
    # An import makes many objects and no garbage; collecting meanwhile costs TensorFlow a seventh.
    gc.disable()
    try:
        from gradcheck_cli.engines.base import make

        engine = make(target)
        if where:
            from gradcheck_cli.domain.placement import Placement

            engine.place(Placement(*where))
        version = engine.load()
        if target == REFERENCE:
            import gradcheck_cli.truth  # noqa: F401 - the reference worker also serves the truth
    except Exception as error:
        from gradcheck_cli.engines.errors import EngineFault

        words = f"{type(error).__name__}: {error}".splitlines()[0]
        told = channel.Unusable(words, traceback.format_exc(limit=-4))
        if isinstance(error, EngineFault):  # it says all that there is to say
            told = channel.Unusable(str(error), "")
        line.write(told)
        return None
    gc.freeze()
    gc.enable()
    line.write(channel.Ready(version, time.perf_counter() - start))
    return engine


def _answer(engine: Engine, question: Any, so_far: Callable[[Any], None]) -> Any:
    try:
        return _answer_to(engine, question, so_far)
    except BaseException as error:  # of a user's code: nobody interrupts a worker
        from gradcheck_cli.domain.records import replace
        from gradcheck_cli.engines.layer.source_lines import raised_at
        from gradcheck_cli.engines.tracebacks import as_failure, internal_failure, is_of_our_line
        from gradcheck_cli.run.workers.replies import failed

        kind = type(question).__name__
        if kind in OURS:
            return internal_failure(error, OURS[kind])
        failure = as_failure(error, ours=True)
        failure = replace(failure, place=failure.place or raised_at(error))
        if is_of_our_line(error):
            failure = internal_failure(error, "the question could not be answered")
        return failed(engine.capabilities.name, question, failure)


def _answer_to(engine: Engine, question: Any, so_far: Callable[[Any], None]) -> Any:
    """The answer to a question. `so_far` receives parts that are already known. May raise
    anything."""
    from gradcheck_cli.engines import answers

    # By its name: the classes of the other kinds take time to import, and most workers never
    # meet them.
    name, kind = engine.capabilities.name, type(question).__name__
    if kind == "TruthRequest":
        from gradcheck_cli.truth import compute

        return compute(question)
    if kind == "CurveRequest":
        from gradcheck_cli.truth.difference_curve import curve

        return curve(question)
    if kind == "FixRequest":
        from gradcheck_cli.truth.formulas.screening import screen

        return screen(question)
    if kind == "TrainingProblem":
        return answers.training(engine.train(question), question, name)
    if kind == "GradientRequest":
        from gradcheck_cli.engines.kit.gradient_program import engine_program

        return engine_program(engine, question.problem)
    if kind == "SearchRequest":
        from gradcheck_cli.search.answering import searched

        return searched(engine, question, partial(_answer, engine, so_far=so_far), so_far)
    if kind == "LayerProblem":
        from gradcheck_cli.checks.examination import examine
        from gradcheck_cli.checks.large import progress

        with progress.reporting_to(so_far):
            return examine(engine, question)
    if kind == "LiftRequest":
        from gradcheck_cli.checks.certified.lifted_run import lifted_run

        return lifted_run(engine, question.problem)
    if kind == "SuiteRequest":
        from gradcheck_cli.engines.kit.suite import listing

        return listing(question)
    return answers.evaluation(engine.evaluate(question), question, name)


if __name__ == "__main__":
    main()
