"""Indices from both ends and outside, repeated ones, parts of an array."""

from typing import Any

import numpy as np
import pytest

from reference_engine import (
    grad,
    jvp,
    one_hot,
    scatter_add,
    split,
    sum,
    take,
    take_along_axis,
    tensor,
    vjp,
)
from reference_engine.errors import ShapeError
from reference_engine.floats import as_dtype

X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def test_negative_indices_count_from_the_end() -> None:
    np.testing.assert_array_equal(take(X, np.array([-1, 0]), axis=1), [[3, 1], [6, 4]])
    np.testing.assert_array_equal(take_along_axis(X, np.array([[-1], [-3]])), [[3], [4]])
    moved = scatter_add(np.zeros(3), np.array([-1, -1]), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(moved, [0, 0, 3])


def test_what_is_taken_twice_counts_twice() -> None:
    indices = np.array([0, 2, 0, -3])
    np.testing.assert_array_equal(grad(lambda x: sum(take(x, indices)))(np.ones(3)), [3, 0, 1])
    along = np.array([[0, 0, 1]])
    x_bar = grad(lambda x: sum(take_along_axis(x, along)))(X)
    np.testing.assert_array_equal(x_bar, [[2, 1, 0], [2, 1, 0]])


def test_indices_may_be_tensors() -> None:
    x = tensor([1.0, 2.0, 3.0], requires_grad=True)
    sum(take(x, tensor([2, 2])) * 2.0).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0, 0, 4])


def test_scatter_add_and_take_along_axis_are_transposes() -> None:
    indices = np.array([[0, 1, 1, -1], [2, 0, 0, 0]])
    updates = np.arange(8.0).reshape(2, 4)
    _, pull = vjp(lambda u: scatter_add(X, indices, u), updates)
    np.testing.assert_array_equal(pull(X)[0], take_along_axis(X, indices))
    tangent = jvp(lambda x: scatter_add(x, indices, updates), (X,), (X,))[1]
    np.testing.assert_array_equal(tangent, X)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_many_narrow_updates_are_rounded_once(dtype: str) -> None:
    ones = np.ones(4096, as_dtype(dtype))
    total = scatter_add(ones[:1], np.zeros(4096, np.int64), ones)
    assert total.dtype == ones.dtype
    assert total[0] == 4096  # 4097 is halfway to the next number of neither format


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: take(X, np.array([3]), axis=1), "out of bounds"),
        (lambda: take(X, np.array([0])), "needs the axis"),
        (lambda: take(np.float64(1.0), np.array([0])), "needs the axis"),
        (lambda: take_along_axis(X, np.array([[2]]), axis=0), "out of bounds"),
        (lambda: take_along_axis(X, np.array([0])), "must have 2 axes"),
        (lambda: scatter_add(X, np.array([[5]]), np.ones((1, 1))), "out of bounds"),
        (lambda: scatter_add(X, np.array([[0]]), np.ones(1)), "as many updates"),
        (lambda: scatter_add(X, np.zeros((3, 1), int), np.ones((3, 1))), "only along the axis"),
        (lambda: split(X, 4, axis=1), "equal parts"),
        (lambda: split(X, 0), "equal parts"),
        (lambda: one_hot(np.array([0]), 2, axis=3), "out of bounds"),
    ],
)
def test_what_does_not_fit_is_refused(call: Any, reason: str) -> None:
    with pytest.raises(ShapeError, match=reason):
        call()


@pytest.mark.parametrize(
    ("sections", "axis"), [(3, 1), (1, 0), (2, -2), ((1,), 1), ((0, 2, 2), 1), ((2, 5), -1)]
)
def test_split_as_numpy_does(sections: Any, axis: int) -> None:
    parts = split(X, sections, axis=axis)
    expected = np.split(X, sections, axis)
    assert len(parts) == len(expected)
    for part, right in zip(parts, expected, strict=True):
        np.testing.assert_array_equal(part, right)


def test_each_part_has_its_own_gradient() -> None:
    def f(x: Any) -> Any:
        left, right = split(x, (1,), axis=1)
        return 10.0 * sum(left) + sum(right)

    np.testing.assert_array_equal(grad(f)(X), [[10, 1, 1], [10, 1, 1]])


def test_an_index_outside_the_classes_is_no_class() -> None:
    np.testing.assert_array_equal(one_hot(np.array([1, -1, 2]), 2), [[0, 1], [0, 0], [0, 0]])
