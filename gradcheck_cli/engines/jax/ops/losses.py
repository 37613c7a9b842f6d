"""Losses that compare element by element, as one composes them: JAX itself has none."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def reduced(jax: Any, terms: Any, reduction: str) -> Any:
    if reduction == "none":
        return terms
    return terms.mean() if reduction == "mean" else terms.sum()


def bce(jax: Any, p: Any, y: Any, reduction: str = "mean") -> Any:
    return reduced(jax, -(y * jax.numpy.log(p) + (1 - y) * jax.numpy.log1p(-p)), reduction)


def bce_with_logits(jax: Any, x: Any, y: Any, reduction: str = "mean") -> Any:
    terms = -y * jax.nn.log_sigmoid(x) - (1 - y) * jax.nn.log_sigmoid(-x)
    return reduced(jax, terms, reduction)


def hinge(jax: Any, x: Any, y: Any, reduction: str = "mean") -> Any:
    return reduced(jax, jax.nn.relu(1 - x * y), reduction)


def huber(jax: Any, x: Any, y: Any, delta: float = 1.0, reduction: str = "mean") -> Any:
    error = x - y
    size = jax.numpy.abs(error)
    square, line = 0.5 * jax.numpy.square(error), delta * size - 0.5 * delta**2
    return reduced(jax, jax.numpy.where(size <= delta, square, line), reduction)


def kl_div(jax: Any, log_p: Any, q: Any, reduction: str = "mean") -> Any:
    return reduced(jax, jax.scipy.special.xlogy(q, q) - q * log_p, reduction)


def l1(jax: Any, x: Any, y: Any, reduction: str = "mean") -> Any:
    return reduced(jax, jax.numpy.abs(x - y), reduction)


def mse(jax: Any, x: Any, y: Any, reduction: str = "mean") -> Any:
    return reduced(jax, jax.numpy.square(x - y), reduction)


ROWS: dict[str, Lowering] = {
    "bce": bce,
    "bce_with_logits": bce_with_logits,
    "hinge": hinge,
    "huber": huber,
    "kl_div": kl_div,
    "l1": l1,
    "mse": mse,
}
