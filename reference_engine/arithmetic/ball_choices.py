"""Comparisons of balls, and the operations that choose by comparisons.

A choice requires that the balls decide it; otherwise Undecided is raised. Two balls are equal if
both are exact and the same, or if they are the same object: an element that was chosen from an
array is still that element. A choice between equal numbers is a tie, which `noting_ties` collects,
except between an element and itself. That choice is the same whatever moves, as between the zeros
that `relu` makes of negative numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cmp_to_key
from typing import Any

import numpy as np
from flint import arb

from reference_engine.arithmetic.arbs import Objects, Undecided, unwrap
from reference_engine.arithmetic.constants import SELU_LEFT, SELU_SCALE

_ties: ContextVar[set[str] | None] = ContextVar("rows that stood on a tie or a kink", default=None)


@contextmanager
def noting_ties() -> Iterator[set[str]]:
    """Inside the block, collects the kinds of choices that met an exact tie."""
    kinds: set[str] = set()
    token = _ties.set(kinds)
    try:
        yield kinds
    finally:
        _ties.reset(token)


class Nothing(arb):
    """The 0 of a path that was not taken, or of an element that was not chosen. Its product with
    nan or inf is still nothing, whereas a computed 0 gives nan."""

    def __mul__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, np.ndarray) else self

    __rmul__ = __truediv__ = __mul__

    def __neg__(self) -> Any:
        return self

    def __add__(self, other: Any) -> Any:
        return other if isinstance(other, (arb, np.ndarray)) else arb(other)

    __radd__ = __rsub__ = __add__

    def __sub__(self, other: Any) -> Any:
        return -other if isinstance(other, (arb, np.ndarray)) else arb(-other)


NOTHING = Nothing(0)
ZERO = arb(0)


def note_tie(kind: str) -> None:
    """Tells `noting_ties` about a point without a derivative that is not a choice."""
    kinds = _ties.get()
    if kinds is not None:
        kinds.add(kind)


def order(a: Any, b: Any) -> int:
    """-1, 0 or 1 for a < b, a = b, a > b. Raises Undecided if the balls do not decide."""
    if a is b:
        return 0
    if a < b:
        return -1
    if a > b:
        return 1
    if a == b:  # true of exact numbers alone
        return 0
    raise Undecided("two balls overlap")


def _order_noting_ties(kind: str, a: Any, b: Any) -> int:
    way = order(a, b)
    if way == 0 and a is not b:
        note_tie(kind)
    return way


def _booleans(test: Callable[[int], bool]) -> Callable[..., Any]:
    decide = np.frompyfunc(lambda a, b: test(_order_noting_ties("comparison", a, b)), 2, 1)
    return lambda a, b: np.asarray(decide(a, b), np.bool_)


def _sign_of(x: Any) -> int:
    return _order_noting_ties("sign", x, 0)


def truths(x: Any) -> Any:
    """Which numbers are not 0. A boolean array is returned unchanged."""
    x = np.asarray(x)
    if x.dtype != object:
        return x.astype(np.bool_)
    return np.asarray(np.frompyfunc(lambda one: order(one, 0) != 0, 1, 1)(x), np.bool_)


def _rounded(towards: str) -> Callable[[Any], Any]:
    def whole(x: Any) -> Any:
        found = getattr(x, towards)()
        if not found.is_exact():
            raise Undecided("a ball holds a whole number")
        if x == found:
            note_tie("step")
        return found

    return whole


def _nearest(x: Any) -> Any:
    """Rounds to the nearest integer, ties to even, as np.rint."""
    below = (x + 0.5).floor()
    if not below.is_exact():
        raise Undecided("a ball holds a number halfway between two whole ones")
    if x + 0.5 == below:
        note_tie("step")
        return below - 1 if int(below.unique_fmpz()) % 2 else below
    return below


def floor_of_quotient(a: Any, b: Any) -> Any:
    """How many whole times b goes into a."""
    return _rounded("floor")(a / b)


def larger(a: Any, b: Any) -> Any:
    return a if _order_noting_ties("maximum", a, b) >= 0 else b


def smaller(a: Any, b: Any) -> Any:
    return a if _order_noting_ties("minimum", a, b) <= 0 else b


def _clip(x: Any, min: Any = None, max: Any = None) -> Any:
    if min is not None:
        low = arb(min)
        x = np.frompyfunc(lambda one: larger(one, low), 1, 1)(x)
    if max is None:
        return x
    high = arb(max)
    return np.frompyfunc(lambda one: smaller(one, high), 1, 1)(x)


def lines(x: Objects, axis: Any) -> tuple[Objects, tuple[int, ...]]:
    """The elements that are reduced together, as rows of an array (n, length); and the shape of the
    result with the reduced axes kept at length 1."""
    from reference_engine.rules import axes_of

    axes = axes_of(axis, x.ndim)
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    last = tuple(range(x.ndim - len(axes), x.ndim))
    moved = np.moveaxis(x, axes, last)
    length = int(np.prod([x.shape[i] for i in axes]))
    return moved.reshape(int(np.prod(kept)), length), kept


def reduced(
    x: Objects, axis: Any, keepdims: bool, function: Callable[[Sequence[Any]], Any]
) -> Objects:
    """`function` applied to the elements that are reduced together."""
    from reference_engine.rules import axes_of

    rows, kept = lines(x, axis)
    result = np.empty(len(rows), dtype=object)
    result[:] = [function(row) for row in rows]
    shaped = result.reshape(kept)
    return shaped if keepdims else np.squeeze(shaped, axis=axes_of(axis, x.ndim))


def best_of(row: Sequence[Any], way: int) -> int:
    """The index of the largest (way 1) or smallest (way -1) element; the first of several."""
    if not len(row):
        raise ValueError("the extreme of no elements")
    best = 0
    ties = False
    for i in range(1, len(row)):
        ordering = order(row[i], row[best])
        if ordering == way:
            best, ties = i, False
        elif ordering == 0 and row[i] is not row[best]:
            ties = True
    if ties:
        note_tie("extreme")
    return best


def _extreme(way: int) -> Callable[..., Any]:
    def value(x: Objects, axis: Any = None, keepdims: bool = False) -> Any:
        return reduced(x, axis, keepdims, lambda row: row[best_of(row, way)])

    return value


def _argument(way: int) -> Callable[..., Any]:
    def value(x: Objects, axis: Any = None, keepdims: bool = False) -> Any:
        found = reduced(x, axis, keepdims, lambda row: best_of(row, way))
        return np.asarray(found, np.int64)

    return value


def argsort(x: Objects, axis: int = -1, descending: bool = False) -> Any:
    """The indices that sort x, stable. Raises Undecided if the balls do not decide."""
    moved = np.moveaxis(x, axis, -1)
    rows = moved.reshape(int(np.prod(moved.shape[:-1])), moved.shape[-1])
    indices = np.empty(rows.shape, np.int64)
    for i, row in enumerate(rows):
        key = cmp_to_key(lambda a, b: _order_noting_ties("order", a, b))
        indices[i] = sorted(range(len(row)), key=lambda k: key(row[k]), reverse=descending)
    return np.moveaxis(indices.reshape(moved.shape), -1, axis)


def _sort(x: Objects, axis: int = -1, descending: bool = False) -> Any:
    return np.take_along_axis(x, argsort(x, axis, descending), axis)


def _top_indices(x: Objects, k: int, axis: int = -1, largest: bool = True) -> Any:
    return np.take(argsort(x, axis, largest), range(k), axis)


def _top(x: Objects, k: int, axis: int = -1, largest: bool = True) -> Any:
    return np.take_along_axis(x, _top_indices(x, k, axis, largest), axis)


def _leaky(x: Objects, negative_slope: float = 0.01) -> Any:
    return np.frompyfunc(lambda one: one if _sign_of(one) > 0 else negative_slope * one, 1, 1)(x)


def _elu(x: Objects, alpha: float = 1.0) -> Any:
    return np.frompyfunc(lambda one: one if _sign_of(one) > 0 else alpha * one.expm1(), 1, 1)(x)


def _selu(x: Objects) -> Any:
    scale, left = SELU_SCALE.ball(), SELU_LEFT.ball()
    return np.frompyfunc(
        lambda one: scale * one if _sign_of(one) > 0 else left * one.expm1(), 1, 1
    )(x)


def _running(way: int) -> Callable[..., Any]:
    def value(x: Objects, axis: int | None = None) -> Any:
        choose = larger if way > 0 else smaller
        return np.frompyfunc(choose, 2, 1).accumulate(x, axis=0 if axis is None else axis)

    return value


def choose(condition: Any, a: Any, b: Any) -> Any:
    """a where the condition holds, b elsewhere. A Python number 0, as in rules, becomes Nothing."""
    a, b = (NOTHING if type(x) is float and x == 0 else unwrap(x) for x in (a, b))
    return np.where(truths(unwrap(condition)), a, b)


CHOICES: dict[str, Callable[..., Any]] = {
    "less": _booleans(lambda way: way < 0),
    "less_equal": _booleans(lambda way: way <= 0),
    "greater": _booleans(lambda way: way > 0),
    "greater_equal": _booleans(lambda way: way >= 0),
    "equal": _booleans(lambda way: way == 0),
    "not_equal": _booleans(lambda way: way != 0),
    "logical_and": lambda a, b: truths(a) & truths(b),
    "logical_or": lambda a, b: truths(a) | truths(b),
    "logical_not": lambda a: ~truths(a),
    "all": lambda x, axis=None, keepdims=False: np.all(truths(x), axis=axis, keepdims=keepdims),
    "any": lambda x, axis=None, keepdims=False: np.any(truths(x), axis=axis, keepdims=keepdims),
    "count_nonzero": lambda x, axis=None, keepdims=False: np.asarray(
        np.count_nonzero(truths(x), axis=axis, keepdims=keepdims)
    ),
    "where": choose,
    "sign": np.frompyfunc(lambda x: arb(_sign_of(x)), 1, 1),
    "floor": np.frompyfunc(_rounded("floor"), 1, 1),
    "ceil": np.frompyfunc(_rounded("ceil"), 1, 1),
    "round": np.frompyfunc(_nearest, 1, 1),
    "floor_divide": np.frompyfunc(floor_of_quotient, 2, 1),
    "remainder": np.frompyfunc(lambda a, b: a - b * floor_of_quotient(a, b), 2, 1),
    "maximum": np.frompyfunc(larger, 2, 1),
    "minimum": np.frompyfunc(smaller, 2, 1),
    "abs": np.frompyfunc(lambda x: x if _sign_of(x) >= 0 else -x, 1, 1),
    "relu": np.frompyfunc(lambda x: x if _sign_of(x) > 0 else ZERO, 1, 1),
    "clip": _clip,
    "hardtanh": lambda x, min=-1.0, max=1.0: _clip(x, min, max),
    "leaky_relu": _leaky,
    "elu": _elu,
    "selu": _selu,
    "max": _extreme(1),
    "min": _extreme(-1),
    "argmax": _argument(1),
    "argmin": _argument(-1),
    "sort": _sort,
    "argsort": argsort,
    "topk_values": _top,
    "topk_indices": _top_indices,
    "cummax": _running(1),
    "cummin": _running(-1),
}
