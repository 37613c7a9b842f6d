"""Accumulators of TensorFlow, as forward mode uses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gradcheck_cli.engines.base import Engine
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.tensorflow.framework import TensorFlow


@pytest.fixture
def tf(engine_called: Callable[[str], Engine]) -> Any:
    engine_called("tensorflow")
    import tensorflow

    return tensorflow


def test_an_accumulator_that_is_not_traced_inside_another_one(tf: Any) -> None:
    """TensorFlow raises an IndexError of its own there, in the loss of a classifier."""
    fw = TensorFlow({}, "float32")
    x, one = tf.constant([0.5]), tf.constant([1.0])

    def nested(x: Any) -> Any:
        with fw.tangent([x], [one]) as (_, outer):
            with fw.tangent([x], [one]) as (_, inner):
                y = tf.nn.sigmoid_cross_entropy_with_logits(labels=one, logits=x)
            slope = inner(y)
        return outer(slope)

    with pytest.raises(Unsupported, match="does not trace an accumulator inside another"):
        tf.function(nested, autograph=False)(x)
    with pytest.raises(IndexError), fw.tangent([x], [one]):
        raise IndexError("of the user's code")
