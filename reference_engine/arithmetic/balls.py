"""Balls: numbers with an error bound, midpoint and radius, to any precision.

An array of balls holds `flint.arb` numbers, whose operations return a ball that contains the exact
result for every choice of numbers in the balls that went in. A program that runs on them, its
derivatives included, encloses the truth. (Johansson, Arb: efficient arbitrary-precision
midpoint-radius interval arithmetic, IEEE Trans. Computers 66, 2017.)

What the enclosures of the rows work on, the arrays inside of a Ball, is in `arbs`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flint import arb

from reference_engine.arithmetic.arbs import NotInBalls, Objects, objects, scalar_object, unwrap
from reference_engine.arithmetic.ball_arrays import ADDING, ARRAYS, MOVING, value_of_row
from reference_engine.arithmetic.ball_choices import CHOICES
from reference_engine.arithmetic.ball_functions import FUNCTIONS
from reference_engine.arithmetic.ball_matrices import MATRICES
from reference_engine.traced import Traced, Value

BALL_LEVEL = -0.5  # below every tape: balls are numbers

_WITHOUT_ARRAYS = "it takes no array of numbers that could be balls"

REFUSED: dict[str, str] = {
    **dict.fromkeys(("arange", "zeros", "ones", "full", "eye", "one_hot"), _WITHOUT_ARRAYS),
}
"""Row -> why it has no enclosure."""

_FOUND: dict[str, Callable[..., Any]] = {**FUNCTIONS, **CHOICES, **ARRAYS, **MATRICES}
_BY_OWN_VALUE = frozenset((*MOVING, *ADDING))


class Ball(Traced):
    """An array of balls; `value` is a NumPy array of `arb` objects."""

    __slots__ = ()

    def __init__(self, value: Objects) -> None:
        self.level = BALL_LEVEL  # type: ignore[assignment]
        self.value = value

    def __repr__(self) -> str:
        return f"Ball({self.value})"

    def apply(self, op: Any, args: Sequence[Value], keywords: dict[str, Any]) -> Value:
        """The operation on balls. Plain numbers among the arguments are exact. Raises Undecided and
        NotInBalls."""
        if op.family == "custom":  # made of operations, and no row of the table
            return op.raw(*args)
        function = enclosure(op.name)
        if op.name != "where":  # which looks at what it is called with
            kinds = op.kinds
            args = [
                a if i in kinds else a.value if type(a) is Ball else unwrap(a)
                for i, a in enumerate(args)
            ]
        return wrap(function(*args, **keywords))


def exactly(values: Any) -> Ball:
    """The numbers of a float, int or boolean array as balls of radius 0."""
    return Ball(objects(values))


def wrap(value: Any) -> Value:
    """Balls as a Ball; booleans and integers are plain arrays."""
    if not isinstance(value, np.ndarray):
        return Ball(scalar_object(value) if type(value) is arb else objects(value))
    return Ball(value) if value.dtype == object else value


def midpoints(x: Ball) -> Any:
    """float64 array: the midpoints, rounded to nearest."""
    return _each_float(x.value, lambda one: float(one.mid()))


def radii(x: Ball) -> Any:
    """float64 array: upper bounds of the radii."""
    return _each_float(x.value, lambda one: rounded_up(one.rad()))


def rounded_up(distance: Any) -> float:
    """The distance rounded up to a float64. Only 0 gives 0."""
    return 0.0 if distance == 0 else math.nextafter(float(distance.upper()), math.inf)


def _each_float(values: Objects, read: Any) -> Any:
    return np.array([read(one) for one in values.ravel()], np.float64).reshape(values.shape)


def enclosure(name: str) -> Callable[..., Any]:
    """The value of the row on arrays of `arb`, as a function of the arrays and the keywords of the
    row.

    Rows that are written in terms of other rows use those. Derivatives need no enclosures of their
    own: a rule is written in rows, so it encloses the derivative when it runs on balls. Raises
    NotInBalls if there is no enclosure.
    """
    value = _FOUND.get(name)
    if value is None:
        if name not in _BY_OWN_VALUE:
            raise NotInBalls(name, REFUSED.get(name, "the table of enclosures lacks it"))
        value = _FOUND[name] = value_of_row(name)
    return value
