"""Balls: numbers with an error bound, midpoint and radius, to any precision.

An array of balls holds `flint.arb` numbers, whose operations return a ball that contains the exact
result for every choice of numbers in the balls that went in. A program that runs on them, its
derivatives included, encloses the truth. (Johansson, Arb: efficient arbitrary-precision
midpoint-radius interval arithmetic, IEEE Trans. Computers 66, 2017.)

Balls know no order where they overlap: an operation that must decide raises Undecided, and the
caller raises the precision. Numbers that are exact are told apart exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from reference_engine.arithmetic.constants import Constant
from reference_engine.traced import Traced, Value

BALL_LEVEL = -0.5  # below every tape: balls are numbers

Objects = np.ndarray[Any, np.dtype[Any]]
BallOperation = Callable[..., Any]


class Undecided(ArithmeticError):
    """Balls overlap where an operation must know which number is larger; more bits may help."""


class NotInBalls(NotImplementedError):
    """An operation has no enclosure."""


class Ball(Traced):
    """An array of balls; `value` is a NumPy array of `arb` objects."""

    __slots__ = ()

    def __init__(self, value: Any) -> None:
        self.level = BALL_LEVEL  # type: ignore[assignment]
        self.value = value

    def __repr__(self) -> str:
        return f"Ball({self.value})"

    def apply(self, op: Any, args: Sequence[Value], keywords: dict[str, Any]) -> Value:
        """The operation on balls; arrays of numbers among the arguments are exact."""
        from reference_engine.arithmetic.enclosures import enclosure

        return wrap(enclosure(op)(*[unwrap(a) for a in args], **keywords))


def exactly(values: Any) -> Ball:
    """The numbers of a float, int or boolean array as balls of radius 0."""
    return Ball(objects(np.asarray(values)))


def objects(values: Any) -> Objects:
    """An array of `arb` of the same shape; nothing is rounded."""
    from flint import arb

    values = np.asarray(values)
    if values.dtype == object:
        flat = [x if isinstance(x, arb) else arb(x) for x in values.ravel()]
    elif values.dtype.kind in "biu":
        flat = [arb(int(x)) for x in values.ravel()]
    else:
        flat = [arb(float(x)) for x in values.ravel()]
    result = np.empty(len(flat), dtype=object)
    result[:] = flat
    return result.reshape(values.shape)


def unwrap(x: Value) -> Any:
    """What an enclosure works on: arrays of `arb`; arrays of integers and booleans as they are."""
    if isinstance(x, Ball):
        return x.value
    if isinstance(x, Constant):
        return np.array(x.ball(), dtype=object)
    x = np.asarray(x)
    return x if x.dtype.kind in "biu" or x.dtype == object else objects(x)


def wrap(value: Any) -> Value:
    """Balls as a Ball; booleans and integers are plain arrays."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value
    return Ball(value if isinstance(value, np.ndarray) else objects(value))


def midpoints(x: Ball) -> Any:
    """float64 array: the midpoints, rounded to nearest."""
    return _each_float(x.value, lambda one: float(one.mid()))


def radii(x: Ball) -> Any:
    """float64 array: upper bounds of the radii."""
    return _each_float(x.value, lambda one: float(one.rad().upper()) * (1 + 2.0**-52))


def _each_float(values: Objects, read: Callable[[Any], float]) -> Any:
    return np.array([read(one) for one in values.ravel()], np.float64).reshape(values.shape)


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Inside the block, results of operations are rounded to so many bits."""
    from flint import ctx

    before = ctx.prec
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec = before
