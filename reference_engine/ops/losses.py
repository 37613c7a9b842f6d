"""Losses that compare element by element.

Every loss has reduction="mean" (of its terms), "sum" or "none". Arrays broadcast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_engine.floats import all_in_float32
from reference_engine.op import Composite, Op, Point, Rounding, composite, internal
from reference_engine.ops.arithmetic import abs_, divide, square
from reference_engine.ops.exponential import log, log1p, sigmoid, softplus, tanh
from reference_engine.ops.reductions import mean, sum_
from reference_engine.ops.selection import clip, equal, less_equal, logical_and, relu, where
from reference_engine.rules import Elementwise
from reference_engine.traced import Value

ROUNDING: Rounding = "sums"

REDUCED = "; `reduction` chooses their mean, their sum, or all of them"


def reduced(terms: Value, reduction: str) -> Value:
    """The terms of a loss, reduced. Raises ValueError for an unknown reduction."""
    if reduction == "mean":
        return mean(terms)
    if reduction == "sum":
        return sum_(terms)
    if reduction != "none":
        raise ValueError(f'reduction must be "mean", "sum" or "none", not {reduction!r}')
    return terms


def any_kink(found: Any, reduction: str) -> Any:
    """The kinks of terms as kinks of the reduced loss."""
    return found if reduction == "none" else np.any(found)


def _mse(x: Value, y: Value, *, reduction: str = "mean") -> Value:
    return reduced(square(x - y), reduction)


mse: Composite = composite("mse", _mse, aliases=("mse_loss",)).says(
    "(x - y)^2" + REDUCED, "2 (x - y), -2 (x - y)", source="torch.nn.functional.mse_loss"
)


l1: Composite = composite(
    "l1",
    lambda x, y, *, reduction="mean": reduced(abs_(x - y), reduction),
    aliases=("l1_loss",),
    points=(
        Point("x = y", "kink", (1.0, 1.0), (0.0, 0.0)).because(
            "0 is the least subgradient", jax=(1.0, -1.0)
        ),
    ),
    kinks_at=lambda x, y, reduction="mean": any_kink(np.equal(x, y), reduction),
).says("|x - y|" + REDUCED, "sign(x - y), -sign(x - y)", source="torch.nn.functional.l1_loss")


def _huber(x: Value, y: Value, *, delta: float = 1.0, reduction: str = "mean") -> Value:
    d = x - y
    c = clip(d, min=-delta, max=delta)
    return reduced(c * (d - 0.5 * c), reduction)


huber: Composite = composite("huber", _huber, aliases=("huber_loss",)).says(
    "d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2), with d = x - y" + REDUCED,
    "clip(d, -delta, delta), -clip(d, -delta, delta); continuous, but the second "
    "derivative jumps where |d| = delta",
    domain="delta > 0",
    stability="as c (d - c / 2) with c = clip(d, -delta, delta): nothing is squared that is not "
    "used, and d = 0 is no kink of |d|",
    source="Huber, Robust estimation of a location parameter (1964); "
    "torch.nn.functional.huber_loss",
)


hinge: Composite = composite(
    "hinge",
    lambda x, y, *, reduction="mean": reduced(relu(1 - x * y), reduction),
    aliases=("hinge_loss",),
    points=(
        Point("x y = 1", "kink", (1.0, 1.0), (0.0, 0.0)).because(
            "0 is the least subgradient; tf.maximum(1 - x y, 0) gives the other side's",
            tensorflow=(-1.0, -1.0),
        ),
    ),
    kinks_at=lambda x, y, reduction="mean": any_kink(np.equal(np.multiply(x, y), 1), reduction),
).says(
    "max(0, 1 - x y), for y of -1 and 1" + REDUCED,
    "-y, -x where x y < 1, else 0",
    source="Cortes, Vapnik, Support-vector networks (1995); tf.keras.losses.hinge",
)


def _times_log(y: Any, log_p: Any) -> Any:
    """y log(p), and 0 where y = 0."""
    return np.where(np.equal(y, 0), 0 * y, y * np.where(np.equal(y, 0), 0, log_p))


def _bce_by_p(g: Value, term: Value, p: Value, y: Value) -> Value:
    """(1 - y) / (1 - p) - y / p, where 0 / 0 is 0."""
    zeros = logical_and(equal(p, 0), equal(y, 0))
    ones = logical_and(equal(p, 1), equal(y, 1))
    return g * (divide(1 - y, where(ones, 1.0, 1 - p)) - divide(y, where(zeros, 1.0, p)))


bce_terms: Op = internal(
    "bce_terms",
    all_in_float32(lambda p, y: -(_times_log(y, np.log(p)) + _times_log(1 - y, np.log1p(-p)))),
    Elementwise(_bce_by_p, lambda g, term, p, y: g * (log1p(-p) - log(p))),
    rounding="result",
).says(
    "-(y log(p) + (1 - y) log(1 - p)), with 0 log(0) = 0",
    "(1 - y) / (1 - p) - y / p, log(1 - p) - log(p)",
    domain="0 <= p <= 1",
)


_LEAST = float(np.float32(1e-12))  # PyTorch's bound of p (1 - p), a float32


bce: Composite = composite(
    "bce",
    lambda p, y, *, reduction="mean": reduced(bce_terms(p, y), reduction),
    aliases=("bce_loss", "binary_cross_entropy"),
    points=(
        Point("p = y = 0", "edge", (0.0, 0.0), (1.0, np.inf)).because(
            "1 / (1 - p), as for every p where y = 0; PyTorch's slope is (p - y) / 1e-12 "
            "where p (1 - p) is less than that, and 0 log(0) as composed in TensorFlow is nan",
            torch=(0.0, np.inf),
            tensorflow=(np.nan, np.inf),
            jax=(np.nan, np.inf),
        ),
        Point("p = y = 1", "edge", (1.0, 1.0), (-1.0, -np.inf)).because(
            "as where p = y = 0",
            torch=(0.0, -np.inf),
            tensorflow=(np.nan, -np.inf),
            jax=(np.nan, -np.inf),
        ),
        Point("p = 0 < y", "pole", (0.0, 1.0), (-np.inf, np.inf)).because(
            "PyTorch bounds the logarithms by -100, so that the loss is 100",
            torch=(-1 / _LEAST, np.inf),
        ),
        Point("p = 1 > y", "pole", (1.0, 0.0), (np.inf, -np.inf)).because(
            "as where p = 0 < y", torch=(1 / _LEAST, -np.inf)
        ),
    ),
).says(
    "-(y log(p) + (1 - y) log(1 - p)) for probabilities p, with 0 log(0) = 0" + REDUCED,
    "(1 - y) / (1 - p) - y / p, log(1 - p) - log(p)",
    domain="0 <= p <= 1, 0 <= y <= 1",
    stability="1 - p is logged by log1p; the slope as (1 - y) / (1 - p) - y / p: of (p - y) / "
    "(p (1 - p)) the second derivative cancels where p is close to 0 or 1",
    source="torch.nn.functional.binary_cross_entropy",
)


def _logistic_by_x(g: Value, term: Value, x: Value, y: Value) -> Value:
    """sigmoid(x) - y, in the form that keeps its digits: near 0, and where sigmoid(x) is near 1."""
    near = tanh(0.5 * x) * 0.5 + (0.5 - y)
    far = (1 - y) * sigmoid(x) - y * sigmoid(-x)
    return g * where(less_equal(abs_(x), 1), near, far)


logistic_terms: Op = internal(
    "logistic_terms",
    all_in_float32(lambda x, y: y * softplus.raw(-x) + (1 - y) * softplus.raw(x)),
    Elementwise(
        _logistic_by_x,
        lambda g, term, x, y: -(g * x),
    ),
    rounding="result",
).says("y softplus(-x) + (1 - y) softplus(x)", "sigmoid(x) - y, -x")


bce_with_logits: Composite = composite(
    "bce_with_logits",
    lambda x, y, *, reduction="mean": reduced(logistic_terms(x, y), reduction),
    aliases=("binary_cross_entropy_with_logits", "sigmoid_cross_entropy"),
    points=(
        Point(
            "y = 1, sigmoid(x) rounds to 1", "limit", (40.0, 1.0), (-float(np.exp(-40.0)), -40.0)
        ).because("PyTorch subtracts y from sigmoid(x)", torch=(0.0, -40.0)),
        Point(
            "y = 1, sigmoid(x) rounds to 1",
            "limit",
            (40.0, 1.0),
            (-float(np.exp(-40.0)), -40.0),
            differs={"torch": (0.0, -40.0)},
            dtype="float32",
        ),
    ),
).says(
    "-(y log(sigmoid(x)) + (1 - y) log(sigmoid(-x)))" + REDUCED,
    "sigmoid(x) - y, -x",
    stability="as y softplus(-x) + (1 - y) softplus(x), whose terms have one sign for 0 <= y <= 1; "
    "the slope as (1 - y) sigmoid(x) - y sigmoid(-x), and for |x| <= 1 as tanh(x / 2) / 2 + (1/2 - "
    "y): sigmoid(x) - y would lose every digit where both are close to 1, or to 1/2",
    source="torch.nn.functional.binary_cross_entropy_with_logits",
)


def _kl_terms_value(log_p: Any, q: Any) -> Any:
    none = np.equal(q, 0)
    return np.where(none, q * 0, q * (np.log(np.where(none, 1, q)) - log_p))


kl_terms: Op = internal(
    "kl_terms",
    all_in_float32(_kl_terms_value),
    Elementwise(
        lambda g, term, log_p, q: -(g * q),
        lambda g, term, log_p, q: g * (log(q) - log_p + 1),
    ),
    rounding="inputs",
).says("q (log(q) - log_p), and 0 where q = 0", "-q, log(q) - log_p + 1", domain="q >= 0")


kl_div: Composite = composite(
    "kl_div",
    lambda log_p, q, *, reduction="mean": reduced(kl_terms(log_p, q), reduction),
    aliases=("kl_div_loss",),
    points=(
        Point("q = 0", "vertical tangent", (-1.0, 0.0), (0.0, -np.inf), value=0.0).because(
            "log(0); the frameworks take the slope of q log(q) apart, into log(q) and q / q",
            torch=(0.0, np.nan),
            tensorflow=(0.0, 1.0),
            jax=(0.0, np.nan),
        ),
    ),
).says(
    "q (log(q) - log_p), and 0 where q = 0: the terms of KL(q || p), p given by its "
    "logarithms, as in PyTorch" + REDUCED + "; the divergence is their sum over the classes",
    "-q, log(q) - log_p + 1",
    domain="q >= 0",
    source="Kullback, Leibler, On information and sufficiency (1951); torch.nn.functional.kl_div",
)
