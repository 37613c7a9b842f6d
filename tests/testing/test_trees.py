"""Trees of JAX in a call of `check`: what is differentiated, and what it is called."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli import check


class Pair(NamedTuple):
    w: jax.Array
    b: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Dense:
    """As Equinox and Flax make them: nothing can be put into it."""

    w: jax.Array
    b: jax.Array

    def __call__(self, x: jax.Array, key: jax.Array) -> jax.Array:
        return dense(self, x) * jax.random.normal(key, x.shape, x.dtype)


W, B, X = jnp.array([0.5, 2.0]), jnp.array([0.25, -1.0]), jnp.array([1.5, 0.75])
ONCE: dict[str, Any] = {"dtypes": ["float64"], "modes": ["reverse"]}


def dense(p: Any, x: jax.Array) -> jax.Array:
    return x * p.w + p.b


def _inputs(*given: Any, **named: Any) -> list[str]:
    report = check(*given, **named, **ONCE)
    assert report.passed, str(report)
    return [one.input for result in report.results for one in result.checks]


def test_arguments_that_are_trees_are_opened_and_handed_over_as_they_were() -> None:
    assert _inputs(dense, Pair(W, B), X) == ["p.w", "p.b", "x"]

    def listed(layers: list[Dense], x: jax.Array, *, n: int) -> jax.Array:
        assert isinstance(layers, list)
        assert n == 2
        return dense(layers[0], x) * layers[1].w ** n

    found = _inputs(listed, [Dense(W, B), Dense(B, W)], X, n=2)
    assert found == ["layers.0.w", "layers.0.b", "layers.1.w", "layers.1.b", "x"]


@pytest.mark.parametrize("key", [jax.random.key(1), jax.random.PRNGKey(1)])
def test_a_key_is_handed_over_and_a_layer_that_is_a_tree_has_parameters(key: jax.Array) -> None:
    layer = Dense(W, B)
    assert _inputs(layer, X, key) == ["w", "b", "x"]
    np.testing.assert_array_equal(layer.w, W)


def test_a_wrong_rule_for_a_part_of_a_tree_is_found_by_the_name_of_the_part() -> None:
    @jax.custom_vjp
    def scaled(w: jax.Array, x: jax.Array) -> jax.Array:
        return w * x

    scaled.defvjp(lambda w, x: (w * x, (w, x)), lambda r, y_bar: (2 * y_bar * r[1], y_bar * r[0]))
    report = check(lambda p, x: scaled(p.w, x) + p.b, Dense(W, B), X, **ONCE)
    assert {(one.code, one.input) for one in report.findings} == {("GC101", "p.w")}
