"""Comparisons and logic, and the functions that choose between their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from reference_engine.arithmetic.floats import weak_pair, weakly_typed
from reference_engine.op import Op, Point, register
from reference_engine.rules import Elementwise
from reference_engine.traced import Value

FAMILY = "selection"
PAIR = ("x1", "x2")
TIE = (Point("x1 = x2", "tie", (1.0, 1.0), (0.5, 0.5), differs={"tensorflow": (1.0, 0.0)}),)


def _comparison(name: str, function: Callable[..., Any], formula: str) -> Op:
    return register(
        Op(
            name,
            function,
            None,
            family=FAMILY,
            arrays=PAIR,
            formula=formula,
            derivative="none: the result is true or false",
            points=(Point("x1 = x2", "jump", (1.0, 1.0), (None, None)),),
            source="NumPy",
            rounding="none",
            kinks_at=np.equal,
        )
    )


less = _comparison("less", np.less, "x1 < x2")
less_equal = _comparison("less_equal", np.less_equal, "x1 <= x2")
greater = _comparison("greater", np.greater, "x1 > x2")
greater_equal = _comparison("greater_equal", np.greater_equal, "x1 >= x2")
equal = _comparison("equal", np.equal, "x1 = x2")
not_equal = _comparison("not_equal", np.not_equal, "x1 != x2")


def _logical(name: str, function: Callable[..., Any], formula: str, arrays: tuple[str, ...]) -> Op:
    return register(
        Op(
            name,
            function,
            None,
            family=FAMILY,
            arrays=arrays,
            formula=formula,
            derivative="none: the result is true or false",
            source="NumPy",
            rounding="none",
            kinds=dict.fromkeys(range(len(arrays)), "bool"),
        )
    )


logical_and = _logical("logical_and", np.logical_and, "x1 and x2", PAIR)
logical_or = _logical("logical_or", np.logical_or, "x1 or x2", PAIR)
logical_not = _logical("logical_not", np.logical_not, "not x", ("x",))


def _step(
    name: str, function: Callable[..., Any], formula: str, jumps: Callable[..., Any], *at: Any
) -> Op:
    where, example = at
    return register(
        Op(
            name,
            function,
            None,
            family=FAMILY,
            formula=formula,
            derivative="0, so that no path leads through it",
            points=(Point(where, "jump", (example,), (None,)),),
            source="NumPy",
            rounding="none",
            kinks_at=jumps,
        )
    )


def _is_whole(x: Any) -> Any:
    return np.equal(x, np.floor(x))


sign = _step("sign", np.sign, "-1, 0 or 1", lambda x: np.equal(x, 0), "x = 0", 0.0)
floor = _step("floor", np.floor, "the largest whole number <= x", _is_whole, "x whole", 1.0)
ceil = _step("ceil", np.ceil, "the smallest whole number >= x", _is_whole, "x whole", 1.0)
round_ = _step(
    "round",
    np.rint,
    "the whole number next to x, the even one of two",
    lambda x: np.equal(x - np.floor(x), 0.5),
    "x + 1/2 whole",
    0.5,
)


def _where_value(condition: Any, x: Any, y: Any) -> Any:
    return np.where(condition, *weak_pair(x, y))


where: Op = register(
    Op(
        "where",
        _where_value,
        Elementwise(
            None,
            lambda g, y, condition, a, b: where(condition, g, 0.0),
            lambda g, y, condition, a, b: where(condition, 0.0, g),
        ),
        family=FAMILY,
        arrays=("condition", "x1", "x2"),
        formula="x1 where the condition holds, else x2",
        derivative="1, 0 where the condition holds, else 0, 1; none by the condition",
        stability="a cotangent is selected, not multiplied by 0 or 1: what is inf or nan on one "
        "side stays there",
        source="NumPy",
        rounding="none",
        passive=(0,),
        kinds={0: "bool"},
    )
)


def _share(g: Value, chosen: Value, tied: Value) -> Value:
    return where(chosen, g, where(tied, 0.5 * g, 0.0))


maximum: Op = register(
    Op(
        "maximum",
        weakly_typed(np.maximum),
        Elementwise(
            lambda g, y, a, b: _share(g, greater(a, b), equal(a, b)),
            lambda g, y, a, b: _share(g, less(a, b), equal(a, b)),
        ),
        family=FAMILY,
        arrays=PAIR,
        formula="the larger of x1 and x2; nan if one is nan",
        derivative="1, 0 where x1 > x2; 0, 1 where x1 < x2",
        points=TIE,
        source="elementary calculus",
        rounding="none",
        kinks_at=np.equal,
    )
)

minimum: Op = register(
    Op(
        "minimum",
        weakly_typed(np.minimum),
        Elementwise(
            lambda g, y, a, b: _share(g, less(a, b), equal(a, b)),
            lambda g, y, a, b: _share(g, greater(a, b), equal(a, b)),
        ),
        family=FAMILY,
        arrays=PAIR,
        formula="the smaller of x1 and x2; nan if one is nan",
        derivative="1, 0 where x1 < x2; 0, 1 where x1 > x2",
        points=TIE,
        source="elementary calculus",
        rounding="none",
        kinks_at=np.equal,
    )
)

relu: Op = register(
    Op(
        "relu",
        lambda x: np.maximum(*weak_pair(x, 0)),
        Elementwise(lambda g, y, x: where(greater(x, 0), g, 0.0)),
        family=FAMILY,
        formula="max(x, 0)",
        derivative="1 where x > 0, else 0",
        points=(Point("x = 0", "kink", (0.0,), (0.0,)),),
        source="elementary calculus",
        rounding="none",
        kinks_at=lambda x: np.equal(x, 0),
    )
)


def _clip_value(x: Any, min: Any = None, max: Any = None) -> Any:
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


clip: Op = register(
    Op(
        "clip",
        _clip_value,
        Elementwise(_clip_part),
        family=FAMILY,
        keywords={"min": None, "max": None},
        formula="min(max(x, min), max); a bound that is None does not bind",
        derivative="1 where min <= x <= max, else 0",
        points=(
            Point(
                "x = min", "kink", (0.0,), (1.0,), {"min": 0.0, "max": 1.0}, differs={"jax": (0.5,)}
            ),
            Point(
                "x = max", "kink", (1.0,), (1.0,), {"min": 0.0, "max": 1.0}, differs={"jax": (0.5,)}
            ),
        ),
        source="elementary calculus",
        rounding="none",
        kinks_at=_clip_kinks,
    )
)
