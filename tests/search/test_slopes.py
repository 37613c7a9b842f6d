import numpy as np
import pytest

from gradcheck_cli.search.slopes import Slopes

RNG = np.random.default_rng(0)
BOXES, INPUTS, NUMBERS = 40, 3, 2


def quadratic(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """x a x / 2 + b x of points (..., D), with a (n, D, D) and b (n, D): (..., n)."""
    return np.einsum("...i,nij,...j->...n", x, a, x) / 2 + np.einsum("ni,...i->...n", b, x)


def slopes_of(a: np.ndarray, b: np.ndarray, low: np.ndarray, high: np.ndarray) -> Slopes:
    parts = a[None] * low[:, None, None], a[None] * high[:, None, None]
    least = np.sum(np.minimum(*parts), axis=3) + b
    return Slopes(least, np.sum(np.maximum(*parts), axis=3) + b, low, high)


@pytest.mark.parametrize("size", [0.0, 0.1, 3.0])
def test_no_point_of_a_box_is_beyond_its_ends_or_moved_less(size: float) -> None:
    a = RNG.normal(size=(NUMBERS, INPUTS, INPUTS))
    a = a + a.transpose(0, 2, 1)
    b = RNG.normal(size=(NUMBERS, INPUTS))
    low = RNG.normal(size=(BOXES, INPUTS)) * 2
    high = low + size * RNG.random((BOXES, INPUTS))
    slopes = slopes_of(a, b, low, high)
    points = low + (high - low) * RNG.random((500, BOXES, INPUTS))
    values = quadratic(a, b, points)
    derivatives = np.einsum("nij,pbj->pbni", a, points) + b
    moved = np.sum(np.abs(points[:, :, None] * derivatives), axis=3)
    assert np.all(slopes.moves <= np.min(moved, axis=0) * (1 + 1e-12))
    for index in range(NUMBERS):
        least, most, beyond = slopes.ends(index, (low + high) / 2)
        ends = (quadratic(a, b, end)[:, index] for end in (least, most))
        lo, hi = next(ends) - beyond - 1e-12, next(ends) + beyond + 1e-12
        assert np.all((lo <= values[..., index]) & (values[..., index] <= hi))


def test_where_no_slope_has_two_signs_the_ends_are_corners() -> None:
    low, high = np.array([[1.0, 2.0]]), np.array([[3.0, 5.0]])
    slopes = Slopes(np.array([[[1.0, -4.0]]]), np.array([[[2.0, 0.0]]]), low, high)
    least, most, beyond = slopes.ends(0, np.array([[2.0, 3.5]]))
    assert least.tolist() == [[1.0, 5.0]]
    assert most.tolist() == [[3.0, 2.0]]
    assert beyond < 1e-290


def test_slopes_that_are_not_known_say_nothing_but_where_nothing_moves() -> None:
    low, high = np.array([[1.0, 2.0]]), np.array([[1.0, 5.0]])
    unknown = np.full((1, 1, 2), np.inf)
    slopes = Slopes(-unknown, unknown, low, high)
    assert slopes.moves.tolist() == [[0.0]]
    assert slopes.reach[0, 0].tolist() == [0.0, np.inf]
