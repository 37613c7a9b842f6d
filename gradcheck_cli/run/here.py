"""A spec about layers, checked in this process: live objects do not travel to another one."""

from __future__ import annotations

import time
import warnings

from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.report import SpecResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.registry import engines, usual
from gradcheck_cli.layers.examine import examine
from gradcheck_cli.layers.failures import told_once, with_failure
from gradcheck_cli.run.plan import make_plan
from gradcheck_cli.run.settle import settle


def run_here(spec: Spec, options: RunOptions) -> SpecResult:
    """What a run finds about the layers of `spec`; no limit of time or memory is kept.

    Nothing of the framework is set up as in a worker: threads, devices and printing are the
    caller's own. Raises UsageError as a run does.
    """
    started = time.perf_counter()
    registered = engines()
    plan = make_plan(spec, options, registered)
    answers = []
    for problem in plan.layers:
        engine = registered[problem.implementation.engine].engine
        assert engine is not None  # make_plan has seen to it
        # In a worker nobody hears a warning; here one might be an error (`pytest -W error`).
        with warnings.catch_warnings(), engine.plainly():
            warnings.simplefilter("ignore")
            answers.append(with_failure(problem, examine(engine, problem)))
    return settle(
        plan,
        options,
        usual(registered),
        [check for answer in answers for check in answer.checks],
        told_once(plan.layers, answers),
        [reading for answer in answers for reading in answer.readings],
        [],
        list(dict.fromkeys(note for answer in answers for note in answer.notes)),
        time.perf_counter() - started,
    )
