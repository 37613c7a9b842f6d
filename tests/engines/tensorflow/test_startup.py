"""What is left out comes when something asks for it; the functions of tangents are found in less
time, and are the same functions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.tensorflow.framework import TensorFlow
from gradcheck_cli.engines.tensorflow.startup import Tangents, only_tensorflow

CODE = """
import sys
from gradcheck_cli.engines.tensorflow.startup import only_tensorflow

with only_tensorflow():
    import tensorflow as tf
assert not {"jax", "keras"} & set(sys.modules)
assert tf.keras.layers.Dense(3)(tf.ones((2, 2))).shape == (2, 3)
assert tf.compat.v1.Session.__name__ == "Session"
from tensorflow.compat.v1 import placeholder
from tensorflow.keras import Sequential
import jax
with only_tensorflow():  # once everything is there, nothing is hidden any more
    import jax as again, keras
assert again is jax and tf.compat.v1.placeholder is placeholder
"""


@pytest.mark.exhaustive
def test_what_is_left_out_comes_when_something_asks_for_it() -> None:
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_hidden_modules_are_there_again_after_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("jax", "tensorflow"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    before = set(sys.modules)

    def fails() -> None:
        with only_tensorflow():
            assert sys.modules["jax"] is None
            raise ImportError("no TensorFlow here")

    with pytest.raises(ImportError, match="no TensorFlow here"):
        fails()
    assert "jax" not in sys.modules
    assert set(sys.modules) <= before


@pytest.fixture
def tf(engine_called: Callable[[str], Engine]) -> Any:
    engine_called("tensorflow")
    import tensorflow

    return tensorflow


@pytest.fixture
def column(tf: Any) -> Callable[[Callable[[Any], Any], Any, Any], Any]:
    """J @ x_dot of a function, by an accumulator."""

    def pushed(function: Callable[[Any], Any], x: Any, x_dot: Any) -> Any:
        with tf.autodiff.ForwardAccumulator(x, x_dot) as accumulator:
            y = function(x)
        return accumulator.jvp(y).numpy().tolist()

    return pushed


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch, tf: Any) -> list[str]:
    """The operations for which a function was looked for among TensorFlow's own."""
    from tensorflow.python.eager import forwardprop

    seen: list[str] = []
    tangents = forwardprop._jvp_dispatch
    assert isinstance(tangents, Tangents)
    look = tangents.trace_function

    def noted(given: Any, **options: Any) -> Any:
        seen.append(given[0])
        return look(given, **options)

    monkeypatch.setattr(tangents, "trace_function", noted)
    monkeypatch.setattr(tangents, "functions", {})
    return seen


def test_each_function_is_looked_for_once(tf: Any, column: Any, traced: list[str]) -> None:
    def function(x: Any) -> Any:
        return tf.reduce_sum(tf.sin(x) * x, axis=0)

    x = tf.constant([[0.5, -1.0], [2.0, 3.0]])
    for unit in ([[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 2.0]]):
        column(function, x, tf.constant(unit))
    assert traced == ["Sin", "Mul", "Sum"]
    column(function, x[:1], x[:1])
    column(function, tf.cast(x, tf.float64), tf.cast(x, tf.float64))
    assert traced == ["Sin", "Mul", "Sum"] * 3


def test_attributes_that_are_lists(tf: Any, column: Any, traced: list[str]) -> None:
    x = tf.reshape(tf.range(16.0), (1, 4, 4, 1))
    for window, size in ((2, 2), (4, 1), (2, 2)):
        found = column(lambda x, w=window: tf.nn.max_pool2d(x, w, w, "VALID"), x, x)
        assert len(found[0]) == size
    assert traced == ["MaxPool"] * 2


def test_variables_and_traced_functions(tf: Any, column: Any) -> None:
    with tf.device("CPU"):
        variable = tf.Variable([1.0, 2.0])
    compiled = tf.function(lambda x: x * x * variable)
    x = tf.constant([3.0, 4.0])
    assert column(compiled, x, tf.constant([1.0, 1.0])) == [6.0, 16.0]
    assert column(lambda v: v * v, variable, tf.constant([1.0, 0.0])) == [2.0, 0.0]
    with tf.GradientTape() as tape:  # an accumulator inside of a tape
        tape.watch(x)
        with tf.autodiff.ForwardAccumulator(x, tf.constant([1.0, 0.0])) as accumulator:
            y = tf.reduce_sum(x**3)
        y_dot = accumulator.jvp(y)
    assert tape.gradient(y_dot, x).numpy().tolist() == [18.0, 0.0]


@pytest.mark.parametrize("plain", [False, True])
def test_an_accumulator_that_is_not_traced_inside_another_one(tf: Any, plain: bool) -> None:
    """TensorFlow raises an IndexError of its own there, in the loss of a classifier."""
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.eager import forwardprop

    fw = TensorFlow({}, "float32")
    x, one = tf.constant([0.5]), tf.constant([1.0])

    def nested(x: Any) -> Any:
        with fw.tangent([x], [one]) as (_, outer):
            with fw.tangent([x], [one]) as (_, inner):
                y = tf.nn.sigmoid_cross_entropy_with_logits(labels=one, logits=x)
            slope = inner(y)
        return outer(slope)

    tangents = forwardprop._jvp_dispatch
    pywrap_tfe.TFE_Py_RegisterJVPFunction(tangents._dispatch if plain else tangents)
    try:
        with pytest.raises(Unsupported, match="does not trace an accumulator inside another"):
            tf.function(nested, autograph=False)(x)
        with pytest.raises(IndexError), fw.tangent([x], [one]):
            raise IndexError("of the user's code")
    finally:
        pywrap_tfe.TFE_Py_RegisterJVPFunction(tangents)
