"""What shape rows refuse, and what they leave alone."""

from typing import Any

import numpy as np
import pytest

from reference_engine import diag, grad, pad, repeat, sum, tile, trace, tril, vjp
from reference_engine.errors import ShapeError
from reference_engine.op import TABLE


@pytest.mark.parametrize(
    ("name", "x", "keywords"),
    [
        ("tile", np.ones(2), {"reps": -1}),
        ("repeat", np.ones(2), {"repeats": (1, 2, 3)}),
        ("repeat", np.ones(2), {"repeats": -1}),
        ("pad", np.ones(2), {"pad_width": -1}),
        ("pad", np.ones((2, 2)), {"pad_width": ((1, 1), (1, 1), (1, 1))}),
        ("tril", np.ones(2), {}),
        ("diag", np.ones((2, 2, 2)), {}),
        ("diag", np.float64(1.0), {}),
        ("trace", np.ones(2), {}),
        ("roll", np.ones(2), {"shift": 1, "axis": 1}),
        ("moveaxis", np.ones(2), {"source": 0, "destination": 1}),
        ("flip", np.ones(2), {"axis": 2}),
    ],
)
def test_arguments_that_do_not_fit(name: str, x: Any, keywords: Any) -> None:
    with pytest.raises(ShapeError):
        TABLE[name](x, **keywords)


@pytest.mark.parametrize("name", ["tile", "repeat", "pad", "diag"])
def test_the_stated_shape_refuses_what_the_row_refuses(name: str) -> None:
    row = TABLE[name]
    assert row.result_shape is not None
    wrong = {"tile": {"reps": -1}, "repeat": {"repeats": (1, 2, 3)}, "pad": {"pad_width": -1}}
    shape = (2, 2, 2) if name == "diag" else (2,)
    with pytest.raises(ValueError, match=r"."):
        row.result_shape(shape, **wrong.get(name, {}))


def test_elements_that_are_left_out_cannot_spoil_the_others() -> None:
    """An inf outside the triangle, or a cotangent that is inf, stays where it is."""
    x = np.array([[1.0, np.inf], [2.0, np.nan]])
    np.testing.assert_array_equal(tril(x, k=-1), [[0, 0], [2, 0]])
    _, pull = vjp(trace, np.eye(2))
    np.testing.assert_array_equal(pull(np.array(np.inf))[0], [[np.inf, 0], [0, np.inf]])


def test_a_frame_of_a_value_has_no_gradient() -> None:
    x = np.array([1.0, 2.0])
    np.testing.assert_array_equal(pad(x, (1, 2), 5.0), [5, 1, 2, 5, 5])
    np.testing.assert_array_equal(grad(lambda x: sum(pad(x, 3, np.inf)[3:5]))(x), [1, 1])


def test_copies_add_up() -> None:
    x = np.array([1.0, 2.0])
    weights = np.arange(6.0)
    np.testing.assert_array_equal(grad(lambda x: sum(tile(x, 3) * weights))(x), [6, 9])
    np.testing.assert_array_equal(grad(lambda x: sum(repeat(x, 3) * weights))(x), [3, 12])
    np.testing.assert_array_equal(grad(lambda x: sum(repeat(x, (1, 5)) * weights))(x), [0, 15])


def test_the_diagonal_of_a_matrix_can_be_written_to() -> None:
    found = diag(np.eye(2))
    found[0] = 5.0
    assert found[0] == 5.0
