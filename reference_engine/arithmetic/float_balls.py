"""Float balls: arrays of float64 midpoints with float64 radii.

As with `balls`, each result contains the exact result for every choice of numbers in the input
balls. The cost is about ten times that of plain float64, and the precision is limited to 53 bits.
(Rump, Fast and parallel interval arithmetic, BIT 39, 1999: products of matrices by midpoint and
radius.)

Radii are float64 numbers that were rounded to nearest a few times; `GROWN` compensates for that. A
radius of nan means that the ball contains everything. If the order of two balls is open, their
comparison is `Doubtful`, and `where` contains both of its branches: a derivative at a kink contains
those of both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Any

import numpy as np
import numpy.typing as npt

from reference_engine.arithmetic.arbs import NotInBalls, Undecided
from reference_engine.arithmetic.arbs import precision as at_precision
from reference_engine.arithmetic.balls import BALL_LEVEL, Ball
from reference_engine.arithmetic.constants import Constant
from reference_engine.traced import Traced, Value

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

UNIT = 2.0**-53
GROWN = 1 + 32 * UNIT  # a radius is computed in less than 30 operations
TINY = 2.0**-960  # more than what underflows, and still normal after some products
BITS = 80  # of the balls that stand in where a row has no float enclosure

FLOAT_ENCLOSURES: dict[str, Callable[..., Any]] = {}
"""Row -> its value on float balls, called with balls, numbers and arrays and the row's keywords;
`float_enclosures` fills it. A row that is missing is enclosed number by number, as `balls` does."""

OF_DOUBTFUL: dict[str, Callable[..., Any]] = {}
"""The rows that take comparisons of which some are open; `float_enclosures` fills it."""

_ties_matter: ContextVar[bool] = ContextVar("whether equal numbers are a tie", default=True)


class standing:
    """Inside the block, comparisons are between numbers that do not move, so equal numbers are not
    a tie."""

    __slots__ = ("_token",)

    def __enter__(self) -> set[str]:
        self._token = _ties_matter.set(False)
        return set()

    def __exit__(self, *raised: object) -> None:
        _ties_matter.reset(self._token)


ties_matter = _ties_matter.get
"""Whether two equal numbers are a tie, whose order a move of either decides."""


class Singly:
    """Limits how many numbers may pass through enclosures of single numbers inside the blocks;
    `left` is the rest."""

    __slots__ = ("_token", "left")

    def __init__(self, left: int) -> None:
        self.left = left

    def __enter__(self) -> None:
        self._token = _singly.set(self)

    def __exit__(self, *raised: object) -> None:
        _singly.reset(self._token)

    def take(self, row: str, count: int) -> None:
        """Uses up `count` numbers. Raises NotInBalls if not enough are left."""
        self.left -= count
        if self.left < 0:
            raise NotInBalls(row, "too many numbers would be enclosed one by one")


_singly: ContextVar[Singly | None] = ContextVar("enclosures of single numbers", default=None)


class FloatBall(Traced):
    """An array of balls: `value` (float64), and `radius`, an array of the same shape or None for 0.
    `chosen`: each element is equal to an element of the array that it was chosen from."""

    __slots__ = ("chosen", "radius")

    def __init__(self, value: Floats, radius: Floats | None, chosen: bool = False) -> None:
        self.level = BALL_LEVEL  # type: ignore[assignment]
        self.value = value
        self.radius = radius
        self.chosen = chosen

    def __repr__(self) -> str:
        return f"FloatBall({self.value} ± {0.0 if self.radius is None else self.radius})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise TypeError("a ball is no number: its radius would be lost")

    @property
    def radii(self) -> Floats:
        """The radii as an array, including zeros."""
        return np.zeros(self.shape) if self.radius is None else self.radius

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """Lower and upper bounds of the numbers in each ball."""
        if self.radius is None:
            return self.value, self.value
        reach = self.radius * GROWN
        low, high = (
            np.nextafter(self.value - reach, -np.inf),
            np.nextafter(self.value + reach, np.inf),
        )
        return np.where(self.endless, self.value, low), np.where(self.endless, self.value, high)

    @property
    def endless(self) -> Mask:
        """Which balls are infinite, such as a masked score. No finite change moves them."""
        return np.asarray(np.isinf(self.value) & (self.radii == 0))

    def apply(self, op: Any, args: Sequence[Value], keywords: dict[str, Any]) -> Value:
        """The operation on balls. Raises Undecided and NotInBalls."""
        if op.family == "custom":
            return op.raw(*args)
        value = FLOAT_ENCLOSURES.get(op.name)
        if value is None or any(isinstance(x, Doubtful) for x in args):
            return by_balls(op, args, keywords)
        return value(*args, **keywords)


class Doubtful(Traced):
    """An array of comparisons: `value` (bool) holds those that are decided. Where there is `doubt`,
    it holds the comparison of the midpoints."""

    __slots__ = ("doubt",)

    def __init__(self, value: Mask, doubt: Mask) -> None:
        self.level = BALL_LEVEL  # type: ignore[assignment]
        self.value = value
        self.doubt = doubt

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise Undecided("two balls overlap")

    def __bool__(self) -> bool:
        raise Undecided("two balls overlap")

    def apply(self, op: Any, args: Sequence[Value], keywords: dict[str, Any]) -> Value:
        """Applies an operation on comparisons that keeps doubts in place. Raises Undecided for any
        other."""
        value = OF_DOUBTFUL.get(op.name)
        if value is None:
            raise Undecided("two balls overlap")
        return value(*args, **keywords)


def exactly_floats(values: Any) -> FloatBall:
    """The numbers of a float, int or boolean array as balls of radius 0."""
    return FloatBall(np.asarray(values, np.float64), None)


def as_float_ball(x: Value) -> FloatBall:
    """A ball unchanged; a number or an array exactly, or enclosed if float64 cannot represent
    it."""
    if isinstance(x, FloatBall):
        return x
    if isinstance(x, Constant):
        return of_balls(np.array(x.ball(), dtype=object))
    return exactly_floats(x)


def enclosed(value: Any, radius: Any) -> FloatBall:
    """A result whose midpoint was rounded once; the radius covers this rounding and the given
    errors."""
    grown = (radius + UNIT * np.abs(value)) * GROWN
    return FloatBall(np.asarray(value), np.asarray(grown))


def of_balls(balls: Any) -> FloatBall:
    """Balls of any precision as float balls."""
    from reference_engine.arithmetic.balls import midpoints, radii

    values = midpoints(Ball(balls))
    with np.errstate(all="ignore"):
        return FloatBall(values, (radii(Ball(balls)) + 2 * UNIT * np.abs(values) + TINY) * GROWN)


def _as_ball(x: FloatBall) -> Ball:
    from flint import arb

    if x.radius is None:
        from reference_engine.arithmetic.balls import exactly

        return exactly(x.value)
    pairs = zip(x.value.ravel().tolist(), x.radius.ravel().tolist(), strict=True)
    made = np.empty(x.value.size, dtype=object)
    made[:] = [arb(m, r) if np.isfinite(r) else arb.nan() for m, r in pairs]
    return Ball(made.reshape(x.shape))


def by_balls(op: Any, args: Sequence[Value], keywords: dict[str, Any]) -> Value:
    """Applies the enclosure of the row on balls. Raises Undecided at a tie, which the enclosure
    would accept."""
    from reference_engine.arithmetic.ball_choices import noting_ties

    limit = _singly.get()
    if limit is not None:
        limit.take(op.name, sum(x.size for x in args if isinstance(x, FloatBall)))
    given = [_as_ball(x) if isinstance(x, FloatBall) else x for x in args]
    watched: AbstractContextManager[set[str]] = (
        noting_ties() if ties_matter() else nullcontext(set())
    )
    with at_precision(BITS), watched as met:
        found = op(*given, **keywords)
    if met:
        raise Undecided("an operation is at a kink, a tie or a jump")
    return of_balls(found.value) if isinstance(found, Ball) else found
