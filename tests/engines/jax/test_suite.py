"""The table of operations names functions that are there, with samples that they take."""

from __future__ import annotations

import jax.numpy as jnp
import pytest

from gradcheck_cli.engines.jax import suite


def test_there_are_many() -> None:
    assert len(suite.names()) > 200


@pytest.mark.exhaustive
def test_calls_run() -> None:
    for op in suite.names()[::20]:
        for sample in suite.samples(op, 1, False):
            given = (jnp.float32(value) for value in sample.inputs.values())
            assert suite.Operation(op, sample.number, False)(*given) is not None
