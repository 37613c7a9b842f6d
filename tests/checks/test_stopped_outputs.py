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

from gradcheck_cli.checks.examination import examine
from gradcheck_cli.domain.layer import LayerAnswer
from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.jax.engine import JaxEngine
from gradcheck_cli.engines.tensorflow.engine import TensorFlowEngine
from gradcheck_cli.engines.torch.engine import TorchEngine
from tests.checks.making import layer_problem


def one_of_two_in_jax(x: Any) -> Any:
    return {"a": jnp.sin(x), "b": jax.lax.stop_gradient(jnp.exp(x))}


def a_part_in_jax(x: Any) -> Any:
    return jnp.sin(x), jnp.exp(x) + jax.lax.stop_gradient(x)


def one_of_two_in_tensorflow(x: Any) -> Any:
    return {"a": tf.sin(x), "b": tf.stop_gradient(tf.exp(x))}


def a_part_in_tensorflow(x: Any) -> Any:
    return tf.sin(x), tf.exp(x) + tf.stop_gradient(x)


def one_of_two_in_torch(x: Any) -> Any:
    return {"a": torch.sin(x), "b": torch.exp(x).detach()}


def a_part_in_torch(x: Any) -> Any:
    return torch.sin(x), torch.exp(x) + x.detach()


def a_mask_in_jax(x: Any) -> Any:
    return jnp.sin(x), jax.lax.stop_gradient(jnp.where(x > 0, 1.0, 0.0))


def a_mask_in_tensorflow(x: Any) -> Any:
    return tf.sin(x), tf.cast(x > 0, x.dtype)


def a_mask_in_torch(x: Any) -> Any:
    return torch.sin(x), (x > 0).to(x.dtype)


def examined(made: Callable[[], Engine], layer: Any) -> LayerAnswer:
    engine = made()
    engine.load()
    problem = layer_problem(layer, {"x": [0.3, 1.2]})
    mine = replace(problem.implementation, engine=engine.capabilities.name)
    return examine(engine, replace(problem, implementation=mine))


@pytest.mark.parametrize(
    ("made", "layer", "code"),
    [
        (JaxEngine, one_of_two_in_jax, "GC102"),
        (JaxEngine, a_part_in_jax, "GC101"),
        (TensorFlowEngine, one_of_two_in_tensorflow, "GC102"),
        (TensorFlowEngine, a_part_in_tensorflow, "GC101"),
        (TorchEngine, one_of_two_in_torch, "GC102"),
        (TorchEngine, a_part_in_torch, "GC101"),
    ],
)
def test_what_is_stopped_whole_is_missing(
    made: Callable[[], Engine], layer: Any, code: str
) -> None:
    answer = examined(made, layer)
    assert {(found.code, found.mode) for found in answer.findings} == {
        (code, "reverse"),
        (code, "forward"),
    }
    for found in answer.findings:
        assert found.cause is not None
        assert found.cause.kind == "detached path"


@pytest.mark.parametrize(
    ("made", "layer"),
    [
        (JaxEngine, a_mask_in_jax),
        (TensorFlowEngine, a_mask_in_tensorflow),
        (TorchEngine, a_mask_in_torch),
    ],
)
def test_an_output_that_never_changes_needs_no_gradient(
    made: Callable[[], Engine], layer: Any
) -> None:
    answer = examined(made, layer)
    assert not answer.findings
    assert {check.status for check in answer.checks} == {"passed"}
