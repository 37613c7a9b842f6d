"""Which entries of a derivative hang on an operation that stands on a kink, a tie or a jump.

There a rule gives a convention, and nothing proves it. So each such element of a node gets an
unknown derivative by everything that may move it: balls that hold no number, which spread to the
entries that depend on them and to no others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gradcheck_cli.domain.program import Node, Program
from gradcheck_cli.truth.plain import elementwise

Mask = npt.NDArray[np.bool_]
Spread = Callable[[Mask], Mask]
Ties = dict[int, Mask]
"""By node of a program, which of its elements stand on a tie."""

LIPSCHITZ = frozenset(
    [
        *("abs", "relu", "leaky_relu", "elu", "selu", "clip", "hardtanh", "maximum", "minimum"),
        *("max", "min", "sort", "topk_values", "median", "cummax", "cummin", "hypot"),
    ]
)
"""Rows that change by no more than a multiple of their arguments' change, also at a tie."""


@dataclass(frozen=True, slots=True)
class Tied:
    """Elements of a node that stand on a tie, `mask` in its shape, and the argument `source` that
    moves them: `moved` says which elements of the node an element of the argument may move,
    `moving` the other way round. `mild`: no faster than the argument itself."""

    mask: Mask
    source: Any
    moved: Spread
    moving: Spread
    mild: bool = False


def tied_elements(row: Any, args: Sequence[Any], keywords: Mapping[str, Any], y: Any) -> Mask:
    """Which elements of `y`, the result of a call that met a tie, are at one; all of them where
    that cannot be said."""
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
                row(*(_alone(a, s[place]) for a, s in zip(args, spread, strict=True)), **keywords)
            found[place] = bool(ties)
        return found
    if not hasattr(row, "at_kink") or row.kinds:
        return np.ones(shape, np.bool_)
    at = row.at_kink(*(midpoints(a) if isinstance(a, Ball) else a for a in args), **keywords)
    if at is None or np.shape(at) != shape or not np.any(at):
        return np.ones(shape, np.bool_)
    return np.asarray(at, np.bool_)


def ties_at(
    node: Node,
    program: Program,
    args: Sequence[Any],
    y: Any,
    mask: Mask | None,
    hidden: Mapping[int, tuple[Tied, ...]],
) -> tuple[Tied, ...]:
    """What a node's result hangs on: its own tie, and those `hidden` in arguments that are no
    floating numbers, such as the condition of a choice."""
    from reference_engine.traced import Traced, shape_of

    shape = shape_of(y)
    alike = elementwise(node.op)
    found = []
    if mask is not None:
        for i, arg in zip(node.args, args, strict=True):
            if program.nodes[i].kind == "float" and isinstance(arg, Traced):
                spread = related(node, alike, arg.shape, shape)
                found.append(Tied(mask, arg, *spread, mild=node.op in LIPSCHITZ))
    for i in node.args:
        for tie in hidden.get(i, ()):
            near = alike and _broadcasts(tie.mask.shape, shape)
            at = np.broadcast_to(tie.mask, shape) if near else np.full(shape, True)
            source = tie.source.shape
            found.append(Tied(at, tie.source, *related(node, near, source, shape)))
    return tuple(found)


def _alone(like: Any, one: Any) -> Any:
    from reference_engine.arithmetic.balls import Ball, wrap

    return wrap(one) if isinstance(like, Ball) else np.asarray(one)


def related(
    node: Node, elementwise: bool, source: tuple[int, ...], y: tuple[int, ...]
) -> tuple[Spread, Spread]:
    """`moved` and `moving` of `Tied`, for an argument of shape `source` of a node of shape `y`."""
    if elementwise and _broadcasts(source, y):
        return (lambda hot: np.broadcast_to(hot, y)), (lambda hot: _folded(hot, source))
    axis = node.keywords.get("axis")
    if isinstance(axis, int) and source:
        kept = tuple(1 if i == axis % len(source) else n for i, n in enumerate(source))
        if y == source:

            def along(hot: Mask) -> Mask:
                return np.broadcast_to(_folded(hot, kept), source)

            return along, along
        if int(np.prod(y)) == int(np.prod(kept)):
            return (
                lambda hot: _folded(hot, kept).reshape(y),
                lambda hot: np.broadcast_to(hot.reshape(kept), source),
            )
    return (lambda hot: np.full(y, np.any(hot))), (lambda hot: np.full(source, np.any(hot)))


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False


def _folded(hot: Mask, shape: tuple[int, ...]) -> Mask:
    """Whether any of the elements is hot that broadcasting makes of one of `shape`."""
    extra = hot.ndim - len(shape)
    found = np.any(hot, axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1)
    return np.asarray(np.any(found, axis=axes, keepdims=True))


def with_unknown(y: Any, ties: Sequence[Tied]) -> Any:
    """`y` with the same elements, and with an unknown derivative of those on a tie."""
    from reference_engine.custom import custom_gradient

    def pull(y_bar: Any, *_: Any) -> tuple[Any, ...]:
        return (y_bar, *(_unknown(t.moving(t.mask & _hot(y_bar, t.mild))) for t in ties))

    def push(y_dot: Any, *others: Any) -> Any:
        total = y_dot
        for tie, x_dot in zip(ties, others, strict=False):
            total = total + _unknown(tie.mask & tie.moved(_hot(x_dot, tie.mild)))
        return total

    @custom_gradient(pull, push)
    def same(first: Any, *_: Any) -> Any:
        return first

    return same(y, *(tie.source for tie in ties))


def _hot(x: Any, mild: bool) -> Mask:
    """Where a change reaches a tie: everywhere but on paths that were not taken. A change of higher
    order, exactly 0 here, moves what is `mild` by no more; elsewhere it may make it jump."""
    from reference_engine.arithmetic.ball_choices import Nothing
    from reference_engine.arithmetic.balls import unwrap

    def still(one: Any) -> bool:
        return isinstance(one, Nothing) or (mild and one == 0)

    return ~np.asarray(np.frompyfunc(still, 1, 1)(unwrap(x)), np.bool_)


def sparse(direction: Any) -> Any:
    """A tangent or cotangent whose zeros are paths that are not taken."""
    from reference_engine.arithmetic.ball_choices import NOTHING
    from reference_engine.arithmetic.balls import Ball, objects

    made = objects(direction)
    made[np.asarray(direction) == 0] = NOTHING
    return Ball(made)


def _unknown(hot: Mask) -> Any:
    """Balls that hold no number where it is hot, and nothing elsewhere."""
    from flint import arb

    from reference_engine.arithmetic.ball_choices import NOTHING
    from reference_engine.arithmetic.balls import Ball

    made = np.empty(hot.shape, dtype=object)
    made[...] = NOTHING
    made[hot] = arb.nan()
    return Ball(made)
