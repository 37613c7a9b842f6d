"""A layer is never called outside of its inputs' domain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
import torch

from gradcheck_cli.checks.examination import examine
from gradcheck_cli.domain.evaluation import FIRST_ORDER, Mode
from gradcheck_cli.domain.layer import Leaf
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.jax.engine import JaxEngine
from gradcheck_cli.engines.numpy.engine import NumpyEngine
from gradcheck_cli.engines.tensorflow.engine import TensorFlowEngine
from gradcheck_cli.engines.torch.engine import TorchEngine
from tests.checks.making import layer_problem

UNIT = (0.0, 1.0)
SECOND: tuple[Mode, ...] = ("reverse-over-reverse", "forward-over-reverse")
EDGES = np.array([0.0, 0.5, 1.0])
LARGE = np.linspace(0.0, 1.0, 1600).reshape(40, 40)


def refused(x: Any) -> None:
    if np.min(x) < 0 or np.max(x) > 1:
        raise ValueError("numbers in [0, 1] expected")


def of_torch(x: Any) -> Any:
    refused(x.detach().numpy())
    return torch.sin(x) * x


def of_jax(x: Any) -> Any:
    jax.debug.callback(refused, x)
    return jnp.sin(x) * x


def of_tensorflow(x: Any) -> Any:
    if tf.executing_eagerly():
        refused(x.numpy())
    return tf.sin(x) * x


class OfNumPy:
    """Right in float64, and off by half its digits where `wrong`: everything is looked at."""

    def __init__(self, wrong: float = 0.0) -> None:
        self.wrong = wrong

    def forward(self, x: Any) -> Any:
        refused(x)
        self.x = x
        return np.sin(x) * x

    def backward(self, up: Any) -> Any:
        x = self.x
        return up * (np.cos(x) * x + np.sin(x)) * x.dtype.type(1 + self.wrong)


LAYERS: dict[str, tuple[Callable[[], Engine], Any]] = {
    "torch": (TorchEngine, of_torch),
    "jax": (JaxEngine, of_jax),
    "tensorflow": (TensorFlowEngine, of_tensorflow),
    "numpy": (NumpyEngine, OfNumPy()),
}


@cache
def loaded(made: Callable[[], Engine]) -> Engine:
    engine = made()
    engine.load()
    return engine


def found(made: Callable[[], Engine], layer: Any, x: Any, **settings: Any) -> set[str]:
    """The codes of the answer."""
    engine = loaded(made)
    problem = layer_problem(layer, {"x": x}, domain=UNIT, **settings)
    mine = replace(problem.implementation, engine=engine.capabilities.name)
    spec = replace(problem.spec, implementations=(mine,))
    answer = examine(engine, replace(problem, spec=spec, implementation=mine))
    assert answer.failure is None
    return {finding.code for finding in answer.findings if finding.severity == "error"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [*LAYERS])
def test_at_both_edges(name: str, dtype: str) -> None:
    made, layer = LAYERS[name]
    modes = FIRST_ORDER if name == "numpy" else (*FIRST_ORDER, *SECOND)
    assert found(made, layer, EDGES, dtype=dtype, modes=modes) == set()
    assert found(made, layer, EDGES, dtype=dtype, behaviour=True) == set()


@pytest.mark.parametrize("name", ["torch", "numpy"])
def test_of_a_large_layer(name: str) -> None:
    assert found(*LAYERS[name], LARGE, dtype="float32") == set()


@pytest.mark.parametrize("x", [EDGES, LARGE], ids=["small", "large"])
@pytest.mark.parametrize(
    ("wrong", "dtype", "code"), [(0.1, "float64", "GC101"), (1e-3, "float32", "GC101")]
)
def test_where_an_error_is_looked_into(wrong: float, dtype: str, code: str, x: Any) -> None:
    assert found(NumpyEngine, OfNumPy(wrong), x, dtype=dtype) == {code}


def test_a_move_that_leaves_the_domain_is_taken_the_other_way() -> None:
    leaf = Leaf("x", "input", EDGES, True, *UNIT)
    moved = leaf.inside(EDGES + np.array([-0.25, 0.25, 0.25]))
    assert moved.tolist() == [0.25, 0.75, 0.75]
    assert not leaf.holds(leaf.inside(EDGES + 3.0))
    assert leaf.holds(np.array([0.5, np.nan, 1.0]))
