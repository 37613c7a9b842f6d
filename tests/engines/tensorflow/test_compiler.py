"""Formulas that `tf.function` has compiled."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.checks.behaviour import behave
from gradcheck_cli.domain.evaluation import FIRST_ORDER, SECOND, Problem, Projection
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.kit import patience
from gradcheck_cli.engines.kit.lru import Recent
from gradcheck_cli.engines.layer.subject import Call
from gradcheck_cli.engines.tensorflow import compiler
from gradcheck_cli.engines.tensorflow.compiler import GRAPH, RETRACED, Compiled, _AmongZeros
from gradcheck_cli.engines.tensorflow.engine import TensorFlowXlaEngine
from tests.checks.making import layer_problem, subject_of

X = np.array([0.3, -1.2, 2.1])
Y = np.array([1.7, 0.4, -0.6])
TEXT = "sum(x ** 3 * sin(y))"


def problem(program: Callable[..., Any], text: str, mode: Any, **values: Any) -> Problem:
    arrays = {name: np.asarray(value) for name, value in values.items()}
    third = arrays if mode.count("over") == 2 else None
    columns = {name: array[None] for name, array in arrays.items()} if third else None
    projection = Projection(columns=columns)
    formula = program(text, arrays)
    return Problem(
        formula, arrays, tuple(arrays), "float32", "float32", mode, projection, along=third
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", [*FIRST_ORDER, *SECOND])
def test_every_mode_is_compiled_once(
    engine_called: Callable[[str], Engine], program: Callable[..., Any], mode: str
) -> None:
    engine, plain = engine_called("tensorflow-xla"), engine_called("tensorflow")
    question = problem(program, TEXT, mode, x=X, y=Y)
    found, right = engine.evaluate(question), plain.evaluate(question)
    assert found.failure is None, found.failure
    for name, gradient in right.gradients.items():
        np.testing.assert_allclose(
            found.gradients[name].values, gradient.values, rtol=1e-5, atol=1e-5
        )
    assert found.compile_s > 0
    assert engine.evaluate(replace(question, values={"x": 2 * X, "y": Y})).compile_s == 0


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "before"), [("tensorflow-xla", GRAPH), ("jax-jit", "XLA without its passes")]
)
def test_xla_alone_takes_log_of_exp_for_its_argument(
    engine_called: Callable[[str], Engine], program: Callable[..., Any], name: str, before: str
) -> None:
    """Without it, exp(89) overflows float32."""
    engine = engine_called(name)
    question = problem(program, "sum(log(exp(x)))", "reverse", x=np.array([89.0]))
    for stage in ("no compiler", before):
        assert engine.evaluate(replace(question, stage=stage)).output == np.inf
    assert engine.evaluate(question).output == 89.0


def test_what_moves_is_compiled_with_what_does_not(
    engine_called: Callable[[str], Engine],
    program: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []
    start = Compiled.__init__

    def counted(self: Compiled, tf: Any, function: Any, xla: bool) -> None:
        made.append(function.__name__)
        start(self, tf, function, xla)

    monkeypatch.setattr(Compiled, "__init__", counted)
    found = engine_called("tensorflow-xla").evaluate(
        problem(program, "x * x * y", "forward", x=3.0, y=5.0)
    )
    assert {name: one.values.item() for name, one in found.gradients.items()} == {
        "x": 30.0,
        "y": 9.0,
    }
    assert made == ["pushed"]


def test_an_unused_target_has_zeros_for_a_cotangent_unless_they_meet_infinity(
    engine_called: Callable[[str], Engine],
) -> None:
    engine_called("tensorflow-xla")
    import tensorflow as tf

    given: list[Any] = []

    def slopes(cotangents: list[Any]) -> tuple[list[Any], Any, list[Any]]:
        given.append(cotangents)
        one, other = cotangents
        return [], None, [one if other is None else one + other * float("inf"), None]

    one = tf.constant(1.0)
    assert _AmongZeros(tf, [one, one], slopes)([one, None])[2][0].numpy() == 1.0
    assert [cotangents[1] is None for cotangents in given] == [False, True]


@pytest.mark.exhaustive
def test_forward_mode_of_a_layer_is_compiled_once(engine_called: Callable[[str], Engine]) -> None:
    subject = subject_of(engine_called("tensorflow-xla"), lambda x: x * x, x=X)
    spent = []
    for tangent in (X, Y):
        before = patience.spent_s
        np.testing.assert_allclose(subject.jvp({"x": tangent}), 2 * X * tangent, rtol=1e-15)
        spent.append(patience.spent_s > before)
    assert spent == [True, False]


@pytest.mark.exhaustive
def test_a_graph_that_was_compiled_is_compiled_once_for_all_layers_and_points(
    engine_called: Callable[[str], Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_called("tensorflow-xla")
    import tensorflow as tf

    graphs = Recent[Any, Any](64)
    monkeypatch.setattr(compiler, "_GRAPHS", graphs)

    def count(factor: float, held: Any, x: np.ndarray) -> int:
        """How many graphs there are after one more row and column of the Jacobian."""

        def layer(x: Any) -> Any:
            return tf.sin(x) * held * factor

        subject = subject_of(engine, layer, x=x)
        right = np.diag(np.cos(x) * np.asarray(held) * factor)
        rows = subject.run(Call(cotangents=np.eye(x.size))).gradients["x"]
        np.testing.assert_allclose(rows, right, rtol=1e-12)
        np.testing.assert_allclose(subject.jvp({"x": np.eye(x.size)[0]}), right[:, 0], rtol=1e-12)
        return len(graphs)

    first = count(2.0, tf.Variable(X), X)
    assert first > 0
    assert count(2.0, tf.Variable(X), Y) == first  # another point
    assert count(2.0, tf.Variable(Y), X) == first  # another value of the variable
    assert count(3.0, tf.Variable(X), X) == 2 * first  # another constant
    assert count(2.0, tf.Variable(X[:2]), X[:2]) == 3 * first  # another shape


@pytest.mark.exhaustive
def test_the_value_of_a_layer_is_compiled_with_and_without_gradients(
    engine_called: Callable[[str], Engine],
) -> None:
    """Without XLA, exp(800) overflows."""
    engine = engine_called("tensorflow-xla")
    import tensorflow as tf

    subject = subject_of(engine, lambda x: tf.math.log(tf.exp(x)), x=np.array([800.0]))
    for tracking in (True, False):
        assert subject.run(Call(tracking=tracking)).output == 800.0


def test_the_behaviour_of_a_layer_is_checked_uncompiled(
    engine_called: Callable[[str], Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_called("tensorflow-xla")
    import tensorflow as tf

    graphs = Recent[Any, Any](64)
    monkeypatch.setattr(compiler, "_GRAPHS", graphs)
    made = layer_problem(lambda x, y: tf.sin(x) * y, {"x": X, "y": Y}, dtype="float32")
    answer = behave(engine, replace(made, behaviour=True))
    assert answer.failure is None
    assert answer.findings == ()
    assert len(graphs) == 0


@pytest.mark.exhaustive
def test_what_draws_numbers_is_compiled_for_itself(
    engine_called: Callable[[str], Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_called("tensorflow-xla")
    import tensorflow as tf

    graphs = Recent[Any, Any](64)
    monkeypatch.setattr(compiler, "_GRAPHS", graphs)
    subject = subject_of(engine, lambda x: x * tf.random.uniform(x.shape, dtype=x.dtype), x=X)
    subject.run(Call())
    assert len(graphs) == 0


def test_a_function_of_the_layer_is_traced_for_xla_first(
    engine_called: Callable[[str], Engine],
) -> None:
    """TensorFlow bounds a loop for XLA only in what it traces inside of XLA, and keeps the first
    trace of a function."""
    engine = engine_called("tensorflow-xla")
    import tensorflow as tf

    @tf.function
    def powers(x: Any) -> Any:
        rows = tf.TensorArray(x.dtype, size=3)
        for i in tf.range(3):
            x = x * tf.sin(x)
            rows = rows.write(i, x)
        return rows.stack()

    subject = subject_of(engine, powers, x=X)
    found = subject.run(Call(cotangents=np.ones((1, 9)))).gradients["x"]
    right = subject_of(engine_called("tensorflow"), powers, x=X).run(
        Call(cotangents=np.ones((1, 9)))
    )
    np.testing.assert_allclose(found, right.gradients["x"], rtol=1e-12)


@pytest.mark.parametrize("is_counted", [False, True])
def test_what_is_traced_for_each_value_of_a_number_has_a_note(
    engine_called: Callable[[str], Engine], is_counted: bool
) -> None:
    engine = engine_called("tensorflow")
    import tensorflow as tf

    calls = itertools.count() if is_counted else itertools.repeat(0)

    @tf.function(jit_compile=True)
    def scaled(x: Any, number: int) -> Any:
        return x * (2.0 + 0.0 * number)

    subject = subject_of(engine, lambda x: scaled(x, next(calls)), x=X)
    assert (RETRACED.format("scaled") in subject.notes) == is_counted


def test_it_runs_only_where_it_is_named() -> None:
    assert not TensorFlowXlaEngine.capabilities.by_default


def test_an_operation_that_xla_lacks_is_unsupported(
    engine_called: Callable[[str], Engine],
) -> None:
    engine_called("tensorflow-xla")
    import tensorflow as tf

    def refused(x: Any) -> Any:
        shape = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
        y = tf.raw_ops.MaxPool(input=x, **shape)
        return tf.raw_ops.MaxPoolGradGrad(orig_input=x, orig_output=y, grad=x, **shape)

    compiled = Compiled(tf, refused, xla=True)
    for _ in range(2):
        with pytest.raises(Unsupported, match="XLA has no MaxPoolGradGrad"):
            compiled(tf.ones([1, 2, 2, 1], tf.float64))


def test_a_loop_that_xla_cannot_differentiate_is_unsupported(
    engine_called: Callable[[str], Engine],
) -> None:
    engine_called("tensorflow-xla")
    import tensorflow as tf

    def derivative(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.while_loop(lambda y: tf.reduce_sum(y) < 10, lambda y: [y * x], [x])[0]
        return tape.gradient(y, x)

    with pytest.raises(Unsupported, match=r"^XLA compilation requires a fixed tensor list size"):
        Compiled(tf, derivative, xla=True)(tf.constant([2.0, 3.0]))
