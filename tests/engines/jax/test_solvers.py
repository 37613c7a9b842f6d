"""Which functions of a layer of JAX iterate until their numbers are near enough."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from gradcheck_cli.engines.jax.solvers import solvers


@jax.custom_vjp
def half(x: Any) -> Any:
    """Until it is small."""
    return jax.lax.while_loop(lambda y: jnp.max(y) > 1e-6, lambda y: 0.5 * y, x)


@jax.custom_vjp
def power(x: Any) -> Any:
    """As often as is said."""
    return jax.lax.fori_loop(0, jnp.int32(3), lambda i, y: y * x, x)


half.defvjp(lambda x: (half(x), None), lambda _, g: (g,))
power.defvjp(lambda x: (power(x), x), lambda x, g: (4 * g * x**3,))


def conjugate(b: Any) -> Any:
    return jax.scipy.sparse.linalg.cg(lambda x: 2 * x, b)[0]


@pytest.mark.parametrize(
    ("layer", "names"),
    [
        (half, {"half"}),
        (jax.jit(lambda x: jnp.sin(half(x))), {"half"}),
        (conjugate, {"custom_linear_solve"}),
        (power, set()),
        (lambda x: jax.lax.while_loop(lambda y: jnp.max(y) > 1.0, jnp.sqrt, x), set()),
        (jax.nn.relu, set()),
    ],
)
def test_functions_with_a_loop_that_ends_by_its_numbers(layer: Any, names: set[str]) -> None:
    assert solvers(lambda x: [layer(x)], [jnp.array([1.0, 2.0])]) == names
