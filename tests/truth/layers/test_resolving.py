"""Differences of a function that changes from one float to the next say nothing; those of any other
do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from gradcheck_cli.truth.layers.resolving import unresolved
from gradcheck_cli.truth.numerics.differences import Float
from gradcheck_cli.truth.numerics.directions import Values

X = np.array([0.7, 1.3])


def found(function: Callable[[Float], Float], slope: float, x: Float = X) -> list[bool]:
    """Whether the entries of the diagonal are unresolved, when all of them are contradicted."""

    def several(many: Sequence[Values]) -> Float:
        return np.stack([function(at["x"]) for at in many])

    gradient = np.diag(np.full(x.size, slope))
    everywhere = np.ones(gradient.shape, np.bool_)
    mask = unresolved(several, {"x": x}, "x", gradient, function(x), everywhere)
    return [bool(entry) for entry in np.diag(mask)]


@pytest.mark.parametrize(
    ("function", "slope"),
    [
        (lambda x: np.sin(1e17 * x), 5e16),
        (lambda x: np.cos(3e20 * x), 1e20),
        (lambda x: np.remainder(x, 1e-17), 1.0),
        (lambda x: 1e-30 * np.remainder(x, 1e-17), 1e-30),
        (lambda x: np.where(np.sin(1e18 * x) > 0, 1.0, -1.0), 1e18),
    ],
)
def test_a_period_shorter_than_an_ulp(function: Callable[[Float], Float], slope: float) -> None:
    assert found(function, slope) == [True, True]


@pytest.mark.parametrize(
    ("function", "slope"),
    [
        (np.sin, 1.5),  # wrong rules of ordinary functions
        (np.sin, 1e20),
        (np.round, 1.0),  # a step that is flat here
        (lambda x: 0 * x, 1.0),
        (lambda x: np.floor(8 * x), 8.0),
        (lambda x: np.sin(1e8 * x), 2e8),  # fast, and seen by short steps
        (lambda x: np.exp(x) / np.exp(x), 0.5),  # 1 but for its last digit
        (lambda x: (x + 0.1) - x, 0.5),  # rounding of the size of the value
        (lambda x: np.abs(x - 0.7), 3.0),
    ],
)
def test_what_differences_see(function: Callable[[Float], Float], slope: float) -> None:
    assert found(function, slope) == [False, False]
