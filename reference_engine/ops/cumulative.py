"""Running sums, products and extremes."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np

from reference_engine.floats import all_in_float32, in_float32
from reference_engine.op import Op, Point, internal, row
from reference_engine.ops.arithmetic import divide
from reference_engine.ops.indexing import getitem
from reference_engine.ops.selection import equal
from reference_engine.ops.shape import flip, moveaxis, pad
from reference_engine.rules import Implicit, Linear, Tangents
from reference_engine.traced import Value, shape_of


def _axis_of(x: Value, axis: int | None) -> int:
    """The axis, counted from 0. Raises ValueError if it is missing, or if x has no axis."""
    ndim = len(shape_of(x))
    if axis is None and ndim != 1:
        raise ValueError(f"an array of {ndim} axes needs the axis to go along")
    return int(np.lib.array_utils.normalize_axis_index(0 if axis is None else axis, ndim))


def _with_axis(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *, axis=None: function(x, axis=_axis_of(x, axis))


def _cumsum_back(g: Value, x: Value, axis: int | None = None) -> Value:
    axis = _axis_of(x, axis)
    return flip(cumsum(flip(g, axis=axis), axis=axis), axis=axis)


cumsum: Op = row(
    "cumsum",
    in_float32(_with_axis(np.cumsum)),
    Linear(_cumsum_back),
    aliases=("cumulative_sum",),
    rounding="sums",
).says(
    "y_i = x_0 + ... + x_i along an axis, which is needed unless there is but one",
    "cumsum; transposed: the sums of everything from an element on",
    domain="at least one axis",
)


FEW = 32
"""Up to so many recurrences at once, Python's numbers are quicker than NumPy's steps."""


@all_in_float32
def _recurrence_value(x1: Any, x2: Any) -> Any:
    count, n = math.prod(x2.shape[:-1]), x2.shape[-1]
    if count <= FEW:
        pairs = zip(x1.reshape(count, n).tolist(), x2.reshape(count, n).tolist(), strict=True)
        rows = [list(accumulate(zip(*pair, strict=True), _step, initial=0.0))[1:] for pair in pairs]
        return np.array(rows, x2.dtype).reshape(x2.shape)
    y = np.empty(x2.shape[::-1], x2.dtype).T  # its last axis is the slowest: steps are contiguous
    state: Any = np.zeros(x2.shape[:-1], x2.dtype)
    for i in range(n):
        state = y[..., i] = x1[..., i] * state + x2[..., i]
    return y


def _step(state: float, pair: tuple[float, float]) -> float:
    return pair[0] * state + pair[1]


def _shifted(x: Value, first: float) -> Value:
    """`first`, followed by everything except the last element along the last axis."""
    widths = (*((0, 0),) * (len(shape_of(x)) - 1), (1, 0))
    return getitem(pad(x, pad_width=widths, value=first), index=(..., slice(None, -1)))


def _recurrence_adjoint(g: Value, a: Value, b: Value) -> Value:
    """The solution of u_i = a_(i+1) u_(i+1) + g_i."""
    return flip(recurrence(_shifted(flip(a, axis=-1), 0.0), flip(g, axis=-1)), axis=-1)


# The derivative of cumulative products and extremes. Its own derivative is of the same kind.
recurrence: Op = internal(
    "recurrence",
    _recurrence_value,
    Implicit(
        lambda r, a, b: recurrence(a, r),
        _recurrence_adjoint,
        lambda a_dot, y, a, b: a_dot * _shifted(y, 0.0),
        lambda b_dot, y, a, b: b_dot,
    ),
    rounding="sums",
).says(
    "y_i = x1_i y_(i-1) + x2_i along the last axis, starting from y_(-1) = 0",
    "y_dot = recurrence(x1, x1_dot_i y_(i-1) + x2_dot_i); transposed: the same backwards",
    domain="both of one shape",
    source="Blelloch, Prefix sums and their applications (1990), section 1.4",
)


def _cumprod_push(x_dot: Value, y: Value, x: Value, axis: int | None = None) -> Value:
    """y_dot_i = x_i y_dot_(i-1) + x_dot_i y_(i-1). Nothing is divided, so zeros are right too."""
    axis = _axis_of(x, axis)
    before = _shifted(moveaxis(y, source=axis, destination=-1), 1.0)
    factors = moveaxis(x, source=axis, destination=-1)
    moved = moveaxis(x_dot, source=axis, destination=-1) * before
    return moveaxis(recurrence(factors, moved), source=-1, destination=axis)


cumprod: Op = row(
    "cumprod",
    in_float32(_with_axis(np.cumprod)),
    Tangents(_cumprod_push),
    aliases=("cumulative_prod",),
    points=(
        Point("an x = 0", "limit", ([2.0, 0.0, 3.0, 0.0],), ([1.0, 8.0, 0.0, 0.0],)).because(
            "TensorFlow divides by x, and takes 0 for 0 / 0", tensorflow=([1.0, 0.0, 0.0, 0.0],)
        ),
    ),
).says(
    "y_i = x_0 ... x_i along an axis, which is needed unless there is but one",
    "y_dot_i = x_i y_dot_(i-1) + x_dot_i y_(i-1)",
    domain="at least one axis",
    stability="as a recurrence: y_i / x_j would be 0 / 0 at a zero",
)


def _running(name: str, alias: str, function: Any, adjective: str) -> Op:
    def push(x_dot: Value, y: Value, x: Value, axis: int | None = None) -> Value:
        """The mean of the tangents of those elements so far that equal y_i: a running sum that
        restarts wherever y changes."""
        axis = _axis_of(x, axis)
        reached = moveaxis(y, source=axis, destination=-1)
        found = equal(moveaxis(x, source=axis, destination=-1), reached)
        before = (..., slice(None, -1))
        again = equal(getitem(reached, index=(..., slice(1, None))), getitem(reached, index=before))
        attained = np.asarray(found, np.float64).astype(y.dtype)
        same = np.zeros_like(attained)
        same[..., 1:] = again
        ties = _recurrence_value(same, attained)
        moved = moveaxis(x_dot, source=axis, destination=-1) * attained
        y_dot = divide(recurrence(same, moved), ties)
        return moveaxis(y_dot, source=-1, destination=axis)

    def kinks_at(x: Any, axis: int | None = None) -> Any:
        axis = _axis_of(x, axis)
        flat = np.moveaxis(x, axis, -1)
        reached = function.accumulate(flat, axis=-1)
        attained = np.equal(flat, reached).astype(np.float64)
        same = np.zeros_like(attained)
        same[..., 1:] = np.equal(reached[..., 1:], reached[..., :-1])
        return np.moveaxis(_recurrence_value(same, attained) > 1, -1, axis)

    return row(
        name,
        _with_axis(function.accumulate),
        Tangents(push),
        aliases=(alias,),
        rounding="none",
        points=(
            Point(
                "k elements tie",
                "tie",
                ([2.0, 2.0, 2.0],),
                ([1 + 1 / 2 + 1 / 3, 1 / 2 + 1 / 3, 1 / 3],),
            ).because(
                "1/k each, as for max; PyTorch takes the last of them",
                torch=([1.0, 1.0, 1.0],),
                jax=([1.75, 0.75, 0.5],),
            ),
        ),
        kinks_at=kinks_at,
    ).says(
        f"y_i = the {adjective} of x_0, ..., x_i along an axis, which is needed unless "
        "there is but one",
        f"y_dot_i = x_dot of the {adjective} element so far",
        domain="at least one axis",
    )


cummax = _running("cummax", "cumulative_max", np.maximum, "largest")
cummin = _running("cummin", "cumulative_min", np.minimum, "smallest")
