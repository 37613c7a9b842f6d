"""The worker process: one engine, answering one task after the other.

Run as `python -m gradcheck_cli.run.worker MODULE:CLASS PARENT`. Standard input and output are the
channel to the parent (`channel`); both are moved away first thing, so that whatever the framework
prints goes to standard error, which the parent drains.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradcheck_cli.engines.points import REFERENCE
from gradcheck_cli.run import channel, output

if TYPE_CHECKING:
    from gradcheck_cli.engines.base import Engine

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
OURS = {
    "TruthRequest": "the truth could not be computed",
    "FixRequest": "fixes could not be screened",
}
"""Questions that no user's code and no framework takes part in, and what their failure means."""


def main() -> None:
    target, parent, where = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    _die_with(parent)
    # An entry must stand there once, or every import looks twice.
    sys.path[:] = dict.fromkeys(sys.path)
    requests, answers = _take_channel()
    faulthandler.enable()
    sys.stdout, sys.stderr = output.bounded(1), output.bounded(2)
    engine = _load(target, where, answers)
    if engine is None:
        os._exit(1)
    while (task := channel.read(requests)) is not None:
        for question in task:
            output.refill()
            answer = channel.Answer(_answer(engine, question))
            try:
                channel.write(answers, answer)
            except BrokenPipeError:
                os._exit(1)
    with contextlib.suppress(Exception):
        engine.close()
    os._exit(0)  # a framework's own farewell can take longer than a run


def _die_with(parent: int) -> None:
    """No worker outlives its parent: the kernel sees to it, or else the end of the channel."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)


def _take_channel() -> tuple[int, int]:
    """Descriptors of the channel that no child inherits; 0 reads nothing, 1 writes where 2 does."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


def _load(target: str, where: Sequence[str], answers: int) -> Engine | None:
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
        from gradcheck_cli.engines.base import EngineFault

        words = f"{type(error).__name__}: {error}".splitlines()[0]
        told = channel.Unusable(words, traceback.format_exc(limit=-4))
        if isinstance(error, EngineFault):  # it says all that there is to say
            told = channel.Unusable(str(error), "")
        channel.write(answers, told)
        return None
    gc.freeze()
    gc.enable()
    channel.write(answers, channel.Ready(version, time.perf_counter() - start))
    return engine


def _answer(engine: Engine, question: Any) -> Any:
    from gradcheck_cli.domain.evaluation import Evaluation, Training

    name = engine.capabilities.name
    # By its name: the classes of the other kinds take time to import, and most workers never
    # meet them.
    kind = type(question).__name__
    try:
        return _asked(engine, kind, question)
    except BaseException as error:  # of a user's code: nobody interrupts a worker
        from gradcheck_cli.engines.tracebacks import as_failure, internal_failure

        if kind in OURS:
            return internal_failure(error, OURS[kind])
        failure = as_failure(error, ours=True)
    if kind == "Problem":
        return Evaluation(name, question.dtype, question.rounding, question.mode, failure=failure)
    if kind == "TrainingProblem":
        return Training(name, question.dtype, failure=failure)
    if kind == "LayerProblem":
        from gradcheck_cli.domain.layer import LayerAnswer

        return LayerAnswer(failure=failure)
    return failure


def _asked(engine: Engine, kind: str, question: Any) -> Any:
    """The answer to a question of the class `kind`. May raise anything."""
    from gradcheck_cli.engines import answers

    name = engine.capabilities.name
    if kind == "TruthRequest":
        from gradcheck_cli.truth import compute

        return compute(question)
    if kind == "FixRequest":
        from gradcheck_cli.truth.trial import screen

        return screen(question)
    if kind == "TrainingProblem":
        return answers.training(engine.train(question), question, name)
    if kind == "LayerProblem":
        from gradcheck_cli.layers import examine

        return examine(engine, question)
    return answers.evaluation(engine.evaluate(question), question, name)


if __name__ == "__main__":
    main()
