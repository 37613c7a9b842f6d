"""Forward mode: dual numbers, which carry a value and its tangent through every operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from reference_engine.errors import ShapeError
from reference_engine.traced import (
    ROWS,
    Traced,
    Use,
    Value,
    float_value,
    new_level,
    shape_of,
    to_array,
)


class Dual(Traced):
    """A value and its tangent, of the same shape and dtype, both one level down."""

    __slots__ = ("tangent",)

    tangent: Value

    def __init__(self, level: int, value: Value, tangent: Value) -> None:
        self.level = level
        self.value = value
        self.tangent = tangent

    def __repr__(self) -> str:
        return f"Dual({to_array(self)}, tangent={to_array(self.tangent)})"

    def apply(self, op: Any, args: Sequence[Value], keywords: dict[str, Any]) -> Value:
        level = self.level
        xs = self.lower(args)
        y = op(*xs, **keywords)
        if op.rule is None:
            return y
        x_dots = [a.tangent if isinstance(a, Dual) and a.level == level else None for a in args]
        y_dot = op.rule.forward(Use(op, xs, y, keywords), x_dots)
        return y if y_dot is None else Dual(level, y, fit_tangent(y_dot, y))


def fit_tangent(y_dot: Value, y: Value) -> Value:
    """The tangent in the shape and dtype of y. Before, it may only be broadcastable to that
    shape."""
    if shape_of(y_dot) != y.shape:
        y_dot = ROWS["broadcast_to"](y_dot, shape=y.shape)
    return y_dot if y_dot.dtype == y.dtype else ROWS["astype"](y_dot, dtype=y.dtype)


def jvp(
    f: Callable[..., Value], xs: Sequence[Value], x_dots: Sequence[Value]
) -> tuple[Value, Value]:
    """The value of f at `xs` and its derivative along `x_dots`, in one forward pass.

    `xs` and `x_dots` are sequences with one array an argument of f, x_dots[i] of the shape of
    xs[i]; y and y_dot have the same shape. Values of an enclosing transformation are welcome
    anywhere. Raises ShapeError where shapes differ, TypeError for arguments that are not floating.
    """
    if not isinstance(xs, (tuple, list)) or not isinstance(x_dots, (tuple, list)):
        raise TypeError("jvp takes the arguments of f, and their tangents, as tuples")
    if len(xs) != len(x_dots):
        raise TypeError(f"jvp got {len(xs)} arguments and {len(x_dots)} tangents")
    with np.errstate(all="ignore"):
        level = new_level()
        duals = []
        for i, (x, x_dot) in enumerate(zip(xs, x_dots, strict=True)):
            x = float_value(x, "argument", i)
            if shape_of(x_dot) != x.shape:
                shapes = (x.shape, shape_of(x_dot))
                raise ShapeError("jvp", shapes, f"tangent {i} must have its argument's shape")
            x_dot = x_dot if isinstance(x_dot, Traced) else np.asarray(x_dot)
            duals.append(Dual(level, x, fit_tangent(x_dot, x)))
        y = f(*duals)
        if isinstance(y, Dual) and y.level == level:
            return y.value, y.tangent if isinstance(y.tangent, Traced) else np.asarray(y.tangent)
        y = y if isinstance(y, Traced) else np.asarray(y)
        return y, np.zeros(y.shape, y.dtype)
