"""Factors of matrices."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.engines.trace.exact_kernels import eliminated, exchanged, towards

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2), (1, 3), (3, 1), (2, 3, 3)])
def test_both_factors_in_one_matrix(shape: tuple[int, ...]) -> None:
    x = RNG.standard_normal(shape) + 3 * np.eye(*shape[-2:])
    k = min(shape[-2:])
    packed = eliminated(x)
    lower = np.tril(packed[..., :, :k], -1) + np.eye(shape[-2], k)
    np.testing.assert_allclose(lower @ np.triu(packed[..., :k, :]), x, atol=1e-13)


def test_rows_in_another_order() -> None:
    x = RNG.standard_normal((2, 3, 2))
    order = np.array([[2, 0, 1], [0, 2, 1]])
    np.testing.assert_array_equal(exchanged(x, order), [x[0][order[0]], x[1][order[1]]])


def test_vectors_with_the_signs_of_the_run() -> None:
    x = RNG.standard_normal((3, 3))
    np.testing.assert_array_equal(towards(x, x * [1, -1, -1], -2), x * [1, -1, -1])
