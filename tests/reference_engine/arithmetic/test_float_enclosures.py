"""Rows on float balls: they hold what the balls of Arb hold, values and derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb

from reference_engine.arithmetic.arbs import NotInBalls, Undecided, precision
from reference_engine.arithmetic.float_enclosures import FloatBall, as_float_ball, exactly_floats
from reference_engine.enclosing import ball_vjp
from reference_engine.op import INTERNAL, TABLE
from reference_engine.tape import Node, pull_back
from reference_engine.traced import ROWS, new_level
from tests.every import by_family, every
from tests.reference_engine.samples import SAMPLES, Sample

SEED = 3
NARROW = 1e-9  # of a radius, where inputs are exact: beside the largest number
REFUSED = {"cofactors", "cummax", "cummin"}
"""Rows whose rules look at numbers that are not known exactly, or need a row without balls."""
WIDE = {"median"}
"""Rows whose rules take a derivative for that of a tie."""


@by_family({**TABLE, **INTERNAL})
def test_exact_numbers_give_narrow_balls_that_hold_the_exact_results(name: str) -> None:
    every(SAMPLES[name], lambda sample: compare(name, sample, 0.0))


@by_family({**TABLE, **INTERNAL})
def test_all_numbers_of_the_balls_that_went_in_give_results_that_are_held(name: str) -> None:
    every(SAMPLES[name], lambda sample: compare(name, sample, 1e-6))


def compare(name: str, sample: Sample, part: float) -> None:
    """Inputs are balls whose radius is this part of them, and the exact ones somewhere inside."""
    arrays = sample.arrays(SEED)
    rng = np.random.default_rng(SEED)
    places = [i for i, x in enumerate(arrays) if np.asarray(x).dtype.kind == "f"]

    def function(*xs: Any) -> Any:
        full: list[Any] = list(arrays)
        for i, x in zip(places, xs, strict=True):
            full[i] = x
        return ROWS[name](*full, **sample.keywords)

    middles = [np.asarray(arrays[i], np.float64) for i in places]
    reach = [part * np.abs(x) for x in middles]
    inside = [x + r * rng.choice([-0.9, 0.9], x.shape) for x, r in zip(middles, reach, strict=True)]
    try:
        with precision(300), np.errstate(all="ignore"):
            y, pull = ball_vjp(function, inside)
            bar = rng.uniform(-1, 1, np.shape(y))
            exact = pull(bar)
    except (NotInBalls, Undecided):
        return
    level = new_level()
    balls = [FloatBall(x, r if part else None) for x, r in zip(middles, reach, strict=True)]
    nodes = [Node(level, ball) for ball in balls]
    try:
        with np.errstate(all="ignore"):
            found = function(*nodes)
            value = found.value if isinstance(found, Node) else found
            reached = {}
            if isinstance(found, Node):
                reached = pull_back([(found, exactly_floats(bar))], nodes)
    except (NotInBalls, Undecided):
        assert part or name in REFUSED
        return
    if not isinstance(value, FloatBall):
        return
    assert_holds(value, y, name not in WIDE and not part)
    for node, right in zip(nodes, exact, strict=True):
        x_bar = reached.get(node.record)
        ball = exactly_floats(np.zeros(node.shape)) if x_bar is None else as_float_ball(x_bar)
        assert_holds(ball, right, name not in WIDE and not part)


def assert_holds(ball: FloatBall, exact: Any, narrow: bool) -> None:
    size = max((abs(float(one.mid())) for one in np.ravel(exact)), default=0.0)
    for middle, radius, right in zip(
        ball.value.ravel().tolist(), ball.radii.ravel().tolist(), np.ravel(exact), strict=True
    ):
        if np.isfinite(radius):
            assert abs(right.mid() - arb(middle)) <= arb(radius) + right.rad()
        if narrow and np.isfinite(size):
            assert radius <= NARROW * max(size, 1.0)
