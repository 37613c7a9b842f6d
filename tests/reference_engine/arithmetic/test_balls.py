"""Every row of the table on balls: it encloses, or it says why it cannot."""

from __future__ import annotations

from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
from flint import arb

from reference_engine.arithmetic.arbs import NotInBalls, Undecided, objects, precision, unwrap
from reference_engine.arithmetic.balls import REFUSED, enclosure, exactly, midpoints, radii, wrap
from reference_engine.enclosing import ball_jvp, ball_vjp
from reference_engine.op import INTERNAL, TABLE, Composite
from reference_engine.transforms import vjp
from tests.every import by_family, every
from tests.reference_engine.samples import EXACT, SAMPLES, Sample

ROWS = {**TABLE, **INTERNAL}
every_row = by_family(ROWS)
SEED = 5
UNSURE = {"gelu": 1e-13, "selu": 1e-15}
"""Rows that define themselves by decimals, which the enclosure takes as the rows have them: rounded
to float64."""


REFUSED_IN_RULES = ("cofactors",)
"""Rows with an enclosure whose rules need one that there is not."""


def _floating(name: str, arrays: tuple[Any, ...]) -> list[int]:
    return [i for i, x in enumerate(arrays) if np.asarray(x).dtype.kind == "f"]


def _on_balls(name: str, arrays: Any, keywords: Any) -> Any:
    """The row as a function of its floating arrays."""
    places = _floating(name, arrays)

    def function(*xs: Any) -> Any:
        full = list(arrays)
        for i, x in zip(places, xs, strict=True):
            full[i] = x
        return ROWS[name](*full, **keywords)

    return function, [arrays[i] for i in places]


def test_every_row_has_an_enclosure_or_a_reason() -> None:
    for name, row in ROWS.items():
        if isinstance(row, Composite):
            continue
        if name in REFUSED:
            with pytest.raises(NotInBalls, match=name):
                enclosure(name)
            assert len(REFUSED[name]) > 20
        else:
            assert callable(enclosure(name))
    assert REFUSED.keys() <= ROWS.keys()


def _size(x: Any) -> float:
    finite = np.abs(x)[np.isfinite(x)]
    return float(np.max(finite, initial=0)) or 1.0


@every_row
def test_value_and_gradient_enclose_those_of_float64(name: str) -> None:
    every(SAMPLES[name], lambda sample: compare_with_float64(name, sample))


def compare_with_float64(name: str, sample: Sample) -> None:
    arrays = sample.arrays(SEED)
    function, xs = _on_balls(name, arrays, sample.keywords)
    if not xs:
        return  # nothing could be a ball
    rng = np.random.default_rng(SEED)
    try:
        with precision(100):
            value, pull = ball_vjp(function, xs)
            y_bar = rng.integers(1, 9, np.shape(value)) / 4
            gradients = [wrap(x_bar) for x_bar in pull(y_bar)]
    except NotInBalls:
        assert name in (*REFUSED, *REFUSED_IN_RULES)
        return
    expected = ROWS[name](*arrays, **sample.keywords)
    pairs = [(wrap(value), expected)]
    if ROWS[name].differentiable:
        _, pull_floats = vjp(function, *xs)
        pairs += list(zip(gradients, pull_floats(y_bar), strict=True))
    size = max(_size(number) for _, number in pairs)  # a gradient may cancel to nothing
    for ball, number in pairs:
        assert ball.shape == np.shape(number)
        # backward stable algorithms on well-conditioned samples: a few thousand units at most
        assert np.all(np.abs(midpoints(ball) - number) <= 1e-11 * size)
        assert np.all(radii(ball) <= 2.0**-70 * size)  # 30 bits for what cancels


@every_row
def test_derivatives_are_right_far_beyond_float64(name: str) -> None:
    """Against central differences on balls: a constant rounded to float64 inside a rule is off by
    2^-53, far more than h^2."""
    if ROWS[name].differentiable:
        every(SAMPLES[name], lambda sample: compare_with_differences(name, sample))


def compare_with_differences(name: str, sample: Sample) -> None:
    arrays = sample.arrays(SEED)
    function, xs = _on_balls(name, arrays, sample.keywords)
    rng = np.random.default_rng(SEED)
    directions = [rng.integers(-8, 9, np.shape(x)) / 8.0 for x in xs]
    h = 2.0**-70
    try:
        with precision(400):
            value, pull = ball_vjp(function, xs)
            y_bar = objects(rng.integers(1, 9, np.shape(value)) / 4)
            by_reverse = _dot(pull(wrap(y_bar)), map(objects, directions))
            by_forward = _dot([ball_jvp(function, xs, directions)[1]], [y_bar])
            there, back = (
                unwrap(function(*[_moved(x, d, s) for x, d in zip(xs, directions, strict=True)]))
                for s in (h, -h)
            )
            difference = _dot([(there - back) / arb(2 * h)], [y_bar])
    except NotInBalls:
        assert name in (*REFUSED, *REFUSED_IN_RULES)
        return
    assert by_reverse.overlaps(by_forward)
    scale = max(1.0, abs(float(by_reverse.mid())))
    # the third derivatives of the samples are at most 1e6
    assert float(abs(by_reverse - difference).upper()) <= 2.0**-100 * scale


def _moved(x: Any, direction: Any, step: float) -> Any:
    return wrap(np.asarray(objects(x) + objects(direction) * arb(step), dtype=object))


def _dot(parts: Any, others: Any) -> Any:
    total = arb(0)
    for a, b in zip(parts, others, strict=True):
        for p, q in zip(np.ravel(a), np.ravel(b), strict=True):
            total += p * q
    return total


@by_family(sorted(EXACT.keys() & ROWS.keys()))
def test_values_contain_those_of_mpmath(name: str) -> None:
    exact = EXACT[name]
    for point, keywords in product((*exact.points, *exact.strained), exact.calls):
        if not all(x == 0 or 1e-20 < abs(x) < 1e20 for x in point) or not exact.domain(*point):
            continue  # poles are the rows' own affair; what is larger or smaller costs mpmath much
        with mpmath.workdps(60):  # what cancels at the hard points, and more
            true = mpmath.mpf(exact.function(*map(mpmath.mpf, point), **keywords))
            slack = abs(true) * UNSURE.get(name, 1e-28) + 1e-50
            shown = arb(f"{mpmath.nstr(true, 50)} +/- {mpmath.nstr(slack, 5)}")
        with precision(100):
            found = unwrap(ROWS[name](*[exactly(x) for x in point], **keywords)).item()
            assert found.overlaps(shown), f"{name}{point}: {found} and {true}"


@pytest.mark.parametrize("exponent", [1, 2, 3, 7])
def test_a_whole_power_of_a_ball_around_zero_is_a_number(exponent: int) -> None:
    """Such a ball comes of exp(x) - exp(x)."""
    around = arb(1).exp() - arb(1).exp()
    x, n = (wrap(np.array(ball, dtype=object)) for ball in (around, arb(exponent)))
    found = unwrap(TABLE["power"](x, n)).item()
    assert found.contains(0)
    assert found.contains(around.upper() ** exponent)
    assert found.contains(around.lower() ** exponent)
    assert found.rad() < 1e-14


def test_another_power_of_a_ball_around_zero_is_left_open() -> None:
    """What lies below 0 has no value, the rest has one: no precision tells."""
    around = arb(1).exp() - arb(1).exp()
    x, n = (wrap(np.array(ball, dtype=object)) for ball in (around, arb(0.5)))
    with pytest.raises(Undecided):
        TABLE["power"](x, n)
