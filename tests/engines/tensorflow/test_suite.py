"""The table of operations names functions that are there, with samples that they take."""

from __future__ import annotations

import pytest
import tensorflow as tf

from gradcheck_cli.engines.tensorflow import suite


def test_there_are_many() -> None:
    assert len(suite.names()) > 200


@pytest.mark.exhaustive
def test_the_calls_run() -> None:
    for op in suite.names():
        for sample in suite.samples(op, 1, False):
            given = (tf.constant(value, tf.float32) for value in sample.inputs.values())
            assert suite.Operation(op, sample.number, False)(*given) is not None
