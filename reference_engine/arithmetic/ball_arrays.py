"""Enclosures of sums, products, contractions, and operations that move elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flint import arb, arb_mat

from reference_engine.arithmetic.arbs import Objects, objects
from reference_engine.arithmetic.ball_choices import (
    CHOICES,
    NOTHING,
    argsort,
    note_tie,
    order,
    reduced,
)
from reference_engine.arithmetic.ball_functions import softplus
from reference_engine.op import Op
from reference_engine.rules import axes_of
from reference_engine.traced import ROWS

MOVING = (
    *("reshape", "expand_dims", "squeeze", "transpose", "broadcast_to", "moveaxis", "flip", "roll"),
    *("tile", "repeat", "pad", "tril", "triu", "diag", "getitem", "concatenate", "stack", "take"),
    *("take_along_axis", "scatter_add", "patches", "unpatch", "stop_gradient"),
)
"""Rows whose own value on arrays of objects moves them, adds them up and puts zeros between."""

ADDING = (
    *("cumsum", "cumprod", "recurrence", "exclusive_prod", "sum_of_others", "outer", "cross"),
    *("einsum", "conv1d", "conv2d", "conv_input", "conv_weight", "trace"),
)
"""Rows whose own value on arrays of objects is sums and products of theirs, and nothing else."""


def value_of_row(name: str) -> Callable[..., Objects]:
    """The value function of the row itself, whose operators work on balls. Zeros of NumPy become
    balls."""
    row: Op = ROWS[name]
    return lambda *xs, **keywords: objects(row.raw(*xs, **keywords))


def _scatter(g: Objects, shape: tuple[int, ...], index: Any) -> Any:
    """The same as the row. Elements that nothing is added to become Nothing instead of 0."""
    x = np.full(shape, NOTHING, dtype=object)
    ROWS["getitem"].add_to(x, g if g.ndim else g.item(), index=index)
    return x


def _sum(x: Objects, axis: Any = None, keepdims: bool = False) -> Any:
    return objects(np.sum(x, axis=axis, keepdims=keepdims))


def _count(x: Objects, axis: Any) -> int:
    return int(np.prod([x.shape[i] for i in axes_of(axis, x.ndim)]))


def _mean(x: Objects, axis: Any = None, keepdims: bool = False) -> Any:
    count = _count(x, axis)
    return _sum(x, axis, keepdims) / count if count else objects(np.nan * np.zeros(()))


def _center(x: Objects, axis: Any = None) -> Any:
    return x - _mean(x, axis, True)


def _var(x: Objects, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    free = max(_count(x, axis) - correction, 0)
    return _sum(_center(x, axis) ** 2, axis, keepdims) / arb(free)


def _lengths(squares: Any) -> Any:
    """Square roots of sums of squares. A length of 0 is a kink."""

    def root(one: Any) -> Any:
        if one == 0:
            note_tie("length")
        return one.sqrt()

    return np.frompyfunc(root, 1, 1)(squares)


def _std(x: Objects, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
    return _lengths(_var(x, axis, correction, keepdims))


def _norm(x: Objects, ord: float = 2, axis: Any = None, keepdims: bool = False) -> Any:
    if ord == 2:
        return _lengths(_sum(x**2, axis, keepdims))
    if abs(ord) == np.inf:
        return _extreme_size(x, 1 if ord > 0 else -1, axis, keepdims)
    if ord == 1:
        return _sum(CHOICES["abs"](x), axis, keepdims)
    total = _sum(_powers(np.abs(x), arb(ord)), axis, keepdims)
    return _powers(total, 1 / arb(ord))


def _powers(x: Any, n: Any) -> Any:
    def power(one: Any) -> Any:
        if one != 0:
            return one**n
        if n <= 1:
            note_tie("length")
        return one

    return np.frompyfunc(power, 1, 1)(x)


def _extreme_size(x: Objects, way: int, axis: Any, keepdims: bool) -> Any:
    """The largest or smallest |x|. A positive element of x stays the same object, so that it is
    recognised later."""
    return CHOICES["max" if way > 0 else "min"](CHOICES["abs"](x), axis, keepdims)


def _shift(row: Sequence[Any]) -> Any:
    """An exact number near the largest, to subtract before exponentials are taken."""
    finite = [one.mid() for one in row if one.is_finite()]
    return max(finite) if finite else arb(0)


def _logsumexp_of(row: Sequence[Any]) -> Any:
    if len(row) == 2 and row[0].is_finite() and row[1].is_finite():
        a, b = row
        return a + softplus(b - a) if a.mid() >= b.mid() else b + softplus(a - b)
    c = _shift(row)
    return c + sum(((one - c).exp() for one in row), arb(0)).log()


def _logsumexp(x: Objects, axis: Any = -1, keepdims: bool = False) -> Any:
    return reduced(x, axis, keepdims, _logsumexp_of)


def _log_softmax(x: Objects, axis: Any = -1) -> Any:
    return x - _logsumexp(x, axis, True)


def _softmax(x: Objects, axis: Any = -1) -> Any:
    shift = reduced(x, axis, True, _shift)
    e = np.frompyfunc(arb.exp, 1, 1)(x - shift)
    return e / _sum(e, axis, True)


def _median(x: Objects, axis: Any = None, keepdims: bool = False) -> Any:
    def middle(row: Any) -> Any:
        ordered = row[argsort(row)]
        low, high = ordered[(len(row) - 1) // 2], ordered[len(row) // 2]
        return low if order(low, high) == 0 else (low + high) / 2

    return reduced(x, axis, keepdims, middle)


def product(a: Objects, b: Objects) -> Objects:
    """The product of two matrices; Arb's own is five times as fast as NumPy's loop."""
    if min(a.shape + b.shape) < 2:
        return objects(np.matmul(a, b))
    result = np.empty((a.shape[0], b.shape[1]), dtype=object)
    result[:] = (arb_mat(a.tolist()) * arb_mat(b.tolist())).tolist()
    return result


def _matmul(a: Objects, b: Objects) -> Any:
    shape = ROWS["matmul"].result_shape(a.shape, b.shape)
    left = a[None, :] if a.ndim == 1 else a
    right = b[:, None] if b.ndim == 1 else b
    return stacked(product, left, right).reshape(shape)


def stacked(function: Callable[[Objects, Objects], Objects], a: Objects, b: Objects) -> Objects:
    """A function of two matrices, applied to stacks of matrices that broadcast."""
    if a.ndim == b.ndim == 2:
        return function(a, b)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = np.broadcast_to(a, (*batch, *a.shape[-2:]))
    b = np.broadcast_to(b, (*batch, *b.shape[-2:]))
    parts = [function(a[i], b[i]) for i in np.ndindex(batch)]
    if not parts:
        return objects(np.zeros((*batch, a.shape[-2], b.shape[-1])))
    return np.stack(parts).reshape((*batch, *parts[0].shape))


ARRAYS: dict[str, Callable[..., Any]] = {
    "sum": _sum,
    "prod": lambda x, axis=None, keepdims=False: objects(np.prod(x, axis=axis, keepdims=keepdims)),
    "mean": _mean,
    "centered": _center,
    "var": _var,
    "std": _std,
    "norm": _norm,
    "logsumexp": _logsumexp,
    "log_softmax": _log_softmax,
    "softmax": _softmax,
    "soft_nll": lambda logits, q, axis: -_sum(q * _log_softmax(logits, axis), axis),
    "median": _median,
    "matmul": _matmul,
    "scatter": _scatter,
    "astype": lambda x, dtype: x,
    "safe_scale": lambda x, axis: np.ones(
        tuple(1 if i in axes_of(axis, x.ndim) else n for i, n in enumerate(x.shape))
    ),
    "zeros_like": lambda x: objects(np.zeros(x.shape)),
    "ones_like": lambda x: objects(np.ones(x.shape)),
    "full_like": lambda x, fill_value: objects(np.full(x.shape, fill_value)),
}
