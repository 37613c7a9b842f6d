"""The reference engine's forward mode."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradcheck_cli.engines.base import Engine


def test_what_has_no_tangent_does_not_move(engine_called: Callable[[str], Engine]) -> None:
    fw = engine_called("reference").framework("float64")  # type: ignore[attr-defined]
    x, y = np.array([2.0]), np.array([3.0])
    with fw.tangent([x, y], [None, np.array([1.0])]) as (duals, tangent_of):
        assert duals[0] is x
        assert tangent_of(duals[0] * duals[1]).tolist() == [2.0]
        assert tangent_of(duals[0] * duals[0]) is None
