"""The layers of a spec as formulas, lifted from a run in this process."""

from __future__ import annotations

from gradcheck_cli.checks.certified.lifted_run import DTYPE, lifting
from gradcheck_cli.domain.options import Layered, RunOptions
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.layer.lifting import LiftedLayer
from gradcheck_cli.engines.layer.readable import readable
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.run.plan import make_plan


def lift(spec: Spec, engine: str | None, seed: int) -> list[LiftedLayer]:
    """The layers of a spec, or that of one engine. Raises UsageError for an engine that is unknown,
    EngineFault where a layer is not lifted, and what the layer raises."""
    registered = engines()
    options = RunOptions(
        engines=Layered(override=None if engine is None else (engine,)),
        dtypes=Layered(override=(DTYPE,)),
        seed=seed,
    )
    found = []
    for problem in make_plan(spec, options, registered).layers:
        if problem.behaviour or problem.point:
            continue
        home = registered[problem.implementation.engine].engine
        assert home is not None  # make_plan has seen to it
        home.load()
        with lifting(home, problem) as subject:
            lifted, leaves = readable(subject.lift().whole()), subject.leaves
        layer = problem.implementation
        found.append(LiftedLayer(layer.engine, layer.target, leaves, lifted))
    return found
