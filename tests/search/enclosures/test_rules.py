"""Every elementwise rule against exact values: at points of random and extreme boxes, with computed
arguments as far off as they may be, the exact value lies in the range, and the value of the
computed arguments, rounded, within the error."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.search.enclosures import enclosing  # noqa: F401 - it fills the table of rules
from gradcheck_cli.search.enclosures.enclosed import Enclosed, Exceeds, Rounding, between, exact
from gradcheck_cli.search.enclosures.rules import RULES, as_flushed
from reference_engine.arithmetic.arbs import Undecided, precision
from reference_engine.arithmetic.balls import exactly
from reference_engine.op import INTERNAL, TABLE
from reference_engine.traced import ROWS

ROWS_OF = {**TABLE, **INTERNAL}
MASKS = ("less", "greater", "equal", "logical", "where", "not_equal", "sign")
NAMES = sorted(name for name in RULES if ROWS_OF[name].elementwise and not name.startswith(MASKS))
EXTREMES = (0.0, 1e-45, 1e-39, 1e-20, 1e-4, 0.3, 0.9999999, 1.0, 1.5707963, 3.0, 88.7, 1e10, 3e38)
FLOAT32 = FORMATS["float32"]
ABOVE_ZERO = ("betaln",)  # of two numbers, of which few boxes are there by chance
KEYWORDS = {
    "clip": {"min": -0.5, "max": 2.0},
    "polygamma": {"n": 1},
    "elu": {"alpha": 1.5},
    "astype": {"dtype": np.float64},
}


def boxes(rng: np.random.Generator, count: int) -> list[tuple[float, float, float, float]]:
    """(lo, hi, d, a), ends among extremes and draws, some of them single points."""
    found = []
    for _ in range(count):
        size = [
            float(rng.choice(EXTREMES)) if rng.random() < 0.5 else 10 ** rng.uniform(-6, 3)
            for _ in range(2)
        ]
        ends = sorted(float(np.float32(x * rng.choice((-1, 1)))) for x in size)
        kind = rng.integers(4)
        if kind == 0:
            ends[1] = ends[0]
        elif kind == 1:
            ends[1] = ends[0] + abs(ends[0]) * 1e-3
        d, a = rng.choice((0.0, 1e-7, 1e-3)), rng.choice((0.0, 0.0, 1e-44, 1e-6))
        found.append((ends[0], ends[1], float(d), float(a)))
    return found


def exact_value(name: str, xs: list[float]) -> Any:
    """The exact value as a ball, or None where there is none, or none is known."""
    with precision(400):
        try:
            found = ROWS[name](*(exactly(np.array(x)) for x in xs), **KEYWORDS.get(name, {}))
        except (Undecided, ValueError, ZeroDivisionError):
            return None
    ball = np.asarray(found.value).item()
    return ball if ball.is_finite() else None


def argument(box: tuple[float, float, float, float]) -> Enclosed:
    lo, hi, d, a = (np.array([x]) for x in box)
    no = np.zeros(1, np.bool_)
    return Enclosed(lo, hi, d, a, no, no)


def spread(box: tuple[float, float, float, float]) -> list[tuple[float, float]]:
    """Points of a box, each with a computed number that it may stand for."""
    lo, hi, d, a = box
    points = {lo, hi, (lo + hi) / 2} | ({0.0} if lo < 0 < hi else set())
    pairs = [(x, float(np.float32(x + s * (d * abs(x) + a)))) for x in points for s in (-1, 0, 1)]
    return [(x, near) for x, near in pairs if abs(near - x) <= d * abs(x) + a]


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_holds_at_all_points_of_boxes(name: str) -> None:
    rng = np.random.default_rng(len(name))
    arity = ROWS_OF[name].arity
    rounding = Rounding.of(FLOAT32, False)
    tried = 0
    for _ in range(150):
        given = boxes(rng, arity)
        if name == "power":
            exponent = float(rng.choice((-2, -1, 0.5, 2, 3, 2.5, -0.5, 5)))
            if rng.random() < 0.7:
                given[1] = (exponent, exponent, 0.0, 0.0)
        if name in ABOVE_ZERO:
            given = [(abs(hi), abs(hi) + abs(lo) % 9, d, a) for lo, hi, d, a in given]
        try:
            found = RULES[name](rounding, *map(argument, given), **KEYWORDS.get(name, {}))
        except Exceeds:
            continue
        tried += check(name, given, found)
    assert tried > 10, "too few boxes have a value"


def check(name: str, given: list[tuple[float, float, float, float]], found: Enclosed) -> int:
    """Compares one enclosure with exact values; how many there were."""
    count = 0
    for pairs in itertools.product(*map(spread, given)):
        real, near = [x for x, _ in pairs], [y for _, y in pairs]
        value = exact_value(name, real)
        if value is None:
            assert found.undefined[0] or found.bad[0] or _beyond(name, real), (name, given, real)
            continue
        with precision(400):
            outside = value < found.lo[0] or value > found.hi[0]
        assert not outside, (name, given, real, found)
        if found.bad[0]:
            continue
        computed = exact_value(name, near)
        assert computed is not None, (name, given, near)
        with precision(400):
            near_value = float(computed)
            rounded = near_value if ROWS_OF[name].exact else float(np.float32(near_value))
            bound = found.d[0] * float(abs(value)) + found.a[0]
            assert math.isfinite(rounded), (name, given, near, found)
            apart, off = (float(abs(one - value).mid()) for one in (computed, rounded))
        assert apart <= bound * (1 + 1e-12), (name, given, real, near, apart, bound)
        assert off <= bound * (1 + 1e-9) + 1e-300, (name, given, near)
        count += 1
    return count


def _beyond(name: str, xs: list[float]) -> bool:
    """Whether balls know less than the rule: a kink, a power of 0, or what cancels."""
    kinked = ("maximum", "minimum", "abs", "relu", "clip", "leaky_relu", "hardtanh", "selu")
    if name in ("normal_excess", "log_ndtr"):
        return xs[0] < -1e6
    return name in kinked or 0.0 in xs


@pytest.mark.parametrize("flush", [False, True])
def test_a_number_that_does_not_change_another_one_costs_no_rounding(flush: bool) -> None:
    """Powers of two, below which numbers are half as far apart, included."""
    rounding, unit = Rounding.of(FLOAT32, flush), 2.0**-24
    rng = np.random.default_rng(0)
    ends = np.float32(rng.uniform(1, 4, 200)), np.float32(2.0 ** rng.integers(-9, 9, 200))
    x = np.concatenate([*ends, -ends[0]]).astype(np.float64)
    size = np.abs(x) * unit * np.float32(rng.choice([2.0**-40, 0.24, 0.26, 0.49, 0.51], 600))
    y = rng.choice((-1.0, 1.0), 600) * np.float32(size).astype(np.float64)
    found = RULES["add"](rounding, exact(x), exact(y))
    computed = np.float32(x) + np.float32(y)
    off = [
        abs(float(Fraction(float(c)) - Fraction(p) - Fraction(q)))
        for c, p, q in zip(computed, x.tolist(), y.tolist(), strict=True)
    ]
    assert np.all(off <= found.d * found.least + found.a)
    least = size < np.abs(x) * unit * 2.0**-30
    assert np.all(found.d[least] < unit * 2.0**-20)


def test_nothing_is_smaller_than_a_constant_of_minus_infinity() -> None:
    rounding = Rounding.of(FLOAT32, True)
    given = replace(exact([[2.0, -np.inf, 3.0, -np.inf]]), bad=np.array([[False, True] * 2]))
    found = RULES["max"](rounding, given, axis=1)
    assert (found.lo, found.hi, found.error, found.bad) == (3.0, 3.0, 0.0, False)
    nothing = RULES["max"](rounding, given.map(lambda part: part[:, 1::2]), axis=1)
    assert nothing.bad


def test_powers_are_computed_by_products() -> None:
    rounding = Rounding.of(FLOAT32, False)
    x = argument((3e19, 3e19, 0.0, 0.0))
    inverse = RULES["power"](rounding, x, argument((-2.0, -2.0, 0.0, 0.0)))
    assert inverse.error[0] > 1 / 9e38  # x^2 overflows, and 1 / x^2 is 0
    tiny = RULES["power"](rounding, argument((1e-20, 1e-20, 0.0, 0.0)), argument((-2, -2, 0, 0)))
    assert tiny.bad[0]
    twentieth = RULES["power"](rounding, argument((2.0, 2.0, 0.0, 0.0)), argument((20, 20, 0, 0)))
    assert twentieth.d[0] >= 19 * rounding.unit


def test_an_engine_that_flushes_may_multiply_by_a_rounded_reciprocal() -> None:
    three = argument((3.0, 3.0, 0.0, 0.0))
    plain, flushing = (
        RULES["divide"](Rounding.of(FLOAT32, flush), argument((5.0, 5.0, 0.0, 0.0)), three).d[0]
        for flush in (False, True)
    )
    assert flushing > 1.9 * plain
    reciprocal = RULES["divide"](Rounding.of(FLOAT32, True), argument((2.0,) * 2 + (0, 0)), three)
    assert reciprocal.d[0] <= FLOAT32.unit_roundoff


@pytest.mark.parametrize("row", ["reciprocal", "rsqrt"])
def test_an_estimated_reciprocal_of_a_power_of_two_is_not_exact(row: str) -> None:
    """TensorFlow's reciprocal of -4 is -0.24999999, so that is no gap of 0.25 around 0."""
    found = RULES[row](Rounding.of(FLOAT32, True), between(np.array([4.0]), np.array([4.0])))
    exact = 0.25 if row == "reciprocal" else 0.5
    assert found.d[0] > FLOAT32.unit_roundoff
    assert np.all(found.gap <= exact * (1 - FLOAT32.unit_roundoff))


def test_what_overflows_has_a_reciprocal_and_no_more() -> None:
    """exp(x) of x from 50 to 200 is finite or infinite, and no nan; 0 inf and inf - inf are."""
    rounding, one = Rounding.of(FLOAT32, False), argument((1.0, 1.0, 0.0, 0.0))
    large = RULES["exp"](rounding, argument((50.0, 200.0, 0.0, 0.0)))
    assert (large.bad[0], large.overflows[0]) == (True, True)
    for kept in (RULES["add"](rounding, one, large), RULES["multiply"](rounding, large, large)):
        assert (kept.bad[0], kept.overflows[0]) == (True, True)
        inverse = RULES["divide"](rounding, one, kept)
        assert not inverse.bad[0]
        assert 1 / FLOAT32.largest < inverse.error[0] < 1e-20
    assert not RULES["exp"](rounding, RULES["negative"](rounding, large)).bad[0]
    small = argument((0.0, 1e-30, 0.0, 0.0))
    near = argument((1e36, 1e36, 0.0, 0.0))
    for name, *given in (
        ("multiply", large, small),
        ("add", large, RULES["negative"](rounding, large)),
        ("add", large, RULES["negative"](rounding, near)),
        ("divide", large, large),
        ("divide", one, RULES["abs"](rounding, large)),
        ("exp", large),
        ("gelu", large),
    ):
        found = RULES[name](rounding, *given)
        assert (found.bad[0], np.any(found.overflows)) == (True, False), name


@pytest.mark.parametrize("name", ["sqrt", "log", "log1p", "log2", "log10"])
@pytest.mark.parametrize("flush", [False, True])
def test_what_overflows_has_a_root_and_logarithms_that_are_infinite_or_right(
    name: str, flush: bool
) -> None:
    """That of exp(x) from 88 to 89: where it is finite, it is as right as where exp(x) is."""
    rounding = Rounding.of(FLOAT32, flush)
    small, large = (argument((end - 1, end, 0.0, 0.0)) for end in (88.0, 89.0))
    right, beyond = (RULES[name](rounding, RULES["exp"](rounding, x)) for x in (small, large))
    assert (right.bad[0], beyond.bad[0]) == (False, True)
    assert beyond.d[0] + beyond.a[0] / beyond.lo[0] < 2 * (right.d[0] + right.a[0] / right.lo[0])
    assert not np.any(beyond.overflows)
    nothing = RULES[name](rounding, RULES["negative"](rounding, RULES["exp"](rounding, large)))
    assert (nothing.bad[0], nothing.error[0]) == (True, np.inf)


def test_what_is_flushed_is_0_or_accurate() -> None:
    """1 / exp(x) from -88 to -80 is infinite or accurate; below that it is infinite. But the log of
    a subnormal number may be anything."""
    rounding, one = Rounding.of(FLOAT32, True), argument((1.0, 1.0, 0.0, 0.0))
    flat = RULES["exp"](rounding, argument((-88.0, -80.0, 0.0, 0.0)))
    found = RULES["divide"](rounding, one, flat)
    assert (found.bad[0], found.error[0] < 1e-4 * found.most[0]) == (True, True)
    assert np.isinf(
        RULES["log"](rounding, as_flushed(rounding, argument((1e-38, 1, 0, 0)))).error[0]
    )
    tiny = RULES["exp"](rounding, argument((-200.0, -95.0, 0.0, 0.0)))
    assert RULES["divide"](rounding, one, tiny).broken[0]
    assert not RULES["exp"](rounding, argument((-87.33, -87.33, 0.0, 0.0))).a[0]


def test_exp2_may_be_exp_of_a_rounded_product() -> None:
    """JAX takes exp(log(2) x) in bfloat16: of -124 that is 5.1e-38 in place of 4.7e-38."""
    found = RULES["exp2"](Rounding.of(FORMATS["bfloat16"], False), argument((-124.0,) * 2 + (0, 0)))
    assert found.error[0] > 5.11e-38 - 2.0**-124
    far = RULES["exp2"](Rounding.of(FLOAT32, False), argument((-1e30, -1e20, 0.0, 0.0)))
    assert (far.bad[0], far.error[0] < 1e-43) == (False, True)


def test_a_power_of_0_has_no_value_where_its_base_has_none() -> None:
    rounding, zero = Rounding.of(FLOAT32, False), argument((0.0, 0.0, 0.0, 0.0))
    base = RULES["log"](rounding, argument((-1.0, -0.5, 0.0, 0.0)))
    one = RULES["power"](rounding, base, zero)
    assert one.undefined[0]
    assert RULES["multiply"](rounding, one, argument((2.0, 2.0, 0.0, 0.0))).undefined[0]


def test_the_subnormal_numbers_of_float16_are_not_flushed() -> None:
    half = FORMATS["float16"]
    rounding = Rounding.of(half, True)
    assert not rounding.flush
    assert Rounding.of(FORMATS["bfloat16"], True).flush
    one, beyond = argument((1.0, 1.0, 0.0, 0.0)), argument((1e-5, 1e-5, 0.0, 0.0))
    small = argument((half.largest,) * 2 + (0.0, 0.0))
    assert RULES["divide"](rounding, argument((1e-6, 1e-6, 0.0, 0.0)), beyond).bad[0]
    assert RULES["divide"](rounding, one, small).a[0] >= rounding.subnormal


def test_what_is_a_difference_of_numbers_of_the_dtype_is_not_flushed() -> None:
    """x - 1/2 of x around it is 0 or 2^-25 at least, and so are its products and quotients: there
    an engine that flushes is off by nothing. Of x around 0 that is not so."""
    flushing = Rounding.of(FLOAT32, True)
    half, two = argument((0.5, 0.5, 0.0, 0.0)), argument((2.0, 2.0, 0.0, 0.0))
    near = RULES["subtract"](flushing, as_flushed(flushing, argument((0.25, 2.0, 0.0, 0.0))), half)
    for found in (
        near,
        RULES["multiply"](flushing, near, two),
        RULES["divide"](flushing, near, two),
        RULES["negative"](flushing, near),
        as_flushed(flushing, RULES["multiply"](flushing, near, near)),
    ):
        assert (found.a[0], found.gap[0] > 2.0**-60) == (0.0, True)
    rng = np.random.default_rng(0)
    x = np.float32(rng.choice((0.5, 0.25, 1.0), 1000)) + np.float32(2.0**-25) * rng.integers(0, 9)
    sizes = np.abs(x - np.float32(0.5))
    assert np.all((sizes == 0) | (sizes >= near.gap[0]))
    around_0 = as_flushed(flushing, argument((-1.0, 1.0, 0.0, 0.0)))
    assert RULES["multiply"](flushing, around_0, two).a[0] > 0
    assert RULES["subtract"](flushing, around_0, argument((1e-38, 1e-38, 0.0, 0.0))).a[0] > 0
    rounded = argument((0.25, 2.0, 1e-7, 0.0))
    assert RULES["subtract"](flushing, rounded, half).a[0] > 0


def test_powers_of_a_difference_are_0_or_not_flushed() -> None:
    flushing = Rounding.of(FLOAT32, True)
    one, two = argument((1.0, 1.0, 0.0, 0.0)), argument((2.0, 2.0, 0.0, 0.0))
    beside = RULES["subtract"](flushing, argument((1.0, 1.5, 0.0, 0.0)), one)
    assert beside.lo[0] == 0
    found = RULES["power"](flushing, beside, two)
    assert (found.lo[0], found.a[0], found.gap[0] > 2.0**-60) == (0.0, 0.0, True)
    nothing = RULES["power"](flushing, RULES["subtract"](flushing, one, one), two)
    assert (nothing.most[0], nothing.error[0]) == (0.0, 0.0)
    around_0 = as_flushed(flushing, argument((-1.0, 1.0, 0.0, 0.0)))
    assert RULES["power"](flushing, around_0, two).a[0] > 0


def test_products_with_powers_of_two_are_exact_one_by_one() -> None:
    x = between(np.array([1.0, 1.0, 1.0, 1.0]), np.array([3.0, 3.0, 3.0, 3.0]))
    y = between(np.array([2.0, 0.3, -0.5, 1.0]), np.array([2.0, 0.3, -0.5, 2.0]))
    found = RULES["multiply"](Rounding.of(FLOAT32, False), x, y)
    assert (found.d > 0).tolist() == [False, True, False, True]


def test_quotients_by_powers_of_two_are_exact_unless_they_underflow() -> None:
    x, y = (
        between([1.0, 1.0, 1e-38], [2.0, 2.0, 2e-38]),
        between([0.125, 3.0, 8.0], [0.125, 3.0, 8.0]),
    )
    for loose in (False, True):
        found = RULES["divide"](Rounding.of(FORMATS["float32"], loose), x, y)
        assert found.error[0] < 1e-30 < found.error[1]
        assert found.a[2] > 0
