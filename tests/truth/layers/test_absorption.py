"""Differences of values that a number on the way has absorbed accuse nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
import torch

from gradcheck_cli.checks.examination import examine
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.jax.engine import JaxEngine
from gradcheck_cli.engines.numpy.engine import NumpyEngine
from gradcheck_cli.engines.tensorflow.engine import TensorFlowEngine
from gradcheck_cli.engines.torch.engine import TorchEngine
from gradcheck_cli.truth.layers.absorption import rounding_on_the_way
from tests.checks.making import layer_problem, subject_of
from tests.every import first

ENGINES = [TorchEngine, TensorFlowEngine, JaxEngine]


class Tripled(torch.autograd.Function):
    """x -> 2 x with the derivative 3."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, y_bar: Any) -> Any:
        return 3 * y_bar


@tf.custom_gradient
def tripled_in_tensorflow(x: Any) -> Any:
    return 2 * x, lambda y_bar: 3 * y_bar


@jax.custom_vjp
def tripled_in_jax(x: Any) -> Any:
    return 2 * x


tripled_in_jax.defvjp(lambda x: (2 * x, None), lambda _, y_bar: (3 * y_bar,))
WRONG = {
    TorchEngine: Tripled.apply,
    TensorFlowEngine: tripled_in_tensorflow,
    JaxEngine: tripled_in_jax,
}


NOT_WRONG = {"GC301", "GC303", "GC501", "GC502"}
"""Digits of a gradient or of a value are lost, or the constants are not known well enough."""


def codes(made: Callable[[], Engine], layer: Any, x: list[float]) -> set[str]:
    engine = made()
    engine.load()
    problem = layer_problem(layer, {"x": x}, engine=engine.capabilities.name)
    return {found.code for found in examine(engine, problem, blaming=False).findings}


@pytest.mark.parametrize("made", ENGINES)
@pytest.mark.parametrize("large", first(1, [1e16, -3e15, 2.0**55]))
def test_a_lost_term_costs_digits_and_is_not_wrong(
    made: Callable[[], Engine], large: float
) -> None:
    def layer(x: Any) -> Any:
        return (x + large) - large + x

    assert codes(made, layer, [0.5, 1.3]) <= NOT_WRONG


class LostTerm:
    """x -> (x + large) - large + x in NumPy, with the right backward."""

    def __init__(self, large: float) -> None:
        self.large = large

    def forward(self, x: Any) -> Any:
        y = x + self.large
        y -= self.large
        y += x
        return y

    def backward(self, y_bar: Any) -> Any:
        return 2 * y_bar


class LostInMean(LostTerm):
    """x -> mean(x + large) - large + sum(x)."""

    def forward(self, x: Any) -> Any:
        self.size = x.size
        return (x + self.large).mean() - self.large + x.sum()

    def backward(self, y_bar: Any) -> Any:
        return np.full(self.size, y_bar * (1 + 1 / self.size))


class WrongPair(LostTerm):
    """x -> 2 x + large, whose backward has the factor 3."""

    def forward(self, x: Any) -> Any:
        return 2 * x + self.large

    def backward(self, y_bar: Any) -> Any:
        return 3 * y_bar


@pytest.mark.parametrize("layer", [LostTerm, LostInMean])
@pytest.mark.parametrize("large", first(1, [1e16, -3e15, 2.0**55]))
def test_so_it_is_where_the_whole_backward_is_written_by_hand(layer: Any, large: float) -> None:
    assert codes(NumpyEngine, layer(large), [0.5, 1.3]) <= NOT_WRONG


@pytest.mark.parametrize("large", [0.0, 1e9])
def test_a_wrong_backward_by_hand_is_found_beside_a_large_number(large: float) -> None:
    assert "GC101" in codes(NumpyEngine, WrongPair(large), [0.5, 1.3])


class LostInside(torch.autograd.Function):
    """The lost term within a custom gradient, which shows no cotangents of it."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return (x + 1e16) - 1e16 + x

    @staticmethod
    def backward(ctx: Any, y_bar: Any) -> Any:
        return 2 * y_bar


def test_a_custom_gradient_may_hide_where_a_term_is_lost() -> None:
    assert codes(TorchEngine, lambda x: torch.sin(LostInside.apply(x)), [0.5, 1.3]) <= NOT_WRONG


def test_so_it_is_where_the_jacobian_is_too_large_to_be_taken_whole() -> None:
    x = np.random.default_rng(0).uniform(-2, 2, 60)
    assert codes(TorchEngine, lambda x: (x + 1e16) - 1e16 + x, x.tolist()) <= {"GC501"}


@pytest.mark.parametrize("made", ENGINES)
@pytest.mark.parametrize("large", first(1, [0.0, 1e9]))
def test_what_is_wrong_beside_a_large_number_is_found(
    made: Callable[[], Engine], large: float
) -> None:
    wrong = WRONG[made]
    assert "GC101" in codes(made, lambda x: wrong(x) + large, [0.5, 1.3])


def test_what_is_wrong_beside_a_mask_is_found() -> None:
    def masked(x: Any) -> Any:
        logits = jnp.concatenate([tripled_in_jax(x), jnp.full(1, -1e30, x.dtype)])
        return jax.nn.softmax(logits)

    assert "GC101" in codes(JaxEngine, masked, [0.5, 1.3])


TABLE = np.array([3.0, -5e3, 7e6, 1.0, -2e5])


@pytest.mark.parametrize(
    ("engine", "layer", "absorbs"),
    [
        (TorchEngine, lambda x: torch.from_numpy(TABLE)[x.floor().long()] + x, False),
        (TorchEngine, lambda x: torch.from_numpy(TABLE)[(2 * x.round() / 2).long()] * x, False),
        (TorchEngine, lambda x: (x + 1e16) - 1e16, True),
        (TorchEngine, lambda x: (x + 2.0**53) - 2.0**53 + x.floor(), True),
        (TensorFlowEngine, lambda x: tf.gather(TABLE, tf.cast(tf.floor(x), tf.int64)) + x, False),
        (JaxEngine, lambda x: jnp.asarray(TABLE)[jnp.floor(x).astype(int)] + x, False),
        (JaxEngine, lambda x: (x + 1e16) - 1e16, True),
    ],
)
def test_whole_numbers_are_no_rounded_ones(
    engine: Callable[[], Engine], layer: Any, absorbs: bool
) -> None:
    """An index that rounding moved would be another one."""
    subject = subject_of(engine(), layer, x=[2.0, 1.25, 4.0])
    noise = rounding_on_the_way(subject, np.ones(3))
    assert noise is not None
    assert (noise > 0.1) == absorbs
