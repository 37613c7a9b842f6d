"""Lift the forward of a layer, for comparison with other implementations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import numpy as np

from gradcheck_cli.checks.subjects import bind
from gradcheck_cli.domain.dtypes import quiet
from gradcheck_cli.domain.evaluation import Trace
from gradcheck_cli.domain.layer import LayerProblem, LiftedRun, word_of
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.engines.layer.isolation import surroundings
from gradcheck_cli.engines.layer.loading import on_the_path
from gradcheck_cli.engines.layer.subject import Subject
from gradcheck_cli.truth.certified.ball_program import exact_nodes, operations
from gradcheck_cli.truth.certified.enclose import BUDGET
from gradcheck_cli.truth.plain import PlainFunction

DTYPE = "float64"  # the program is compared with the layer in it, step by step


@contextmanager
def lifting(engine: Engine, problem: LayerProblem) -> Iterator[Subject]:
    """The layer of a problem in float64, ready to be lifted. Raises the layer's own exceptions."""
    with (
        surroundings(),
        on_the_path(problem.implementation),
        closing(bind(engine, problem, DTYPE)) as subject,
    ):
        yield subject


@quiet
def lifted_run(engine: Engine, problem: LayerProblem) -> LiftedRun:
    """The lifted program of a layer with its values. Raises the layer's own exceptions."""
    with lifting(engine, problem) as subject:
        leaves = {word_of(leaf.name): leaf.value for leaf in subject.leaves}
        parameters = {leaf.name: leaf.value for leaf in subject.leaves if leaf.role != "input"}
        try:
            lifted = subject.lift().without_islands()
        except EngineFault as fault:
            return LiftedRun(parameters, reason=str(fault))
    values = {**leaves, **lifted.constants}
    nodes = None
    if operations(lifted.program) <= BUDGET:
        nodes = exact_nodes(lifted.program, values, problem.dtype)
    found = nodes or PlainFunction(lifted.program, problem.dtype).nodes(values)
    exact = nodes is not None and bool(np.all(np.isfinite(nodes[lifted.program.output])))
    trace = Trace({index: np.asarray(value) for index, value in enumerate(found)}, {})
    return LiftedRun(parameters, lifted.program, trace, exact)
