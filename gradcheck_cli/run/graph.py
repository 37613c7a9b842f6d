"""The computation graphs of one spec, with numbers of the reference engine where they are
requested, in this process."""

from __future__ import annotations

from collections.abc import Mapping

from gradcheck_cli.checks.certified.graphs import graph_with_numbers
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.domain.evaluation import Failure, Mode
from gradcheck_cli.domain.graph import Graph
from gradcheck_cli.domain.layer import word_of
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.run.lift import lift


@dataclass(frozen=True, slots=True)
class Numbers:
    """Which numbers a graph is to have: of the reference engine, in this dtype and mode."""

    dtype: str = "float64"
    mode: Mode = "reverse"


def graphs_of(
    spec: Spec, numbers: Numbers | None = None, engine: str | None = None, seed: int = 0
) -> dict[str, Graph]:
    """The graph of the formula at the first point, or that of each layer, lifted, by name.

    Raises UsageError where the numbers cannot be computed, and what `lift` raises.
    """
    if not spec.implementations:
        values = {name: entry.value for name, entry in spec.inputs.items()}
        return {spec.name: _graph(spec.program, values, spec.wrt, numbers)}
    layers = lift(spec, engine, seed)
    found = {}
    for layer in layers:
        leaves = {word_of(leaf.name): leaf for leaf in layer.leaves}
        program = layer.lifted.program
        values = {word: leaf.value for word, leaf in leaves.items()} | dict(layer.lifted.constants)
        wrt = tuple(
            word for word, leaf in leaves.items() if leaf.differentiable and word in program.inputs
        )
        name = spec.name if len(layers) == 1 else f"{spec.name}_{layer.engine}"
        found[name] = _graph(program, values, wrt, numbers)
    return found


def _graph(
    program: Program, values: Mapping[str, Array], wrt: tuple[str, ...], numbers: Numbers | None
) -> Graph:
    if numbers is None or not wrt:
        return Graph(program)
    found = graph_with_numbers(program, values, wrt, numbers.dtype, numbers.mode)
    if isinstance(found, Failure):
        raise UsageError(f"its numbers cannot be computed: {found.message}")
    return found
