"""Samples of ops/decompositions.py."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import Array, Sample
from tests.reference_engine.samples.factorisations import any_rectangle, each, rectangles
from tests.reference_engine.samples.matrices import REGULAR, SYMMETRIC, any_square, squares

ROWS: dict[str, list[Sample]] = {
    "eigvalsh": squares(SYMMETRIC),
    "eigh_vectors": squares(SYMMETRIC),
    "svdvals": rectangles(REGULAR),
    "svd_u": rectangles(REGULAR),
    "svd_vh": rectangles(REGULAR),
}

RANDOM: dict[str, SearchStrategy[Sample]] = {
    "eigvalsh": any_square(SYMMETRIC),
    "eigh_vectors": any_square(SYMMETRIC),
    "svdvals": any_rectangle(REGULAR),
    "svd_u": any_rectangle(REGULAR),
    "svd_vh": any_rectangle(REGULAR),
}


def _eigh(x: Array) -> tuple[Array, Array]:
    """By mpmath, the first large entry of every vector positive."""
    half = (x + x.T) / 2
    w, v = mpmath.eigsy(mpmath.matrix(half.tolist()))
    return np.array(w.tolist(), float)[:, 0], _signed(np.array(v.tolist(), float))


def _signs(v: Array) -> Array:
    """Of the first entry with 0.9 of the largest magnitude, column by column."""
    firsts = [next(e for e in column if abs(e) >= 0.9 * max(abs(column))) for column in v.T]
    return np.sign(firsts)


def _signed(v: Array) -> Array:
    return v * _signs(v)


def _svd(x: Array) -> tuple[Array, Array, Array]:
    u, s, vh = mpmath.svd_r(mpmath.matrix(x.tolist()))
    left, right = np.array(u.tolist(), float), np.array(vh.tolist(), float)
    signs = _signs(left)
    return left * signs, np.array(s.tolist(), float)[:, 0], right * signs[:, None]


VALUES: dict[str, Callable[..., Any]] = {
    "eigvalsh": each(lambda x: _eigh(x)[0], lambda m, n: (n,)),
    "eigh_vectors": each(lambda x: _eigh(x)[1], lambda m, n: (m, n)),
    "svdvals": each(lambda x: _svd(x)[1], lambda m, n: (min(m, n),)),
    "svd_u": each(lambda x: _svd(x)[0], lambda m, n: (m, min(m, n))),
    "svd_vh": each(lambda x: _svd(x)[2], lambda m, n: (min(m, n), n)),
}
