"""Samples of ops/integrals.py."""

from collections.abc import Callable
from typing import Any

import mpmath
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import (
    AWAY_FROM_ZERO,
    POSITIVE,
    REAL,
    Draw,
    Exact,
    Sample,
    any_shape,
    by_mpmath,
    one,
    single,
    unary,
)

DRAWS: dict[str, Draw] = {
    "dawsn": REAL,
    "expi": AWAY_FROM_ZERO,
    "spence": POSITIVE,
    "fresnel_sin": REAL,
    "fresnel_cos": REAL,
    "si": REAL,
    "ci": AWAY_FROM_ZERO,
}
SLOPES = {f"{name}_slope": DRAWS[name] for name in ("dawsn", "expi", "spence", "si", "ci")}

ROWS: dict[str, list[Sample]] = {
    "expn": [*unary(POSITIVE, n=1), one(POSITIVE, 3, n=3)],
    **{name: [*unary(draw, k=1), one(draw, 3, k=2)] for name, draw in SLOPES.items()},
}

RANDOM: dict[str, SearchStrategy[Sample]] = {
    "expn": any_shape(POSITIVE, n=st.integers(-1, 4)),
    **{name: any_shape(draw, k=st.integers(1, 3)) for name, draw in SLOPES.items()},
}

K = ({"k": 1}, {"k": 2})
FAR = 1e5
"""Beyond, mpmath's functions take too many digits or steps."""


def _near(x: float) -> bool:
    return abs(x) < FAR


def _off_zero(x: float) -> bool:
    return 1 / FAR < abs(x) < 700


def _above_zero(x: float) -> bool:
    return 1 / FAR < x < 700


def _dawsn(x: Any) -> Any:
    with mpmath.extraprec(int(2 * max(0, mpmath.mag(x))) + 20):
        return mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(-x * x) * mpmath.erfi(x)


def _spence(x: Any) -> Any:
    return mpmath.polylog(2, 1 - x).real


def _derivative(function: Callable[[Any], Any]) -> Callable[..., Any]:
    """The derivatives of order k of a function whose first derivative this is."""
    return lambda x, k: mpmath.diff(function, x, k - 1) if k > 1 else function(x)


def _log_quotient(x: Any) -> Any:
    return mpmath.mpf(-1) if x == 1 else mpmath.log(x) / (1 - x)


NEAR = single(0.0, -0.0, 1.0, -1.0, 1e-300, -1e-300, 1e-8, -3.0)
FAR_OUT = single(20.0)
POINTS = (*NEAR, *FAR_OUT)
POSITIVES = single(1.0, 1e-4, 2.5, 300.0)
NOT_ZERO = (*POSITIVES, *single(-1.0, -0.4, -30.0))

EXACT: dict[str, Exact] = {
    # far out the terms of the frameworks' derivative, 1 - 2 x dawsn(x), cancel
    "dawsn": Exact(_dawsn, NEAR, delicate=(*FAR_OUT, *single(300.0, -1e4)), domain=_near),
    "dawsn_slope": Exact(
        _derivative(lambda x: 1 - 2 * x * _dawsn(x)), POINTS, orders=1, calls=K, domain=_near
    ),
    "expi": Exact(mpmath.ei, NOT_ZERO, domain=_off_zero),
    "expi_slope": Exact(
        _derivative(lambda x: mpmath.exp(x) / x), NOT_ZERO, orders=1, calls=K, domain=_off_zero
    ),
    "expn": Exact(
        lambda x, n: mpmath.expint(n, x),
        POSITIVES,
        calls=({"n": -1}, {"n": 1}, {"n": 3}),
        domain=_above_zero,
    ),
    "spence": Exact(_spence, POSITIVES, domain=_above_zero),
    "spence_slope": Exact(
        _derivative(_log_quotient), POSITIVES, orders=1, calls=K, domain=_above_zero
    ),
    "fresnel_sin": Exact(mpmath.fresnels, POINTS, domain=_near),
    "fresnel_cos": Exact(mpmath.fresnelc, POINTS, domain=_near),
    "si": Exact(mpmath.si, POINTS, domain=_near),
    "si_slope": Exact(_derivative(mpmath.sinc), POINTS, orders=1, calls=K, domain=_near),
    "ci": Exact(lambda x: mpmath.ci(abs(x)), NOT_ZERO, domain=_off_zero),
    "ci_slope": Exact(
        _derivative(lambda x: mpmath.cos(x) / x), NOT_ZERO, orders=1, calls=K, domain=_off_zero
    ),
}

VALUES: dict[str, Callable[..., Any]] = {name: by_mpmath(exact) for name, exact in EXACT.items()}
