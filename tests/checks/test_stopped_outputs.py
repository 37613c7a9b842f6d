"""Of an output through which the graph is cut nothing arrives, which is another mistake than a
gradient that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import tensorflow as tf
import torch
from torch.autograd import forward_ad

from gradcheck_cli import check
from gradcheck_cli.checks.examination import examine
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.jax.engine import JaxEngine
from gradcheck_cli.engines.tensorflow.engine import TensorFlowEngine
from tests.checks.making import layer_problem


def one_of_two_in_jax(x: Any) -> Any:
    return {"a": jnp.sin(x), "b": jax.lax.stop_gradient(jnp.exp(x))}


def a_part_in_jax(x: Any) -> Any:
    return jnp.sin(x), jnp.exp(x) + jax.lax.stop_gradient(x)


def one_of_two_in_tensorflow(x: Any) -> Any:
    return {"a": tf.sin(x), "b": tf.stop_gradient(tf.exp(x))}


def a_part_in_tensorflow(x: Any) -> Any:
    return tf.sin(x), tf.exp(x) + tf.stop_gradient(x)


@pytest.mark.parametrize(
    ("made", "layer", "code"),
    [
        (JaxEngine, one_of_two_in_jax, "GC102"),
        (JaxEngine, a_part_in_jax, "GC101"),
        (TensorFlowEngine, one_of_two_in_tensorflow, "GC102"),
        (TensorFlowEngine, a_part_in_tensorflow, "GC101"),
    ],
)
def test_what_is_stopped_whole_is_missing(
    made: Callable[[], Engine], layer: Any, code: str
) -> None:
    engine = made()
    engine.load()
    problem = layer_problem(layer, {"x": [0.3, 1.2]})
    mine = replace(problem.implementation, engine=engine.capabilities.name)
    answer = examine(engine, replace(problem, implementation=mine))
    assert {(found.code, found.mode) for found in answer.findings} == {
        (code, "reverse"),
        (code, "forward"),
    }
    for found in answer.findings:
        assert found.cause is not None
        assert found.cause.kind == "detached path"


def without_a_tangent(of: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A layer whose second output has no tangent in forward mode, and its gradient in reverse."""

    def layer(x: Any) -> Any:
        return torch.sin(x), of(forward_ad.unpack_dual(x).primal if in_forward_mode() else x)

    return layer


def in_forward_mode() -> bool:
    return forward_ad._current_level >= 0


@pytest.mark.parametrize("of", [torch.cos, lambda x: x.prod(), lambda x: 2 * x])
def test_a_tangent_that_one_of_two_outputs_lacks_is_missing(of: Callable[[Any], Any]) -> None:
    report = check(without_a_tangent(of), torch.tensor([0.3, -0.5]))
    assert {(f.code, f.mode) for f in report.findings} == {("GC102", "forward")}
    assert "forward mode gives no tangent" in report.findings[0].message


def test_zeros_that_a_rule_returns_are_wrong() -> None:
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return torch.sin(x), torch.cos(x)

        @staticmethod
        def backward(ctx: Any, up: Any, other: Any) -> Any:
            (x,) = ctx.saved_tensors
            return up * torch.cos(x) - other * torch.sin(x)

        @staticmethod
        def jvp(ctx: Any, x_dot: Any) -> Any:
            (x,) = ctx.saved_tensors
            return x_dot * torch.cos(x), torch.zeros_like(x)

    report = check(lambda x: Both.apply(x), torch.tensor([0.3, -0.5]))
    assert {(f.code, f.mode) for f in report.findings} == {("GC101", "forward")}
