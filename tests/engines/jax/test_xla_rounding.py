"""Pairs of operations that XLA merges in compiled code, and others that it computes as written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from gradcheck_cli.engines.jax.recorder import traced
from gradcheck_cli.engines.jax.xla_rounding import refuse_rewritten
from gradcheck_cli.engines.layer.lifting import NotLifted

X = np.float32(0.5)
MERGED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a quotient of a quotient": lambda a, b, c: (a / b) / c,
    "a quotient by a quotient": lambda a, b, c: a / (b / c),
    "a quotient by a sigmoid": lambda a, b, c: a / lax.logistic(b) + c,
    "a product of exponentials": lambda a, b, c: jnp.exp(a) * -jnp.exp(b) + c,
    "a quotient by an exponential": lambda a, b, c: a / jnp.exp(b) + c,
    "a logarithm of a power": lambda a, b, c: jnp.log(a**b) + c,
    "two constant factors": lambda a, b, c: (a * jnp.float32(1e-30)) * jnp.float32(1e-30) + b + c,
    "two constant summands": lambda a, b, c: (a + jnp.float32(1e8)) + jnp.float32(1) + b * c,
}
ALONE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "products": lambda a, b, c: a * b * c,
    "a constant factor and a constant summand": lambda a, b, c: a * 3 + 1 + b * c,
    "one exponential": lambda a, b, c: a * jnp.exp(b) + c,
}


def _call(function: Callable[..., Any], times: Callable[[Any], Any]) -> Any:
    jaxpr, _ = traced(lambda *xs: [times(function)(*xs)], [jnp.asarray(X)] * 3)
    return jaxpr.jaxpr


@pytest.mark.parametrize("name", MERGED)
def test_a_compiled_pair_that_xla_merges_is_refused(name: str) -> None:
    with pytest.raises(NotLifted, match="XLA merges"):
        refuse_rewritten(_call(MERGED[name], jax.jit))


@pytest.mark.parametrize("name", ALONE)
def test_what_xla_computes_as_written_is_not_refused(name: str) -> None:
    refuse_rewritten(_call(ALONE[name], jax.jit))


def test_operations_that_are_compiled_one_by_one_are_not_merged() -> None:
    refuse_rewritten(_call(MERGED["a product of exponentials"], lambda function: function))


def test_a_call_inside_of_a_checkpoint_is_compiled() -> None:
    def kept(x: Any) -> Any:
        return jax.checkpoint(jax.jit(lambda y: y / x / x))(x)

    jaxpr, _ = traced(lambda x: [kept(x)], [jnp.asarray(X)])
    with pytest.raises(NotLifted, match="XLA merges"):
        refuse_rewritten(jaxpr.jaxpr)


@pytest.mark.parametrize(
    "product",
    [
        lambda x: jnp.dot(x, x, precision=lax.DotAlgorithmPreset.BF16_BF16_F32),
        lambda x: lax.exp(x, accuracy=lax.Tolerance(atol=0.1, rtol=0.0, ulps=0)),
    ],
)
def test_an_operation_that_may_round_to_fewer_digits_is_refused(product: Any) -> None:
    jaxpr, _ = traced(lambda x: [product(x)], [jnp.ones(3, jnp.float32)])
    with pytest.raises(NotLifted, match="fewer digits"):
        refuse_rewritten(jaxpr.jaxpr)


def test_the_body_of_a_scan_is_compiled() -> None:
    def turns(x: Any) -> Any:
        y, _ = lax.scan(lambda c, _: ((c / x) / (x + 1), None), x, None, length=2)
        return y

    jaxpr, _ = traced(lambda x: [turns(x)], [jnp.asarray(X)])
    with pytest.raises(NotLifted, match="XLA merges"):
        refuse_rewritten(jaxpr.jaxpr)


def test_xla_does_merge_them() -> None:
    """Why they are refused: the quotient of a quotient is 1, and its merged form is 0."""
    x = jnp.full(8, 1e30, jnp.float32)
    assert np.all(np.asarray(x / x / x * x) == 1)
    assert np.all(np.asarray(jax.jit(lambda a: (a / a) / a)(x * 0 + 1e30)) * 1e30 == 0)
