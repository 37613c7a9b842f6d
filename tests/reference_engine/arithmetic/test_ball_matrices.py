"""Linear algebra on balls: it encloses what NumPy finds, and leaves open what the balls do not
decide."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flint import arb
from scipy.linalg import expm

from reference_engine.arithmetic.arbs import NotInBalls, Undecided, objects, precision
from reference_engine.arithmetic.ball_matrices import MATRICES
from reference_engine.op import TABLE

RNG = np.random.default_rng(3)
SQUARES = RNG.normal(size=(2, 3, 3))
POSITIVE = SQUARES @ np.swapaxes(SQUARES, -1, -2) + np.eye(3)
RIGHT = RNG.normal(size=(2, 3, 2))
WIDE = np.swapaxes(RIGHT, -1, -2)
SINGULAR = ("svdvals", "svd_u", "svd_vh")
LOWER = np.tril(SQUARES) + 3 * np.eye(3)


def floats(balls: Any) -> np.ndarray:
    return np.vectorize(lambda ball: float(ball.mid()), otypes=[float])(balls)


def of_a_qr(part: int) -> Callable[[np.ndarray], np.ndarray]:
    """NumPy's, with a positive diagonal of r."""

    def value(x: np.ndarray) -> np.ndarray:
        q, r = np.linalg.qr(x)
        signs = np.sign(np.diagonal(r, axis1=-2, axis2=-1))
        return q * signs[..., None, :] if part == 0 else r * signs[..., :, None]

    return value


@pytest.mark.parametrize(
    ("name", "arrays", "function"),
    [
        ("inv", (SQUARES,), np.linalg.inv),
        ("solve", (SQUARES, RIGHT), np.linalg.solve),
        ("triangular_solve", (LOWER, RIGHT), np.linalg.solve),
        ("det", (SQUARES,), np.linalg.det),
        ("slogdet_sign", (SQUARES,), lambda x: np.linalg.slogdet(x)[0]),
        ("slogdet_logabs", (SQUARES,), lambda x: np.linalg.slogdet(x)[1]),
        ("cholesky", (POSITIVE,), np.linalg.cholesky),
        ("qr_q", (SQUARES,), of_a_qr(0)),
        ("qr_r", (SQUARES,), of_a_qr(1)),
        ("eigvalsh", (SQUARES,), lambda x: np.linalg.eigvalsh((x + x.swapaxes(-1, -2)) / 2)),
        ("eigh_vectors", (SQUARES,), TABLE["eigh_vectors"]),
        *((name, (x,), TABLE[name]) for name in SINGULAR for x in (SQUARES, RIGHT, WIDE)),
        ("expm", (SQUARES,), lambda x: np.stack([expm(one) for one in x])),
    ],
)
def test_the_middle_is_what_numpy_finds(
    name: str, arrays: tuple[np.ndarray, ...], function: Callable[..., np.ndarray]
) -> None:
    with precision(100):
        found = MATRICES[name](*map(objects, arrays))
    np.testing.assert_allclose(floats(found), function(*arrays), rtol=1e-12, atol=1e-13)


def test_a_cofactor_is_the_derivative_of_the_determinant() -> None:
    with precision(100):
        found = floats(MATRICES["cofactors"](objects(SQUARES)))
    expected = np.linalg.det(SQUARES)[:, None, None] * np.linalg.inv(SQUARES).swapaxes(-1, -2)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_a_singular_matrix_has_no_inverse() -> None:
    with precision(100):
        assert all(x.is_nan() for x in MATRICES["inv"](objects(np.ones((2, 2)))).ravel())


def test_a_matrix_that_may_be_singular_is_left_open() -> None:
    with precision(100):
        unsure = objects(np.eye(2))
        unsure[0, 0] = arb(0, 0.5)
        with pytest.raises(Undecided, match="may be singular"):
            MATRICES["inv"](unsure)


def test_what_is_not_positive_has_no_cholesky_factor() -> None:
    with precision(100):
        assert all(x.is_nan() for x in MATRICES["cholesky"](objects(-np.eye(2))).ravel())


def test_a_matrix_that_is_not_square_is_refused() -> None:
    with pytest.raises(ValueError, match="square matrices"):
        MATRICES["det"](objects(np.ones((2, 3))))


@pytest.mark.parametrize(
    ("name", "matrix", "why"),
    [
        ("eigvalsh", np.eye(2), "two eigenvalues are equal"),
        ("eigh_vectors", np.eye(2), "two eigenvalues are equal"),
        ("svdvals", np.eye(2), "two singular values are equal"),
        ("svd_u", np.diag([1.0, 0.0]), "two singular values are equal"),
    ],
)
def test_what_is_no_smooth_decomposition_is_left_open(
    name: str, matrix: np.ndarray, why: str
) -> None:
    with precision(100), pytest.raises(NotInBalls, match=why):
        MATRICES[name](objects(matrix))


def test_a_decomposition_that_the_balls_do_not_decide_is_left_open() -> None:
    with precision(100):
        unsure = objects(np.diag([1.0, 1.1]))
        unsure[0, 0] = arb(1, 0.5)
        for name in ("eigvalsh", "svdvals"):
            with pytest.raises(Undecided, match="may be equal"):
                MATRICES[name](unsure)


def test_the_decomposition_of_every_matrix_in_a_ball_is_enclosed() -> None:
    around = objects(POSITIVE[0])
    around[0, 1] = around[1, 0] = arb(POSITIVE[0, 0, 1], 1e-6)
    with precision(100):
        values, vectors = (MATRICES[name](around) for name in ("eigvalsh", "eigh_vectors"))
    for moved in (-1e-6, 1e-6):
        matrix = POSITIVE[0].copy()
        matrix[[0, 1], [1, 0]] += moved
        for balls, name in ((values, "eigvalsh"), (vectors, "eigh_vectors")):
            found = TABLE[name](matrix)
            off = np.abs(floats(balls) - found)
            radii = np.vectorize(lambda ball: float(ball.rad()), otypes=[float])(balls)
            assert np.all(off <= radii + 1e-13)
            assert np.all(radii < 1e-4)
