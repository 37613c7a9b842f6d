"""Arrays of every framework as NumPy's, without importing any framework."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli import check
from gradcheck_cli.domain.errors import UsageError
from gradcheck_cli.testing.values import OfArrays, as_array, engine_of, sort_inputs


class Tensor:
    """As torch has it: no NumPy before `detach` and `cpu`."""

    dtype, shape = "torch.bfloat16", (2,)

    def detach(self):
        return self

    cpu = double = resolve_neg = detach

    def is_floating_point(self) -> bool:
        return True

    def numpy(self):
        return np.array([1.5, 2.0])


Tensor.__module__ = "torch"


class Variable:
    """As TensorFlow has it."""

    dtype, shape = "float32", (2,)

    def numpy(self):
        return np.array([1, 2], dtype=np.float32)


Variable.__module__ = "tensorflow.python.ops"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (Tensor(), "f"),
        (Variable(), "f"),
        (2.5, "f"),
        ([[1.0, 2], [3, 4]], "f"),
        (np.float16(1.5), "f"),
        (np.array([1, 2], dtype=np.uint8), "i"),
        (np.array([True]), "b"),
    ],
)
def test_numbers_become_arrays_of_one_of_three_kinds(value: object, kind: str) -> None:
    found = as_array("x", value)
    assert found is not None
    assert found.dtype in (np.float64, np.int64, np.bool_)
    assert found.dtype.kind == kind


class Words(Variable):
    def numpy(self):
        return np.bytes_(b"ab")


@pytest.mark.parametrize(
    "value", [3, True, None, "mean", (2, 3), [1.0, "a"], [[1.0], [1.0, 2.0]], Words()]
)
def test_what_is_no_array_is_handed_over(value: object) -> None:
    assert as_array("x", value) is None


def test_complex_numbers_are_pairs_of_their_parts() -> None:
    found = sort_inputs(lambda z, w, x: z, [np.array([1 + 2j]), 3 - 1j, 2.0], {})
    assert found.complex_inputs == {"z", "w"}
    assert found.arrays["z"].tolist() == [[1.0, 2.0]]
    assert found.arrays["w"].tolist() == [3.0, -1.0]
    assert found.arrays["x"].shape == ()


def test_names_are_those_of_the_signature() -> None:
    def layer(a, axis, b):
        return a

    found = sort_inputs(layer, [Tensor(), 0, 2.0], {})
    assert list(found.arrays) == ["a", "b"]
    assert found.fixed == {"axis": 0}
    assert found.dtypes == {"bfloat16", "float64"}


def test_a_layer_that_takes_anything_gets_numbered_inputs() -> None:
    assert list(sort_inputs(lambda *xs: xs, [1.0, 2.0], {}).arrays) == ["x0", "x1"]


def test_values_of_a_layer_that_does_not_name_all_arguments_stay_at_their_places() -> None:
    calls = {
        (1.0, 2, 3.0, None): lambda *xs: xs,
        (2, 1.0, 3.0): lambda first, *more: (first, *more),
        (1.0, "sum", 3.0): lambda a, *more: (a, *more),
    }
    for values, layer in calls.items():
        found = sort_inputs(layer, values, {})
        assert not found.fixed
        called = OfArrays(layer, found.at_places)(*found.arrays.values())
        assert called == values
    assert sort_inputs(max, [1.0, 2.0], {"key": None}).fixed == {"key": None}


def test_the_engine_is_that_of_the_layer_or_its_inputs() -> None:
    pair = SimpleNamespace(forward=lambda x: x, backward=lambda y_bar, x: y_bar)
    assert engine_of(lambda x: x, [Tensor()]) == "torch"
    assert engine_of(lambda x: x, [Variable()]) == "tensorflow"
    assert engine_of(Variable(), [np.ones(2)]) == "tensorflow"
    assert engine_of(pair, [np.ones(2)]) == "numpy"
    assert engine_of(pair, [Tensor()]) == "numpy"
    assert engine_of(lambda x: x, [{"w": (Tensor(),)}]) == "torch"
    builtin = SimpleNamespace(__module__="torch")  # such as torch.sin
    assert engine_of(builtin, [np.ones(2)]) == engine_of(builtin, [0.5]) == "torch"
    assert engine_of(builtin, [Variable()]) == "tensorflow"
    assert engine_of(SimpleNamespace(__objclass__=builtin), [0.5]) == "torch"
    with pytest.raises(UsageError, match="tensorflow, torch"):
        engine_of(lambda x, y: x, [Tensor(), Variable()])


def test_tuples_and_dictionaries_of_arrays_are_taken_apart() -> None:
    def layer(x, state, options):
        return x

    found = sort_inputs(layer, [Tensor(), (Tensor(), {"c": Tensor()}), {"axis": 0}], {})
    assert list(found.arrays) == ["x", "state[0]", "state[1]['c']"]
    assert found.fixed == {"options": {"axis": 0}}
    with pytest.raises(UsageError, match=r"`state\[1\]` is NoneType"):
        sort_inputs(layer, [Tensor(), (Tensor(), None), {}], {})


def test_a_large_tensor_of_tensorflow_is_read_where_it_lies() -> None:
    tf = pytest.importorskip("tensorflow")
    tensor, variable = tf.random.normal((300, 300)), tf.Variable(tf.ones((300, 300)))
    assert np.shares_memory(as_array("x", tensor), np.asarray(memoryview(tensor)))
    read = as_array("x", variable)
    variable.assign_add(variable)
    assert np.array_equal(read, np.ones((300, 300)))  # a variable may change: a copy
    for dtype in ("float64", "bfloat16"):
        cast = tf.cast(tensor, dtype)
        assert np.array_equal(as_array("x", cast), np.asarray(tf.cast(cast, "float64")))


def test_a_module_a_function_and_a_builtin_take_values_at_their_places() -> None:
    torch = pytest.importorskip("torch")

    class Power(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *given: Any) -> Any:
            x, n = given
            ctx.save_for_backward(x)
            ctx.n = n
            return x**n

        @staticmethod
        def backward(ctx: Any, y_bar: Any) -> Any:
            (x,) = ctx.saved_tensors
            return y_bar * ctx.n * x ** (ctx.n - 1), None

    class Module(torch.nn.Module):
        def forward(self, *given: Any) -> Any:
            return Power.apply(*given)

    x = torch.tensor([0.5, 2.0], dtype=torch.float64)
    for layer, values in ((Power.apply, (x, 3)), (Module(), (x, 3)), (torch.cumsum, (x, 0))):
        assert check(layer, *values, dtypes="float64").passed
    with pytest.raises(UsageError, match="argument 1 is int, and the layer gives no name for it"):
        check(Module, x, 3)


def test_floats_beside_tensors_that_ask_for_gradients_are_passed_on_unchanged() -> None:
    torch = pytest.importorskip("torch")
    x = torch.tensor([[[0.5, 2.0]]], dtype=torch.float64, requires_grad=True)
    resized = torch.nn.functional.interpolate  # takes no tensor as a factor
    assert check(resized, x, scale_factor=2.0).passed
    assert check(resized, x, None, 2.0).passed
    seen = []

    def layer(x: Any, scale: Any, weights: Any) -> Any:
        seen.append((scale, weights))
        return x * scale * weights[0]

    assert check(layer, x, 0.1, [0.5, 0.25]).passed
    assert all(one == (0.1, [0.5, 0.25]) for one in seen)
    moved = check(layer, x, 0.1, [0.5, 0.25], wrt=["x", "scale"])
    assert {one.input for one in moved.results[0].checks} == {"x", "scale"}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: check(t.sin, t.ones(2, device="meta")), "`x` is a meta tensor"),
        (lambda t: check(t.sin, t.ones(2), domain=3), "the domain of `x` is 3"),
        (lambda t: check(t.sin, t.ones(2), domain=(1, "a")), "the domain of `x` is"),
    ],
)
def test_inputs_without_numbers_and_domains_that_are_none_are_refused(
    call: Any, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        call(pytest.importorskip("torch"))
