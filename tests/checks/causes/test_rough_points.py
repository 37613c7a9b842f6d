"""A kink or a jump of a layer stands at the branch or the operation that makes it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
import torch

from gradcheck_cli.checks.causes.rough_points import WORDS
from gradcheck_cli.checks.examination import examine
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.jax.engine import JaxEngine
from gradcheck_cli.engines.numpy.engine import NumpyEngine
from gradcheck_cli.engines.tensorflow.engine import TensorFlowEngine
from gradcheck_cli.testing.api import check
from tests.checks.making import examined, layer_problem

X = np.array([0.5, -0.5, 2.0])


def jump(x: Any) -> Any:
    if x[:2].sum() > 0:
        return torch.sin(x)
    return torch.cos(x)


def kink(x: Any) -> Any:
    unrelated = x * 2 if x[2] > 1 else x
    return unrelated * (3 * x[0] - 1 if x[0] > 0.5 else x[0])


def turns(x: Any) -> Any:
    while x.norm() > 1:
        x = x / 2
    return x


def several(x: Any) -> Any:
    return torch.stack([one * 2 for one in x if one > 0.5]).sum()


def within(x: Any) -> Any:
    return jump(x * 1.0)


@pytest.mark.parametrize(
    ("layer", "x", "text"),
    [
        (jump, X, "x[:2].sum() > 0"),
        (kink, X, "x[0] > 0.5"),
        (turns, np.array([0.6, 0.8]), "x.norm() > 1"),
        (several, X, "one > 0.5"),
        (within, X, "x[:2].sum() > 0"),
    ],
)
def test_the_condition_is_where_the_finding_stands(layer: Any, x: Any, text: str) -> None:
    answer = examined(layer, {"x": x}, modes=("reverse",))
    assert answer.findings
    for finding in answer.findings:
        assert finding.code in {"GC401", "GC403"}
        assert finding.message.endswith(WORDS)
        assert finding.place is not None
        assert finding.place.text == text


def relu(x: Any) -> Any:
    if x[0] > 0:  # decided alike on both sides
        x = 2 * x
    return torch.relu(x - 1).sum()


def floor(x: Any) -> Any:
    steps = torch.floor(2 * x)
    return (steps * x).sum() + x.norm()


def squared(x: Any) -> Any:
    smooth = ((x - 0.5).abs() ** 2).sum()
    return smooth + torch.maximum(x[0] * 1.0, -x[1]) * 3


def root(x: Any) -> Any:
    return torch.sqrt(torch.relu(x - 0.5)).sum()


def in_place(x: Any) -> Any:
    y = torch.cos(x - 0.5)  # flat, and smooth
    y[0] = (x[0] - 0.5).abs()
    return y.mul_(2).sum()


def masked(x: Any) -> Any:
    return x[x >= 0.5].sum()


def drawn(x: Any) -> Any:
    noisy = (x - 0.5) * (1 + torch.rand(3))
    return torch.nn.functional.leaky_relu(noisy).sum()


class Cell(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act = torch.nn.ReLU()

    def forward(self, x: Any) -> Any:
        return torch.tanh(self.act(x - 0.5))


@pytest.mark.parametrize(
    ("layer", "code", "text"),
    [
        (relu, "GC401", "torch.relu(x - 1)"),
        (floor, "GC403", "torch.floor(2 * x)"),
        (squared, "GC401", "torch.maximum(x[0] * 1.0, -x[1])"),
        (root, "GC402", "torch.sqrt(torch.relu(x - 0.5))"),
        (in_place, "GC401", "(x[0] - 0.5).abs()"),
        (masked, "GC403", "x[x >= 0.5]"),
        (drawn, "GC401", "torch.nn.functional.leaky_relu(noisy)"),
        (Cell(), "GC401", "self.act(x - 0.5)"),
    ],
    ids=lambda given: getattr(given, "__name__", None),
)
def test_or_the_operation_is(layer: Any, code: str, text: str) -> None:
    findings = examined(layer, {"x": X}, modes=("reverse",)).findings
    rough = [finding for finding in findings if finding.code == code]
    assert rough
    for finding in rough:
        assert finding.place is not None
        assert finding.place.text == text
        assert not finding.message.endswith(WORDS)


def of_jax(x: Any) -> Any:
    def body(largest: Any, one: Any) -> Any:
        largest = jnp.maximum(largest, one)
        return largest, largest**2

    return jax.lax.scan(body, x[0], x)[1].sum()


@tf.function
def of_tensorflow(x: Any) -> Any:
    return tf.reduce_sum(tf.where(x >= 0.5, x * x, x))


class OfNumpy:
    def forward(self, x: Any) -> Any:
        self.y = 2 * x - 1
        return np.maximum(self.y, 0.0)

    def backward(self, upstream: Any) -> Any:
        return 2 * upstream * (self.y > 0)


@pytest.mark.parametrize(
    ("engine", "layer", "text"),
    [
        (JaxEngine(), of_jax, "jnp.maximum(largest, one)"),
        (TensorFlowEngine(), of_tensorflow, "tf.where(x >= 0.5, x * x, x)"),
        (NumpyEngine(), OfNumpy(), "np.maximum(self.y, 0.0)"),
    ],
    ids=lambda given: given.capabilities.name if isinstance(given, Engine) else None,
)
def test_of_every_framework(engine: Engine, layer: Any, text: str) -> None:
    engine.load()
    x = np.array([0.5, 0.5, -2.0])
    problem = layer_problem(layer, {"x": x}, modes=("reverse",), engine=engine.capabilities.name)
    findings = examine(engine, problem).findings
    assert findings
    for finding in findings:
        assert finding.code in {"GC401", "GC403"}
        assert finding.place is not None
        assert finding.place.text == text


def test_the_report_shows_the_line() -> None:
    report = str(check(jump, torch.tensor(X), modes=["reverse"], dtypes=["float64"]))
    assert "test_rough_points.py" in report
    assert "if x[:2].sum() > 0:" in report
