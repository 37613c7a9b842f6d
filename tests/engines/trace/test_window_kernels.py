"""Windows over an array: what they take, and what is made of it."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.engines.trace.window_kernels import (
    convolution,
    joined,
    of_groups,
    padded,
    pooled,
    starting,
)

X = np.random.default_rng(0).standard_normal((2, 2, 3, 4, 3))
W = np.random.default_rng(1).standard_normal((4, 1, 2, 2, 2))


def correlated(x: np.ndarray, w: np.ndarray, stride: int) -> np.ndarray:
    """Two groups of one channel each, place by place."""
    places = [(n - k) // stride + 1 for n, k in zip(x.shape[2:], w.shape[2:], strict=True)]
    y = np.zeros((x.shape[0], w.shape[0], *places))
    for place in np.ndindex(*places):
        at = tuple(
            slice(i * stride, i * stride + k) for i, k in zip(place, w.shape[2:], strict=True)
        )
        for out in range(len(w)):
            patch = x[(slice(None), out // 2, *at)]
            y[(slice(None), out, *place)] = (patch * w[out, 0]).reshape(len(x), -1).sum(1)
    return y


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("padding", [(0, 0), (1, 1), (1, 0), (2, -1)])
def test_convolutions_over_any_number_of_axes(axes: int, padding: tuple[int, int]) -> None:
    x, w = X[(...,) + (0,) * (3 - axes)], W[(...,) + (0,) * (3 - axes)]
    found = convolution(x, w, [1] * axes, [padding] * axes, [1] * axes, 2)
    around = [(0, 0), (0, 0), *[padding] * axes]
    np.testing.assert_allclose(found, correlated(padded(x, around), w, 1), atol=1e-14)


def test_fewer_than_no_numbers_around_an_array_cut_some_off() -> None:
    np.testing.assert_array_equal(padded(np.arange(4.0), [(-1, 2)], 7.0), [1, 2, 3, 7, 7])


def test_padding_is_left_out_of_what_is_pooled() -> None:
    tables = [starting([-1, 1], 3, 2, 1)]
    assert tables == [[[-1, 0], [1, 2]]]
    np.testing.assert_array_equal(pooled(np.array([-3.0, 1.0, 5.0]), tables, "max"), [-3, 5])
    assert joined([[[0, 1]], [[1, -1]]], (2, 3)) == [[1, -1, 4, -1]]


@pytest.mark.parametrize(
    ("reduce", "expected"), [("sum", [5, 3]), ("prod", [6, 3]), ("max", [3, 3]), ("mean", [2.5, 3])]
)
def test_groups_of_different_length(reduce: str, expected: list[float]) -> None:
    found = of_groups(np.array([2.0, 3.0]), [[0, 1], [1]], reduce)
    np.testing.assert_array_equal(found, expected)
