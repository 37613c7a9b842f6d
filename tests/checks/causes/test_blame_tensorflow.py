"""Layers of TensorFlow: the operation, the custom gradient or the stop that is to blame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gradcheck_cli.checks.examination import examine
from gradcheck_cli.domain.report import Cause
from gradcheck_cli.engines.tensorflow.engine import TensorFlowEngine
from tests.checks.making import causes_of, layer_problem, stretch


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
