"""Values and derivatives of functions of one number against 60 digits, far out and close in.

The allowed error has two parts: a few units of roundoff u for the operations of the rule, and what
rounding the argument of an inner function by half an ulp does (the conditioning, to first order).
"""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from reference_engine import grad, jvp, vjp
from reference_engine.arithmetic.floats import as_dtype
from reference_engine.op import TABLE

mp = mpmath.mp.clone()
mp.dps = 60


def logistic(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def bell(x: Any) -> Any:
    return mp.exp(-x) / (1 + mp.exp(-x)) ** 2


def second_of_sigmoid(x: Any) -> Any:
    return -bell(x) * mp.tanh(x / 2)


Exact = Callable[[Any], Any]
# row -> (value, first, second, third derivative; points)
FUNCTIONS: dict[str, tuple[tuple[Exact, Exact, Exact, Exact], tuple[float, ...]]] = {
    "exp": ((mp.exp, mp.exp, mp.exp, mp.exp), (0, -1e-30, 1, 80, -80)),
    "expm1": ((mp.expm1, mp.exp, mp.exp, mp.exp), (0, 1e-30, -1e-08, 1, 80, -80)),
    "log": (
        (mp.log, lambda x: 1 / x, lambda x: -(x ** (-2)), lambda x: 2 * x ** (-3)),
        (1e-09, 0.3, 1, 2, 1000000000.0),
    ),
    "log1p": (
        (
            lambda x: mp.log1p(x),
            lambda x: 1 / (1 + x),
            lambda x: -((1 + x) ** (-2)),
            lambda x: 2 * (1 + x) ** (-3),
        ),
        (0, 1e-30, -0.5, -1e-08, 3, 1000000000.0),
    ),
    "sqrt": (
        (
            mp.sqrt,
            lambda x: mp.sqrt(x) / x / 2,
            lambda x: -mp.sqrt(x) / x**2 / 4,
            lambda x: 3 * mp.sqrt(x) / x**3 / 8,
        ),
        (1e-09, 0.3, 2, 1000000000.0),
    ),
    "sin": (
        (mp.sin, mp.cos, lambda x: -mp.sin(x), lambda x: -mp.cos(x)),
        (0, 1e-30, 1, -3, 1000.0),
    ),
    "cos": (
        (mp.cos, lambda x: -mp.sin(x), lambda x: -mp.cos(x), mp.sin),
        (0, 1e-30, 1, -3, 1000.0),
    ),
    "tan": (
        (
            mp.tan,
            lambda x: mp.sec(x) ** 2,
            lambda x: 2 * mp.tan(x) * mp.sec(x) ** 2,
            lambda x: 2 * mp.sec(x) ** 2 * (mp.sec(x) ** 2 + 2 * mp.tan(x) ** 2),
        ),
        (0, 1e-30, 1, 1.5, -20),
    ),
    "tanh": (
        (
            mp.tanh,
            lambda x: mp.sech(x) ** 2,
            lambda x: -2 * mp.tanh(x) * mp.sech(x) ** 2,
            lambda x: 2 * mp.sech(x) ** 2 * (2 * mp.tanh(x) ** 2 - mp.sech(x) ** 2),
        ),
        (0, 1e-30, -1e-08, 0.5, 3, 20, -40),
    ),
    "sigmoid": (
        (
            logistic,
            bell,
            second_of_sigmoid,
            lambda x: bell(x) * (mp.tanh(x / 2) ** 2 - mp.sech(x / 2) ** 2 / 2),
        ),
        (0, 1e-30, -1e-08, 0.5, 20, -80, 80),
    ),
    "softplus": (
        (lambda x: mp.log1p(mp.exp(x)), logistic, bell, second_of_sigmoid),
        (0, 1e-08, 0.5, 20, -80, 80),
    ),
    "erf": (
        (
            mp.erf,
            lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x),
            lambda x: -4 * x / mp.sqrt(mp.pi) * mp.exp(-x * x),
            lambda x: 4 / mp.sqrt(mp.pi) * mp.exp(-x * x) * (2 * x * x - 1),
        ),
        (0, 1e-30, -1e-08, 0.5, 3, -8),
    ),
    "square": (
        (lambda x: x * x, lambda x: 2 * x, lambda x: mp.mpf(2), lambda x: mp.mpf(0)),
        (0, 1e-09, -3, 1000000000.0),
    ),
}
POINTS = [(name, float(x)) for name, (_, points) in FUNCTIONS.items() for x in points]
UNITS = {np.float32: 2.0**-24, np.float64: 2.0**-53}


def allowed(exact: Exact, x: Any, size: Any, u: float) -> float:
    """16 roundings at u each, and the argument moved by two roundings."""
    moved = abs(exact(x * (1 + mp.mpf(2) ** -80)) - exact(x)) * 2**80
    return float(16 * u * size + 2 * u * moved)


@pytest.mark.parametrize("dtype", UNITS)
@pytest.mark.parametrize(("name", "x"), POINTS)
def test_value_and_first_three_derivatives(name: str, x: float, dtype: Any) -> None:
    row, u = TABLE[name], UNITS[dtype]
    at = np.asarray(x, dtype)
    exact_at = mp.mpf(float(at))

    def slope(t: Any) -> Any:
        return jvp(row, (t,), (np.ones((), dtype),))[1]

    computed = (
        (row.value(at),),
        (grad(row)(at), slope(at)),
        (grad(grad(row))(at), grad(slope)(at)),
        (grad(grad(grad(row)))(at), jvp(grad(slope), (at,), (np.ones((), dtype),))[1]),
    )
    for order, results in enumerate(computed):
        exact = FUNCTIONS[name][0][order]
        truth = exact(exact_at)
        # The third derivatives of tanh, sigmoid, tan and erf are differences of two terms of the
        # size of the first derivative times a square, and cancel near their zeros.
        size = abs(truth) if order < 3 else abs(truth) + 4 * abs(FUNCTIONS[name][0][1](exact_at))
        bound = allowed(exact, exact_at, size, u) + float(np.finfo(dtype).smallest_subnormal) * 8
        for result in results:
            assert result.dtype == dtype
            assert abs(float(mp.mpf(float(result)) - truth)) <= bound, (order, float(truth))


def test_division_far_out() -> None:
    divide = TABLE["divide"]
    assert grad(lambda b: divide(1.0, b))(1e-30) == pytest.approx(-1e60, rel=1e-15, abs=0)
    assert grad(lambda b: divide(1e-200, b))(1e-200) == pytest.approx(-1e200, rel=1e-15, abs=0)
    assert grad(lambda b: divide(1e200, b))(1e200) == pytest.approx(-1e-200, rel=1e-15, abs=0)


def test_power_of_negative_and_zero_bases() -> None:
    power = TABLE["power"]
    assert grad(lambda x: power(x, 3))(-2.0) == 12.0
    assert grad(lambda x: power(x, np.asarray(3.0)))(-2.0) == 12.0
    assert grad(lambda x: power(x, -1))(-2.0) == -0.25
    assert grad(lambda x: power(x, 2))(0.0) == 0.0
    assert grad(grad(lambda x: power(x, 2)))(0.0) == 2.0
    assert grad(grad(lambda x: power(x, np.asarray(2.0))))(0.0) == 2.0
    assert grad(lambda x: power(x, 1))(0.0) == 1.0
    for zero in (0, 0.0, np.asarray(0.0)):
        assert grad(lambda x, zero=zero: power(x, zero))(0.0) == 0.0
        assert jvp(lambda x, zero=zero: power(x, zero), (3.0,), (1.0,))[1] == 0.0
    for exponent in (0.0, 0.5, 2.0):
        assert grad(lambda n: power(0.0, n))(exponent) == 0.0
    # d/dn of n x^(n - 1) at n = 0 is 1/x
    mixed = grad(lambda n: grad(lambda x: power(x, n))(2.0))(0.0)
    assert mixed == 0.5
    assert power(2, -1) == 0.5


def test_prod_with_zeros() -> None:
    prod = TABLE["prod"]
    np.testing.assert_array_equal(grad(prod)(np.array([2.0, 0.0, 3.0])), [0, 6, 0])
    np.testing.assert_array_equal(grad(prod)(np.array([0.0, 0.0, 3.0])), [0, 0, 0])
    assert jvp(prod, (np.array([2.0, 0.0, 3.0]),), (np.ones(3),))[1] == 6.0


def test_norm_neither_overflows_nor_underflows() -> None:
    norm = TABLE["norm"]
    for scale in (1e200, 1e-200, 5e-324, 1.0):
        x = np.array([3.0, 4.0]) * scale
        assert norm(x) == 5 * scale
        np.testing.assert_allclose(grad(norm)(x), [0.6, 0.8], rtol=1e-15)
    np.testing.assert_array_equal(norm(np.array([np.inf, 1.0])), np.inf)
    assert np.isnan(norm(np.array([np.nan, 1.0])))
    assert norm(np.array([300.0, 400.0], np.float16)) == 500  # the squares overflow float16


def test_softmax_family_far_out() -> None:
    x = np.array([1000.0, 0.0, -1000.0])
    np.testing.assert_array_equal(TABLE["softmax"](x), [1, 0, 0])
    np.testing.assert_array_equal(TABLE["log_softmax"](x), [0, -1000, -2000])
    assert TABLE["logsumexp"](x) == 1000
    np.testing.assert_array_equal(grad(TABLE["logsumexp"])(x), [1, 0, 0])
    # the digits of a sum far below 1 are kept: log(1 + e^-50)
    assert TABLE["logsumexp"](np.array([0.0, -50.0])) == pytest.approx(
        np.exp(-50), rel=1e-15, abs=0
    )
    assert TABLE["log_softmax"](np.array([0.0, -50.0]))[0] == pytest.approx(
        -np.exp(-50), rel=1e-15, abs=0
    )
    assert TABLE["logsumexp"](np.array([-np.inf, -np.inf])) == -np.inf
    assert TABLE["logsumexp"](np.array([np.inf, 0.0])) == np.inf
    assert np.isnan(TABLE["logsumexp"](np.array([np.nan, 0.0])))


def test_where_selects_and_never_multiplies() -> None:
    mask = np.array([True, False])
    where, x, bad = TABLE["where"], np.array([1.0, 4.0]), np.array([np.nan, np.inf])
    _, pull = vjp(lambda a, b: where(mask, a, b), x, bad)
    for y_bar in (np.ones(2), np.array([np.inf, 1.0]), np.array([1.0, np.nan])):
        a_bar, b_bar = pull(y_bar)
        np.testing.assert_array_equal(a_bar, [y_bar[0], 0])
        np.testing.assert_array_equal(b_bar, [0, y_bar[1]])
    x_dot, bad_dot = np.array([1.0, np.nan]), np.array([np.inf, 2.0])
    y_dot = jvp(lambda a, b: where(mask, a, b), (x, bad), (x_dot, bad_dot))[1]
    np.testing.assert_array_equal(y_dot, [1, 2])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_sums_do_not_stall(dtype: str) -> None:
    """4096 ones: adding one by one stops at 256 in bfloat16 and at 2048 in float16."""
    ones = np.ones(4096, as_dtype(dtype))
    assert TABLE["sum"](ones) == 4096
    assert TABLE["mean"](ones) == 1
    assert TABLE["matmul"](ones, ones) == 4096
