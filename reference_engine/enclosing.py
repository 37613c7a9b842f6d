"""Derivatives of functions on balls: enclosures of the exact derivatives, at the current precision.

They use the same tapes, dual numbers and rules as floats, one level above balls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from reference_engine.arithmetic.arbs import Objects, objects, unwrap
from reference_engine.arithmetic.balls import Ball, exactly
from reference_engine.dual import Dual
from reference_engine.tape import Node, pull_back
from reference_engine.traced import Traced, Value, new_level

Pull = Callable[[Any], list[Objects]]


def ball_vjp(f: Callable[..., Value], xs: Sequence[Any]) -> tuple[Objects, Pull]:
    """f(*xs) as an array of `arb`, and a function from a cotangent of it to one array an argument.

    `xs` are arrays of floats, taken exactly, or Balls. `pull` may be called several times. Raises
    Undecided and NotInBalls.
    """
    level = new_level()
    variables = [Node(level, _ball(x)) for x in xs]
    y = f(*variables)
    recorded = isinstance(y, Node) and y.level == level

    def pull(y_bar: Any) -> list[Objects]:
        seed = _ball(y_bar)
        reached = pull_back([(y, seed)], variables) if recorded else {}
        return [_as_balls(reached.get(v.record), v) for v in variables]

    return objects(unwrap(y.value if recorded else y)), pull


def _ball(x: Any) -> Traced:
    """A traced value unchanged; numbers as exact balls."""
    return x if isinstance(x, Traced) else exactly(x)


def _as_balls(x_bar: Value, variable: Node) -> Objects:
    if x_bar is None:
        return objects(np.zeros(variable.shape))
    return unwrap(x_bar) if isinstance(x_bar, Ball) else objects(x_bar)


def ball_hvp(
    f: Callable[..., Value], xs: Sequence[Any], x_dots: Sequence[Any], y_bar: Any
) -> list[Objects]:
    """The second derivative of <y_bar, f> along the tangents, one array an argument: forward over
    reverse. Raises as ball_vjp does."""
    outer = new_level()
    duals = [Dual(outer, exactly(x), exactly(t)) for x, t in zip(xs, x_dots, strict=True)]
    level = new_level()
    variables = [Node(level, dual) for dual in duals]
    y = f(*variables)
    seeds = [(y, exactly(y_bar))] if isinstance(y, Node) and y.level == level else []
    reached = pull_back(seeds, variables) if seeds else {}
    found = (reached.get(v.record) for v in variables)
    return [
        unwrap(x_bar.tangent)
        if isinstance(x_bar, Dual) and x_bar.level == outer
        else objects(np.zeros(v.shape))
        for v, x_bar in zip(variables, found, strict=True)
    ]


def ball_jvp(
    f: Callable[..., Value], xs: Sequence[Any], x_dots: Sequence[Any]
) -> tuple[Objects, Objects]:
    """f(*xs) and its derivative along the tangents, as arrays of `arb`. Raises as ball_vjp does."""
    level = new_level()
    duals = [Dual(level, _ball(x), _ball(t)) for x, t in zip(xs, x_dots, strict=True)]
    y = f(*duals)
    if isinstance(y, Dual) and y.level == level:
        return unwrap(y.value), unwrap(y.tangent)
    value = objects(unwrap(y))
    return value, objects(np.zeros(value.shape))
