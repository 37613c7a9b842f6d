"""Irrational constants, for rules that must be right to any precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from reference_engine.traced import Traced


class Constant(float):
    """A real number. With balls it is enclosed (`ball`, to the current precision); with all other
    numbers it is the nearest float64, weakly typed like a Python number."""

    __array_ufunc__ = None  # NumPy would take a subclass of float for a float64 of its own
    ball: Callable[[], Any]

    def __new__(cls, nearest: float, ball: Callable[[], Any]) -> Constant:
        made = super().__new__(cls, nearest)
        made.ball = ball
        return made

    def __mul__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, Traced) else float(self) * other

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, Traced) else float(self) / other

    def __rtruediv__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, Traced) else other / float(self)


def _arb(number: int | str) -> Any:
    from flint import arb

    return arb(number)


def _pi() -> Any:
    return _arb(0).pi()


LOG_2 = Constant(math.log(2), lambda: _arb(2).log())
LOG2_E = Constant(1 / math.log(2), lambda: 1 / _arb(2).log())
LOG10_E = Constant(1 / math.log(10), lambda: 1 / _arb(10).log())
HALF_PI = Constant(math.pi / 2, lambda: _pi() / 2)
TWO_OVER_SQRT_PI = Constant(2 / math.sqrt(math.pi), lambda: 2 / _pi().sqrt())
TWO_SQRT_2_OVER_PI = Constant(2 * math.sqrt(2 / math.pi), lambda: 2 * (2 / _pi()).sqrt())


def decimal(digits: str) -> Constant:
    """The number with these digits; float64 holds about the first sixteen."""
    return Constant(float(digits), lambda: _arb(digits))


def product(a: Constant, b: Constant) -> Constant:
    """a b"""
    return Constant(float(a) * float(b), lambda: a.ball() * b.ball())


def inverse_square_root(n: int) -> Constant:
    """1 / sqrt(n)"""
    return Constant(1 / math.sqrt(n), lambda: 1 / _arb(n).sqrt())


SELU_ALPHA = decimal("1.6732632423543772848170429916717")
SELU_SCALE = decimal("1.0507009873554804934193349852946")
SELU_LEFT = product(SELU_SCALE, SELU_ALPHA)
