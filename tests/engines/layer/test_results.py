"""What layers of every framework return: outputs, or the reason why there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
import torch

from gradcheck_cli import GradientError, assert_gradients, check
from gradcheck_cli.testing.report import Report

INPUTS = {
    "torch": torch.tensor([0.3, 1.2]),
    "tensorflow": tf.constant([0.3, 1.2]),
    "jax": jnp.array([0.3, 1.2]),
    "numpy": np.array([0.3, 1.2]),
}
SIN = {"torch": torch.sin, "tensorflow": tf.sin, "jax": jnp.sin, "numpy": np.sin}


@dataclass
class Loss:
    """An output with a name for its part."""

    loss: Any
    steps: int = 3


class Layer:
    """sin in one of the frameworks, whose result goes through `returned` before it is handed back;
    for NumPy with its backward."""

    def __init__(self, framework: str, returned: Callable[[Any], Any]) -> None:
        self._sin = SIN[framework]
        self._returned = returned

    def __call__(self, x: Any) -> Any:
        return self._returned(self._sin(x))

    def forward(self, x: Any) -> Any:
        self._x = x
        return self._returned(np.sin(x))

    def backward(self, upstream: Any) -> Any:
        while not isinstance(upstream, np.ndarray | np.generic):
            upstream = upstream.loss if isinstance(upstream, Loss) else upstream[0]
        return upstream * np.cos(self._x)


def checked(framework: str, returned: Callable[[Any], Any]) -> Report:
    layer = Layer(framework, returned)
    called = layer if framework == "numpy" else layer.__call__
    return check(called, INPUTS[framework], dtypes=["float64"], modes=["reverse"])


def generator(y: Any) -> Iterator[Any]:
    yield y


async def coroutine(y: Any) -> Any:
    return y


@pytest.mark.parametrize("framework", sorted(INPUTS))
@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (lambda y: None, "returned None: is a `return` missing?"),
        (lambda y: "abc", "a str"),
        (lambda y: 3, "an int"),
        (lambda y: y > 0, "dtype bool"),
        (lambda y: (), "a tuple with nothing in it"),
        (lambda y: {"a": None, "b": [y > 0]}, "a dict with no floating"),
        (lambda y: Layer, "the class Layer"),
        (lambda y: y[:0], "shape (0,)"),
        (generator, "a generator"),
        (coroutine, "a coroutine"),
    ],
)
def test_a_layer_without_a_floating_array_is_an_error(
    framework: str, returned: Callable[[Any], Any], words: str
) -> None:
    report = checked(framework, returned)
    assert not report.passed
    assert {finding.code for finding in report.findings} == {"GC109"}
    assert words in report.findings[0].message


@pytest.mark.parametrize(
    ("framework", "returned"),
    [
        ("torch", lambda y: y.detach().numpy()),
        ("torch", lambda y: y.sum().item()),
        ("torch", lambda y: [y.tolist()[0], np.float64(1.0)]),
        ("tensorflow", lambda y: y.numpy()),
        ("jax", lambda y: float(y.sum())),
    ],
)
def test_what_left_the_framework_is_cut_from_the_graph(
    framework: str, returned: Callable[[Any], Any]
) -> None:
    (finding,) = checked(framework, returned).findings
    assert finding.code == "GC109"
    assert "cut from the graph" in finding.message


@pytest.mark.parametrize("framework", sorted(INPUTS))
def test_whole_numbers_and_booleans_beside_a_floating_array_are_no_fault(framework: str) -> None:
    assert checked(framework, lambda y: (y, y > 0, 3, None)).passed


@pytest.mark.parametrize("framework", sorted(INPUTS))
def test_an_output_may_be_a_dataclass(framework: str) -> None:
    assert checked(framework, Loss).passed


def itself(y: Any) -> list[Any]:
    made = [y]
    made.append(made)
    return made


@pytest.mark.parametrize("framework", ["torch", "tensorflow", "jax"])
def test_an_output_may_contain_itself(framework: str) -> None:
    assert checked(framework, itself).passed


@jax.tree_util.register_pytree_node_class
class Tree:
    """A container that JAX knows, and Python does not."""

    def __init__(self, part: Any) -> None:
        self.part = part

    def tree_flatten(self) -> tuple[tuple[Any], None]:
        return (self.part,), None

    @classmethod
    def tree_unflatten(cls, _: None, parts: tuple[Any]) -> Tree:
        return cls(*parts)


def test_containers_of_the_framework_are_opened() -> None:
    assert checked("jax", Tree).passed
    assert checked("torch", lambda y: torch.diag(y).to_sparse()).passed
    nested = checked("torch", lambda y: torch.nested.as_nested_tensor([y, y[:1].exp()]))
    assert nested.passed
    assert checked("tensorflow", lambda y: tf.sparse.from_dense(tf.linalg.diag(y))).passed
    assert checked("tensorflow", lambda y: tf.RaggedTensor.from_row_lengths(y, [1, 1])).passed


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (lambda y: (y, y.detach().numpy()), "`y[1]`: a numpy.ndarray is cut from the graph"),
        (lambda y: {"a": y, "b": [y.sum().item()]}, "`y['b'][0]`: a float is cut from the graph"),
        (lambda y: (y, 3.0, 4.0, 5.0, 6.0), "`y[1]`, `y[2]`, `y[3]`, ...: a float is cut"),
        (lambda y: (y, "name", 3, y > 0, y.shape, np.arange(3)), None),
    ],
)
def test_numbers_beside_outputs_are_said_to_have_no_derivatives(
    returned: Any, words: str | None
) -> None:
    report = checked("torch", returned)
    assert report.passed
    notes = [note for note in report.results[0].notes if "cut from" in note]
    assert [words in note for note in notes] == ([] if words is None else [True])


def test_whole_numbers_alone_leave_nothing_to_differentiate() -> None:
    report = check(lambda i: torch.ones(3)[i], torch.tensor([1, 2]), dtypes=["float64"])
    (note,) = report.results[0].notes
    assert "there is nothing to differentiate" in note
    assert not report.findings


def test_inputs_without_entries_leave_no_number_to_compare() -> None:
    report = check(torch.sin, torch.zeros(0, 3), dtypes=["float64"], modes=["reverse"])
    (note,) = report.results[0].notes
    assert report.passed
    assert "no number to compare" in note
    scale = torch.nn.Linear(3, 2)
    assert check(scale, torch.zeros(0, 3), dtypes=["float32"], modes=["reverse"]).passed


def test_a_sparse_output_has_a_gradient_where_it_stores_nothing() -> None:
    x = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    for layer in (lambda x: torch.sin(x).to_sparse(), lambda x: torch.sin(x).to_sparse_csr()):
        assert check(layer, x, dtypes=["float64"], modes=["reverse"]).passed


def test_a_meta_tensor_is_no_output() -> None:
    (finding,) = checked("torch", lambda y: y.to("meta")).findings
    assert finding.code == "GC109"


def test_a_layer_that_returns_other_arrays_now_and_then_is_an_error() -> None:
    calls = []

    def returned(y: Any) -> Any:
        calls.append(0)
        return (y, y) if len(calls) % 5 == 4 else y

    report = checked("torch", returned)
    assert not report.passed
    assert "in one call" in report.findings[0].message
    assert "zip()" not in str(report)


def test_the_place_is_where_the_layer_returns() -> None:
    def layer(x: torch.Tensor) -> None:
        torch.sin(x)

    with pytest.raises(GradientError) as error:
        assert_gradients(layer, INPUTS["torch"])
    finding = error.value.report.findings[0]
    assert finding.place is not None
    assert finding.place.text == "def layer(x: torch.Tensor) -> None:"
    assert "GC109" in str(error.value)
