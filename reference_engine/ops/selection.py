"""Comparisons and logic, and the functions that choose between their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from reference_engine.floats import weak_pair, weakly_typed
from reference_engine.op import Op, Point, Rounding, row
from reference_engine.rules import Elementwise
from reference_engine.traced import Value

ROUNDING: Rounding = "none"
SOURCE = "NumPy"

TIE = (Point("x1 = x2", "tie", (1.0, 1.0), (0.5, 0.5), differs={"tensorflow": (1.0, 0.0)}),)


def _comparison(name: str, function: Callable[..., Any], formula: str) -> Op:
    return row(
        name,
        function,
        None,
        points=(Point("x1 = x2", "jump", (1.0, 1.0), (None, None)),),
        kinks_at=np.equal,
    ).says(formula, "none: the result is true or false")


less = _comparison("less", np.less, "x1 < x2")
less_equal = _comparison("less_equal", np.less_equal, "x1 <= x2")
greater = _comparison("greater", np.greater, "x1 > x2")
greater_equal = _comparison("greater_equal", np.greater_equal, "x1 >= x2")
equal = _comparison("equal", np.equal, "x1 = x2")
not_equal = _comparison("not_equal", np.not_equal, "x1 != x2")


def _logical(name: str, function: np.ufunc, formula: str) -> Op:
    return row(name, function, None, kinds=dict.fromkeys(range(function.nin), "bool")).says(
        formula, "none: the result is true or false"
    )


logical_and = _logical("logical_and", np.logical_and, "x1 and x2")
logical_or = _logical("logical_or", np.logical_or, "x1 or x2")
logical_not = _logical("logical_not", np.logical_not, "not x")


def _step(
    name: str, function: Callable[..., Any], formula: str, jumps: Callable[..., Any], *at: Any
) -> Op:
    where, example = at
    return row(
        name, function, None, points=(Point(where, "jump", (example,), (None,)),), kinks_at=jumps
    ).says(formula, "0, so that no path leads through it")


def _is_whole(x: Any) -> Any:
    return np.equal(x, np.floor(x))


sign = _step("sign", np.sign, "-1, 0 or 1", lambda x: np.equal(x, 0), "x = 0", 0.0)
floor = _step("floor", np.floor, "the largest whole number <= x", _is_whole, "x whole", 1.0)
ceil = _step("ceil", np.ceil, "the smallest whole number >= x", _is_whole, "x whole", 1.0)
_step(
    "round",
    np.rint,
    "the whole number next to x, the even one of two",
    lambda x: np.equal(x - np.floor(x), 0.5),
    "x + 1/2 whole",
    0.5,
)


where: Op = row(
    "where",
    lambda condition, x1, x2: np.where(condition, *weak_pair(x1, x2)),
    Elementwise(
        None,
        lambda g, y, condition, a, b: where(condition, g, 0.0),
        lambda g, y, condition, a, b: where(condition, 0.0, g),
    ),
    kinds={0: "bool"},
).says(
    "x1 where the condition holds, else x2",
    "1, 0 where the condition holds, else 0, 1; none by the condition",
    stability="a cotangent is selected, not multiplied by 0 or 1: what is inf or nan on one "
    "side stays there",
)


def _share(g: Value, chosen: Value, tied: Value) -> Value:
    return where(chosen, g, where(tied, 0.5 * g, 0.0))


maximum: Op = row(
    "maximum",
    weakly_typed(np.maximum),
    Elementwise(
        lambda g, y, a, b: _share(g, greater(a, b), equal(a, b)),
        lambda g, y, a, b: _share(g, less(a, b), equal(a, b)),
    ),
    points=TIE,
    kinks_at=np.equal,
).says(
    "the larger of x1 and x2; nan if one is nan",
    "1, 0 where x1 > x2; 0, 1 where x1 < x2",
    source="elementary calculus",
)

minimum: Op = row(
    "minimum",
    weakly_typed(np.minimum),
    Elementwise(
        lambda g, y, a, b: _share(g, less(a, b), equal(a, b)),
        lambda g, y, a, b: _share(g, greater(a, b), equal(a, b)),
    ),
    points=TIE,
    kinks_at=np.equal,
).says(
    "the smaller of x1 and x2; nan if one is nan",
    "1, 0 where x1 < x2; 0, 1 where x1 > x2",
    source="elementary calculus",
)

relu: Op = row(
    "relu",
    lambda x: np.maximum(*weak_pair(x, 0)),
    Elementwise(lambda g, y, x: where(greater(x, 0), g, 0.0)),
    points=(Point("x = 0", "kink", (0.0,), (0.0,)),),
    kinks_at=lambda x: np.equal(x, 0),
).says("max(x, 0)", "1 where x > 0, else 0", source="elementary calculus")


def _clip_value(x: Any, *, min: Any = None, max: Any = None) -> Any:
    if min is not None:
        x = np.maximum(*weak_pair(x, min))
    return x if max is None else np.minimum(*weak_pair(x, max))


def _clip_part(g: Value, y: Value, x: Value, min: Any = None, max: Any = None) -> Value:
    if min is not None:
        g = where(greater_equal(x, min), g, 0.0)
    return g if max is None else where(less_equal(x, max), g, 0.0)


def _clip_kinks(x: Any, min: Any = None, max: Any = None) -> Any:
    bounds = [np.equal(x, bound) for bound in (min, max) if bound is not None]
    return np.any(bounds, axis=0) if bounds else np.zeros(np.shape(x), np.bool_)


clip: Op = row(
    "clip",
    _clip_value,
    Elementwise(_clip_part),
    points=(
        Point("x = min", "kink", (0.0,), (1.0,), {"min": 0.0, "max": 1.0}, differs={"jax": (0.5,)}),
        Point("x = max", "kink", (1.0,), (1.0,), {"min": 0.0, "max": 1.0}, differs={"jax": (0.5,)}),
    ),
    kinks_at=_clip_kinks,
).says(
    "min(max(x, min), max); a bound that is None does not bind",
    "1 where min <= x <= max, else 0",
    source="elementary calculus",
)
