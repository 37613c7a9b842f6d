"""Norms of any order: far out, close in, at zeros, in second order."""

from typing import Any

import mpmath
import numpy as np
import pytest

from reference_engine import grad, hessian, norm
from reference_engine.errors import ShapeError

ORDERS = (0.5, 1, 1.5, 2, 3, 10, np.inf)


def exact(xs: Any, ord: float) -> Any:
    """The norm in 60 digits and more, of numbers of any size."""
    if ord == np.inf:
        return max(abs(mpmath.mpf(x)) for x in xs)
    p = mpmath.mpf(ord)
    return sum(abs(mpmath.mpf(x)) ** p for x in xs) ** (1 / p)


def slope(xs: list[float], ord: float, i: int) -> Any:
    """The derivative by xs[i] in 25 digits: a central difference with a step of that size."""
    h = abs(mpmath.mpf(xs[i])) * mpmath.mpf(10) ** -25
    after, before = (exact([*xs[:i], xs[i] + step, *xs[i + 1 :]], ord) for step in (h, -h))
    return (after - before) / (2 * h)


@pytest.mark.parametrize("ord", ORDERS)
@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1.0, 1e30, 1e250])
def test_no_power_overflows_or_underflows(ord: float, scale: float) -> None:
    x = np.array([3.0, -4.0, 0.5]) * scale
    with mpmath.workdps(60):
        length = exact(x.tolist(), ord)
        slopes = [float(slope(x.tolist(), ord, i)) for i in range(3)]
    # 1/ord and ord - 1 are powers of numbers near 1: a few roundings each, times at most 10
    assert norm(x, ord=ord) == pytest.approx(float(length), rel=40 * 2.0**-53, abs=0)
    np.testing.assert_allclose(grad(lambda x: norm(x, ord=ord))(x), slopes, rtol=1e-14, atol=1e-300)


def test_narrow_formats_do_not_overflow_on_the_way() -> None:
    assert norm(np.array([300.0, 400.0], np.float16)) == 500
    assert norm(np.array([300.0, 300.0], np.float16), ord=3) == np.float16(300 * 2 ** (1 / 3))


@pytest.mark.parametrize("ord", ORDERS)
def test_a_vector_of_zeros_has_the_gradient_zero(ord: float) -> None:
    np.testing.assert_array_equal(grad(lambda x: norm(x, ord=ord))(np.zeros(3)), [0, 0, 0])


def test_second_derivatives_where_one_element_is_zero() -> None:
    x = np.array([0.0, 2.0])
    np.testing.assert_array_equal(hessian(lambda x: norm(x, ord=3))(x), [[0, 0], [0, 0]])
    np.testing.assert_array_equal(hessian(norm)(x), [[0.5, 0], [0, 0]])
    # |x|^1.5 has no second derivative at 0: it grows beyond all bounds
    assert hessian(lambda x: norm(x, ord=1.5))(x)[0, 0] == np.inf


def test_what_is_not_a_number_is_not_hidden() -> None:
    assert norm(np.array([np.inf, 1.0])) == np.inf
    for ord in ORDERS:
        assert np.isnan(norm(np.array([np.nan, 1.0]), ord=ord))


@pytest.mark.parametrize("ord", [0, -1, float("nan")])
def test_orders_that_are_none(ord: float) -> None:
    with pytest.raises(ShapeError, match="order of a norm"):
        norm(np.ones(2), ord=ord)
