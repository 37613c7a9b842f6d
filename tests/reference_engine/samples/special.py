"""Samples of ops/special.py."""

from collections.abc import Callable
from typing import Any

import mpmath
import scipy.special
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import (
    REAL,
    SPECIAL,
    Draw,
    Exact,
    Sample,
    any_shape,
    between,
    by_mpmath,
    single,
    unary,
)

# Towards the ends of the domains high derivatives are too large for differences.
DRAWS: dict[str, Draw] = {
    "erfinv": between(-0.65, 0.65),
    "erfinv_slope": between(-0.5, 0.5),
    "ndtri": between(0.2, 0.8),
    "ndtri_slope": between(0.35, 0.65),
    "logit": between(0.2, 0.8),
    "logit_slope": between(0.35, 0.65),
}

ROWS: dict[str, list[Sample]] = {
    "scaled_ierfc": [*unary(REAL, n=1), *unary(REAL, n=3)[:2]],
}

RANDOM: dict[str, SearchStrategy[Sample]] = {
    "scaled_ierfc": any_shape(REAL, n=st.integers(0, 3)),
}


def _erfcx(x: Any) -> Any:
    return _scaled_ierfc(x, 0)


def _erfc(x: Any) -> Any:
    return 2 - _erfc(-x) if x < -1e4 else mpmath.exp(-x * x) * _erfcx(x)


def _ncdf(x: Any) -> Any:
    return _erfc(-x / mpmath.sqrt(2)) / 2


def _scaled_ierfc(x: Any, n: int) -> Any:
    """Far out by the asymptotic series (DLMF 7.18.14), where mpmath's own erfc overflows."""
    if x < 1e4:
        before, last = 2 / mpmath.sqrt(mpmath.pi), mpmath.exp(x * x) * mpmath.erfc(x)
        for k in range(1, n + 1):
            before, last = last, (before - 2 * x * last) / (2 * k)
        return last
    total, term, m = mpmath.mpf(0), 2 / mpmath.sqrt(mpmath.pi) / (2 * x) ** (n + 1), 0
    while mpmath.mag(term) > mpmath.mag(total) - mpmath.mp.prec:
        total += term
        m += 1
        term *= -mpmath.mpf((2 * m + n) * (2 * m + n - 1)) / (m * (2 * x) ** 2)
    return total


def _root(f: Any, slope: Any, start: float) -> Any:
    """Newton's method from float64 on; the digits double with every step."""
    y = mpmath.mpf(start)
    for _ in range(mpmath.mp.prec.bit_length() - 4):
        y -= f(y) / slope(y)
    return y


def _erfinv(x: Any) -> Any:
    if abs(x) >= 1:
        raise ValueError("erfinv is defined on (-1, 1)")
    slope = lambda y: 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-y * y)  # noqa: E731
    if abs(x) > 0.5:  # by the complement, which is not rounded
        size = abs(x)
        start = float(scipy.special.erfcinv(float(1 - size)))
        y = _root(lambda y: (1 - size) - mpmath.erfc(y), slope, start)
        return y if x > 0 else -y
    return _root(lambda y: mpmath.erf(y) - x, slope, float(scipy.special.erfinv(float(x))))


def _ndtri(x: Any) -> Any:
    if not 0 < x < 1:
        raise ValueError("ndtri is defined on (0, 1)")
    if x > 0.5:
        return -_ndtri(1 - x)
    return _root(lambda y: _ncdf(y) - x, mpmath.npdf, float(scipy.special.ndtri(float(x))))


def _log_ndtr(x: Any) -> Any:
    return mpmath.log1p(-_ncdf(-x)) if x > 0 else mpmath.log(_ncdf(x))


def _truncated(x: Any) -> tuple[Any, Any, Any]:
    """h = phi(x) / Phi(x), x + h and 1 - h (x + h)."""
    if x > -1e4:
        h = mpmath.npdf(x) / _ncdf(x)
        return h, x + h, 1 - h * (x + h)
    zeroth, first, second = (_scaled_ierfc(-x / mpmath.sqrt(2), n) for n in range(3))
    h, excess = mpmath.sqrt(2 / mpmath.pi) / zeroth, mpmath.sqrt(2) * first / zeroth
    return h, excess, 4 * second / zeroth - excess**2


# Where Phi is subnormal, where branches change (0 and -2 sqrt(2)), and where terms cancel.
NORMAL = single(*SPECIAL, -2.8284271, -2.83, 0.5, -5.0, -20.0, -37.0, -38.4, -1e5, 8.0, 12.0)
COMMON = single(*SPECIAL, 0.5, -5.0, 8.0, 20.0, 37.0)
# The third cumulant of a truncated normal distribution, the derivative of normal_spread and the
# third of log_ndtr, is computed as a difference that cancels on the left.
LEFT = tuple(point for point in NORMAL if point[0] < -2)
RIGHT = tuple(point for point in NORMAL if point[0] >= -2)
PROBABILITIES = single(1e-300, 1e-5, 0.2, 0.25, 0.49, 0.5, 0.5000001, 0.75, 0.99, 1 - 1e-10)
INSIDE = single(0.0, -0.0, 1e-300, -1e-300, 1e-8, 0.3, 0.5, -0.9, 0.99, -1 + 1e-10, 1 - 2.0**-53)


def _probability(x: float) -> bool:
    return 0 < x < 1


EXACT: dict[str, Exact] = {
    "gaussian": Exact(lambda x: mpmath.exp(-x * x), single(*SPECIAL, 1e-30, 0.5, 3.0, -8.0, 26.0)),
    "erf": Exact(mpmath.erf, single(*SPECIAL, 1e-30, -1e-8, 0.5, 3.0, -8.0), orders=3),
    "erfc": Exact(_erfc, single(*SPECIAL, 1e-30, -1e-8, 0.5, 3.0, -8.0, 26.0)),
    "erfcx": Exact(
        _erfcx,
        single(*SPECIAL, 0.5, 5.0, 1e9, -3.0, -20.0),
        orders=3,
        delicate=single(1.999, 2.001, 26.0, 1e4),
    ),
    "scaled_ierfc": Exact(
        _scaled_ierfc,
        single(*SPECIAL, 0.5, 1.999, 2.001, 5.0, 26.0, 1e4, 1e9, -3.0, -20.0),
        calls=({"n": 1}, {"n": 2}),
    ),
    "erfinv": Exact(_erfinv, INSIDE, orders=3, delicate=single(0.999), domain=lambda x: -1 < x < 1),
    "erfinv_slope": Exact(
        lambda x: mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(_erfinv(x) ** 2),
        INSIDE,
        domain=lambda x: -1 < x < 1,
    ),
    "normal_density": Exact(mpmath.npdf, single(*SPECIAL, 0.5, -5.0, 20.0, -37.0)),
    "ndtr": Exact(_ncdf, tuple(p for p in NORMAL if p != (12.0,)), delicate=single(12.0)),
    "log_ndtr": Exact(
        _log_ndtr, COMMON, delicate=tuple(point for point in NORMAL if point not in COMMON)
    ),
    "normal_hazard": Exact(lambda x: _truncated(x)[0], RIGHT, strained=LEFT),
    "normal_excess": Exact(lambda x: _truncated(x)[1], RIGHT, strained=LEFT),
    "normal_spread": Exact(lambda x: _truncated(x)[2], RIGHT, orders=1),
    "ndtri": Exact(_ndtri, PROBABILITIES, orders=3, delicate=single(1e-20), domain=_probability),
    "ndtri_slope": Exact(
        lambda x: 1 / mpmath.npdf(_ndtri(x)), (*PROBABILITIES, *single(1e-20)), domain=_probability
    ),
    "logit": Exact(
        lambda x: mpmath.log(x) - mpmath.log1p(-x), PROBABILITIES, orders=3, domain=_probability
    ),
    "logit_slope": Exact(lambda x: 1 / (x * (1 - x)), PROBABILITIES, domain=_probability),
    "entr": Exact(
        lambda x: -x * mpmath.log(x),
        single(1.0, 1e-300, 1e300, 0.36787944117, 1e-9, 0.3, 1e9),
        orders=3,
        domain=lambda x: x > 0,
    ),
}

VALUES: dict[str, Callable[..., Any]] = {name: by_mpmath(exact) for name, exact in EXACT.items()}
