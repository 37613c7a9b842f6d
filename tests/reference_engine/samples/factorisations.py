"""Samples of ops/factorisations.py."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import Array, Draw, Sample, one
from tests.reference_engine.samples.matrices import POSITIVE_DEFINITE, REGULAR, any_square, squares

Shape = tuple[int, ...]
RECTANGLES: tuple[Shape, ...] = (
    (3, 2),
    (2, 3),
    (2, 2),
    (1, 1),
    (1, 3),
    (3, 1),
    (2, 3, 2),
    (2, 2, 3),
    (0, 2),
    (2, 0),
    (0, 2, 2),
)


def LEADING(rng: np.random.Generator, shape: Shape) -> Array:
    """Of full rank, and so are the first columns alone, as many as there are rows."""
    m, n = shape[-2:]
    if n <= m:
        return REGULAR(rng, shape)
    rest = rng.uniform(-2, 2, (*shape[:-1], n - m))
    return np.concatenate([REGULAR(rng, (*shape[:-1], m)), rest], -1)


def rectangles(draw: Draw) -> list[Sample]:
    return [one(draw, *shape) for shape in RECTANGLES]


def any_rectangle(draw: Draw) -> SearchStrategy[Sample]:
    """Stacks of matrices, of at most 18 elements."""
    side = st.integers(0, 3)
    shapes = st.tuples(st.lists(st.integers(0, 2), max_size=1), side, side)
    return shapes.map(lambda shape: one(draw, *shape[0], *shape[1:]))


ROWS: dict[str, list[Sample]] = {
    "cholesky": squares(POSITIVE_DEFINITE),
    "qr_q": rectangles(LEADING),
    "qr_r": rectangles(LEADING),
    "pinv": [*rectangles(REGULAR), one(REGULAR, 3, 2, rtol=1e-6)],
}

RANDOM: dict[str, SearchStrategy[Sample]] = {
    "cholesky": any_square(POSITIVE_DEFINITE),
    "qr_q": any_rectangle(LEADING),
    "qr_r": any_rectangle(LEADING),
    "pinv": any_rectangle(REGULAR),
}


def each(function: Callable[[Array], Array], result: Callable[[int, int], Shape]) -> Any:
    """A function of one matrix on every matrix of a stack; the shape of its result by (m, n)."""

    def value(x: Array, **keywords: Any) -> Array:
        y = np.zeros((*x.shape[:-2], *result(*x.shape[-2:])))
        for i in np.ndindex(x.shape[:-2] if y.size else (0,)):
            y[i] = function(x[i], **keywords)
        return y

    return value


def _orthonormal(x: Array) -> Array:
    """By Gram and Schmidt, every column twice."""
    columns: list[Array] = []
    for column in x.T[: min(x.shape)]:
        for _ in range(2):
            for other in columns:
                column = column - other * (other @ column)
        columns.append(column / np.linalg.norm(column))
    return np.array(columns).T


def _normal_equations(x: Array, rtol: float | None = None) -> Array:
    """Right for full rank, as the samples have it."""
    m, n = x.shape
    if m >= n:
        return np.asarray(np.linalg.solve(x.T @ x, x.T))
    return np.asarray(x.T @ np.linalg.inv(x @ x.T))


VALUES: dict[str, Callable[..., Any]] = {
    "cholesky": each(lambda x: scipy.linalg.cholesky(x, lower=True), lambda m, n: (m, n)),
    "qr_q": each(_orthonormal, lambda m, n: (m, min(m, n))),
    "qr_r": each(lambda x: np.triu(_orthonormal(x).T @ x), lambda m, n: (min(m, n), n)),
    "pinv": each(_normal_equations, lambda m, n: (n, m)),
}
