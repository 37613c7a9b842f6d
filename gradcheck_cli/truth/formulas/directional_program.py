"""The derivative of a program along a direction, as a program. Its second derivatives are third
derivatives of the original.

The program runs on dual numbers of symbols (`engines.trace.symbols`), so the rules of the op table
write the nodes. A factor that is not a number of the dtype becomes an input, which is not rounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.program import CONSTANT, INPUT, Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.trace.symbols import ProgramWriter, Symbol
from gradcheck_cli.truth.plain import constant, inlined


@dataclass(frozen=True, slots=True)
class Directional:
    """`program` computes the derivative along the direction, in the shape of the output.
    `constants` are its inputs that the original program does not have."""

    program: Program
    constants: Mapping[str, Array]


class NoDirectional(Exception):
    """The derivative cannot be written as a formula. The message names the operation."""


def directional(
    program: Program, values: Mapping[str, Array], direction: Mapping[str, Array], dtype: str
) -> Directional:
    """Return the derivative of a program along `direction`, (n) an input, near `values`. Its
    constants are those of the dtype. Raises NoDirectional."""
    from reference_engine.dual import Dual
    from reference_engine.traced import new_level

    program = inlined(program)
    writer = ProgramWriter(program.result.span, dtype, public=False)
    symbols = {name: writer.input(name, np.asarray(values[name])) for name in program.inputs}
    level = new_level()
    moving = {
        name: Dual(level, symbol, np.asarray(direction[name])) if name in direction else symbol
        for name, symbol in symbols.items()
    }
    output = run_on_symbols(program, writer, moving, dtype)
    y_dot = output.tangent if isinstance(output, Dual) and output.level == level else None
    if not isinstance(y_dot, Symbol):  # of a linear function
        shape = program.result.shape
        array = np.zeros(shape) if y_dot is None else np.asarray(y_dot, np.float64)
        y_dot = writer.constant(array)
    return Directional(writer.program(y_dot), writer.constants)


def run_on_symbols(
    program: Program, writer: ProgramWriter, inputs: Mapping[str, Any], dtype: str
) -> Any:
    """The output of a program, computed by `nodes_on_symbols`."""
    return nodes_on_symbols(program, writer, inputs, dtype)[program.output]


def nodes_on_symbols(
    program: Program, writer: ProgramWriter, inputs: Mapping[str, Any], dtype: str
) -> list[Any]:
    """All nodes of a program of rows whose `inputs` are symbols, or numbers that carry a derivative
    of symbols. The nodes that are written have the places (spans) of the program's. Raises
    NoDirectional."""
    from reference_engine.traced import ROWS

    fmt = FORMATS[dtype]
    slots: list[Any] = []
    for node in program.nodes:
        writer.span, writer.text = node.span, node.text
        if node.op == INPUT:
            assert node.name is not None
            slots.append(inputs[node.name])
        elif node.op == CONSTANT:
            slots.append(constant(node, fmt)[()] if node.kind == "float" else node.value)
        else:
            try:
                slots.append(ROWS[node.op](*[slots[i] for i in node.args], **node.keywords))
            except (TypeError, ValueError) as error:  # a shape that does not fit
                raise NoDirectional(f"`{node.op}`: {error}") from error
    return slots
