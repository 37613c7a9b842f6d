"""Samples of ops/losses.py."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import scipy.special
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import (
    DISTINCT,
    REAL,
    UPPER,
    Array,
    Draw,
    Exact,
    Sample,
    any_broadcast,
    pairs,
)

Shape = tuple[int, ...]


def PROBABILITY(rng: np.random.Generator, shape: Shape) -> Array:
    # further out, the truncation of the differences (as h^4 / x^5) is above their tolerance
    return rng.uniform(0.2, 0.8, shape)


def LOG_PROBABILITY(rng: np.random.Generator, shape: Shape) -> Array:
    return rng.uniform(-3, -0.1, shape)


def LABEL(rng: np.random.Generator, shape: Shape) -> Array:
    """-1 and 1: no product with a number from DISTINCT is within 0.05 of 1."""
    return np.asarray(rng.choice([-1.0, 1.0], shape))


DRAWS: dict[str, tuple[Draw, Draw]] = {
    "mse": (REAL, REAL),
    "l1": (DISTINCT, UPPER),
    "huber": (DISTINCT, UPPER),
    "hinge": (DISTINCT, LABEL),
    "bce": (PROBABILITY, PROBABILITY),
    "bce_with_logits": (REAL, PROBABILITY),
    "kl_div": (LOG_PROBABILITY, PROBABILITY),
}
TERMS = {
    "bce_terms": (PROBABILITY, PROBABILITY),
    "logistic_terms": (REAL, PROBABILITY),
    "kl_terms": (LOG_PROBABILITY, PROBABILITY),
}


def _calls(*draws: Draw) -> list[Sample]:
    return [
        Sample(draws, ((3,), (3,))),
        Sample(draws, ((2, 3), (3,)), {"reduction": "sum"}),
        Sample(draws, ((2, 1), (1, 3)), {"reduction": "none"}),
        Sample(draws, ((), ()), {"reduction": "mean"}),
        Sample(draws, ((1,), (2, 1))),
        Sample(draws, ((0, 2), (0, 2)), {"reduction": "sum"}),
    ]


ROWS: dict[str, list[Sample]] = {
    **{name: _calls(*draws) for name, draws in DRAWS.items()},
    **{name: [Sample(draws, ((3,), (2, 3)))] for name, draws in TERMS.items()},
}
ROWS["huber"] += [
    Sample((DISTINCT, UPPER), ((3,), (3,)), {"delta": 0.4}),
    Sample((DISTINCT, UPPER), ((2, 2), (2, 2)), {"delta": 2.0, "reduction": "none"}),
]

_reductions = st.sampled_from(("mean", "sum", "none"))


def _any(name: str) -> SearchStrategy[Sample]:
    """Nothing is left of a mean of nothing."""
    keywords = {"reduction": _reductions}
    if name == "huber":
        keywords["delta"] = st.sampled_from((0.4, 1.0, 2.0))
    return any_broadcast(*DRAWS[name], **keywords).filter(
        lambda sample: (
            0 not in np.broadcast_shapes(*sample.shapes) or sample.keywords["reduction"] != "mean"
        )
    )


RANDOM: dict[str, SearchStrategy[Sample]] = {
    **{name: _any(name) for name in DRAWS},
    **{name: any_broadcast(*draws) for name, draws in TERMS.items()},
}


def _reduced(function: Callable[..., Any]) -> Callable[..., Any]:
    def value(x: Array, y: Array, reduction: str = "mean", **keywords: Any) -> Any:
        terms = function(x, y, **keywords)
        return {"mean": np.mean, "sum": np.sum, "none": np.asarray}[reduction](terms)

    return value


def _bce(p: Any, y: Any) -> Any:
    return -scipy.special.xlogy(y, p) - scipy.special.xlog1py(1 - y, -p)


def _bce_with_logits(x: Any, y: Any) -> Any:
    return np.logaddexp(0, x) - x * y


def _kl(log_p: Any, q: Any) -> Any:
    return scipy.special.xlogy(q, q) - q * log_p


VALUES: dict[str, Callable[..., Any]] = {
    "mse": _reduced(lambda x, y: (x - y) ** 2),
    "l1": _reduced(lambda x, y: np.abs(x - y)),
    "huber": _reduced(lambda x, y, delta=1.0: scipy.special.huber(delta, x - y)),
    "hinge": _reduced(lambda x, y: np.maximum(0, 1 - x * y)),
    "bce": _reduced(_bce),
    "bce_with_logits": _reduced(_bce_with_logits),
    "kl_div": _reduced(_kl),
    "bce_terms": _bce,
    "logistic_terms": _bce_with_logits,
    "kl_terms": _kl,
}


def _exact_huber(x: Any, y: Any, delta: float = 1.0) -> Any:
    d = abs(x - y)
    return d * d / 2 if d <= delta else delta * (d - mpmath.mpf(delta) / 2)


def _exact_bce(p: Any, y: Any) -> Any:
    return -(y * mpmath.log(p) + (1 - y) * mpmath.log1p(-p))


def _exact_logistic(x: Any, y: Any) -> Any:
    return y * mpmath.log1p(mpmath.exp(-x)) + (1 - y) * mpmath.log1p(mpmath.exp(x))


BCE = pairs("0.5 0; 0.5 1; 0.5 0.5; 0.25 0.25; 0.3 0.7; 1e-9 1; 0.999 1; 0.999 0")
LOGISTIC = pairs("0 0; 0 1; 0 0.5; -0.0 0.5; -40 1; 40 0; 3 0.75; -3 0.25; 1 1; -1 0; 1e-9 1")
KL = pairs("0 1; -1 1; -1 0.5; -700 0.5; -1e-30 1; -1 1e-30; -1 1e30; -0.5 0.6; -1e30 0.5")

# Of single numbers the mean is the term itself.
EXACT: dict[str, Exact] = {
    "mse": Exact(
        lambda x, y: (x - y) ** 2,
        pairs("0 0; 1 1; 1 -1; -0.0 0; 1e-30 0; 1e30 0; 1 1.0000000000000002; 3 -1e18"),
    ),
    "l1": Exact(
        lambda x, y: abs(x - y),
        pairs("0 1; 1 -1; 1e-30 0; 1e30 -1; -1e30 0; 1 1.25"),
        domain=lambda x, y: x != y,
    ),
    "huber": Exact(
        _exact_huber,
        pairs("0 0; 1 1; -0.0 0; 1e-30 0; 1e30 0; -1e30 3; 0.5 0.25; 0 2; 2 -7"),
        calls=({}, {"delta": 0.375}, {"delta": 8.0}),
        domain=lambda x, y: abs(x - y) not in (0.375, 1.0, 8.0),
    ),
    "hinge": Exact(
        lambda x, y: max(mpmath.mpf(0), 1 - x * y),
        pairs("0 1; 0 0; -1 1; 1 -1; 3 1; 1e30 -1; 1e-30 1; 2 1; 0.5 1"),
        domain=lambda x, y: x * y != 1,
    ),
    "bce": Exact(_exact_bce, BCE, domain=lambda p, y: 0 < p < 1),
    "bce_terms": Exact(
        _exact_bce,
        (*BCE, *pairs("1e-9 1e-9; 1e-300 0; 1e-300 1e-300; 0.9999999999999999 0.5")),
        strained=pairs("1e-300 0.5; 1e-30 1"),  # y / p^2 overflows
        domain=lambda p, y: 0 < p < 1,
    ),
    "bce_with_logits": Exact(_exact_logistic, (*LOGISTIC, *pairs("1e30 0; -1e30 1; 40 1"))),
    "logistic_terms": Exact(
        _exact_logistic,
        (
            *LOGISTIC,
            *pairs("1e-300 0.5; 1e-9 0.5; 40 1; 700 1; -700 0; 1e12 0; -1e12 1; 1e12 1"),
        ),
    ),
    "kl_div": Exact(
        lambda log_p, q: q * (mpmath.log(q) - log_p), KL, domain=lambda log_p, q: q > 0
    ),
    "kl_terms": Exact(
        lambda log_p, q: q * (mpmath.log(q) - log_p),
        (*KL, *pairs("-1 1e-300; -1e-300 1; -1e300 0.5")),
        domain=lambda log_p, q: q > 0,
    ),
}
