"""Numbers that no float is, for rules that must be right to any precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


class Constant(float):
    """A real number, as the nearest float64; `ball` encloses it to the precision in force."""

    ball: Callable[[], Any]

    def __new__(cls, nearest: float, ball: Callable[[], Any]) -> Constant:
        made = super().__new__(cls, nearest)
        made.ball = ball
        return made


def _pi() -> Any:
    from flint import arb

    return arb.pi()


def _two() -> Any:
    from flint import arb

    return arb(2)


PI = Constant(math.pi, _pi)
LOG_2 = Constant(math.log(2), lambda: _two().log())
LOG_10 = Constant(math.log(10), lambda: (_two() * 5).log())
SQRT_2 = Constant(math.sqrt(2), lambda: _two().sqrt())
TWO_OVER_SQRT_PI = Constant(2 / math.sqrt(math.pi), lambda: 2 / _pi().sqrt())
SQRT_PI_OVER_2 = Constant(math.sqrt(math.pi) / 2, lambda: _pi().sqrt() / 2)
INVERSE_SQRT_2_PI = Constant(1 / math.sqrt(2 * math.pi), lambda: 1 / (2 * _pi()).sqrt())
SQRT_2_OVER_PI = Constant(math.sqrt(2 / math.pi), lambda: (2 / _pi()).sqrt())
