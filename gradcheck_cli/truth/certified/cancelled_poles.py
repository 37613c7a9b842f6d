"""Outputs that are finite although an intermediate number is at a pole: 1 / log(0) = 0.

In exact arithmetic, the logarithm may have taken a number that float64 absorbed to 0, and be -700
rather than -inf. Neither a difference nor a first-order analysis of rounding sees this, because
both find that nothing moves. (An overflow is harmless: 1 / exp(800) is 0 to within 1e-347.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.program import CONSTANT, INPUT, Node, Program
from gradcheck_cli.truth.plain import elementwise

# Rows that choose the larger or smaller number: an infinity that is not chosen has no effect.
_CHOOSING = frozenset(("maximum", "minimum", "max", "min", "relu", "clip"))


# Rows with a pole: which argument has it, and at what value.
_POLES: dict[str, tuple[int, float]] = {
    "log": (0, 0.0),
    "log1p": (0, -1.0),
    "divide": (1, 0.0),
    "power": (0, 0.0),
}


def swallowed_poles(program: Program, at_point: Sequence[Array]) -> Array:
    """Mark the elements of the output that are finite but depend on an infinity which a pole made
    from finite numbers; a boolean array of the output's shape."""
    values = [np.asarray(value) for value in at_point]
    if all(np.all(np.isfinite(value)) for value in values):
        return np.zeros(values[program.output].shape, dtype=bool)
    masks: list[Array] = []
    for node, value in zip(program.nodes, values, strict=True):
        args, theirs = [values[i] for i in node.args], [masks[i] for i in node.args]
        masks.append(_mask(node, value, args, theirs))
    return np.asarray(masks[program.output] & np.isfinite(values[program.output]))


def _mask(node: Node, value: Array, args: list[Array], masks: list[Array]) -> Array:
    """Mark the elements of a value that depend on an infinity from a pole."""
    lost = ~np.isfinite(value)
    if node.op in (INPUT, CONSTANT) or node.kind == "bool":
        return np.zeros(value.shape, dtype=bool)
    if not np.any(lost) and not any(np.any(mask) for mask in masks):
        return np.zeros(value.shape, dtype=bool)
    made = np.zeros(value.shape, dtype=bool)
    if node.op in _POLES and all(np.all(np.isfinite(arg)) for arg in args):
        which, where = _POLES[node.op]
        made = np.isinf(value) & (args[which] == where)
    reached = _dependent_elements(node, value.shape, args, masks)
    if node.op in _CHOOSING:
        swallowed = [m & np.isfinite(arg) for m, arg in zip(masks, args, strict=True)]
        reached = (reached & lost) | _dependent_elements(node, value.shape, args, swallowed)
    return np.asarray(made | reached)


def _dependent_elements(
    node: Node, shape: tuple[int, ...], args: list[Array], masks: list[Array]
) -> Array:
    """Mark the elements of the result that depend on marked elements of the arguments: element by
    element for an operation that works so, otherwise all elements."""
    from reference_engine.traced import ROWS

    if node.op == "where":
        return np.asarray(np.where(args[0], masks[1], masks[2]))
    if ROWS[node.op].family in ("shape", "indexing"):
        # an index stays, because it says which numbers are taken
        moving = [m if a.dtype.kind == "f" else a for m, a in zip(masks, args, strict=True)]
        moved = ROWS[node.op].value(*moving, **node.keywords)
        return np.asarray(moved, np.bool_)  # a trace counts them
    if elementwise(node.op):
        return np.broadcast_to(np.logical_or.reduce(np.broadcast_arrays(*masks)), shape)
    return np.full(shape, any(np.any(mask) for mask in masks))
