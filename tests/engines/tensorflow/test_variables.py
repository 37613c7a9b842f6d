"""What a layer computes from its variables, in its formula and in its custom gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradcheck_cli import check
from tests.every import first

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

X = tf.constant([[0.3, -1.2, 0.7], [1.1, 0.4, -0.5]])


class Scale(keras.layers.Layer):
    def build(self, shape: Any) -> None:
        self.gain = self.add_weight(shape=(shape[-1],), initializer="ones", name="gain")

    def call(self, x: Any) -> Any:
        return self.gain * tf.sin(x)


def read_in_operations() -> Any:
    gain = tf.Variable([0.5, 1.5, -0.7])
    return lambda x: tf.tanh(gain) * tf.concat([gain, gain], 0)[:3] + tf.maximum(gain, x)


def assigned_and_read() -> Any:
    gain, last = tf.Variable([0.5, 1.5, -0.7]), tf.Variable([0.0, 0.0, 0.0], trainable=False)

    def layer(x: Any) -> Any:
        last.assign(tf.reduce_sum(gain * x, 0))
        return x * gain + last

    return layer


def looked_up() -> Any:
    table = tf.Variable([[0.5, 1.5, -0.7], [0.1, -0.2, 0.3], [1.0, 2.0, 0.0]])

    def layer(x: Any) -> Any:
        rows = tf.nn.embedding_lookup(table, [2, 0]) + tf.gather(table, [0, 0])
        return x * rows + tf.gather_nd(table, [[0, 1], [2, 1], [1, 2]])

    return layer


@pytest.mark.parametrize(
    "made", first(2, [Scale, looked_up, read_in_operations, assigned_and_read])
)
def test_variables_are_read_where_the_formula_of_the_layer_sees_it(made: Any) -> None:
    result = check(made(), X).results[0]
    assert {one.truth for one in result.checks} == {"certified, from the trace"}


def test_a_number_that_was_added_to_a_variable_is_not_taken_for_its_value() -> None:
    gain = tf.Variable([0.5, 1.5, -0.7])

    def layer(x: Any) -> Any:
        gain.assign_add(tf.reduce_sum(x, 0))
        return gain * x

    result = check(layer, X).results[0]
    assert "certified" not in {one.truth for one in result.checks if one.input == "x"}


def _rule(x: Any, gain: Any) -> Any:
    @tf.custom_gradient
    def scaled(x: Any) -> Any:
        s = tf.sin(x)

        def grad(y_bar: Any, variables: Any = None) -> Any:
            return y_bar * gain * tf.cos(x), [tf.reduce_mean(y_bar * s, axis=0)]

        return gain * s, grad

    return scaled(x)


class Stated(Scale):
    def call(self, x: Any) -> Any:
        return _rule(x, self.gain)


class Module(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain = tf.Variable([0.5, 1.5, -0.7])

    def __call__(self, x: Any) -> Any:
        @tf.custom_gradient
        def scaled(x: Any) -> Any:
            s = tf.sin(x)

            def grad(y_bar: Any, variables: Any = None) -> Any:
                return y_bar * self.gain * tf.cos(x), [tf.reduce_mean(y_bar * s, axis=0)]

            return self.gain * s, grad

        return scaled(x)


gain = tf.Variable([0.5, 1.5, -0.7])


@tf.custom_gradient
def of_the_module(x: Any) -> Any:
    s = tf.sin(x)

    def grad(y_bar: Any, variables: Any = None) -> Any:
        return y_bar * gain * tf.cos(x), [tf.reduce_mean(y_bar * s, axis=0)]

    return gain * s, grad


@pytest.mark.parametrize("made", [Module, lambda: of_the_module])
@pytest.mark.parametrize("dtype", first(1, ["float32", "float64"]))
def test_a_wrong_gradient_of_a_variable_is_named_and_mended(made: Any, dtype: str) -> None:
    layer, dtypes = made(), (dtype,)
    before = np.asarray((layer.gain if made is Module else gain).numpy())
    report = check(layer, X, dtypes=dtypes)
    (found,) = report.results[0].findings
    assert (found.code, found.input) == ("GC101", "gain")
    assert found.cause is not None
    assert (found.cause.kind, found.cause.proven) == ("wrong rule", True)
    assert found.cause.text == "tf.reduce_mean(y_bar * s, axis=0)"
    assert found.fix is not None
    assert found.fix.after == "tf.reduce_sum(y_bar * s, axis=0)"
    after = (layer.gain if made is Module else gain).numpy()
    np.testing.assert_array_equal(after, before)


def test_a_wrong_gradient_of_a_variable_that_is_handed_to_the_function() -> None:
    (found,) = check(Stated(), X, dtypes=("float32",)).results[0].findings
    assert found.cause is not None
    assert found.cause.text == "tf.reduce_mean(y_bar * s, axis=0)"
