"""Programs of TensorFlow layers that hold for all inputs; and layers of which none is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.place import Span
from gradcheck_cli.domain.search import GradientProgram
from gradcheck_cli.engines.layer.lifting import FEWER_DIGITS
from gradcheck_cli.engines.layer.subject import Call, SubjectRequest
from gradcheck_cli.engines.tensorflow.layer import TensorFlowSubject
from gradcheck_cli.search.enclosures.enclosed import Rounding
from gradcheck_cli.search.enclosures.enclosing import BoxProgram
from gradcheck_cli.search.enclosures.faithful import unfaithful

START = np.array([1.0, 2.0, 0.5])
CORNERS = [{"x": np.full(3, -5.0)}, {"x": np.full(3, 5.0)}]


@contextmanager
def bound(function: Any, dtype: str) -> Iterator[TensorFlowSubject]:
    implementation = Implementation("tensorflow", "layer", "", Span(1, 1, 1, 2), live=function)
    request = SubjectRequest(implementation, {"x": START}, dtype, "float32")
    subject = TensorFlowSubject(request)
    try:
        yield subject
    finally:
        subject.close()


def program_of(function: Any) -> GradientProgram:
    with bound(function, "float64") as wide, bound(function, "float32") as narrow:
        return wide.gradient_program(narrow, ["x"], CORNERS)


def _of_a_row(layer: Any) -> Callable[[Any], Any]:
    layer.build((1, 3))
    return lambda x: layer(x[None])


def _inner_gradient(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(x**3)
    return tf.reduce_sum(tape.gradient(y, x) * x)


_WEIGHTS = tf.Variable([[0.5, -1.0], [0.25, 2.0], [-0.75, 0.1]])


def _channels_first(x: Any) -> Any:
    image = tf.tile(tf.reshape(x, (1, 3, 1, 1)), (1, 1, 2, 3))
    return tf.reduce_sum(tf.nn.bias_add(image, tf.tanh(x), data_format="NCHW") ** 2)


WHOLE: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "softmax": lambda: lambda x: -tf.reduce_sum(tf.nn.log_softmax(x) * [0.2, 0.3, 0.5]),
    "logsumexp": lambda: tf.reduce_logsumexp,
    "silu": lambda: lambda x: tf.reduce_sum(tf.nn.silu(x)),
    "where": lambda: lambda x: tf.reduce_sum(tf.where(x > 0, tf.exp(-x), x)),
    "a slice": lambda: lambda x: x[0] * x[1] + tf.gather(x, [2])[0],
    "a matrix": lambda: lambda x: tf.reduce_sum(x[None] @ tf.cast(_WEIGHTS, x.dtype)),
    "a gradient inside": lambda: _inner_gradient,
    "channels before the image": lambda: _channels_first,
    "a number at many places": lambda: lambda x: tf.reduce_sum(tf.fill([3], x[0]) * x),
    "a shape that is ensured": lambda: lambda x: tf.reduce_sum(tf.ensure_shape(x, [3]) ** 2),
    "numbers that are merged": lambda: (
        lambda x: tf.reduce_sum(tf.dynamic_stitch([[0], [1, 2]], [x[1:2], x[1:]]) * x)
    ),
    "Dense": lambda: _of_a_row(tf.keras.layers.Dense(1, activation="gelu")),
    "LayerNormalization": lambda: _of_a_row(tf.keras.layers.LayerNormalization()),
    "BatchNormalization": lambda: _of_a_row(tf.keras.layers.BatchNormalization()),
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_a_layer_computes_elsewhere_is_within_the_bounds_of_its_program(name: str) -> None:
    function = WHOLE[name]()
    found = program_of(function)
    assert not found.reason
    assert found.program is not None
    assert not unfaithful(found.program, "tensorflow")
    fmt = FORMATS["float32"]
    points = np.random.default_rng(0).uniform(-5, 5, (16, 3)).astype(np.float32).astype(np.float64)
    with bound(function, "float32") as subject:
        still = {leaf.name.replace(".", "_"): leaf.value for leaf in subject.leaves}
        still = {n: v for n, v in still.items() if n in found.program.inputs and n != "x"}
        boxes = BoxProgram(found.program, {**found.constants, **still}, fmt, Rounding.of(fmt, True))
        enclosed = boxes({"x": points}, {"x": points}, len(points))
        places = [0, *(1 + i for i, n in enumerate(subject.wrt) if n == "x")]
        rows = np.eye(subject.outputs[0].size)[:1]
        for row, point in enumerate(points):
            run = subject.run(Call(values={"x": point}, cotangents=rows))
            computed = run.output, run.gradients["x"]
            for place, numbers in zip(places, computed, strict=True):
                one = enclosed[place]
                assert one is not None
                part = one.map(lambda x, row=row: x[row].reshape(-1))
                numbers = np.ravel(numbers)
                off = np.abs(numbers - np.clip(numbers, part.lo, part.hi))
                assert np.all(part.bad | (off <= part.error))


def _branch(x: Any) -> Any:
    return tf.reduce_sum(x) if x[0] > 0 else tf.reduce_sum(2 * x)


def _caught(x: Any) -> Any:
    with suppress(Exception):
        if x[0] > 1.2345:
            return tf.reduce_sum(x * 2)
    return tf.reduce_sum(x)


def _if_it_has_numbers(x: Any) -> Any:
    if hasattr(x, "numpy") and 1.2345 < np.asarray(x)[0] < 1.2346:
        return tf.reduce_sum(x * 2)
    return tf.reduce_sum(x)


def _if_there_is_no_graph(x: Any) -> Any:
    if tf.executing_eagerly() and 1.2345 < np.asarray(x)[0] < 1.2346:
        return tf.reduce_sum(x * 2)
    return tf.reduce_sum(x)


def _in_numpy(x: Any) -> Any:
    with suppress(NotImplementedError):
        return tf.reduce_sum(x) * (2.0 if 1.2345 < np.sum(x) < 1.2346 else 1.0)
    return tf.reduce_sum(x) * 1.0


def _as_text(x: Any) -> Any:
    return tf.reduce_sum(x) * (2.0 if "1.2345" in str(x) else 1.0)


@tf.custom_gradient
def _stated(x: Any) -> Any:
    return tf.reduce_sum(x**2), lambda upstream: 3 * upstream * x


_compiled = tf.function(lambda x: x * x)
_state = tf.Variable(0.0)


def _kept(x: Any) -> Any:
    _state.assign(tf.cast(tf.reduce_sum(x), _state.dtype))
    return tf.reduce_sum(x)


def _fails_elsewhere(x: Any) -> Any:
    with suppress(tf.errors.InvalidArgumentError):
        tf.linalg.inv(tf.linalg.diag(x - 1.2345))
        return tf.reduce_sum(x * 1.0)
    return tf.reduce_sum(x * 2.0)


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a branch": (_branch, "reads a tensor"),
    "a caught branch": (_caught, "reads a tensor"),
    "numbers where there are some": (_if_it_has_numbers, "reads `numpy`"),
    "numbers where nothing is traced": (_if_there_is_no_graph, "asks `tf.executing_eagerly`"),
    "an array of NumPy": (_in_numpy, "without numbers"),
    "the text of an array": (_as_text, "reads a tensor"),
    "its own gradient": (_stated, "not TensorFlow's own"),
    "a gradient passed on": (
        lambda x: tf.reduce_sum(tf.grad_pass_through(tf.round)(x)),
        "not TensorFlow's own",
    ),
    "a stopped gradient": (lambda x: tf.reduce_sum(x * tf.stop_gradient(x)), "stop_gradient"),
    "its own function": (lambda x: tf.reduce_sum(_compiled(x)), "compiled"),
    "code of Python": (
        lambda x: tf.reduce_sum(tf.numpy_function(lambda y: y * 2, [x], x.dtype)),
        "has effects",
    ),
    "a loop of unknown length": (
        lambda x: tf.while_loop(lambda y: y < 10, lambda y: [2 * y], [tf.reduce_sum(x**2) + 1])[0],
        "reads a tensor",
    ),
    "a cast": (lambda x: tf.reduce_sum(tf.cast(tf.cast(x, "float16"), x.dtype)), "another dtype"),
    "random numbers": (
        lambda x: tf.reduce_sum(x * tf.random.uniform([3], dtype=x.dtype)),
        "random",
    ),
    "a number that is kept": (_kept, "writes to"),
    "an error that is caught": (_fails_elsewhere, "may fail"),
    "a range of computed numbers": (
        lambda x: tf.reduce_sum(tf.range(x[0], x[0] + 3)[:3] * x),
        "other operations on tensors without numbers",
    ),
    "two outputs": (lambda x: (tf.reduce_sum(x), x[0]), "several outputs"),
}


@pytest.mark.parametrize("does", REFUSED)
def test_a_layer_whose_runs_or_derivatives_may_differ_has_no_program(does: str) -> None:
    function, words = REFUSED[does]
    found = program_of(function)
    assert found.program is None
    assert words in found.reason


def test_a_number_cut_off_from_its_derivative_is_refused() -> None:
    from tensorflow.python.eager import record

    def cut(x: Any) -> Any:
        with record.stop_recording():
            y = x * x
        return tf.reduce_sum(x * y)

    found = program_of(cut)
    assert found.program is None
    assert "cut off" in found.reason


@pytest.mark.parametrize("variable", FEWER_DIGITS)
def test_variables_that_round_products_are_refused(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "BF16")
    assert variable in program_of(tf.reduce_sum).reason
