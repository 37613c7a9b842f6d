"""What is declared as meant in layers of JAX and TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli import check
from tests.checks.test_by_design import wrong

jax = pytest.importorskip("jax")
tf = pytest.importorskip("tensorflow")

X = np.array([0.3, 1.7])
FORMULA = "atan(pi / 2 * steep * over) / pi"


def declared(place: str) -> list[dict[str, str]]:
    return [
        {"function": "spike", "surrogate": FORMULA, "reason": "no slope"},
        {"function": "rounded", "reason": "no slope"},
        {"detach": f"{__file__}:{place}", "reason": "not trainable"},
    ]


@jax.custom_vjp
def spike(over, steep):
    return (over > 0).astype(over.dtype)


def _of_spike(kept, g):
    over, steep = kept
    return g * steep / 2 / (1 + (jax.numpy.pi / 2 * steep * over) ** 2), None


spike.defvjp(lambda over, steep: (spike(over, steep), (over, steep)), _of_spike)


@jax.custom_jvp
def rounded(x):
    return jax.numpy.round(x)


rounded.defjvp(lambda primals, tangents: (rounded(*primals), tangents[0]))


def jax_layer(x, own=0.0):
    """With jax.vmap, a loop, a branch and jax.jit around what is meant."""
    mapped = jax.vmap(lambda y: spike(y - 1.0, 2.0) * y)(x)

    def body(c, y):
        c = c * 0.5 + rounded(y) + jax.lax.stop_gradient(y * c)
        return c, spike(c - 1.0, 2.0)

    c, spikes = jax.lax.scan(body, 0.1, x)
    c = jax.lax.cond(c > 0, lambda c: c * rounded(c), lambda c: c, c)
    c = c * jax.lax.while_loop(lambda n: n < 2, lambda n: n + 1, 0)
    return mapped, c, spikes, jax.jit(lambda y: rounded(y) * y)(x) + own * detached(x)


def detached(x):
    return jax.lax.stop_gradient(x)


@tf.custom_gradient
def tf_rounded(x):
    return tf.round(x), lambda g: g


@tf.custom_gradient
def tf_spike(over, steep):
    def grad(g):
        return g * steep / 2 / (1 + (np.pi / 2 * steep * over) ** 2), tf.zeros_like(steep)

    return tf.cast(over > 0, over.dtype), grad


def tensorflow_layer(x, own=0.0):
    c = tf.reduce_sum(x) * 0.1
    spikes = []
    for y in tf.unstack(x):
        c = c * 0.5 + tf_rounded(y) + tf.stop_gradient(y * c)
        spikes.append(tf_spike(c - 1.0, tf.constant(2.0, x.dtype)))
    return tf.stack(spikes), c, tf.function(lambda y: tf_rounded(y) * y)(x) + own * tf_detached(x)


def tf_detached(x):
    return tf.stop_gradient(x)


@pytest.mark.exhaustive
def test_jax() -> None:
    forms, settings = declared("jax_layer"), {"engine": "jax", "dtypes": ["float64"]}
    report = check(jax_layer, X, by_design=forms, **settings)
    assert wrong(report) == set()
    assert [one.calls for one in report.results[0].by_design] == [3, 4, 2]
    report = check(jax_layer, X, own=1e-3, by_design=forms, **settings)
    assert wrong(report) == {("GC101", "x")}
    assert {f.cause.text for f in report.findings if f.cause} == {"jax.lax.stop_gradient(x)"}


@pytest.mark.exhaustive
def test_tensorflow() -> None:
    forms = declared("tensorflow_layer")
    forms[0]["function"], forms[1]["function"] = "tf_spike", "tf_rounded"
    settings = {"engine": "tensorflow", "dtypes": ["float64"]}
    report = check(tensorflow_layer, X, by_design=forms, **settings)
    assert wrong(report) == set()
    assert [one.calls for one in report.results[0].by_design] == [2, 3, 2]
    report = check(tensorflow_layer, X, own=1e-3, by_design=forms, **settings)
    assert wrong(report) == {("GC101", "x")}
    assert {f.cause.text for f in report.findings if f.cause} == {"tf.stop_gradient(x)"}


@pytest.mark.exhaustive
def test_variables_that_are_no_arguments_move_as_declared() -> None:
    weight = tf.Variable([2.0, 3.0])

    @tf.custom_gradient
    def scaled(x):
        def grad(g, variables=None):
            return g, [tf.zeros_like(weight)]

        return x * weight, grad

    def layer(x):
        return scaled(x) * weight

    design = {"function": "scaled", "reason": "meant"}
    x = tf.constant([0.3, -1.2])
    assert {name for _, name in wrong(check(layer, x))} == {"x", "weight"}
    assert wrong(check(layer, x, by_design=[design])) == set()
