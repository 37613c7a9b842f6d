"""Layers of TensorFlow as functions of arrays: found, bound, run in a dtype, and left alone."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from gradcheck_cli import check
from gradcheck_cli.domain.dtypes import aligned
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.place import Span
from gradcheck_cli.engines.errors import Unsupported, WrongKind
from gradcheck_cli.engines.layer.isolation import surroundings
from gradcheck_cli.engines.layer.loading import load_layer, on_the_path
from gradcheck_cli.engines.layer.source_lines import Places
from gradcheck_cli.engines.layer.subject import Call, Spare, SubjectRequest
from gradcheck_cli.engines.tensorflow import layer as tensorflow_layer
from gradcheck_cli.engines.tensorflow.engine import TensorFlowEngine, TensorFlowXlaEngine
from gradcheck_cli.engines.tensorflow.graph import EAGER
from gradcheck_cli.engines.tensorflow.layer import RUN_EAGERLY, TensorFlowSubject
from gradcheck_cli.engines.tensorflow.variables import found_in
from tests.checks.making import subject_of

X = np.array([[0.5, -1.0], [2.0, 0.25], [1.0, 1.5]])


@cache
def engine() -> TensorFlowEngine:
    made = TensorFlowEngine()
    made.load()
    return made


def implementation(name: str, live: Any = None, **settings: Any) -> Implementation:
    engine()
    target = f"tensorflow_layers.py:{name}"
    folder = str(Path(__file__).parent)
    return Implementation("tensorflow", target, folder, Span(1, 1, 1, 2), live=live, **settings)


def module() -> Any:
    one = implementation("")
    with on_the_path(one):
        return load_layer(one)


def bound(
    name: str,
    values: Mapping[str, npt.ArrayLike],
    dtype: str = "float64",
    rounding: str | None = None,
    **settings: Any,
) -> TensorFlowSubject:
    arrays = {key: np.asarray(value) for key, value in values.items()}
    request = SubjectRequest(implementation(name, **settings), arrays, dtype, rounding or dtype)
    return TensorFlowSubject(request)


def gradients(subject: TensorFlowSubject, **call: Any) -> dict[str, Any]:
    rows = np.eye(sum(output.size for output in subject.outputs))
    return dict(subject.run(Call(cotangents=rows, **call)).gradients)


def roles(subject: TensorFlowSubject) -> dict[str, tuple[str, bool]]:
    return {leaf.name: (leaf.role, leaf.differentiable) for leaf in subject.leaves}


KERNEL = np.array([[0.5, -0.3], [0.1, 0.8]])


def test_a_keras_class_is_built_on_its_first_input_with_the_kernel_that_is_given() -> None:
    subject = bound("SinDense", {"x": X, "kernel": KERNEL}, args=(2,))
    assert roles(subject) == {"x": ("input", True), "kernel": ("parameter", True)}
    assert subject.is_fresh
    assert np.allclose(subject.value({}), np.sin(X @ KERNEL).ravel(), rtol=1e-15)
    moved = subject.value({"kernel": KERNEL + 1e-9})
    assert np.allclose(moved, np.sin(X @ (KERNEL + 1e-9)).ravel(), rtol=1e-15)
    assert np.allclose(
        gradients(subject)["kernel"][0],
        np.cos(X @ KERNEL)[0, 0] * X[0, [0, 0, 1, 1]] * [1, 0, 1, 0],
    )


def test_gradients_that_are_handed_over_one_by_one_are_those_of_all_rows() -> None:
    """In the dtype of the layer: in float64 they might take twice the memory of the layer."""
    subject = bound("SinDense", {"x": X, "kernel": KERNEL}, "float32", args=(2,))
    rows = np.eye(sum(output.size for output in subject.outputs))
    every: list[dict[str, Any]] = []
    found = subject.run(Call(cotangents=rows, each=lambda _, one: every.append(one)))
    assert not found.gradients
    for name, whole in gradients(subject).items():
        assert {one[name].dtype.name for one in every} == {"float32"}
        np.testing.assert_array_equal([one[name] for one in every], whole)


def test_the_same_weights_are_drawn_in_every_dtype_and_rounded() -> None:
    narrow = bound("SinDense", {"x": X}, "float32", args=(2,))
    wide = bound("SinDense", {"x": X}, "float64", "float32", args=(2,))
    assert np.array_equal(narrow.leaves[1].value, wide.leaves[1].value)
    assert wide.outputs[0].dtype == "float64"
    assert np.allclose(narrow.value({}), wide.value({}), rtol=1e-6)


def test_a_model_is_known_by_its_attributes_and_left_as_it_was() -> None:
    net = module().Net()
    net(X.astype(np.float32))
    before = [v.numpy() for v in net.variables]
    subject = bound("Net", {"x": X}, live=net, kwargs={"training": True})
    assert roles(subject) == {
        "x": ("input", True),
        "first.kernel": ("parameter", True),
        "first.bias": ("parameter", True),
        "norm.gamma": ("parameter", True),
        "norm.beta": ("parameter", True),
        "norm.moving_mean": ("buffer", False),
        "norm.moving_variance": ("buffer", False),
    }
    ran = subject.run(Call(cotangents=np.ones((1, 6)), watch=True))
    assert set(ran.changed) == {"norm.moving_mean", "norm.moving_variance"}
    assert ran.random
    assert np.array_equal(subject.value({}), subject.value({}))
    for variable, value in zip(net.variables, before, strict=True):
        assert np.array_equal(variable.numpy(), value)
    assert net.first.compute_dtype == "float32"
    assert net(X.astype(np.float32)).dtype == "float32"


def test_names_do_not_depend_on_how_many_layers_were_made_before() -> None:
    """Keras counts its own names up over the whole process: gru, gru_1, ..."""
    import tensorflow as tf

    keras = module().keras
    for _ in range(2):
        layer = keras.layers.Bidirectional(keras.layers.GRU(1))
        layer.build((None, 2, 2))
        assert {"forward_gru.cell.kernel", "backward_gru.cell.bias"} <= found_in(tf, layer).keys()


@pytest.mark.parametrize(
    ("name", "inputs"), [("sequential", {"x": X[None]}), ("functional", {"p": X, "q": X})]
)
def test_models_of_layers_run_in_float64_throughout(name: str, inputs: dict[str, Any]) -> None:
    """Keras casts at many places: what is smaller than float32 can hold must arrive."""
    subject = bound(name, inputs, live=getattr(module(), name)())
    (first, value), *_ = inputs.items()
    step = subject.value({first: value + 1e-10}) - subject.value({})
    along = gradients(subject)[first].sum(axis=1) * 1e-10
    assert np.allclose(step, along, rtol=1e-3, atol=1e-15)
    assert {"dense.kernel", "dense.bias"} <= roles(subject).keys()


def test_variables_and_constants_that_a_tf_function_captured_are_found() -> None:
    layers = module()
    matrix, factor = layers.MATRIX.numpy().astype(float), layers.FACTOR.numpy().astype(float)
    for dtype in ("float32", "float64"):
        subject = bound("graph", {"x": X}, dtype, "float32")
        assert roles(subject)["MATRIX"] == ("captured", True)
        assert roles(subject)["FACTOR"] == ("captured", False)
        assert subject.notes == (
            "`FACTOR`, which the layer captured, is not trainable: not checked",
        )
        right = np.tanh(X @ (matrix + 0.5)) * factor
        close = 1e-15 if dtype == "float64" else 1e-6
        assert np.allclose(subject.value({"MATRIX": matrix + 0.5}), right.ravel(), rtol=close)
        assert gradients(subject)["MATRIX"].shape == (6, 4)
    assert np.array_equal(layers.MATRIX.numpy(), matrix)
    assert layers.graph(X.astype(np.float32)).dtype == "float32"


def test_a_variable_that_two_layers_share_is_found_once() -> None:
    first, whole = module().encoder_and_model()
    subject = bound("", {"x": X}, live=lambda x: first(x) + whole(x))
    assert [name for name, role in roles(subject).items() if role[1]] == ["x", "first.w"]
    assert np.allclose(gradients(subject)["first.w"].sum(), 3 * X.sum(), rtol=1e-12)


def test_a_variable_may_have_the_name_of_an_argument() -> None:
    import tensorflow as tf

    class Scaled(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.x = tf.Variable([2.0, 3.0], name="x")

        def __call__(self, x: Any) -> Any:
            return self.x * x

    subject = bound("scaled", {"x": np.array([0.5, 1.5])}, live=Scaled())
    assert set(roles(subject)) == {"x", "self.x"}
    assert np.array_equal(gradients(subject)["self.x"], np.diag([0.5, 1.5]))


def test_a_module_keeps_its_variables_and_its_counter() -> None:
    affine = module().Affine()
    subject = bound("Affine", {"x": X}, live=affine)
    assert {"parts.0", "parts.1"} <= roles(subject).keys()
    assert np.array_equal(gradients(subject)["parts.1"][0], [1.0, 0.0])
    assert affine.calls.numpy() == 0
    assert affine.parts[0].dtype == "float32"


def test_integers_booleans_and_outputs_of_every_structure() -> None:
    values = {"x": [60.0, 1.0, 2.0], "index": np.array([0, 2, 2]), "flag": np.array(True)}
    subject = bound("gathered", values)
    assert [output.name for output in subject.outputs] == ["y['picked']", "y['pair'][0]"]
    found = gradients(subject)["x"]  # gathered slices are a gradient in another notation
    assert np.array_equal(found, [[1, 0, 0], [0, 0, 1], [0, 0, 1], [1, 1, 1]])
    ran = subject.run(Call(cotangents=np.ones((1, 4)), used_outputs=("y['pair'][0]",)))
    assert np.array_equal(ran.gradients["x"], [[1, 1, 1]])


def test_custom_gradients_are_followed_in_reverse_and_refused_in_forward_mode() -> None:
    subject = bound("halved", {"x": X[0]})
    assert np.array_equal(gradients(subject)["x"], np.diag(X[0]))
    with pytest.raises(Unsupported, match="ignores the custom gradient of `halved`"):
        subject.jvp({"x": np.ones(2)})
    with pytest.raises(WrongKind, match=r"has shape \(\), but `x` has shape \(2,\)"):
        gradients(bound("summed", {"x": X[0]}))


def test_forward_mode_and_the_second_derivative_agree_with_reverse() -> None:
    subject = bound("SinDense", {"x": X, "kernel": KERNEL}, args=(2,))
    jacobian = gradients(subject)
    pushed = subject.jvp({"kernel": np.ones((2, 2)), "x": X})
    right = jacobian["kernel"].sum(axis=1) + jacobian["x"] @ X.ravel()
    assert np.allclose(pushed, right, rtol=1e-13)
    twice = subject.hvp("reverse-over-reverse", np.ones(6), {"x": X, "kernel": np.zeros((2, 2))})
    inner = X @ KERNEL
    along = -np.sin(inner) * inner
    assert np.allclose(twice["x"], (along @ KERNEL.T).ravel(), rtol=1e-13)


def test_what_forward_mode_cannot_do_is_refused_and_no_mistake_of_the_layer() -> None:
    subject = bound("scanned", {"x": [0.5, 1.0]})
    subject.run(Call(cotangents=np.eye(2)))
    with pytest.raises(Unsupported, match="TensorFlow's forward mode raises TypeError"):
        subject.jvp({"x": np.array([1.0, 0.0])})


def test_tangents_of_what_was_gathered() -> None:
    subject = bound("summed_in_segments", {"x": X})
    pushed = subject.jvp({"x": X})
    assert pushed.tolist() == [2.5, -0.75, 1.0, 1.5]


def test_random_numbers_start_again_at_every_call_and_stay_the_users() -> None:
    import tensorflow as tf

    tf.random.set_seed(3)
    first = tf.random.normal([2]).numpy()
    subject = bound("noisy", {"x": X})
    assert np.array_equal(subject.value({}), subject.value({}))
    assert subject.run(Call(watch=True)).random
    second = tf.random.normal([2]).numpy()
    tf.random.set_seed(3)
    assert np.array_equal(first, tf.random.normal([2]).numpy())
    assert np.array_equal(second, tf.random.normal([2]).numpy())


def test_what_the_first_call_imports_may_draw() -> None:
    subject = bound("importing", {"x": X})
    assert not subject.run(Call(watch=True)).random


@pytest.mark.parametrize(
    ("name", "traced"), [("graph", True), ("branching", False), ("noisy", False)]
)
def test_many_values_come_from_a_graph_where_that_gives_the_same(name: str, traced: bool) -> None:
    subject = bound(name, {"x": X})
    for step in range(EAGER + 3):
        there = X + step / 64
        assert np.array_equal(subject.value({"x": there}), subject.plain_value({"x": there}))
    assert (subject.graph.traced is not None) == traced


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_many_numbers_are_copied_once_and_those_that_the_layer_may_write_to_never(
    monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    """These are used where they lie, if they have the dtype and begin where TensorFlow wants them
    to; nothing is kept for the next call, nor traced."""
    monkeypatch.setattr(tensorflow_layer, "MANY", 1)
    monkeypatch.setattr(tensorflow_layer, "LARGE", 1)
    subject = bound("scaled", {"x": X}, dtype, live=lambda x: 2.0 * x)
    numbers = np.arange(32.0).reshape(4, 8)
    for given in (np.dtype(np.float32), np.dtype(np.float64)):
        mine = aligned((4, 8), given)
        mine[...] = numbers
        fixed = mine.view()
        fixed.flags.writeable = False
        copy, spare, across, shut = (
            subject.inputs(values)["x"]
            for values in ({"x": mine}, Spare(x=mine), Spare(x=mine.T), Spare(x=fixed))
        )
        assert {made.dtype.name for made in (copy, spare, across, shut)} == {dtype}
        np.testing.assert_array_equal(across, numbers.T)
        mine[...] = 0.0
        np.testing.assert_array_equal(spare, 0.0 if given.name == dtype else numbers)
        for made in (copy, shut):
            np.testing.assert_array_equal(made, numbers)
    for _ in range(EAGER + 2):
        np.testing.assert_array_equal(subject.value({}), 2.0 * X.ravel())
    assert subject.graph.traced is None
    one, other = (subject.inputs({})["x"] for _ in range(2))
    assert one is not other


def test_a_gradient_that_can_be_asked_for_once_a_run() -> None:
    """TensorFlow forgets what a py_function was called with as soon as it is asked."""
    import tensorflow as tf

    def cube(x: Any) -> Any:
        return tf.py_function(lambda given: given**3, [x], x.dtype)

    subject = bound("cube", {"x": [2.0, -1.0]}, live=cube)
    assert gradients(subject)["x"].tolist() == [[12.0, 0.0], [0.0, 3.0]]


def test_a_custom_gradient_that_lacks_an_input_is_told_so() -> None:
    import tensorflow as tf

    @tf.custom_gradient
    def product(x: Any, y: Any) -> Any:
        return x * y, lambda y_bar: y_bar * y

    findings = check(lambda x: product(x, 2 * x), tf.constant([0.3, 1.2])).findings
    assert {found.code for found in findings} == {"GC103"}
    words = "does not give a gradient for each of its inputs"
    assert all(words in found.message for found in findings)


def test_a_compiler_that_is_switched_off_has_a_note() -> None:
    import tensorflow as tf

    def layer(x: Any) -> Any:
        return tf.tanh(x)

    both = (TensorFlowXlaEngine(), layer), (TensorFlowEngine(), tf.function(layer))
    for engine, one in both:
        assert RUN_EAGERLY not in subject_of(engine, one, x=[0.5, 1.5]).notes
        tf.config.run_functions_eagerly(True)
        try:
            assert RUN_EAGERLY in subject_of(engine, one, x=[0.5, 1.5]).notes
        finally:
            tf.config.run_functions_eagerly(False)


def test_an_operation_without_a_gradient_under_xla_is_no_mistake_of_gradcheck() -> None:
    """TensorFlow leaves its own frames out of what it raises while it traces."""
    import tensorflow as tf

    def layer(x: Any) -> Any:
        return tf.reduce_sum(tf.sin(tf.unique(x)[0]))

    report = check(layer, tf.constant([0.5, 1.5]), engines="tensorflow-xla", dtypes=["float32"])
    assert {one.code for result in report.results for one in result.findings} == {"GC701"}


def test_the_place_in_code_that_autograph_rewrote_is_the_users_line() -> None:
    import tensorflow as tf

    stacks: list[list[tuple[Any, int]]] = []

    @tf.autograph.experimental.do_not_convert
    def noted() -> None:
        frame, stack = sys._getframe(1), []
        while frame is not None:
            stack.append((frame.f_code, frame.f_lasti))
            frame = frame.f_back  # type: ignore[assignment]
        stacks.append(stack)

    @tf.function
    def layer(x: Any) -> Any:
        if tf.reduce_sum(x) > 0:
            noted()  # here
            x = 2 * x
        return x

    layer(tf.constant([1.0]))
    codes, instructions = zip(*stacks[0], strict=True)
    place = Places().of_stack(codes, instructions)
    assert place is not None
    assert place.text == "noted()  # here"
    assert place.source.path.endswith("test_layer.py")


@pytest.mark.parametrize(("moves", "runs"), [(0.0, [2, 1, 1]), (1.0, [2, 2, 2])])
def test_within_a_check_a_layer_that_does_the_same_twice_is_run_once_when_it_is_bound_again(
    moves: float, runs: list[int]
) -> None:
    """A layer that does not is random."""
    ran: list[int] = []

    def layer(x: Any) -> Any:
        ran.append(1)
        return x * (1 + moves * len(ran))

    seen = []
    with surroundings():
        for dtype in ("float32", "float64", "float32"):
            before = len(ran)
            subject = bound("", {"x": X}, dtype, "float32", live=layer)
            assert subject.random == bool(moves)
            assert not subject.is_fresh
            seen.append(len(ran) - before)
    assert seen == runs
