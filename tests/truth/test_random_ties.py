"""Random formulas full of ties, jumps and running extremes: a certified number is the derivative.

Against central differences in mpmath with steps of 1e-120 and 450 digits; where both sides differ
there is no derivative, and nothing may be certified.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from tests.conftest import truth_of
from tests.every import first

Vector = list[Any]
Point = Mapping[str, Vector]
STEP = mp.mpf(10) ** -120
DIGITS = 450
SIZE = 3


def _each(function: Callable[..., Any]) -> Callable[..., Vector]:
    return lambda *vectors: [function(*entry) for entry in zip(*vectors, strict=True)]


def _running(function: Callable[[Any, Any], Any]) -> Callable[[Vector], Vector]:
    def run(v: Vector) -> Vector:
        out = v[:1]
        for one in v[1:]:
            out.append(function(out[-1], one))
        return out

    return run


def _median(v: Vector) -> Any:
    return sorted(v)[1]


def _logsumexp(v: Vector) -> Any:
    return mp.log(sum(mp.exp(one) for one in v))


def _remainder(a: Any, b: Any) -> Any:
    return a - b * mp.floor(a / b)


UNARY: list[tuple[str, Callable[[Vector], Vector]]] = [
    ("exp({} / 2)", _each(lambda x: mp.exp(x / 2))),
    ("tanh({})", _each(mp.tanh)),
    ("relu({})", _each(lambda x: max(x, mp.mpf(0)))),
    ("abs({})", _each(abs)),
    ("cumsum({})", _running(lambda a, b: a + b)),
    ("cumprod({})", _running(lambda a, b: a * b)),
    ("cummax({})", _running(max)),
    ("cummin({})", _running(min)),
    ("sort({})", sorted),
    ("softmax({})", lambda v: [mp.exp(one - _logsumexp(v)) for one in v]),
    ("erfcx({})", _each(lambda x: mp.exp(x * x) * mp.erfc(x))),
    ("lgamma(abs({}) + 1)", _each(lambda x: mp.loggamma(abs(x) + 1))),
    ("floor({})", _each(mp.floor)),
    ("clip({}, min=-0.5, max=0.5)", _each(lambda x: max(min(x, mp.mpf(0.5)), mp.mpf(-0.5)))),
    ("sign({})", _each(mp.sign)),
    ("i0({})", _each(lambda x: mp.besseli(0, x))),
    ("remainder({}, 1)", _each(lambda x: _remainder(x, 1))),
]
BINARY: list[tuple[str, Callable[[Vector, Vector], Vector]]] = [
    ("{} + {}", _each(lambda a, b: a + b)),
    ("{} * {}", _each(lambda a, b: a * b)),
    ("{} - {}", _each(lambda a, b: a - b)),
    ("maximum({}, {})", _each(max)),
    ("minimum({}, {})", _each(min)),
    ("remainder({}, 1 + {} ** 2)", _each(lambda a, b: _remainder(a, 1 + b * b))),
    ("hypot({}, {})", _each(mp.hypot)),
]
OUTPUTS: list[tuple[str, Callable[[Vector], Vector]]] = [
    ("sum({})", lambda v: [sum(v)]),
    ("median({})", lambda v: [_median(v)]),
    ("max({})", lambda v: [max(v)]),
    ("sort({})[1]", lambda v: [sorted(v)[1]]),
]
VALUES = (0.0, 1.0, -1.0, 0.5, 2.0)


def _grown(rng: random.Random, depth: int) -> tuple[str, Callable[[Point], Vector]]:
    if depth == 0:
        name = rng.choice("xy")
        return name, lambda at: at[name]
    left, f = _grown(rng, depth - 1)
    if rng.random() < 0.65:
        text, op = rng.choice(UNARY)
        return text.format(f"({left})"), lambda at: op(f(at))
    right, g = _grown(rng, rng.randrange(depth))
    both, pair = rng.choice(BINARY)
    return both.format(f"({left})", f"({right})"), lambda at: pair(f(at), g(at))


def _sides(function: Callable[[Point], Vector], at: Point, name: str, entry: int) -> Any:
    """The slopes of every output to both sides."""

    def moved(step: Any) -> Vector:
        there = {key: list(v) for key, v in at.items()}
        there[name][entry] += step
        return function(there)

    above, here, below = moved(STEP), moved(mp.mpf(0)), moved(-STEP)
    return [((a - h) / STEP, (h - b) / STEP) for a, h, b in zip(above, here, below, strict=True)]


@pytest.mark.parametrize("seed", first(24, range(48)))
def test_a_certified_number_is_the_derivative(seed: int) -> None:
    rng = random.Random(seed)
    inner, f = _grown(rng, rng.choice((1, 2, 3)))
    outer, g = rng.choice(OUTPUTS)
    formula = outer.format(f"({inner})")
    drawn = {n: [rng.choice(VALUES) for _ in range(SIZE)] for n in "xy" if f"({n})" in formula}
    truth = truth_of(formula, {name: np.array(v) for name, v in drawn.items()})
    with mp.workdps(DIGITS):
        at = {name: [mp.mpf(one) for one in v] for name, v in drawn.items()}
        for name in drawn:
            block = truth.blocks["reverse", name]
            for row, entry in np.argwhere(block.certified):
                up, down = _sides(lambda p: g(f(p)), at, name, int(entry))[row]
                near = mp.mpf(10) ** -60 * (1 + abs(up))
                where = f"seed {seed}: {formula} at {drawn}, {name}[{entry}]"
                assert abs(up - down) <= near, where
                off = abs((up + down) / 2 - mp.mpf(block.value[row, entry]))
                assert off <= mp.mpf(block.error[row, entry]) + near, where
