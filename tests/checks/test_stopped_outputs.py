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
