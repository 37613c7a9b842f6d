"""Samples of ops/determinants.py."""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import REAL, Array, Sample, one
from tests.reference_engine.samples.matrices import (
    POSITIVE_DETERMINANT,
    REGULAR,
    any_square,
    squares,
)

ROWS: dict[str, list[Sample]] = {
    "det": [*squares(REAL), one(REGULAR, 4, 4)],
    "cofactors": [*squares(REGULAR), one(REGULAR, 2, 4, 4)],
    "slogdet_sign": squares(REGULAR),
    "slogdet_logabs": squares(REGULAR),
    "logdet": squares(POSITIVE_DETERMINANT),
}

RANDOM: dict[str, SearchStrategy[Sample]] = {
    "det": any_square(REAL),
    "cofactors": any_square(REGULAR),
    "slogdet_sign": any_square(REGULAR),
    "slogdet_logabs": any_square(REGULAR),
    "logdet": any_square(POSITIVE_DETERMINANT),
}


def _det(x: Array) -> Array:
    """The sum over all permutations (Leibniz)."""
    n = x.shape[-1]
    total = np.zeros(x.shape[:-2])
    for order in permutations(range(n)):
        sign = np.linalg.det(np.eye(n)[list(order)]) if n else 1.0
        total += np.round(sign) * np.prod(x[..., range(n), order], axis=-1)
    return total


def _cofactors(x: Array) -> Array:
    n = x.shape[-1]
    result = np.zeros(x.shape)
    for i, j in np.ndindex(n, n):
        minor = np.delete(np.delete(x, i, -2), j, -1)
        result[..., i, j] = (-1) ** (i + j) * _det(minor)
    return result


VALUES: dict[str, Callable[..., Any]] = {
    "det": _det,
    "cofactors": _cofactors,
    "slogdet_sign": lambda x: np.sign(_det(x)),
    "slogdet_logabs": lambda x: np.log(np.abs(_det(x))),
    "logdet": lambda x: np.log(_det(x)),
}
