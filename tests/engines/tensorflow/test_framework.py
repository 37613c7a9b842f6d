"""Accumulators of TensorFlow, as forward mode uses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.errors import NodeFault, Unsupported
from gradcheck_cli.engines.tensorflow.framework import TensorFlow


@pytest.fixture
def tf(engine_called: Callable[[str], Engine]) -> Any:
    engine_called("tensorflow")
    import tensorflow

    return tensorflow


@pytest.mark.parametrize("in_a_formula", [False, True])
def test_an_accumulator_that_is_not_traced_inside_another_one(tf: Any, in_a_formula: bool) -> None:
    """TensorFlow raises an IndexError of its own there, in the loss of a classifier."""
    fw = TensorFlow({}, "float32")
    x, one = tf.constant([0.5]), tf.constant([1.0])

    def loss(x: Any) -> Any:
        try:
            return tf.nn.sigmoid_cross_entropy_with_logits(labels=one, logits=x)
        except IndexError as error:
            if in_a_formula:
                raise NodeFault(3) from error
            raise

    faults: list[BaseException] = []

    def nested(x: Any) -> Any:
        kind = NodeFault if in_a_formula else Unsupported
        with fw.tangent([x], [one]), pytest.raises(kind) as caught, fw.tangent([x], [one]):
            loss(x)
        faults.append(caught.value)
        return x

    tf.function(nested, autograph=False)(x)
    (fault,) = faults
    reason = fault.__cause__ if isinstance(fault, NodeFault) else fault
    assert isinstance(reason, Unsupported)
    assert "does not trace an accumulator inside another one" in str(reason)
    with pytest.raises(IndexError), fw.tangent([x], [one]):
        raise IndexError("of the user's code")
