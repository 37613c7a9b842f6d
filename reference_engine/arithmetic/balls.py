"""Balls: numbers with an error bound, midpoint and radius, to any precision.

An array of balls holds `flint.arb` numbers, whose operations return a ball that contains the exact
result for every choice of numbers in the balls that went in. A program that runs on them, its
derivatives included, encloses the truth. (Johansson, Arb: efficient arbitrary-precision
midpoint-radius interval arithmetic, IEEE Trans. Computers 66, 2017.)

Balls know no order where they overlap: an operation that must decide raises Undecided, and the
caller raises the precision. Numbers that are exact are told apart exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import arb, ctx

from reference_engine.arithmetic.constants import Constant
from reference_engine.traced import Traced, Value

BALL_LEVEL = -0.5  # below every tape: balls are numbers

Objects = np.ndarray[Any, np.dtype[Any]]


class Undecided(ArithmeticError):
    """Balls overlap where an operation must know which number is larger; more bits may help."""


class NotInBalls(NotImplementedError):
    """An operation has no enclosure. `row` is its name, `reason` says why."""

    def __init__(self, row: str, reason: str) -> None:
        super().__init__(f"{row} has no enclosure: {reason}")
        self.row = row
        self.reason = reason


class Ball(Traced):
    """An array of balls; `value` is a NumPy array of `arb` objects."""

    __slots__ = ()

    def __init__(self, value: Objects) -> None:
        self.level = BALL_LEVEL  # type: ignore[assignment]
        self.value = value

    def __repr__(self) -> str:
        return f"Ball({self.value})"

    def apply(self, op: Any, args: Sequence[Value], keywords: dict[str, Any]) -> Value:
        """The operation on balls; numbers among the arguments are exact. Raises Undecided and
        NotInBalls."""
        from reference_engine.arithmetic.enclosures import enclosure

        if op.family == "custom":  # made of operations, and no row of the table
            return op.raw(*args)
        function = enclosure(op.name)
        if op.name != "where":  # which looks at what it is called with
            args = [a if i in op.kinds else unwrap(a) for i, a in enumerate(args)]
        return wrap(function(*args, **keywords))


def exactly(values: Any) -> Ball:
    """The numbers of a float, int or boolean array as balls of radius 0."""
    return Ball(objects(values))


def objects(values: Any) -> Objects:
    """An array of `arb` of the same shape; nothing is rounded."""
    if type(values) in (int, float):
        return _alone(arb(values))
    values = np.asarray(values)
    if values.dtype == object:
        flat = [x if type(x) is arb else _number(x) for x in values.ravel()]
    elif values.dtype.kind in "biu":
        flat = [arb(x) for x in values.ravel().tolist()]
    else:  # every format of up to 64 bits fits into float64
        flat = [arb(x) for x in values.astype(np.float64).ravel().tolist()]
    result = np.empty(len(flat), dtype=object)
    result[:] = flat
    return result.reshape(values.shape)


def _alone(x: Any) -> Objects:
    """One number as an array without axes."""
    made = np.empty((), dtype=object)
    made[()] = x
    return made


def _number(x: Any) -> Any:
    if isinstance(x, arb):
        return x
    return arb(int(x) if isinstance(x, (int, np.integer, np.bool_)) else float(x))


def unwrap(x: Value) -> Objects:
    """What an enclosure works on: an array of `arb`; booleans stay as they are."""
    if isinstance(x, Ball):
        return x.value  # type: ignore[no-any-return]
    if isinstance(x, Constant):
        return _alone(x.ball())
    if type(x) in (int, float):
        return _alone(arb(x))
    x = np.asarray(x)
    return x if x.dtype == np.bool_ else objects(x)


def wrap(value: Any) -> Value:
    """Balls as a Ball; booleans and integers are plain arrays."""
    if not isinstance(value, np.ndarray):
        return Ball(_alone(value) if type(value) is arb else objects(value))
    return Ball(value) if value.dtype == object else value


def midpoints(x: Ball) -> Any:
    """float64 array: the midpoints, rounded to nearest."""
    return _each_float(x.value, lambda one: float(one.mid()))


def radii(x: Ball) -> Any:
    """float64 array: upper bounds of the radii."""
    return _each_float(x.value, lambda one: float(one.rad().upper()) * (1 + 2.0**-52))


def _each_float(values: Objects, read: Any) -> Any:
    return np.array([read(one) for one in values.ravel()], np.float64).reshape(values.shape)


class precision:
    """Inside the block, results of operations are rounded to so many bits."""

    __slots__ = ("_before", "_bits")

    def __init__(self, bits: int) -> None:
        self._bits = bits

    def __enter__(self) -> None:
        self._before = ctx.prec
        ctx.prec = self._bits

    def __exit__(self, *raised: object) -> None:
        ctx.prec = self._before
