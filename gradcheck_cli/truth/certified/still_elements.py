"""Elements of nodes that no move of the inputs changes, although others of the same node move: a
score of -inf, whatever is added to it, and what is computed from such scores alone.

A choice between such elements is no tie, and nothing passes through them to what was added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.program import CONSTANT, INPUT, Program
from gradcheck_cli.truth.certified.ties import Mask, moved_of_argument
from gradcheck_cli.truth.plain import moving, plain_function

SUMS = frozenset(("add", "subtract"))


def still_elements(
    program: Program, values: Mapping[str, Array], wrt: tuple[str, ...], dtype: str
) -> dict[int, Mask]:
    """By moving node, mark its elements that do not move. Nodes without any are left out, and so is
    everything if no infinite number stands still."""
    moves = moving(program, wrt)
    if not _has_infinity(program, values, wrt):
        return {}
    numbers = plain_function(program, dtype).nodes(values)
    moved: list[Mask] = []
    for index, node in enumerate(program.nodes):
        if index in moves and node.op != INPUT:
            moved.append(_moved(program, index, moved, numbers))
        else:
            moved.append(np.broadcast_to(index in moves, node.shape))
    return {index: ~moved[index] for index in moves if not np.all(moved[index])}


def _has_infinity(program: Program, values: Mapping[str, Array], wrt: Sequence[str]) -> bool:
    """Whether a constant or an input that stands still has an infinite number."""
    constants = [node.value for node in program.nodes if node.op == CONSTANT]
    inputs = [values[name] for name in program.inputs if name not in wrt]
    return any(bool(np.any(np.isinf(x))) for x in (*constants, *inputs) if x is not None)


def _moved(program: Program, index: int, moved: Sequence[Mask], numbers: Sequence[Any]) -> Mask:
    """Mark the elements of a node that move, from those of its arguments."""
    node = program.nodes[index]
    if node.op == "where" and not np.any(moved[node.args[0]]):
        condition, *branches = node.args
        return np.where(numbers[condition], *(moved[i] for i in branches))
    found = np.zeros(node.shape, np.bool_)
    for place, i in enumerate(node.args):
        found |= moved_of_argument(program, index, place)(moved[i])
    if node.op in SUMS:
        for i in node.args:
            found &= ~(np.isinf(numbers[index]) & np.isinf(numbers[i]) & ~moved[i])
    return found
