"""Wrong gradients that no function of the user's states: the operation of the framework, the kinks
that cancel, the comparison that holds at one point alone; with their lines."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
import tensorflow as tf
import torch

from gradcheck_cli.checks.examination import examine
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.report import Finding
from tests.checks.making import layer_problem
from tests.conftest import loaded


@torch.library.custom_op("gradcheck_tests::wrong_cube", mutates_args=())
def wrong_cube(x: torch.Tensor) -> torch.Tensor:
    return x**3


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, g: Any) -> Any:
    (x,) = ctx.saved_tensors
    return 2 * g * x**2


_backward.__module__ = "torch.derivatives"  # as a rule of the framework's own
wrong_cube.register_autograd(_backward, setup_context=_setup)


def softplus(x: Any) -> Any:
    """log(1 + exp(x)), which is smooth at 0, of two functions that are not."""
    return torch.relu(x) + torch.log1p(torch.exp(-x.abs()))


def cubed(x: Any) -> Any:
    return torch.sin(x) * wrong_cube(x)


def doubled(x: Any) -> Any:
    """2 x, but for the derivative at 0."""
    return jnp.where(x == 0, x, 2 * x)


def clipped_max(x: Any) -> Any:
    """x, of which entry 1 is at least its own half: the index 7 is clipped to it. The derivative of
    the scatter takes other indices (github.com/jax-ml/jax/issues/40626)."""
    one = jax.lax.ScatterDimensionNumbers((), (0,), (0,))
    return jax.lax.scatter_max(x, jnp.array([[7]]), x[1:] / 2, one, mode="clip")


def _found(engine: str, layer: Any, x: list[float], *modes: Mode) -> Finding:
    problem = layer_problem(layer, {"x": x}, engine=engine, modes=("reverse", *modes))
    answer = examine(loaded(engine), problem)
    (found,) = (one for one in answer.findings if one.severity == "error")
    return found


@pytest.mark.parametrize(
    ("engine", "layer", "x", "kind", "op", "text"),
    [
        ("torch", softplus, [0.0, 1.0], "convention at a kink", "aten.relu", "torch.relu(x)"),
        ("torch", cubed, [0.5, 2.0], "operation's rule", "gradcheck_tests.", "wrong_cube(x)"),
        ("jax", doubled, [0.0, 1.0], "lone branch", "eq", "x == 0"),
    ],
)
def test_the_operation_is_named_with_its_line(
    engine: str, layer: Any, x: list[float], kind: str, op: str, text: str
) -> None:
    found = _found(engine, layer, x)
    assert found.cause is not None
    assert (found.code, found.cause.kind, found.cause.text) == ("GC101", kind, text)
    assert found.cause.op.startswith(op)
    assert found.cause.proven == (kind == "operation's rule")


def test_a_rule_of_the_framework_that_gives_nan_is_named() -> None:
    problem = layer_problem(clipped_max, {"x": [0.5, 1.5]}, engine="jax", modes=("forward",))
    answer = examine(loaded("jax"), problem)
    found, *_ = (one for one in answer.findings if one.severity == "error")
    assert found.code == "GC201"
    assert found.cause is not None
    assert (found.cause.kind, found.cause.op, found.cause.proven) == (
        "operation's rule",
        "scatter-max",
        True,
    )


def test_leaves_with_one_cotangent_both_have_the_operation_as_their_cause() -> None:
    """Autograd hands the gradient of a sum to both terms."""
    problem = layer_problem(lambda a, b: wrong_cube(a + b), {"a": [0.5], "b": [1.5]})
    found = [one for one in examine(loaded("torch"), problem).findings if one.severity == "error"]
    assert {one.input for one in found} == {"a", "b"}
    assert all(one.cause and one.cause.text == "wrong_cube(a + b)" for one in found)


def test_the_operation_with_a_wrong_second_derivative_is_named() -> None:
    """github.com/tensorflow/tensorflow/issues/61117"""
    found = _found("tensorflow", tf.reduce_prod, [0.0, 1.0], "reverse-over-reverse")
    assert (found.code, found.mode) == ("GC106", "reverse-over-reverse")
    assert found.message.endswith("in isolation, `Prod` is wrong, too")
