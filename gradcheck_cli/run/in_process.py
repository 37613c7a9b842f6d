"""Checks a spec about layers in this process, because live objects cannot travel to another one."""

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
from gradcheck_cli.engines.registry import Registered, default_engines, engines
from gradcheck_cli.run.finalize import settle
from gradcheck_cli.run.plan import Plan, make_plan
from gradcheck_cli.run.spec_state import Work
from gradcheck_cli.run.workers.family import children_end


def run_in_process(spec: Spec, options: RunOptions) -> SpecResult:
    """The result for the layers of `spec`. Limits of time and memory do not apply.

    The framework is not set up as in a worker: threads and printing are the caller's, and so is the
    device, unless the spec names one. Raises UsageError as a run does, and if the framework lacks
    the device.
    """
    started = time.perf_counter()
    registered = engines()
    plan = make_plan(spec, options, registered)
    work = Work(plan)
    # In a worker nobody hears a warning; here one might be an error (`pytest -W error`).
    with surroundings(), warnings.catch_warnings(), children_end(), _Engines(registered, plan) as e:
        warnings.simplefilter("ignore")
        for layer in work.layers:
            drive(layer.steps(), e.examined)
        if work.ports is not None:
            drive(work.ports.steps([layer.answer for layer in work.layers]), e.examined)
    found = work.found()
    found.duration_s = time.perf_counter() - started
    return settle(plan, options, default_engines(registered), found)


class _Engines(ExitStack):
    """The engines of a plan. Each is made ready once, when it is first asked something."""

    def __init__(self, registered: Mapping[str, Registered], plan: Plan) -> None:
        super().__init__()
        self._registered, self._plan = registered, plan
        self._ready: str | None = None

    def examined(self, ask: Ask) -> LayerAnswer | LiftedRun:
        assert ask.engine is not None
        assert isinstance(ask.question, LayerProblem | LiftRequest)
        engine = self._registered[ask.engine].engine
        assert engine is not None  # make_plan has seen to it
        if self._ready != ask.engine:
            self.close()
            self.enter_context(_on_device(engine, self._plan.placement))
            self._ready = ask.engine
        if isinstance(ask.question, LiftRequest):
            return lifted_run(engine, ask.question.problem)
        return examine(engine, ask.question)


@contextmanager
def _on_device(engine: Engine, where: Placement) -> Iterator[None]:
    """Sets the framework up as in a new process, and on that device if it can be. Engines are
    shared in this process, so the previous state is restored afterwards."""
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
