"""The vjp and the jvp of a program, as programs: the values that a user's rule must return.

The derivative runs on symbols, so that the rules of the op table write the nodes. Internal rows of
the table are expanded into operations that formulas and frameworks have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.trace.symbols import ProgramWriter, Symbol
from gradcheck_cli.explain.fixes.custom_gradients import EXPANSIONS
from gradcheck_cli.truth.formulas.directional_program import nodes_on_symbols, run_on_symbols
from gradcheck_cli.truth.plain import inlined

_MEANS = frozenset(["mean", "var", "std"])
_SHAPED = frozenset(["broadcast_to", "reshape"])


@dataclass(frozen=True, slots=True)
class RuleProgram:
    """The `program` that a rule must compute: the cotangent of one input, from the inputs, the
    `constants` and the cotangents of the outputs (`upstream_of`); or the tangent of the output,
    from those of the inputs (`tangent_of`). `has_sizes`: a number of entries, the divisor of a
    mean, is a literal in it; `has_shapes`: shapes are."""

    program: Program
    constants: Mapping[str, Array]
    has_sizes: bool
    has_shapes: bool


def upstream_of(output: int) -> str:
    """The input of a rule's program for the cotangent of an output."""
    return f"upstream{output or ''}"


def tangent_of(name: str) -> str:
    """The input of a rule's program for the tangent of an input."""
    return f"{name}_dot"


def reverse_program(program: Program, values: Mapping[str, Array], wrt: str) -> RuleProgram | None:
    """The vjp by one input, near `values`; None if the output does not depend on it. Raises
    NoDirectional."""
    from reference_engine.tape import Node, pull_back
    from reference_engine.traced import new_level

    program = inlined(program)
    writer, symbols = _symbols(program, values)
    outputs = _outputs(program)
    upstream = [
        writer.input(upstream_of(number), np.ones(program.nodes[index].shape))
        for number, index in enumerate(outputs)
    ]
    variable = Node(new_level(), symbols[wrt])
    nodes = nodes_on_symbols(program, writer, {**symbols, wrt: variable}, "float64")
    pairs = [
        (nodes[index], y_bar)
        for index, y_bar in zip(outputs, upstream, strict=True)
        if isinstance(nodes[index], Node) and nodes[index].level == variable.level
    ]
    if not pairs:
        return None
    return _rule_program(program, writer, pull_back(pairs, [variable]).get(variable.record))


def _outputs(program: Program) -> list[int]:
    """The outputs of the function, which its program concatenates to one vector."""
    output = program.result
    flat = [program.nodes[index] for index in output.args]
    if output.op != "concatenate" or any(one.op != "reshape" for one in flat):
        return [program.output]
    return [one.args[0] for one in flat]


def forward_program(
    program: Program, values: Mapping[str, Array], wrt: Sequence[str], output: int | None = None
) -> RuleProgram | None:
    """The jvp of all outputs, or of one, along tangents of these inputs. See `reverse_program`."""
    from reference_engine.dual import Dual
    from reference_engine.traced import new_level

    program = inlined(program)
    if output is not None:
        program = replace(program, outputs=(_outputs(program)[output],))
    writer, symbols = _symbols(program, values)
    level = new_level()
    for name in wrt:
        x_dot = writer.input(tangent_of(name), np.ones(np.shape(values[name])))
        symbols[name] = Dual(level, symbols[name], x_dot)
    y = run_on_symbols(program, writer, symbols, "float64")
    return _rule_program(program, writer, y.tangent if isinstance(y, Dual) else None)


def _symbols(program: Program, values: Mapping[str, Array]) -> tuple[_Writer, dict[str, Any]]:
    writer = _Writer(program.result.span, "float64", public=False)
    return writer, {name: writer.input(name, np.asarray(values[name])) for name in program.inputs}


def _rule_program(program: Program, writer: _Writer, derivative: Any) -> RuleProgram | None:
    if not isinstance(derivative, Symbol):
        return None
    found = writer.program(derivative)
    return RuleProgram(
        found,
        writer.constants,
        has_sizes=any(node.op in _MEANS for node in program.nodes),
        has_shapes=any(node.op in _SHAPED for node in found.nodes),
    )


class _Writer(ProgramWriter):
    """Omits repetitions that broadcasting makes unnecessary."""

    def __init__(self, *settings: Any, **named: Any) -> None:
        super().__init__(*settings, **named)
        self._repeated: dict[int, Any] = {}  # by node, the array that it repeats

    def row(self, op: Any, args: Sequence[Any], keywords: dict[str, Any]) -> Symbol:
        expansion = EXPANSIONS.get(op.name)
        if expansion is not None:
            return expansion(*args, **keywords)
        if op.elementwise and len(args) > 1:
            args = self._narrow(args)
        made = super().row(op, args, keywords)
        (first, *_) = args
        spreads = op.name == "broadcast_to" or (op.name == "reshape" and first.shape == ())
        if spreads and isinstance(first, Symbol):
            self._repeated[made.node] = self._repeated.get(first.node, first)
        return made

    def _narrow(self, args: Sequence[Any]) -> list[Any]:
        """The arguments of an elementwise row, before they were repeated, if another argument has
        the full shape."""
        narrowed = list(args)
        shape = np.broadcast_shapes(*(np.shape(_value(x)) for x in args))
        for i, x in enumerate(args):
            if isinstance(x, Symbol) and x.node in self._repeated:
                before = narrowed[i]
                narrowed[i] = self._repeated[x.node]
                if np.broadcast_shapes(*(np.shape(_value(x)) for x in narrowed)) != shape:
                    narrowed[i] = before
        return narrowed


def _value(x: Any) -> Any:
    return x.value if isinstance(x, Symbol) else x
