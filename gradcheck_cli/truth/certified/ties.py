"""Find the entries of a derivative that depend on an operation at a kink, a tie or a jump.

There a rule returns a convention, which nothing proves. At a kink, the result moves by no more than
the arguments. So each element of a node at a kink gets an unknown derivative by everything that may
move it: balls that hold no number, which spread only to the entries that depend on them. A jump may
also change later choices, so everything after a jump depends on everything before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gradcheck_cli.domain.program import Node, Program
from gradcheck_cli.domain.program_cache import cached_by_program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.formula.shapes import broadcasts
from gradcheck_cli.truth.plain import STOP, elementwise

Mask = npt.NDArray[np.bool_]
Spread = Callable[[Any], Any]
"""A function of a Mask, or of an array with a bit for each of 64 masks."""
Ties = dict[int, Mask]
"""By node of a program, a mask of the elements on a tie."""

MILD = frozenset(
    ("max", "min", "sort", "topk_values", "median", "cummax", "cummin", "max_pool2d", "norm", "std")
)
"""Rows that combine the elements of an array and change by no more than a multiple of what these
do; a norm does if its order is 1 or larger."""

STAIRS = frozenset(("floor", "ceil", "round", "remainder", "floor_divide", "pinv"))
"""Rows that have the value and the derivative of one side at a jump, and whose jumps lie closer
than any step of a difference: as close as 1 or a divisor if the numbers are large, or as rounding,
which decides the rank of a matrix."""

RANKED = frozenset(("pinv", "svd_u", "svd_vh"))
"""Rows whose value jumps beside a matrix that does not have full rank."""


@dataclass(frozen=True, slots=True)
class Tied:
    """Elements of a node on a tie, `mask` in the node's shape, and an argument `source` that moves
    them. `moved` maps elements of the argument to elements of the node that they may move, `moving`
    maps back."""

    mask: Mask
    source: Any
    moved: Spread
    moving: Spread


def tied_elements(row: Any, args: Sequence[Any], keywords: Mapping[str, Any], y: Any) -> Mask:
    """Mark the elements of `y`, the result of a call that met a tie, that are on one; all of them
    if this is not known."""
    from reference_engine.arithmetic.ball_choices import noting_ties
    from reference_engine.arithmetic.balls import Ball, midpoints
    from reference_engine.traced import shape_of

    shape = shape_of(y)
    if getattr(row, "elementwise", False):
        plain = [a.value if isinstance(a, Ball) else np.asarray(a) for a in args]
        spread = [np.broadcast_to(a, shape) for a in plain]
        found = np.zeros(shape, np.bool_)
        for place in np.ndindex(shape):
            with noting_ties() as ties:
                row(
                    *(_like_kind(a, s[place]) for a, s in zip(args, spread, strict=True)),
                    **keywords,
                )
            found[place] = bool(ties)
        return found
    if not hasattr(row, "at_kink") or row.kinds:
        return np.ones(shape, np.bool_)
    at = row.at_kink(*(midpoints(a) if isinstance(a, Ball) else a for a in args), **keywords)
    if at is None or np.shape(at) != shape or not np.any(at):
        return np.ones(shape, np.bool_)
    return np.asarray(at, np.bool_)


def at_a_kink(node: Node, args: Sequence[Any], mask: Mask) -> tuple[Tied, ...]:
    """The arguments that move the elements in `mask` of a node at a kink."""
    from reference_engine.traced import Traced

    alike = elementwise(node.op)
    return tuple(
        Tied(mask, arg, *related(node, alike, arg.shape, mask.shape))
        for arg in args
        if isinstance(arg, Traced)
    )


def is_mild(program: Program, index: int) -> bool:
    """Check whether a tie of this node is a kink and neither a jump nor a steep point: the node
    changes by no more than a multiple of its arguments' change. The points of an elementwise row
    say so."""
    from reference_engine.traced import ROWS

    op = program.nodes[index].op
    if not elementwise(op):
        return op in MILD and program.nodes[index].keywords.get("ord", 2) >= 1
    kinds = {point.kind for point in ROWS[op].points}
    return bool(kinds & {"kink", "tie"}) and kinds <= {"kink", "tie", "limit", "edge"}


def around_jumps(program: Program, ties: Ties) -> tuple[Mask, dict[str, Mask]]:
    """Mark the elements of the output after a jump, and the elements of every input before one."""
    jumps = {index: mask for index, mask in ties.items() if not is_mild(program, index)}
    after = {i: np.zeros(node.shape, np.bool_) for i, node in enumerate(program.nodes)}
    before = {i: mask.copy() for i, mask in after.items()}
    for index, node in enumerate(program.nodes):
        after[index] |= jumps.get(index, np.False_)
        for i in () if node.op == STOP else node.args:
            moved, _ = _relation(program, index, i)
            after[index] |= moved(after[i])
    for index in range(len(program.nodes) - 1, -1, -1):
        node = program.nodes[index]
        reached = before[index] | jumps.get(index, np.False_)
        for i in () if node.op == STOP else node.args:
            _, moving = _relation(program, index, i)
            before[i] |= moving(reached)
    return after[program.output], {name: before[i] for name, i in program.inputs.items()}


def _relation(program: Program, index: int, argument: int) -> tuple[Spread, Spread]:
    node = program.nodes[index]
    return related(node, elementwise(node.op), program.nodes[argument].shape, node.shape)


def _like_kind(like: Any, one: Any) -> Any:
    from reference_engine.arithmetic.balls import Ball, wrap

    return wrap(one) if isinstance(like, Ball) else np.asarray(one)


def related(
    node: Node, elementwise: bool, source: tuple[int, ...], y: tuple[int, ...]
) -> tuple[Spread, Spread]:
    """`moved` and `moving` of `Tied`, for an argument of shape `source` and a node of shape `y`."""
    if elementwise and broadcasts(source, y):
        return (lambda mask: np.broadcast_to(mask, y)), (lambda mask: _folded(mask, source))
    axis = node.keywords.get("axis")
    axes = (axis,) if isinstance(axis, int) else axis
    if isinstance(axes, tuple) and source:
        along_them = {one % len(source) for one in axes}
        kept = tuple(1 if i in along_them else n for i, n in enumerate(source))
        if y == source:

            def along(mask: Any) -> Any:
                return np.broadcast_to(_folded(mask, kept), source)

            return along, along
        if int(np.prod(y)) == int(np.prod(kept)):
            return (
                lambda mask: _folded(mask, kept).reshape(y),
                lambda mask: np.broadcast_to(mask.reshape(kept), source),
            )
    return (lambda mask: np.full(y, _or_all(mask))), (lambda mask: np.full(source, _or_all(mask)))


def _folded(mask: Any, shape: tuple[int, ...]) -> Any:
    """Reduce a mask to `shape` with `or`, over the elements that broadcasting makes from one
    element."""
    extra = mask.ndim - len(shape)
    found = np.bitwise_or.reduce(mask, axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1)
    return np.bitwise_or.reduce(found, axis=axes, keepdims=True)


def _or_all(mask: Any) -> Any:
    return np.bitwise_or.reduce(mask, axis=None)


@cached_by_program
def groups(program: Program, wrt: tuple[str, ...]) -> tuple[Mask, list[list[int]]] | None:
    """`influence_mask`, and its rows in `disjoint` groups; None if there is none."""
    reach = influence_mask(program, wrt)
    return None if reach is None else (reach, disjoint(reach))


def influence_mask(program: Program, wrt: Sequence[str]) -> Mask | None:
    """Mark the elements of the inputs that may move each element of the output, (rows, columns),
    both flattened; None if the inputs have more than 64 elements."""
    sizes = [int(np.prod(program.nodes[program.inputs[name]].shape)) for name in wrt]
    count = sum(sizes)
    if count > 64:
        return None
    each = np.left_shift(np.uint64(1), np.arange(count, dtype=np.uint64))
    reached = {i: np.zeros(node.shape, np.uint64) for i, node in enumerate(program.nodes)}
    for name, bits in zip(wrt, np.split(each, np.cumsum(sizes)[:-1]), strict=True):
        reached[program.inputs[name]] = bits.reshape(program.nodes[program.inputs[name]].shape)
    for index, node in enumerate(program.nodes):
        for place, i in enumerate(node.args):
            reached[index] = reached[index] | moved_of_argument(program, index, place)(reached[i])
    return np.asarray(reached[program.output].reshape(-1, 1) & each != 0)


def loses_rank(program: Program, values: Sequence[Any]) -> bool:
    """Check whether a RANKED row is applied to a matrix without full rank, from the `values` of
    nodes."""
    return any(
        np.any(np.linalg.matrix_rank(values[node.args[0]]) < min(values[node.args[0]].shape[-2:]))
        for node in program.nodes
        if node.op in RANKED
    )


def with_unknown(y: Any, ties: Sequence[Tied]) -> Any:
    """`y` with the same elements, and an unknown derivative for those on a tie."""
    from reference_engine.custom import custom_gradient

    def pull(y_bar: Any, *_: Any) -> tuple[Any, ...]:
        return (y_bar, *(_unknown(t.moving(t.mask & _nonzero(y_bar))) for t in ties))

    def push(y_dot: Any, *others: Any) -> Any:
        total = y_dot
        for tie, x_dot in zip(ties, others, strict=False):
            total = total + _unknown(tie.mask & tie.moved(_nonzero(x_dot)))
        return total

    @custom_gradient(pull, push)
    def same(first: Any, *_: Any) -> Any:
        return first

    return same(y, *(tie.source for tie in ties))


def _nonzero(x: Any) -> Mask:
    """Mark the balls that are not exactly 0. A change of higher order moves a kink by no more."""
    from reference_engine.arithmetic.arbs import unwrap

    return ~np.asarray(np.frompyfunc(lambda one: one == 0, 1, 1)(unwrap(x)), np.bool_)


def _unknown(mask: Mask) -> Any:
    """Balls that hold no number where `mask` is set, and zeros elsewhere."""
    from flint import arb

    from reference_engine.arithmetic.ball_choices import NOTHING
    from reference_engine.arithmetic.balls import Ball

    made = np.empty(mask.shape, dtype=object)
    made[...] = NOTHING
    made[mask] = arb.nan()
    return Ball(made)


def moved_of_argument(program: Program, index: int, place: int) -> Spread:
    """`moved` of `Tied`, for one argument of a node."""
    node = program.nodes[index]
    if node.op == "matmul" and all(len(program.nodes[i].shape) > 1 for i in node.args):
        summed = (-1, -2)[place]
        return lambda mask: np.bitwise_or.reduce(mask, axis=summed, keepdims=True)
    moved, _ = _relation(program, index, node.args[place])
    return moved


def disjoint(reach: Mask) -> list[list[int]]:
    """The rows in groups, so that no two rows of a group have a column in common."""
    groups: list[list[int]] = []
    taken: list[Mask] = []
    for row, mine in enumerate(reach):
        for group, columns in zip(groups, taken, strict=True):
            if not np.any(columns & mine):
                group.append(row)
                columns |= mine
                break
        else:
            groups.append([row])
            taken.append(mine.copy())
    return groups
