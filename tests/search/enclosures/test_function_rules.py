"""What engines do to functions beyond the 4 ulps of a library (the sweep is in test_rules)."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.special

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.search.enclosures import function_rules
from gradcheck_cli.search.enclosures.enclosed import Enclosed, Rounding, between, exact
from gradcheck_cli.search.enclosures.rules import RULES, as_flushed

FLOAT32 = Rounding.of(FORMATS["float32"], False)
FLOAT64 = Rounding.of(FORMATS["float64"], False)
NUMPYS = {"asin": "arcsin", "atan": "arctan", "asinh": "arcsinh", "atanh": "arctanh"}


@pytest.mark.parametrize("name", ["sinh", "cosh"])
def test_by_exp_it_overflows_early(name: str) -> None:
    assert RULES[name](FLOAT32, exact([88.0, 88.73])).bad.tolist() == [False, True]


def test_a_rounded_argument_counts_far_from_0() -> None:
    near, far = RULES["exp2"](FLOAT32, exact([1.0, 100.0])).d
    assert far > near + 99 * FLOAT32.unit


@pytest.mark.parametrize("name", ["tanh", "atan", "asinh", "sin", "asin", "tan", "sinh", "expm1"])
def test_only_what_halves_its_argument_flushes_more_than_its_result(name: str) -> None:
    """JAX's asin loses the normal numbers below twice the smallest."""
    flushing = Rounding.of(FORMATS["float32"], True)
    x = exact(1.01 * flushing.normal * np.array([1.0, -1.0]))
    assert RULES[name](flushing, x).a.max() < 2.0**-149
    jax = Rounding.of(FORMATS["float32"], True, again=True)
    assert RULES["asin"](jax, x).a.min() > 1.01 * flushing.normal
    assert RULES[name](flushing, exact([0.5 * flushing.normal])).a[0] >= 0.5 * flushing.normal


def test_a_function_within_its_values() -> None:
    found = RULES["tanh"](FLOAT32, between([-1e30], [1e30]))
    assert (found.lo[0], found.hi[0]) == (-1, 1)


def test_what_moves_an_unknown_number_is_unknown() -> None:
    bad = RULES["exp"](FLOAT32, exact([1000.0]))
    assert np.isinf(function_rules.error_of(bad)).all()


@pytest.mark.parametrize(
    ("dtype", "name", "x", "computed"),
    [
        ("float32", "sigmoid", -14.446164131164551, 5.322438028088072e-07),
        ("float32", "asin", 0.5004398226737976, 0.5241069793701172),
        ("float64", "log1p", -0.41404677643135995, -0.5345153158528628),
        ("float64", "atanh", 0.41404677643135995, 0.4404854818537468),
    ],
)
def test_a_function_that_an_engine_approximates_is_within_its_bound(
    dtype: str, name: str, x: float, computed: float
) -> None:
    """Numbers of TensorFlow and JAX that are off by more than 4 ulps."""
    rounding = Rounding.of(FORMATS[dtype], True)
    found = RULES[name](rounding, exact([x]))
    assert abs(computed - found.lo[0]) > 8 * rounding.unit * abs(computed)
    assert abs(computed - found.lo[0]) < found.error[0]


def test_a_power_with_an_exponent_so_large_that_tensorflow_has_0_is_unknown() -> None:
    base, exponent = exact([1 - 2.0**-24, 1 - 2.0**-24]), exact([9.9079776e8, 1e6])
    loose = RULES["power"](Rounding.of(FORMATS["float32"], True), base, exponent)
    assert loose.bad.tolist() == [True, False]
    assert not RULES["power"](FLOAT32, base, exponent).bad.any()


@pytest.mark.parametrize(("name", "more"), [("sqrt", ()), ("power", (exact([0.3]),))])
def test_what_is_flushed_has_the_root_of_0(name: str, more: tuple[Enclosed, ...]) -> None:
    flushing = Rounding.of(FORMATS["float32"], True)
    x = as_flushed(flushing, between([0.0], [4.0]))
    found = RULES[name](flushing, x, *more)
    assert not found.bad[0]
    assert found.error[0] > np.sqrt(flushing.normal) / 2
    assert RULES[name](flushing, as_flushed(flushing, between([-1e-40], [4.0])), *more).bad[0]


FROM_ZERO = [
    "sin",
    "tan",
    "sinh",
    "tanh",
    "asin",
    "atan",
    "asinh",
    "atanh",
    "expm1",
    "log1p",
    "erf",
]


@pytest.mark.parametrize("name", FROM_ZERO)
def test_an_error_stays_a_part_of_a_number_that_goes_to_0(name: str) -> None:
    """However many octaves a box has, an argument that is off by a part of it gives a result that
    is off by a part of it, and no number stays lost."""
    for lo, hi in ((1e-30, 0.5), (-0.4, -1e-25)):
        x = replace(between([lo], [hi]), d=np.array([FLOAT32.unit]))
        found = RULES[name](FLOAT32, x)
        assert found.d[0] < FLOAT32.library + 4 * FLOAT32.unit
        assert found.a[0] < 1e-40


@pytest.mark.parametrize("name", FROM_ZERO)
@pytest.mark.parametrize("d", [1e-7, 1e-3, 0.05])
def test_no_argument_moves_such_a_function_by_more(name: str, d: float) -> None:
    function = getattr(np, NUMPYS.get(name, name), None) or getattr(scipy.special, name)
    rng = np.random.default_rng(0)
    for size in (1e-6, 0.1, 0.9):
        ends = np.sort(rng.uniform(-size, size, (500, 2)), axis=1)
        a = 10.0 ** rng.uniform(-9, -4, 500)
        x = replace(between(*ends.T), d=np.full(500, d), a=a)
        found = RULES[name](FLOAT64, x)
        v = ends[:, 0] + (ends[:, 1] - ends[:, 0]) * rng.random((50, 500))
        off = function(v + rng.choice([-1, 1], v.shape) * (d * np.abs(v) + a)) - function(v)
        allowed = found.d * np.abs(function(v)) + found.a
        assert np.all(found.bad | (np.abs(off) <= allowed * (1 + 1e-9)))


@pytest.mark.parametrize("approximate", [False, True])
def test_the_tail_of_gelu_has_most_of_its_digits(approximate: bool) -> None:
    """1 + f is exact there, and f is right to some ulps of 1/2."""
    x = between([-3.0, -6e-38], [-2.5, 6e-38])
    found = RULES["gelu"](FLOAT32, x, approximate=approximate)
    assert found.error[0] < (5 if approximate else 14) * FLOAT32.unit * 3
    assert found.error[1] < 1e-43
