"""Layers that draw random numbers by a seed of their own: no state of a framework tells of it, and
each dtype gets other numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from numpy.random import default_rng

from gradcheck_cli.checks.examination import examine
from gradcheck_cli.domain.layer import LayerAnswer
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.jax.engine import JaxEngine
from gradcheck_cli.engines.layer.subject import SubjectRequest
from gradcheck_cli.engines.numpy.engine import NumpyEngine
from gradcheck_cli.engines.tensorflow.engine import TensorFlowEngine
from gradcheck_cli.engines.torch.engine import TorchEngine
from tests.checks.making import layer_problem
from tests.every import first

X = {"x": np.linspace(-2.0, 2.0, 20)}  # as many as PyTorch draws at once


@cache
def loaded(made: Callable[[], Engine]) -> Engine:
    engine = made()
    engine.load()
    return engine


def examined(made: Callable[[], Engine], layer: Any, dtype: str) -> LayerAnswer:
    engine = loaded(made)
    problem = layer_problem(layer, X, dtype=dtype)
    mine = replace(problem.implementation, engine=engine.capabilities.name)
    spec = replace(problem.spec, implementations=(mine,))
    return examine(engine, replace(problem, spec=spec, implementation=mine))


def of_torch(x: Any) -> Any:
    own = torch.Generator().manual_seed(3)
    return x * torch.randn(x.shape, generator=own, dtype=x.dtype)


def forked_in_torch(x: Any) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return x * torch.randn(x.shape, dtype=x.dtype)


def of_jax(x: Any) -> Any:
    import jax

    return x * jax.random.normal(jax.random.key(0), x.shape, x.dtype)


def of_tensorflow(x: Any) -> Any:
    import tensorflow as tf

    return x * tf.random.stateless_normal(x.shape, [1, 2], dtype=x.dtype)


def traced_in_tensorflow(x: Any) -> Any:
    import tensorflow as tf

    return tf.function(of_tensorflow)(x)


def generator_of_tensorflow(x: Any) -> Any:
    import tensorflow as tf

    return x * tf.random.Generator.from_seed(7).normal(x.shape, dtype=x.dtype)


def of_keras(x: Any) -> Any:
    import keras

    return x * keras.random.normal(x.shape, dtype=x.dtype, seed=3)


class OfNumPy:
    """Its backward is right where the factor is 1."""

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def forward(self, x: Any) -> Any:
        self.z = default_rng(0).standard_normal(x.shape, dtype=x.dtype)
        return x * self.z

    def backward(self, up: Any) -> Any:
        return up * self.z * self.factor


class HeldOfNumPy(OfNumPy):
    def __init__(self) -> None:
        super().__init__()
        self.own = default_rng(0)

    def forward(self, x: Any) -> Any:
        self.z = self.own.standard_normal(x.shape, dtype=x.dtype)
        return x * self.z


class WrongInTorch(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.z = of_torch(torch.ones_like(x))
        return x * ctx.z

    @staticmethod
    def backward(ctx: Any, up: Any) -> Any:
        return up * ctx.z * 1.1


@pytest.mark.parametrize(
    ("engine", "layer"),
    [
        (TorchEngine, of_torch),
        (TorchEngine, forked_in_torch),
        (JaxEngine, of_jax),
        (TensorFlowEngine, of_tensorflow),
        (TensorFlowEngine, traced_in_tensorflow),
        (TensorFlowEngine, generator_of_tensorflow),
        (TensorFlowEngine, of_keras),
        (NumpyEngine, OfNumPy()),
        (NumpyEngine, HeldOfNumPy()),
    ],
)
def test_seeds_of_the_layers_own_give_each_dtype_its_own_numbers(
    engine: Callable[[], Engine], layer: Any
) -> None:
    narrow = examined(engine, layer, "float32")
    assert "it draws different random numbers in float64: checked in float32" in narrow.notes
    assert narrow.failure is None
    assert narrow.findings == ()
    assert examined(engine, layer, "float64").findings == ()


@pytest.mark.parametrize(
    ("engine", "layer"), [(TorchEngine, WrongInTorch), (NumpyEngine, OfNumPy(factor=1.1))]
)
@pytest.mark.parametrize("dtype", first(1, ["float32", "float64"]))
def test_a_wrong_gradient_is_no_rounding_where_another_dtype_draws_others(
    engine: Callable[[], Engine], layer: Any, dtype: str
) -> None:
    (finding,) = examined(engine, layer, dtype).findings
    assert finding.code == "GC101"


def test_attention_without_dropout_draws_nothing() -> None:
    def attention(x: Any) -> Any:
        q = x.reshape(1, 1, 4, 5)
        return torch.nn.functional.scaled_dot_product_attention(q, q, q)

    engine = loaded(TorchEngine)
    problem = layer_problem(attention, X)
    implementation, values = problem.implementation, X
    subject = engine.subject(SubjectRequest(implementation, values, "float64", "float64"))
    assert subject.lines(np.ones(20)).draws is None
