"""Samples of ops/incomplete.py."""

from collections.abc import Callable
from itertools import product
from typing import Any

import mpmath
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import (
    ABOVE_ONE,
    POSITIVE,
    Exact,
    Sample,
    any_broadcast,
    between,
    binary,
    by_mpmath,
    pairs,
)

INSIDE = between(0.1, 0.9)
TRIPLES = (((3,), (3,), (3,)), ((), (), ()), ((2, 1), (3,), ()), ((1,), (2,), (2, 2)))
M = st.integers(0, 1)


def _pairs(**keywords: Any) -> list[Sample]:
    return [Sample(s.draws, s.shapes, keywords) for s in binary(POSITIVE, POSITIVE)]


def _triples(**keywords: Any) -> list[Sample]:
    return [Sample((POSITIVE, POSITIVE, INSIDE), shapes, keywords) for shapes in TRIPLES]


ROWS: dict[str, list[Sample]] = {
    "gammainc": _pairs(),
    "gammaincc": _pairs(),
    "gammainc_slope": _pairs(n=1),
    "gamma_density": [*_pairs(n=0), *_pairs(n=1)],
    "betainc": _triples(),
    "betainc_slope": _triples(n=1, m=0),
    "beta_density": [*_triples(n=0, m=0), *_triples(n=1, m=1)],
    "zeta": binary(ABOVE_ONE, POSITIVE),
    "zeta_slope": [Sample(s.draws, s.shapes, {"n": 1}) for s in binary(ABOVE_ONE, POSITIVE)],
}

RANDOM: dict[str, SearchStrategy[Sample]] = {
    "gammainc": any_broadcast(POSITIVE, POSITIVE),
    "gammaincc": any_broadcast(POSITIVE, POSITIVE),
    "gammainc_slope": any_broadcast(POSITIVE, POSITIVE, n=st.just(1)),
    "gamma_density": any_broadcast(POSITIVE, POSITIVE, n=M),
    "betainc": any_broadcast(POSITIVE, POSITIVE, INSIDE),
    "betainc_slope": any_broadcast(POSITIVE, POSITIVE, INSIDE, n=st.just(1), m=st.just(0)),
    "beta_density": any_broadcast(POSITIVE, POSITIVE, INSIDE, n=M, m=M),
    "zeta": any_broadcast(ABOVE_ONE, POSITIVE),
    "zeta_slope": any_broadcast(ABOVE_ONE, POSITIVE, n=st.just(1)),
}

LIMIT = 100
"""Beyond, and far below 1, mpmath's differences of a parameter do not come to their end."""


def _gamma_domain(a: float, x: float) -> bool:
    return 1 / LIMIT < a < LIMIT and 1 / LIMIT < x < LIMIT


def _beta_domain(a: float, b: float, x: float) -> bool:
    return _gamma_domain(a, b) and 1 / LIMIT < x < 1 - 1 / LIMIT


def _zeta_domain(s: float, q: float) -> bool:
    return 1 + 1 / LIMIT < s < LIMIT and 1 / LIMIT < q < LIMIT


def _gammainc(a: Any, x: Any) -> Any:
    return mpmath.gammainc(a, 0, x, regularized=True)


def _gamma_density(a: Any, x: Any) -> Any:
    return x ** (a - 1) * mpmath.exp(-x) / mpmath.gamma(a)


def _betainc(a: Any, b: Any, x: Any) -> Any:
    return mpmath.betainc(a, b, 0, x, regularized=True)


def _beta_density(a: Any, b: Any, x: Any) -> Any:
    return x ** (a - 1) * (1 - x) ** (b - 1) / mpmath.beta(a, b)


def _gamma_density_by_a(a: Any, x: Any, n: int) -> Any:
    drift = mpmath.log(x) - mpmath.psi(0, a)
    return _gamma_density(a, x) * (1, drift, drift**2 - mpmath.psi(1, a))[n]


def _gammainc_by_a(a: Any, x: Any, n: int) -> Any:
    """DLMF 8.8.1 and the series 8.7.1, differentiated term by term."""
    lower = mpmath.log(x) * mpmath.gammainc(a, 0, x)
    lower -= x**a / a**2 * mpmath.hyper([a, a], [a + 1, a + 1], -x)
    return lower / mpmath.gamma(a) - mpmath.psi(0, a) * _gammainc(a, x)


def _beta_density_by(a: Any, b: Any, x: Any, n: int, m: int) -> Any:
    """Of at most the first order by each."""
    by_a = mpmath.log(x) - mpmath.psi(0, a) + mpmath.psi(0, a + b)
    by_b = mpmath.log(1 - x) - mpmath.psi(0, b) + mpmath.psi(0, a + b)
    both = by_a * by_b + mpmath.psi(1, a + b)
    return _beta_density(a, b, x) * {(0, 0): 1, (1, 0): by_a, (0, 1): by_b, (1, 1): both}[n, m]


def _betainc_by_a(a: Any, b: Any, x: Any, n: int, m: int) -> Any:
    """The series DLMF 8.17.7, differentiated term by term."""
    lower = mpmath.log(x) * mpmath.betainc(a, b, 0, x)
    lower -= x**a / a**2 * mpmath.hyper([a, a, 1 - b], [a + 1, a + 1], x)
    drift = mpmath.psi(0, a) - mpmath.psi(0, a + b)
    return lower / mpmath.beta(a, b) - drift * _betainc(a, b, x)


GAMMA = pairs("1 1; 0.5 0.2; 2.5 2.5; 0.3 6; 12 9; 30 41")
BETA = tuple((a, b, x) for (a, b), x in product(pairs("1 1; 0.5 2; 7 3"), (0.05, 0.9)))
ZETA = pairs("2 1; 1.1 0.5; 3.5 4; 12 0.3; 20 30")

EXACT: dict[str, Exact] = {
    # SciPy's values are right to some dozens of units
    "gammainc": Exact(_gammainc, GAMMA, orders=1, domain=_gamma_domain, roundings=64),
    "gammaincc": Exact(
        lambda a, x: mpmath.gammainc(a, x, regularized=True),
        GAMMA,
        orders=1,
        domain=_gamma_domain,
        roundings=64,
    ),
    "gammainc_slope": Exact(
        _gammainc_by_a, GAMMA, orders=1, calls=({"n": 1},), domain=_gamma_domain
    ),
    "gamma_density": Exact(
        _gamma_density_by_a,
        GAMMA,
        orders=1,
        calls=({"n": 0}, {"n": 2}),
        domain=_gamma_domain,
    ),
    "betainc": Exact(_betainc, BETA, orders=1, domain=_beta_domain, roundings=64),
    "betainc_slope": Exact(
        _betainc_by_a, BETA, orders=1, calls=({"n": 1, "m": 0},), domain=_beta_domain
    ),
    "beta_density": Exact(
        _beta_density_by,
        BETA,
        orders=1,
        calls=({"n": 0, "m": 0}, {"n": 1, "m": 1}),
        domain=_beta_domain,
    ),
    "zeta": Exact(mpmath.zeta, ZETA, orders=1, domain=_zeta_domain, roundings=64),
    "zeta_slope": Exact(
        lambda s, q, n: mpmath.zeta(s, q, n), ZETA, orders=1, calls=({"n": 1},), domain=_zeta_domain
    ),
}

VALUES: dict[str, Callable[..., Any]] = {name: by_mpmath(exact) for name, exact in EXACT.items()}
