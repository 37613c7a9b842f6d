"""Lengths of vectors, for any order."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_engine.floats import Array, in_float32
from reference_engine.op import Op, Point, internal, row
from reference_engine.ops.arithmetic import abs_, divide
from reference_engine.ops.control import astype
from reference_engine.ops.reductions import sum_
from reference_engine.ops.selection import equal, sign, where
from reference_engine.rules import Elementwise, Reduction, axes_of
from reference_engine.traced import Value


def _signed_power_value(x: Any, exponent: float) -> Any:
    # 0 to a negative power is inf, and has no sign
    return np.where(np.equal(x, 0), x * 0, np.sign(x) * np.power(np.abs(x), exponent))


# Two rows that are each other's derivatives, so that norms have all derivatives, also at zeros.
abs_power: Op = internal(
    "abs_power",
    in_float32(lambda x, exponent: np.power(np.abs(x), exponent)),
    Elementwise(
        lambda g, y, x, exponent: (
            g * (exponent * signed_power(x, exponent=exponent - 1)) if exponent else None
        )
    ),
    keywords={"exponent": 2.0},
    points=(
        Point("x = 0, 0 < exponent <= 1", "kink", (0.0,), (0.0,), {"exponent": 0.5}).because(
            "the mean of the two sides"
        ),
    ),
    kinks_at=lambda x, exponent=2.0: np.equal(x, 0) & (0 < exponent <= 1),
).says("|x|^exponent", "exponent sign(x) |x|^(exponent - 1)")

signed_power: Op = internal(
    "signed_power",
    in_float32(_signed_power_value),
    Elementwise(
        lambda g, y, x, exponent: (
            g * (exponent * abs_power(x, exponent=exponent - 1)) if exponent else None
        )
    ),
    keywords={"exponent": 2.0},
    points=(
        Point("x = 0, exponent <= 0", "jump", (0.0,), (None,), {"exponent": 0.0}),
        Point("x = 0, 0 < exponent < 1", "vertical tangent", (0.0,), (np.inf,), {"exponent": 0.5}),
    ),
    kinks_at=lambda x, exponent=2.0: np.equal(x, 0) & (exponent <= 0),
).says("sign(x) |x|^exponent, and 0 at 0", "exponent |x|^(exponent - 1)")


def euclidean(x: Array, axes: tuple[int, ...]) -> Array:
    """sqrt(sum(x^2)) with the axes kept, scaled by a power of two near the largest |x|, which costs
    no rounding. (Blue, A portable Fortran program to find the Euclidean norm, ACM TOMS 4, 1978.)
    """
    scale = _power_of_two(x, axes)
    return scale * np.sqrt(np.sum(np.square(x / scale), axis=axes, keepdims=True))


def _power_of_two(x: Array, axes: tuple[int, ...]) -> Array:
    largest = np.max(np.abs(x), axis=axes, keepdims=True, initial=0)
    return np.ldexp(np.ones((), x.dtype), np.frexp(largest)[1] - 1)


@in_float32
def _norm_value(x: Any, *, ord: float = 2, axis: Any = None, keepdims: bool = False) -> Any:
    x = np.asarray(x, np.result_type(x, np.float32)) if x.dtype.kind != "f" else x
    axes = axes_of(axis, x.ndim)
    if not ord > 0 and ord != -np.inf:
        raise ValueError(f"the order of a norm is positive or -inf, not {ord}")
    if ord == 2:
        length = euclidean(x, axes)
    elif ord == 1:
        length = np.sum(np.abs(x), axis=axes, keepdims=True)
    elif ord == np.inf:
        length = np.max(np.abs(x), axis=axes, keepdims=True, initial=0)
    elif ord == -np.inf:
        length = np.min(np.abs(x), axis=axes, keepdims=True)
    else:
        scale = _power_of_two(x, axes)
        total = np.sum(np.power(np.abs(x / scale), ord), axis=axes, keepdims=True)
        length = scale * np.power(total, 1 / ord)
    return length if keepdims else np.squeeze(length, axis=axes)


def _norm_part(g: Value, y: Value, x: Value, axis: Any, ord: float = 2) -> Value:
    """g sign(x) (|x| / y)^(ord - 1), and 0 for a vector of zeros.

    The divisor is made safe before dividing; the quotient lies between 0 and 1.
    """
    if abs(ord) == np.inf:
        attained = equal(abs_(x), y)
        ties = astype(sum_(attained, axis=axis, keepdims=True), dtype=g.dtype)
        return where(attained, divide(g, ties) * sign(x), 0.0)
    if ord == 1:
        return g * sign(x)
    zero = equal(y, 0)
    ratio = divide(x, where(zero, 1.0, y))
    if ord != 2:
        ratio = signed_power(ratio, exponent=ord - 1)
    return where(zero, 0.0, g * ratio)


def _norm_kinks(x: Any, ord: float = 2, axis: Any = None, keepdims: bool = False) -> Any:
    size = np.abs(x)
    if ord <= 1 and ord != -np.inf:
        return np.any(size == 0, axis=axis, keepdims=keepdims)
    if abs(ord) == np.inf:
        extreme = np.max if ord > 0 else np.min
        y = extreme(size, axis=axis, keepdims=True)
        ties = np.sum(size == y, axis=axis, keepdims=True) > 1
        return np.any(ties | (y == 0), axis=axis, keepdims=keepdims)
    return np.all(size == 0, axis=axis, keepdims=keepdims)


LEAST = "the subgradient of least norm; x / norm(x) itself is 0 / 0"
HUGE, TINY = ([3e200, 4e200],), ([3e-200, 4e-200],)
RIGHT = ([0.6, 0.8],)
NAN = ([np.nan, np.nan],)
ZERO = ([0.0, 0.0],)

norm: Op = row(
    "norm",
    _norm_value,
    Reduction(_norm_part),
    aliases=("vector_norm",),
    points=(
        Point("x = 0, all of it", "kink", ZERO, ZERO).because(LEAST, tensorflow=NAN, jax=NAN),
        Point(
            "x = 0, all of it",
            "kink",
            ZERO,
            ZERO,
            {"ord": 3},
            differs={"tensorflow": NAN, "jax": NAN},
        ),
        Point(
            "an x = 0, ord = 1",
            "kink",
            ([0.0, 2.0],),
            ([0.0, 1.0],),
            {"ord": 1},
            differs={"jax": ([1.0, 1.0],)},
        ),
        Point("an x = 0, ord < 1", "kink", ([0.0, 2.0],), ([0.0, 1.0],), {"ord": 0.5}).because(
            "0 lies between the two sides, -inf and inf",
            tensorflow=([np.nan, 1.0],),
            jax=([np.inf, 1.0],),
        ),
        Point(
            "k elements tie, ord = inf", "tie", ([2.0, -2.0],), ([0.5, -0.5],), {"ord": np.inf}
        ).because("1/k each, as for max"),
        Point("the squares overflow", "limit", HUGE, RIGHT).because(
            "x / inf in the frameworks", frameworks=ZERO
        ),
        Point("the squares underflow", "limit", TINY, RIGHT).because(
            "the length is 0 in the frameworks",
            torch=ZERO,
            tensorflow=([np.inf, np.inf],),
            jax=([np.inf, np.inf],),
        ),
        Point(
            "the powers overflow",
            "limit",
            ([1e200, 1e200],),
            ([4 ** (-1 / 3), 4 ** (-1 / 3)],),
            {"ord": 3},
        ).because("inf / inf in the frameworks", frameworks=NAN),
    ),
    kinks_at=_norm_kinks,
).says(
    "sum(|x|^ord)^(1/ord) for ord > 0; inf: the largest |x|, -inf: the smallest",
    "sign(x) (|x| / norm(x))^(ord - 1); inf, -inf: sign(x) where |x| is attained",
    stability="scaled so that no power overflows or underflows; the quotient x / norm(x) is "
    "taken first, and its power is at most 1 for ord >= 1",
    source="Blue, A portable Fortran program to find the Euclidean norm (ACM TOMS 4, 1978)",
)
