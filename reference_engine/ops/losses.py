"""Losses that compare element by element.

Every loss has reduction="mean" (of its terms), "sum" or "none". Arrays broadcast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_engine.arithmetic.floats import all_in_float32
from reference_engine.op import Composite, Op, Point, register
from reference_engine.ops.arithmetic import abs_, divide, square
from reference_engine.ops.exponential import log, log1p, sigmoid, softplus, tanh
from reference_engine.ops.reductions import mean, sum_
from reference_engine.ops.selection import (
    clip,
    equal,
    less_equal,
    logical_and,
    relu,
    where,
)
from reference_engine.rules import Elementwise
from reference_engine.traced import Value

FAMILY = "losses"
REDUCTION = {"reduction": "mean"}
REDUCED = "; the mean of these, or their sum, or all of them, as `reduction` says"


def reduced(terms: Value, reduction: str) -> Value:
    """Raises ValueError for a reduction that there is not."""
    if reduction == "mean":
        return mean(terms)
    if reduction == "sum":
        return sum_(terms)
    if reduction != "none":
        raise ValueError(f'reduction must be "mean", "sum" or "none", not {reduction!r}')
    return terms


def any_kink(found: Any, reduction: str) -> Any:
    """Kinks of terms as kinks of what they are reduced to."""
    return found if reduction == "none" else np.any(found)


def _mse(x: Value, y: Value, reduction: str = "mean") -> Value:
    return reduced(square(x - y), reduction)


mse: Composite = Composite(
    "mse",
    _mse,
    family=FAMILY,
    arrays=("x", "y"),
    keywords=REDUCTION,
    aliases=("mse_loss",),
    formula="(x - y)^2" + REDUCED,
    derivative="2 (x - y), -2 (x - y)",
    source="torch.nn.functional.mse_loss",
    rounding="sums",
)
register(mse)


def _l1(x: Value, y: Value, reduction: str = "mean") -> Value:
    return reduced(abs_(x - y), reduction)


l1: Composite = Composite(
    "l1",
    _l1,
    family=FAMILY,
    arrays=("x", "y"),
    keywords=REDUCTION,
    aliases=("l1_loss",),
    formula="|x - y|" + REDUCED,
    derivative="sign(x - y), -sign(x - y)",
    points=(
        Point(
            "x = y",
            "kink",
            (1.0, 1.0),
            (0.0, 0.0),
            reason="0 is the least subgradient",
            differs={"jax": (1.0, -1.0)},
        ),
    ),
    source="torch.nn.functional.l1_loss",
    rounding="sums",
    kinks_at=lambda x, y, reduction="mean": any_kink(np.equal(x, y), reduction),
)
register(l1)


def _huber(x: Value, y: Value, delta: float = 1.0, reduction: str = "mean") -> Value:
    d = x - y
    c = clip(d, min=-delta, max=delta)
    return reduced(c * (d - 0.5 * c), reduction)


huber: Composite = Composite(
    "huber",
    _huber,
    family=FAMILY,
    arrays=("x", "y"),
    keywords={"delta": 1.0, **REDUCTION},
    aliases=("huber_loss",),
    formula="d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2), with d = x - y" + REDUCED,
    derivative="clip(d, -delta, delta), -clip(d, -delta, delta); continuous, but the second "
    "derivative jumps where |d| = delta",
    domain="delta > 0",
    stability="as c (d - c / 2) with c = clip(d, -delta, delta): nothing is squared that is not "
    "used, and d = 0 is no kink of |d|",
    source="Huber, Robust estimation of a location parameter (1964); "
    "torch.nn.functional.huber_loss",
    rounding="sums",
)
register(huber)


def _hinge(x: Value, y: Value, reduction: str = "mean") -> Value:
    return reduced(relu(1 - x * y), reduction)


hinge: Composite = Composite(
    "hinge",
    _hinge,
    family=FAMILY,
    arrays=("x", "y"),
    keywords=REDUCTION,
    aliases=("hinge_loss",),
    formula="max(0, 1 - x y), for y of -1 and 1" + REDUCED,
    derivative="-y, -x where x y < 1, else 0",
    points=(
        Point(
            "x y = 1",
            "kink",
            (1.0, 1.0),
            (0.0, 0.0),
            differs={"tensorflow": (-1.0, -1.0)},
            reason="0 is the least subgradient; tf.maximum(1 - x y, 0) gives the other side's",
        ),
    ),
    source="Cortes, Vapnik, Support-vector networks (1995); tf.keras.losses.hinge",
    rounding="sums",
    kinks_at=lambda x, y, reduction="mean": any_kink(np.equal(np.multiply(x, y), 1), reduction),
)
register(hinge)


def _times_log(y: Any, log_p: Any) -> Any:
    """y log(p), and 0 where y = 0."""
    return np.where(np.equal(y, 0), 0 * y, y * np.where(np.equal(y, 0), 0, log_p))


def _bce_terms_value(p: Any, y: Any) -> Any:
    return -(_times_log(y, np.log(p)) + _times_log(1 - y, np.log1p(-p)))


def _bce_by_p(g: Value, term: Value, p: Value, y: Value) -> Value:
    """(1 - y) / (1 - p) - y / p, where 0 / 0 is 0."""
    zeros = logical_and(equal(p, 0), equal(y, 0))
    ones = logical_and(equal(p, 1), equal(y, 1))
    return g * (divide(1 - y, where(ones, 1.0, 1 - p)) - divide(y, where(zeros, 1.0, p)))


bce_terms: Op = register(
    Op(
        "bce_terms",
        all_in_float32(_bce_terms_value),
        Elementwise(_bce_by_p, lambda g, term, p, y: g * (log1p(-p) - log(p))),
        family=FAMILY,
        arrays=("p", "y"),
        formula="-(y log(p) + (1 - y) log(1 - p)), with 0 log(0) = 0",
        derivative="(1 - y) / (1 - p) - y / p, log(1 - p) - log(p)",
        domain="0 <= p <= 1",
        source="elementary calculus",
    ),
    internal=True,
)


_LEAST = float(np.float32(1e-12))  # PyTorch's bound of p (1 - p), a float32


def _bce(p: Value, y: Value, reduction: str = "mean") -> Value:
    return reduced(bce_terms(p, y), reduction)


bce: Composite = Composite(
    "bce",
    _bce,
    family=FAMILY,
    arrays=("p", "y"),
    keywords=REDUCTION,
    aliases=("bce_loss", "binary_cross_entropy"),
    formula="-(y log(p) + (1 - y) log(1 - p)) for probabilities p, with 0 log(0) = 0" + REDUCED,
    derivative="(1 - y) / (1 - p) - y / p, log(1 - p) - log(p)",
    domain="0 <= p <= 1, 0 <= y <= 1",
    stability="1 - p is logged by log1p; the slope as (1 - y) / (1 - p) - y / p: of (p - y) / "
    "(p (1 - p)) the second derivative cancels where p is close to 0 or 1",
    points=(
        Point(
            "p = y = 0",
            "edge",
            (0.0, 0.0),
            (1.0, np.inf),
            differs={
                "torch": (0.0, np.inf),
                "tensorflow": (np.nan, np.inf),
                "jax": (np.nan, np.inf),
            },
            reason="1 / (1 - p), as for every p where y = 0; PyTorch's slope is (p - y) / 1e-12 "
            "where p (1 - p) is less than that, and 0 log(0) as composed in TensorFlow is nan",
        ),
        Point(
            "p = y = 1",
            "edge",
            (1.0, 1.0),
            (-1.0, -np.inf),
            differs={
                "torch": (0.0, -np.inf),
                "tensorflow": (np.nan, -np.inf),
                "jax": (np.nan, -np.inf),
            },
            reason="as where p = y = 0",
        ),
        Point(
            "p = 0 < y",
            "pole",
            (0.0, 1.0),
            (-np.inf, np.inf),
            differs={"torch": (-1 / _LEAST, np.inf)},
            reason="PyTorch bounds the logarithms by -100, so that the loss is 100",
        ),
        Point(
            "p = 1 > y",
            "pole",
            (1.0, 0.0),
            (np.inf, -np.inf),
            differs={"torch": (1 / _LEAST, -np.inf)},
            reason="as where p = 0 < y",
        ),
    ),
    source="torch.nn.functional.binary_cross_entropy",
    rounding="sums",
)
register(bce)


def _logistic_terms_value(x: Any, y: Any) -> Any:
    return y * softplus.raw(-x) + (1 - y) * softplus.raw(x)


def _logistic_by_x(g: Value, term: Value, x: Value, y: Value) -> Value:
    """sigmoid(x) - y, in the form that keeps its digits: near 0, and where sigmoid(x) is near 1."""
    near = tanh(0.5 * x) * 0.5 + (0.5 - y)
    far = (1 - y) * sigmoid(x) - y * sigmoid(-x)
    return g * where(less_equal(abs_(x), 1), near, far)


logistic_terms: Op = register(
    Op(
        "logistic_terms",
        all_in_float32(_logistic_terms_value),
        Elementwise(
            _logistic_by_x,
            lambda g, term, x, y: -(g * x),
        ),
        family=FAMILY,
        arrays=("x", "y"),
        formula="y softplus(-x) + (1 - y) softplus(x)",
        derivative="sigmoid(x) - y, -x",
        source="elementary calculus",
    ),
    internal=True,
)


def _bce_with_logits(x: Value, y: Value, reduction: str = "mean") -> Value:
    return reduced(logistic_terms(x, y), reduction)


bce_with_logits: Composite = Composite(
    "bce_with_logits",
    _bce_with_logits,
    family=FAMILY,
    arrays=("x", "y"),
    keywords=REDUCTION,
    aliases=("binary_cross_entropy_with_logits", "sigmoid_cross_entropy"),
    formula="-(y log(sigmoid(x)) + (1 - y) log(sigmoid(-x)))" + REDUCED,
    derivative="sigmoid(x) - y, -x",
    stability="as y softplus(-x) + (1 - y) softplus(x), whose terms have one sign for 0 <= y <= 1; "
    "the slope as (1 - y) sigmoid(x) - y sigmoid(-x), and for |x| <= 1 as tanh(x / 2) / 2 + (1/2 - "
    "y): sigmoid(x) - y would lose every digit where both are close to 1, or to 1/2",
    points=(
        Point(
            "y = 1, sigmoid(x) rounds to 1",
            "limit",
            (40.0, 1.0),
            (-float(np.exp(-40.0)), -40.0),
            differs={"torch": (0.0, -40.0)},
            reason="PyTorch subtracts y from sigmoid(x)",
        ),
        Point(
            "y = 1, sigmoid(x) rounds to 1",
            "limit",
            (40.0, 1.0),
            (-float(np.exp(-40.0)), -40.0),
            differs={"torch": (0.0, -40.0)},
            dtype="float32",
        ),
    ),
    source="torch.nn.functional.binary_cross_entropy_with_logits",
    rounding="sums",
)
register(bce_with_logits)


def _kl_terms_value(log_p: Any, q: Any) -> Any:
    none = np.equal(q, 0)
    return np.where(none, q * 0, q * (np.log(np.where(none, 1, q)) - log_p))


kl_terms: Op = register(
    Op(
        "kl_terms",
        all_in_float32(_kl_terms_value),
        Elementwise(
            lambda g, term, log_p, q: -(g * q),
            lambda g, term, log_p, q: g * (log(q) - log_p + 1),
        ),
        family=FAMILY,
        arrays=("log_p", "q"),
        formula="q (log(q) - log_p), and 0 where q = 0",
        derivative="-q, log(q) - log_p + 1",
        domain="q >= 0",
        source="elementary calculus",
        rounding="inputs",
    ),
    internal=True,
)


def _kl_div(log_p: Value, q: Value, reduction: str = "mean") -> Value:
    return reduced(kl_terms(log_p, q), reduction)


kl_div: Composite = Composite(
    "kl_div",
    _kl_div,
    family=FAMILY,
    arrays=("log_p", "q"),
    keywords=REDUCTION,
    aliases=("kl_div_loss",),
    formula="q (log(q) - log_p), and 0 where q = 0: the terms of KL(q || p), p given by its "
    "logarithms, as in PyTorch" + REDUCED + "; the divergence is their sum over the classes",
    derivative="-q, log(q) - log_p + 1",
    domain="q >= 0",
    points=(
        Point(
            "q = 0",
            "vertical tangent",
            (-1.0, 0.0),
            (0.0, -np.inf),
            value=0.0,
            differs={"torch": (0.0, np.nan), "tensorflow": (0.0, 1.0), "jax": (0.0, np.nan)},
            reason="log(0); the frameworks take the slope of q log(q) apart, into log(q) and q / q",
        ),
    ),
    source="Kullback, Leibler, On information and sufficiency (1951); torch.nn.functional.kl_div",
    rounding="sums",
)
register(kl_div)
