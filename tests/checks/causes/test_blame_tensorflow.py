"""Layers of TensorFlow: the operation, the custom gradient or the stop that is to blame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.checks.examination import examine
from gradcheck_cli.domain.report import Cause
from gradcheck_cli.engines.tensorflow.engine import TensorFlowEngine
from tests.checks.making import causes_of, layer_problem, stretch
from tests.every import first


@pytest.fixture(scope="module")
def engine() -> Iterator[TensorFlowEngine]:
    made = TensorFlowEngine()
    made.load()
    yield made
    made.close()


def causes(engine: TensorFlowEngine, layer: Any, x: list[float], dtype: str) -> set[Cause]:
    return causes_of(engine, "tensorflow", layer, x, dtype)


def test_operations_inside_functions_that_are_compiled(engine: TensorFlowEngine) -> None:
    import tensorflow as tf

    @tf.function
    def masked(x: Any) -> Any:
        root = tf.where(x > 0, tf.math.pow(x, 0.5), tf.zeros_like(x))
        return tf.reduce_sum(root)

    (cause,) = causes(engine, masked, [1.0, -1.0], "float64")
    assert (cause.kind, cause.op, stretch(cause)) == (
        "masked branch",
        "power",
        "tf.math.pow(x, 0.5)",
    )


def test_what_is_drawn_has_the_derivative_of_a_quantile(engine: TensorFlowEngine) -> None:
    import tensorflow as tf

    def drawn(x: Any) -> Any:
        return tf.random.stateless_gamma([2], [1, 2], tf.exp(x), dtype=x.dtype)

    answer = examine(
        engine,
        layer_problem(drawn, {"x": [0.3, 0.9]}, modes=("reverse",), engine="tensorflow"),
    )
    (found,) = answer.findings
    assert (found.code, found.severity) == ("GC305", "warning")
    assert found.cause is not None
    assert (found.cause.kind, found.cause.op) == (
        "reparameterised sample",
        "StatelessRandomGammaV3",
    )
    assert all(check.status == "passed" for check in answer.checks)


def test_a_stated_backward_loses_what_it_need_not(engine: TensorFlowEngine) -> None:
    import tensorflow as tf

    @tf.custom_gradient
    def recip(x: Any) -> Any:
        e = tf.exp(x)
        return 1 / e, lambda g: -g * e / (e * e)

    (cause,) = causes(engine, recip, [60.0], "float32")
    assert (cause.phase, cause.kind, stretch(cause)) == ("backward", "overflow", "e * e")
    assert cause.engine_op == "Mul"


def test_the_wrong_custom_gradient_of_two(engine: TensorFlowEngine) -> None:
    import tensorflow as tf

    @tf.custom_gradient
    def sine(x: Any) -> Any:
        return tf.sin(x), lambda g: g * tf.cos(x)

    @tf.custom_gradient
    def square(x: Any) -> Any:
        def gradient(g: Any) -> Any:
            return g * x  # half of it

        return x * x, gradient

    (cause,) = causes(engine, lambda x: square(sine(x)), [0.5, 1.0], "float64")
    assert (cause.op, cause.kind, stretch(cause)) == ("square", "wrong rule", "g * x")


def test_where_the_gradient_stops(engine: TensorFlowEngine) -> None:
    import tensorflow as tf

    def scaled(x: Any) -> Any:
        return x / tf.stop_gradient(tf.norm(x))

    for cause in causes(engine, scaled, [1.0, 2.0], "float64"):
        assert cause.kind == "detached path"
        assert stretch(cause) == "tf.stop_gradient(tf.norm(x))"


def read(tf: Any, x: Any) -> Any:
    return x * tf.constant(x.numpy().max(), x.dtype)


def as_a_number(tf: Any, x: Any) -> Any:
    total = 0.0
    for part in tf.unstack(x):
        total += float(part) ** 2
    return x * total


def by_numpy(tf: Any, x: Any) -> Any:
    size = tf.constant(2.0, x.dtype)  # does not depend on x
    return size * x / np.linalg.norm(x)


def in_a_numpy_function(tf: Any, x: Any) -> Any:
    return x + tf.numpy_function(np.sin, [x], x.dtype)


def in_a_variable(tf: Any, x: Any) -> Any:
    kept = tf.Variable(x)
    return kept * x


def whole(tf: Any, x: Any) -> Any:
    return tf.constant(np.sin(x.numpy()))


@pytest.mark.parametrize(
    ("layer", "op", "text"),
    [
        (read, "numpy()", "x.numpy()"),
        (as_a_number, "float()", "float(part)"),
        (by_numpy, "detach", "size * x / np.linalg.norm(x)"),
        (in_a_numpy_function, "detach", "tf.numpy_function(np.sin, [x], x.dtype)"),
        (in_a_variable, "assign()", "tf.Variable(x)"),
        (whole, "numpy()", "x.numpy()"),
    ],
)
def test_numbers_that_leave_the_tape(
    engine: TensorFlowEngine, layer: Any, op: str, text: str
) -> None:
    import tensorflow as tf

    (cause,) = causes(engine, lambda x: layer(tf, x), [0.5, -0.75], "float64")
    assert (cause.kind, cause.op, stretch(cause)) == ("detached path", op, text)
    assert "held constant" in cause.proof


def test_a_forward_that_runs_again_with_other_numbers(engine: TensorFlowEngine) -> None:
    import tensorflow as tf

    def recomputed(x: Any) -> Any:
        scale = [1.0]
        y = tf.recompute_grad(lambda x: tf.sin(scale[0] * x))(x)
        scale[0] = 2.0
        return y

    (cause,) = causes(engine, recomputed, [0.5, -0.75], "float64")
    assert cause.kind == "recomputed forward"
    assert stretch(cause) == "tf.recompute_grad(lambda x: tf.sin(scale[0] * x))(x)"
    assert cause.proven


def test_an_argument_that_no_input_leads_to_is_not_the_cause(engine: TensorFlowEngine) -> None:
    import tensorflow as tf

    @tf.custom_gradient
    def dropped(x: Any, mask: Any) -> Any:
        def gradient(g: Any) -> Any:
            return g * tf.cast(tf.random.uniform(x.shape) > 0.5, x.dtype), None

        return x * mask, gradient

    def layer(x: Any) -> Any:
        return dropped(x, tf.cast(tf.random.uniform(x.shape) > 0.5, x.dtype)) + tf.sin(x)

    problem = layer_problem(
        layer, {"x": [0.5, -0.75, 1.0]}, modes=("reverse",), engine="tensorflow"
    )
    (found,) = [one for one in examine(engine, problem).findings if one.code == "GC101"]
    assert found.cause is None or "`mask`" not in found.cause.detail


@pytest.mark.parametrize("write", first(1, ["assign", "assign_add", "assign_sub"]))
def test_what_is_assigned_has_no_gradient(engine: TensorFlowEngine, write: str) -> None:
    import tensorflow as tf

    class Centred(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean = tf.Variable([0.25], trainable=False)

        def __call__(self, x: Any) -> Any:
            getattr(self.mean, write)(tf.reduce_mean(x, 0, keepdims=True))
            return (x - self.mean) * x

    (cause,) = causes(engine, Centred, [0.5, -0.75], "float32")
    assert (cause.kind, cause.op) == ("detached path", f"{write}()")
    assert stretch(cause).startswith("getattr(self.mean, write)(")


def test_an_assigned_variable_has_the_assigned_value_in_the_program(
    engine: TensorFlowEngine,
) -> None:
    import tensorflow as tf

    class Kept(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = tf.Variable([0.25, 0.5], trainable=False)

        def __call__(self, x: Any) -> Any:
            self.last.assign(tf.sin(x))
            return self.last + x

    answer = examine(engine, layer_problem(Kept, {"x": [0.5, -0.75]}, engine="tensorflow"))
    assert {found.code for found in answer.findings} == {"GC101"}
    assert {one.truth for one in answer.checks} == {"certified, from the trace"}
