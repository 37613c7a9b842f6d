"""Outputs that are finite although something on the way to them is not: 1 / inf = 0.

Such a number says nothing: what became infinite may have been 1e400 or, where a logarithm took a
number that was absorbed to 0, no more than 700. Neither a difference nor a first-order analysis of
rounding sees that, since both find nothing that moves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.program import CONSTANT, INPUT, Node, Program
from gradcheck_cli.truth.plain import elementwise

# Rows that pick among numbers: what they leave behind has no part in the result.
SELECTING = frozenset(
    (
        *("where", "maximum", "minimum", "max", "min", "relu", "clip", "getitem"),
        *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"),
        *("logical_and", "logical_or", "logical_not"),
    )
)


def absorbed(program: Program, at_point: Sequence[Array]) -> Array:
    """Which elements of the output are finite but depend on an infinity (or nan) that an operation
    made of finite numbers; a boolean array of the output's shape."""
    values = [np.asarray(value) for value in at_point]
    if all(np.all(np.isfinite(value)) for value in values):
        return np.zeros(values[program.output].shape, dtype=bool)
    masks: list[Array] = []
    for node, value in zip(program.nodes, values, strict=True):
        args, theirs = [values[i] for i in node.args], [masks[i] for i in node.args]
        masks.append(_mask(node, value, args, theirs))
    return np.asarray(masks[program.output] & np.isfinite(values[program.output]))


def _mask(node: Node, value: Array, args: list[Array], masks: list[Array]) -> Array:
    """Elements of a value that depend on such an infinity."""
    lost = ~np.isfinite(value)
    if node.op in (INPUT, CONSTANT) or (not np.any(lost) and not any(map(np.any, masks))):
        return np.zeros(value.shape, dtype=bool)
    made = lost & all(np.all(np.isfinite(arg)) for arg in args)
    reached = _reached(node.op, value.shape, masks)
    return np.asarray(made | (reached & lost if node.op in SELECTING else reached))


def _reached(op: str, shape: tuple[int, ...], masks: list[Array]) -> Array:
    """Element by element where the operation works so; elsewhere any of it reaches everything."""
    if not elementwise(op):
        return np.full(shape, any(map(np.any, masks)))
    return np.broadcast_to(np.logical_or.reduce(np.broadcast_arrays(*masks)), shape)
