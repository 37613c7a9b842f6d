"""What differences leave unsaid is said: a derivative that is invisible beside its value, and one
that holds next to the point alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import tensorflow as tf
import torch

from gradcheck_cli.checks import examination
from gradcheck_cli.checks.examination import examine
from gradcheck_cli.domain.layer import LayerAnswer
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.jax.engine import JaxEngine
from gradcheck_cli.engines.tensorflow.engine import TensorFlowEngine
from gradcheck_cli.engines.torch.engine import TorchEngine
from gradcheck_cli.truth.layers.visibility import unseen_rows
from tests.checks.making import layer_problem

UNSEEN, BUBBLE = "would not have been found", "of the point"


class Beside(torch.autograd.Function):
    """x -> x + large with the derivative 7."""

    @staticmethod
    def forward(ctx: Any, x: Any, large: float) -> Any:
        return x + large

    @staticmethod
    def backward(ctx: Any, y_bar: Any) -> Any:
        return 7 * y_bar, None


def beside_in_tensorflow(x: Any, large: float) -> Any:
    @tf.custom_gradient
    def beside(x: Any) -> Any:
        return x + large, lambda y_bar: 7 * y_bar

    return beside(x)


def beside_in_jax(x: Any, large: float) -> Any:
    beside = jax.custom_vjp(lambda x: x + large)
    beside.defvjp(lambda x: (x + large, None), lambda _, y_bar: (7 * y_bar,))
    return beside(x)


def answer_of(made: Callable[[], Engine], layer: Any, x: list[float]) -> LayerAnswer:
    engine = made()
    engine.load()
    problem = layer_problem(layer, {"x": x})
    mine = replace(problem.implementation, engine=engine.capabilities.name)
    return examine(engine, replace(problem, implementation=mine))


@pytest.mark.parametrize("large", [1e17, -1e20])
@pytest.mark.parametrize(
    ("made", "beside"),
    [
        (TorchEngine, Beside.apply),
        (TensorFlowEngine, beside_in_tensorflow),
        (JaxEngine, beside_in_jax),
    ],
)
def test_a_derivative_that_is_invisible_beside_the_value_is_certified(
    made: Callable[[], Engine], beside: Any, large: float
) -> None:
    answer = answer_of(made, lambda x: beside(x, large), [0.5, 1.5])
    assert {finding.code for finding in answer.findings} == {"GC101"}
    assert {check.truth for check in answer.checks} == {"certified, from the trace"}


def test_without_a_lift_a_derivative_that_is_invisible_is_not_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(examination, "lifted_truth", lambda *_: None)
    answer = answer_of(TorchEngine, lambda x: Beside.apply(x, 1e17), [0.5, 1.5])
    assert any(UNSEEN in note for note in answer.notes)
    assert all(check.truth != "confirmed" for check in answer.checks)


@pytest.mark.parametrize(
    "layer",
    [
        torch.sin,
        lambda x: x**3,
        torch.relu,
        lambda x: torch.relu(x.abs() - 1e-9),
        lambda x: torch.sin(1e5 * x),
        lambda x: 0 * x,
        lambda x: (x * x).sum() + 1e6,
        lambda x: x / (x.norm() + 1e-3),
    ],
)
@pytest.mark.parametrize("x", [[0.0, 0.3], [-0.7, 1.2]])
def test_what_is_seen_has_no_note(layer: Any, x: list[float]) -> None:
    assert not [n for n in answer_of(TorchEngine, layer, x).notes if UNSEEN in n or BUBBLE in n]


@pytest.mark.parametrize(
    ("made", "layer"),
    [
        (TorchEngine, lambda x: torch.nn.functional.normalize(x, dim=0)),
        (TorchEngine, lambda x: torch.tanh(1e10 * x)),
        (TensorFlowEngine, lambda x: x / tf.maximum(tf.reduce_sum(tf.abs(x)), 1e-11)),
        (JaxEngine, lambda x: x / jnp.maximum(jnp.sum(jnp.abs(x)), 1e-11)),
    ],
)
def test_a_derivative_that_holds_on_a_tiny_stretch_alone_has_a_note(
    made: Callable[[], Engine], layer: Any
) -> None:
    answer = answer_of(made, layer, [0.0, 0.0])
    assert not answer.findings
    assert any(BUBBLE in note for note in answer.notes)


def test_a_layer_without_a_leaf_that_moves_has_no_note() -> None:
    assert not unseen_rows({}, {}).size


def test_what_is_too_small_to_show_is_not_said_to_be_zero() -> None:
    class Still(torch.autograd.Function):
        """1.5 + 1e-30 x, which is 1.5 in every precision."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return torch.from_numpy(1.5 + 1e-30 * x.detach().numpy())

        @staticmethod
        def backward(ctx: Any, y_bar: Any) -> Any:
            return 3e-30 * y_bar

    answer = answer_of(TorchEngine, Still, [0.3, 0.8])
    assert any(UNSEEN in note for note in answer.notes)
    assert not any("does not depend on" in note for note in answer.notes)
    assert all(check.truth != "confirmed" for check in answer.checks)
