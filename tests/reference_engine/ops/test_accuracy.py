"""Elementwise rows and their derivatives against mpmath, far out and close in.

The allowed error has two parts: a few units of roundoff u for the operations of the rule, and what
rounding the arguments of inner functions by half an ulp does (the conditioning, to first order).
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import combinations_with_replacement, product
from typing import Any

import mpmath
import numpy as np
import pytest

from reference_engine import grad, jvp, vjp
from reference_engine.floats import as_dtype
from reference_engine.op import INTERNAL, TABLE
from tests.every import by_family, every
from tests.reference_engine.exactly import derivative
from tests.reference_engine.samples import EXACT

ROWS = {**TABLE, **INTERNAL}
UNITS = {np.float32: 2.0**-24, np.float64: 2.0**-53}
# A factor that is subnormal has an absolute error of half of the smallest number, and passes it on
# times the other factors: below 1000 wherever functions such as exp(-x^2) are not 0 altogether.
FLOOR = 1024

Point = tuple[float, ...]
Call = tuple[tuple[str, Any], ...]


def rounded(point: Point, dtype: Any) -> Point | None:
    """The point in this dtype; None where the dtype cannot tell it from 0 or infinity."""
    with np.errstate(over="ignore"):
        found = tuple(float(dtype(x)) for x in point)
    kept = all(np.isfinite(y) and (y == 0) == (x == 0) for x, y in zip(point, found, strict=True))
    return found if kept else None


def cases(name: str) -> Iterator[tuple[Point, Call, Any, int]]:
    """Where a row is held to its derivatives, in which dtype, and up to which order."""
    exact = EXACT[name]
    for points, orders in (
        ((*exact.points, *exact.delicate), exact.orders),
        (exact.strained, 1),
    ):
        for point, call, dtype in product(points, exact.calls, UNITS):
            at = rounded(point, dtype)
            if at is not None and exact.domain(*at):
                yield at, tuple(call.items()), dtype, orders


@cache
def truth(name: str, call: Call, xs: Point, along: tuple[int, ...], rough: bool) -> mpmath.mpf:
    """The derivative by those arguments, one after the other."""
    exact, everywhere = EXACT[name], range(len(xs))
    orders = tuple(along.count(i) for i in everywhere)
    smooth_at_zero = [exact.domain(*xs[:i], 0.0, *xs[i + 1 :]) for i in everywhere]
    scales = tuple(
        1.0 if zero and abs(x) < 1 else abs(x) for x, zero in zip(xs, smooth_at_zero, strict=True)
    )
    return derivative(partial(exact.function, **dict(call)), xs, orders, scales, rough=rough)


def computed(f: Callable[..., Any], xs: tuple[Any, ...], along: tuple[int, ...]) -> list[Any]:
    """The same from this library, in every mix of the modes."""
    if not along:
        with np.errstate(all="ignore"):
            return [f(*xs)]
    *before, last = along

    def slope(*ts: Any) -> Any:
        def moved(t: Any) -> Any:
            return f(*ts[:last], t, *ts[last + 1 :])

        return jvp(moved, (ts[last],), (np.ones((), ts[last].dtype),))[1]

    return [y for g in (grad(f, last), slope) for y in computed(g, xs, tuple(before))]


def allowed(
    name: str, call: Call, xs: Point, along: tuple[int, ...], dtype: Any, orders: int
) -> mpmath.mpf:
    u = UNITS[dtype]
    size = abs(truth(name, call, xs, along, False))
    if len(along) == 3:
        # The third derivatives of tanh, sigmoid, tan and erf are differences of two terms of the
        # size of the first derivative times a square.
        size += 4 * abs(truth(name, call, xs, along[:1], False))
    last = len(along) == orders  # one order more is asked for in no other place
    moved = sum(
        abs(x * truth(name, call, xs, tuple(sorted((*along, i))), last))
        for i, x in enumerate(xs)
        if x != 0
    )
    floor = FLOOR * float(np.finfo(dtype).smallest_subnormal)
    return EXACT[name].roundings * u * size + 2 * u * moved + floor


@pytest.mark.exhaustive
@by_family(EXACT)
def test_value_and_derivatives(name: str) -> None:
    every(cases(name), lambda case: compare(name, *case))


def compare(name: str, at: Point, call: Call, dtype: Any, orders: int) -> None:
    f = partial(ROWS[name], **dict(call))
    xs = tuple(np.asarray(x, dtype) for x in at)
    largest = float(np.finfo(dtype).max)
    for order in range(orders + 1):
        for along in combinations_with_replacement(range(len(at)), order):
            wanted = truth(name, call, at, along, False)
            bound = allowed(name, call, at, along, dtype, orders)
            for result in computed(f, xs, along):
                assert result.dtype == dtype
                assert result.shape == ()
                found = float(result)
                overflow = np.isinf(found) and abs(wanted) + bound >= largest
                right = found * wanted > 0 if overflow else abs(found - wanted) <= bound
                assert right, f"{name} by {along}: {found}, not {float(wanted)}"


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
