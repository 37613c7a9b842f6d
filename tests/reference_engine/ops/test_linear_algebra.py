"""Linear algebra where it is hard: singular, nearly singular, tied, far from 1."""

from collections.abc import Callable
from fractions import Fraction
from itertools import permutations
from typing import Any

import mpmath
import numpy as np
import pytest

import reference_engine as ad
from reference_engine import ShapeError, grad, hessian, jacobian, jvp, vjp
from reference_engine.op import INTERNAL, TABLE
from tests.reference_engine.samples.determinants import VALUES as DETERMINANTS
from tests.reference_engine.samples.matrices import orthogonal

RNG = np.random.default_rng(7)
SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
REGULAR = np.array([[2.0, 1.0], [1.0, 3.0]])
BOTH = np.stack([SINGULAR, REGULAR])


def of_rank(n: int, rank: int) -> Any:
    return RNG.normal(size=(n, rank)) @ RNG.normal(size=(rank, n))


@pytest.mark.parametrize("name", ["inv", "cholesky"])
def test_a_singular_matrix_spoils_no_other(name: str) -> None:
    row = TABLE[name]
    y, pull = vjp(row, BOTH)
    np.testing.assert_array_equal(y[1], row(REGULAR))
    assert np.isnan(y[0]).all()
    expected = vjp(row, REGULAR)[1](np.ones((2, 2)))[0]
    x_bar = pull(np.ones((2, 2, 2)))[0]
    np.testing.assert_allclose(x_bar[1], expected, rtol=1e-15)
    assert np.isnan(x_bar[0]).all()


def test_equations_with_a_singular_matrix_spoil_no_others() -> None:
    b = np.array([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]])
    y = ad.solve(BOTH, b)
    assert np.isnan(y[0]).all()
    np.testing.assert_array_equal(y[1], ad.solve(REGULAR, b))
    assert np.isnan(ad.solve(SINGULAR, b[:, 0])).all()
    np.testing.assert_array_equal(ad.solve(BOTH, b[:, 0])[1], ad.solve(REGULAR, b[:, 0]))


@pytest.mark.parametrize("name", ["inv", "cholesky", "eigvalsh", "eigh_vectors", "svdvals", "pinv"])
def test_what_is_not_a_number_stays_so(name: str) -> None:
    spoiled = np.array([[np.nan, 1.0], [1.0, 2.0]])
    both = TABLE[name](np.stack([spoiled, REGULAR]))
    assert np.isnan(both[0]).any()
    np.testing.assert_array_equal(both[1], TABLE[name](REGULAR))


SINGULARS = {
    "two rows": SINGULAR,
    "three rows, rank 2": of_rank(3, 2),
    "three rows, rank 1": of_rank(3, 1),
    "four rows, rank 3": of_rank(4, 3),
    "four rows, rank 2": of_rank(4, 2),
    "five rows, rank 4": of_rank(5, 4),
    "a row of zeros": np.array([[1.0, 2, 3, 4], [0, 0, 0, 0], [2, 1, 0, 3], [1, 1, 5, 1]]),
    "zeros": np.zeros((4, 4)),
    "the identity": np.eye(4),
    "regular": RNG.normal(size=(4, 4)),
}


def second_of_det(x: Any) -> Any:
    """Of the sum over all permutations: what is left where two elements are taken out."""
    n = x.shape[-1]
    result = np.zeros((n, n, n, n))
    for order in permutations(range(n)):
        sign = round(np.linalg.det(np.eye(n)[list(order)]))
        for i in range(n):
            for k in range(n):
                if i != k:
                    rest = [x[r, order[r]] for r in range(n) if r not in (i, k)]
                    result[i, order[i], k, order[k]] += sign * np.prod(rest)
    return result


@pytest.mark.parametrize("x", SINGULARS.values(), ids=SINGULARS)
def test_determinants_have_derivatives_at_singular_matrices(x: Any) -> None:
    # an algorithm that is backward stable has the derivatives of a matrix 16 roundings away
    size = np.linalg.norm(x) + 1
    n = x.shape[-1]
    first = 1e-14 * n * size ** (n - 1)
    np.testing.assert_allclose(grad(ad.det)(x), DETERMINANTS["cofactors"](x), rtol=0, atol=first)
    second = 1e-14 * n * size**n
    np.testing.assert_allclose(hessian(ad.det)(x), second_of_det(x), rtol=0, atol=second)


def exact_det(x: Any) -> Fraction:
    """By elimination of fractions."""
    rows = [[Fraction(float(e)) for e in row] for row in x]
    result = Fraction(1)
    for k in range(len(rows)):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k]), None)
        if pivot is None:
            return Fraction(0)
        if pivot != k:
            rows[k], rows[pivot] = rows[pivot], rows[k]
            result = -result
        result *= rows[k][k]
        for i in range(k + 1, len(rows)):
            factor = rows[i][k] / rows[k][k]
            rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    return result


def exact_cofactors(x: Any) -> Any:
    result = np.zeros(x.shape)
    for i, j in np.ndindex(x.shape):
        minor = np.delete(np.delete(x, i, 0), j, 1)
        result[i, j] = float((-1) ** (i + j) * exact_det(minor))
    return result


def hilbert(n: int) -> Any:
    return 1 / (1.0 + np.arange(n)[:, None] + np.arange(n))


@pytest.mark.parametrize(
    ("x", "units"),
    [
        # Its condition number is 1.5e10, and a unit of its elements moves the smallest cofactor by
        # as many.
        pytest.param(hilbert(8), 1e9, id="nearly singular"),
        pytest.param(np.array([[1e10, 1.0], [1.0, 1.0]]), 4, id="graded, two rows"),
        pytest.param(
            np.array([[1e12, 1.0, 2.0], [3.0, 1e-6, 1.0], [1.0, 1.0, 1e4]]), 4, id="three rows"
        ),
        pytest.param(np.diag([1e-80, 1e-90, 1e-85, 1e80]), 4, id="determinant 1e-175"),
        pytest.param(np.diag([1e200, 1e200, 1e-200, 1e-250]), 4, id="overflow on the way"),
    ],
)
def test_cofactors_keep_digits(x: Any, units: float) -> None:
    np.testing.assert_allclose(grad(ad.det)(x), exact_cofactors(x), rtol=units * 2.0**-52)


def test_determinants_that_leave_the_format_have_logarithms() -> None:
    x = 1e200 * np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 4.0]])
    sign, size = ad.slogdet(x)
    assert sign == 1
    assert size == pytest.approx(np.log(18) + 600 * np.log(10), rel=1e-15)
    assert ad.logdet(x) == size
    np.testing.assert_allclose(grad(ad.logdet)(x), np.linalg.inv(x).T, rtol=1e-14)
    assert np.isnan(ad.logdet(-x))
    assert ad.slogdet(-x)[0] == -1


def test_gradients_of_symmetric_matrices_are_symmetric() -> None:
    """The rows read (x + x^T) / 2: both halves of a symmetric matrix count alike."""
    x = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
    lopsided = x + np.array([[0.0, 1.0, 2.0], [-1.0, 0.0, 3.0], [-2.0, -3.0, 0.0]])
    weights = RNG.normal(size=(3, 3))
    for name in ("cholesky", "eigvalsh", "eigh_vectors"):
        row = TABLE[name]
        np.testing.assert_allclose(row(lopsided), row(x), rtol=1e-14, atol=1e-15)
        w = weights[0] if name == "eigvalsh" else weights
        slope = grad(lambda a, row=row, w=w: ad.sum(w * row(a)))(x)
        np.testing.assert_allclose(slope, slope.T, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("x", [np.eye(3), np.diag([1.0, 2.0, 2.0]), np.zeros((2, 2))], ids=str)
def test_sums_over_equal_eigenvalues_have_derivatives(x: Any) -> None:
    np.testing.assert_allclose(grad(lambda a: ad.sum(ad.eigvalsh(a)))(x), np.eye(len(x)))


def test_tied_vectors_have_no_derivative_and_say_so() -> None:
    """nan, not a number that looks like one."""
    x = np.diag([1.0, 2.0, 2.0])
    assert np.isnan(jacobian(ad.eigh_vectors)(x)).any()
    assert np.isnan(jacobian(ad.svd_u)(x)).any()


def test_signs_do_not_hang_on_roundings() -> None:
    """The entries of (1, -1) / sqrt(2) are equally large: the first decides, 0.9 of it too."""
    exact = ad.eigh_vectors(np.array([[2.0, 1.0], [1.0, 2.0]]))
    assert (exact[0] > 0).all()
    for _ in range(20):
        noise = 1e-14 * RNG.normal(size=(2, 2))
        near = ad.eigh_vectors(np.array([[2.0, 1.0], [1.0, 2.0]]) + noise)
        np.testing.assert_allclose(near, exact, atol=1e-13)
        u = ad.svd_u(np.array([[2.0, 1.0], [1.0, 2.0]]) + noise)
        np.testing.assert_allclose(u, exact[:, ::-1], atol=1e-13)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_singular_vectors_far_from_1(scale: float) -> None:
    """With squares of singular values their derivatives would be 0 or nan."""
    x = np.array([[2.0, 1.0], [0.5, 3.0], [1.0, -1.0]])
    for name in ("svd_u", "svd_vh"):
        wanted = jacobian(TABLE[name])(x) / scale
        np.testing.assert_allclose(jacobian(TABLE[name])(x * scale), wanted, rtol=1e-13)


@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9])
def test_close_singular_values(gap: float) -> None:
    """A rotation of two close directions: 1 / gap, which singular values off by a unit change."""
    x = np.diag([1.0 + gap, 1.0])
    true_gap = x[0, 0] - 1.0
    e = np.array([[0.0, 1.0], [1.0, 0.0]])
    off = 4 * 2.0**-53 / gap
    assert jvp(ad.svd_u, (x,), (e,))[1][1, 0] == pytest.approx(1 / true_gap, rel=off)


def test_the_frameworks_of_a_rebuilt_matrix() -> None:
    """What is multiplied together again moves as the matrix does."""
    e = RNG.normal(size=(4, 3))
    x = RNG.normal(size=(4, 3))

    def by_svd(a: Any) -> Any:
        u, s, vh = ad.svd(a)
        return (u * s) @ vh

    def by_qr(a: Any) -> Any:
        q, r = ad.qr(a)
        return q @ r

    for rebuilt in (by_svd, by_qr):
        y, y_dot = jvp(rebuilt, (x,), (e,))
        np.testing.assert_allclose(y, x, atol=1e-14)
        np.testing.assert_allclose(y_dot, e, atol=1e-13)


def exact_exponential(x: Any) -> Any:
    with mpmath.workdps(80):
        return np.array(mpmath.expm(mpmath.matrix(x.tolist())).tolist(), np.float64)


def turned(w: Any) -> Any:
    q = orthogonal(RNG, (), len(w))
    return q @ np.diag(w) @ q.T


@pytest.mark.parametrize(
    ("x", "units"),
    [
        # Squaring s times doubles the relative error of the factors s times: 2^s of some units,
        # and so does the change of the result by half an ulp of the elements.
        pytest.param(turned([-1.0, 0.5, 2.0]), 32, id="norm 2"),
        pytest.param(turned([-20.0, 1.0, 20.0]), 512, id="norm 20"),
        pytest.param(np.array([[1.0, 1e6], [0.0, -1.0]]), 1024, id="powers below their norms"),
        pytest.param(np.array([[0.0, 1e10], [0.0, 0.0]]), 1, id="nilpotent"),
        pytest.param(np.zeros((3, 3)), 1, id="zeros"),
        pytest.param(np.diag([-700.0, 1.0, 700.0]), 8192, id="far apart"),
    ],
)
def test_exponentials_against_80_digits(x: Any, units: float) -> None:
    exact = exact_exponential(x)
    error = np.abs(ad.expm(x) - exact)
    assert np.max(error) <= units * 2.0**-53 * np.max(np.abs(exact))


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_the_derivative_of_exponentials_is_linear(size: float) -> None:
    x = np.array([[1.0, 2.0], [-1.0, 0.5]])
    e = np.array([[0.3, -1.0], [2.0, 0.7]])
    wanted = jvp(ad.expm, (x,), (e,))[1] * size
    np.testing.assert_allclose(jvp(ad.expm, (x,), (size * e,))[1], wanted, rtol=1e-14)


def test_exponentials_of_defective_matrices() -> None:
    """exp([[a, b], [0, a]]) = e^a [[1, b], [0, 1]], with its derivatives."""
    x = np.array([[0.5, 3.0], [0.0, 0.5]])
    np.testing.assert_allclose(ad.expm(x), np.exp(0.5) * np.array([[1, 3], [0, 1]]), rtol=1e-15)
    slope = grad(lambda a: ad.expm(a)[0, 1])(x)
    assert slope[0, 1] == pytest.approx(np.exp(0.5), rel=1e-15)


WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("einsum", (REGULAR,), {"subscripts": "ij,jk"}),
    ("einsum", (REGULAR,), {"subscripts": "ij->ik"}),
    ("einsum", (REGULAR,), {"subscripts": "ij->iij"}),
    ("einsum", (REGULAR,), {"subscripts": "i1"}),
    ("einsum", (REGULAR,), {"subscripts": "ijk"}),
    ("einsum", (REGULAR,), {"subscripts": "i...->i"}),
    ("einsum", (REGULAR,), {"subscripts": "...i...->i"}),
    ("einsum", (REGULAR, np.ones((3, 2))), {"subscripts": "ij,jk"}),
    ("einsum", (np.ones((1, 2)),), {"subscripts": "ii"}),
    ("tensordot", (REGULAR, REGULAR), {"axes": 3}),
    ("tensordot", (REGULAR, np.ones((3, 2))), {"axes": 1}),
    ("tensordot", (REGULAR, REGULAR), {"axes": ((0,), (0, 1))}),
    ("tensordot", (REGULAR, REGULAR), {"axes": ((2,), (0,))}),
    ("tensordot", (REGULAR, REGULAR), {"axes": ((0, 0), (0, 1))}),
    ("dot", (REGULAR, np.ones(3)), {}),
    ("outer", (REGULAR, np.ones(2)), {}),
    ("cross", (np.ones(2), np.ones(2)), {}),
    ("cross", (np.ones((2, 3)), np.ones((4, 3))), {}),
    ("cross", (np.ones((3, 2)), np.ones((3,))), {"axis": 0}),
    ("solve", (REGULAR, np.ones(3)), {}),
    ("solve", (REGULAR, np.float64(1.0)), {}),
    ("solve", (np.ones((2, 3)), np.ones(2)), {}),
    ("solve", (np.ones((2, 2, 2)), np.ones((3, 2, 1))), {}),
    ("triangular_solve", (REGULAR, np.ones(3)), {}),
    *(
        (name, (np.ones((2, 3)),), {"n": 2} if name == "matrix_power" else {})
        for name in ("inv", "det", "logdet", "expm", "cholesky", "eigvalsh", "matrix_power")
    ),
    *((name, (np.ones(3),), {}) for name in ("svdvals", "svd_u", "svd_vh", "qr_q", "pinv")),
]


@pytest.mark.parametrize(("name", "arrays", "keywords"), WRONG)
def test_arrays_that_do_not_fit(name: str, arrays: Any, keywords: Any) -> None:
    row = TABLE[name]
    with pytest.raises(ShapeError, match=name):
        row(*arrays, **keywords)
    assert row.result_shape is not None
    with pytest.raises(ValueError, match=r"."):
        row.result_shape(*(np.shape(a) for a in arrays), **keywords)


def test_the_rest_of_a_full_decomposition_is_refused() -> None:
    with pytest.raises(ShapeError, match="not unique"):
        ad.svd(REGULAR, full_matrices=True)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: ad.eigvalsh([[2, 1], [1, 2]]), [1.0, 3.0]),
        (lambda: ad.det([[2, 1], [1, 2]]), 3.0),
        (lambda: ad.inv([[2, 0], [0, 4]]), [[0.5, 0.0], [0.0, 0.25]]),
        (lambda: ad.triangular_solve([[2, 9], [4, 1]], [2, 3]), [1.0, -1.0]),
        (lambda: ad.matrix_power([[1, 1], [0, 1]], 5), [[1, 5], [0, 1]]),
        (lambda: ad.einsum("ij,j", np.eye(2), [1.0, 2.0]), [1.0, 2.0]),
    ],
)
def test_lists_and_whole_numbers_are_taken(call: Callable[[], Any], expected: Any) -> None:
    np.testing.assert_allclose(call(), expected, rtol=1e-15)


def test_what_a_triangle_hides_is_not_read() -> None:
    x = np.array([[2.0, np.nan], [1.0, 4.0]])
    np.testing.assert_array_equal(ad.triangular_solve(x, np.array([2.0, 5.0])), [1, 1])
    slope = grad(lambda a: ad.sum(ad.triangular_solve(a, np.array([2.0, 5.0]))))(x)
    assert slope[0, 1] == 0
    assert np.isfinite(slope).all()


def test_internal_rows_of_linear_algebra() -> None:
    np.testing.assert_allclose(
        INTERNAL["cofactors"](np.diag([2.0, 3.0, 4.0, 0.0])), np.diag([0, 0, 0, 24.0])
    )
