"""Lifts the layers of a spec to formulas in this process, and makes the graphs of formulas."""

from __future__ import annotations

from collections.abc import Mapping

from gradcheck_cli.checks.certified.graphs import graph_with_numbers
from gradcheck_cli.checks.certified.lifted_run import DTYPE, lifting
from gradcheck_cli.checks.certified.readable import readable
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.evaluation import Failure, Mode
from gradcheck_cli.domain.graph import Graph
from gradcheck_cli.domain.layer import word_of
from gradcheck_cli.domain.options import RunOptions
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.layer.lifting import LiftedLayer
from gradcheck_cli.engines.registry import engines
from gradcheck_cli.run.plan import make_plan


def lift(spec: Spec, engine: str | None, seed: int) -> list[LiftedLayer]:
    """The lifted layers of a spec, or only the layer of one engine. Raises UsageError for an
    unknown engine, EngineFault if a layer cannot be lifted, and whatever the layer raises."""
    registered = engines()
    options = RunOptions(seed=seed).only(engine, DTYPE, None)
    layers = []
    for problem in make_plan(spec, options, registered).layers:
        if problem.behaviour or problem.point:
            continue
        home = registered[problem.implementation.engine].engine
        assert home is not None  # make_plan has seen to it
        home.load()
        with lifting(home, problem) as subject:
            lifted, leaves = readable(subject.lift().without_islands(), DTYPE), subject.leaves
        layer = problem.implementation
        layers.append(LiftedLayer(layer.engine, layer.target, leaves, lifted))
    return layers


def inputs_of(layer: LiftedLayer) -> tuple[dict[str, Array], tuple[str, ...]]:
    """The values of all inputs of the lifted formula by name, and the names of the inputs that it
    is differentiated with respect to."""
    leaves = {word_of(leaf.name): leaf for leaf in layer.leaves}
    values = {word: leaf.value for word, leaf in leaves.items()} | dict(layer.lifted.constants)
    used = layer.lifted.program.inputs
    return values, tuple(w for w, leaf in leaves.items() if leaf.differentiable and w in used)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Which numbers a graph shows: those of the reference engine, in this dtype and mode."""

    dtype: str = "float64"
    mode: Mode = "reverse"


def graphs_of(
    spec: Spec, numbers: Numbers | None = None, engine: str | None = None, seed: int = 0
) -> dict[str, Graph]:
    """The graph of the formula at its first point, or of each lifted layer, by name.

    Raises UsageError if the numbers cannot be computed, and whatever `lift` raises.
    """
    if not spec.implementations:
        values = {name: entry.value for name, entry in spec.inputs.items()}
        return {spec.name: _graph(spec.program, values, spec.wrt, numbers)}
    layers = lift(spec, engine, seed)
    graphs = {}
    for layer in layers:
        values, wrt = inputs_of(layer)
        name = spec.name if len(layers) == 1 else f"{spec.name}_{layer.engine}"
        graphs[name] = _graph(layer.lifted.program, values, wrt, numbers)
    return graphs


def _graph(
    program: Program, values: Mapping[str, Array], wrt: tuple[str, ...], numbers: Numbers | None
) -> Graph:
    if numbers is None or not wrt:
        return Graph(program)
    graph = graph_with_numbers(program, values, wrt, numbers.dtype, numbers.mode)
    if isinstance(graph, Failure):
        raise UsageError(f"its numbers cannot be computed: {graph.message}")
    return graph
