"""The value and the tangent of a large program, without a tape: numbers that nothing reads any more
are freed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradcheck_cli.domain.dtypes import FORMATS, Array, quiet
from gradcheck_cli.domain.program import CONSTANT, INPUT, Program
from gradcheck_cli.truth.plain import constant, inlined


@quiet
def value_and_tangent(
    program: Program, values: Mapping[str, Array], tangents: Mapping[str, Array]
) -> tuple[Array, Array]:
    """The value of the program in float64 at `values` and its derivative along the `tangents`, each
    of the shape of its input; inputs without a tangent do not move. The forward mode of the
    reference engine."""
    from reference_engine import jvp

    whole = inlined(program)

    def of_moving(*xs: Any) -> Any:
        return _result(whole, {**values, **dict(zip(tangents, xs, strict=True))})

    return jvp(of_moving, [values[name] for name in tangents], list(tangents.values()))


@quiet
def value_of(program: Program, values: Mapping[str, Array]) -> Array:
    """The value of the program in float64 at `values`."""
    found: Array = _result(inlined(program), values)
    return found


def _result(program: Program, values: Mapping[str, Any]) -> Any:
    from reference_engine.traced import ROWS

    last = {i: index for index, node in enumerate(program.nodes) for i in node.args}
    slots: dict[int, Any] = {index: values[name] for name, index in program.inputs.items()}
    for index, node in enumerate(program.nodes):
        if node.op == CONSTANT:
            slots[index] = constant(node, FORMATS["float64"])
        elif node.op != INPUT:
            slots[index] = ROWS[node.op](*[slots[i] for i in node.args], **node.keywords)
            for i in {i for i in node.args if last[i] == index} - {program.output}:
                del slots[i]
    return slots[program.output]
