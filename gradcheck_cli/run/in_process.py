"""A spec about layers, checked in this process: live objects do not travel to another one."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from gradcheck_cli.checks.certified.lifted_run import lifted_run
from gradcheck_cli.checks.examination import examine
from gradcheck_cli.checks.protocol import Ask, drive
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.layer import LayerAnswer, LayerProblem, LiftedRun, LiftRequest
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.placement import HOST, Placement
from gradcheck_cli.domain.report import SpecResult
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.engines.layer.isolation import surroundings
from gradcheck_cli.engines.registry import Registered, engines, usual
from gradcheck_cli.run.finalize import settle
from gradcheck_cli.run.plan import Plan, make_plan
from gradcheck_cli.run.spec_state import Work
from gradcheck_cli.run.workers.family import children_end


def run_here(spec: Spec, options: RunOptions) -> SpecResult:
    """What a run finds about the layers of `spec`; no limit of time or memory is kept.

    Nothing of the framework is set up as in a worker: threads and printing are the caller's own,
    and so is the device where the spec names none. Raises UsageError as a run does, and where the
    framework has not the device.
    """
    started = time.perf_counter()
    registered = engines()
    plan = make_plan(spec, options, registered)
    work = Work(plan)
    with surroundings():
        for layer in work.layers:
            drive(layer.steps(), lambda ask: _examined(registered, plan, ask))
        if work.ports is not None:
            answers = [layer.answer for layer in work.layers]
            drive(work.ports.steps(answers), lambda ask: _examined(registered, plan, ask))
    found = work.found()
    found.duration_s = time.perf_counter() - started
    return settle(plan, options, usual(registered), found)


def _examined(
    registered: Mapping[str, Registered], plan: Plan, ask: Ask
) -> LayerAnswer | LiftedRun:
    assert ask.engine is not None
    assert isinstance(ask.question, LayerProblem | LiftRequest)
    engine = registered[ask.engine].engine
    assert engine is not None  # make_plan has seen to it
    # In a worker nobody hears a warning; here one might be an error (`pytest -W error`).
    with warnings.catch_warnings(), _there(engine, plan.placement), children_end():
        warnings.simplefilter("ignore")
        if isinstance(ask.question, LiftRequest):
            return lifted_run(engine, ask.question.problem)
        return examine(engine, ask.question)


@contextmanager
def _there(engine: Engine, where: Placement) -> Iterator[None]:
    """The framework as it is when a process starts, and on that device where it can. Engines of
    this process are shared: afterwards it is where it was."""
    moves = where != HOST and where.kind in engine.capabilities.devices
    with ExitStack() as stack:
        if moves:
            stack.callback(engine.place, HOST)
            engine.place(where)
        try:
            stack.enter_context(engine.plainly())
        except EngineFault as fault:
            raise UsageError(str(fault)) from None
        yield
