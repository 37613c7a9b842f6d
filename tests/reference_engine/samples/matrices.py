"""Samples of ops/matrices.py, and matrices that are far from singular ones."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import REAL, Array, Draw, Sample, one

Shape = tuple[int, ...]


def orthogonal(rng: np.random.Generator, batch: Shape, n: int) -> Array:
    return np.linalg.qr(rng.normal(size=(*batch, n, n)))[0]


def _decided(v: Array) -> bool:
    """Whether no entry of a column has about 0.9 of its largest one, where its sign is decided."""
    share = np.abs(v) / np.max(np.abs(v), axis=-2, keepdims=True, initial=1e-300)
    return not np.any(np.abs(share - 0.9) < 0.06)


def factors(rng: np.random.Generator, shape: Shape) -> tuple[Array, Array, Array]:
    """Singular vectors that stay clear of a change of sign, and values 0.5 apart, 0.7 at least."""
    *batch, m, n = shape
    k = min(m, n)
    while True:
        u = orthogonal(rng, tuple(batch), m)[..., :k]
        if _decided(u):
            break
    v = orthogonal(rng, tuple(batch), n)[..., :k]
    s = 0.7 + 0.6 * np.arange(k)[::-1] + rng.uniform(-0.05, 0.05, (*batch, k))
    return u, s, v


def REGULAR(rng: np.random.Generator, shape: Shape) -> Array:
    """Of full rank, with distinct singular values from 0.65 on."""
    u, s, v = factors(rng, shape)
    return np.asarray((u * s[..., None, :]) @ np.swapaxes(v, -1, -2))


def SYMMETRIC(rng: np.random.Generator, shape: Shape) -> Array:
    """With distinct eigenvalues of both signs."""
    u, s, _ = factors(rng, shape)
    w = s - 1.6 * (np.arange(shape[-1]) % 2) * s
    return np.asarray((u * w[..., None, :]) @ np.swapaxes(u, -1, -2))


def POSITIVE_DEFINITE(rng: np.random.Generator, shape: Shape) -> Array:
    u, s, _ = factors(rng, shape)
    return np.asarray((u * s[..., None, :]) @ np.swapaxes(u, -1, -2))


def POSITIVE_DETERMINANT(rng: np.random.Generator, shape: Shape) -> Array:
    x = REGULAR(rng, shape)
    if shape[-1]:
        x[..., 0, :] *= np.sign(np.linalg.det(x))[..., None]
    return x


def TRIANGULAR(rng: np.random.Generator, shape: Shape) -> Array:
    """Full matrices, both of whose triangles are far from singular ones."""
    diagonal = rng.uniform(0.8, 2, shape) * rng.choice([-1, 1], shape)
    return np.asarray(np.where(np.eye(shape[-1], dtype=bool), diagonal, rng.uniform(-1, 1, shape)))


def squares(draw: Draw, **keywords: Any) -> list[Sample]:
    shapes: tuple[Shape, ...] = ((3, 3), (1, 1), (2, 2), (2, 2, 2), (1, 4, 4), (0, 0), (0, 2, 2))
    return [one(draw, *shape, **keywords) for shape in shapes]


def any_square(draw: Draw, **keywords: SearchStrategy[Any]) -> SearchStrategy[Sample]:
    """Stacks of square matrices, of at most 24 elements."""
    shapes = st.tuples(st.lists(st.integers(0, 2), max_size=1), st.integers(0, 3))
    return st.builds(
        lambda shape, chosen: Sample((draw,), ((*shape[0], shape[1], shape[1]),), chosen),
        shapes,
        st.fixed_dictionaries(keywords),
    )


EQUATIONS: tuple[tuple[Shape, Shape], ...] = (
    ((3, 3), (3,)),
    ((3, 3), (3, 2)),
    ((2, 2, 2), (2,)),
    ((2, 2, 2), (2, 2, 1)),
    ((2, 2), (3, 2, 2)),
    ((3, 1, 2, 2), (2, 2, 1)),
    ((1, 1), (1,)),
    ((1, 1, 1), (1,)),  # a stack of vectors by its shape alone, and none
    ((2, 2), (2, 0)),
    ((0, 0), (0, 2)),
)


def equations(draw: Draw, **keywords: Any) -> list[Sample]:
    return [Sample((draw, REAL), shapes, keywords) for shapes in EQUATIONS]


@st.composite
def any_equation(draw: Any, matrix: Draw, **keywords: Any) -> Sample:
    n, k, batch = draw(st.integers(0, 3)), draw(st.integers(0, 2)), draw(st.integers(1, 2))
    left = draw(st.sampled_from([(n, n), (1, n, n), (batch, n, n)]))
    right = draw(st.sampled_from([(n,), (n, k), (batch, n, k)]))
    return Sample((matrix, REAL), (left, right), {k: draw(v) for k, v in keywords.items()})


ROWS: dict[str, list[Sample]] = {
    "inv": squares(REGULAR),
    "solve": equations(REGULAR),
    "triangular_solve": [*equations(TRIANGULAR), *equations(TRIANGULAR, lower=False)[:4]],
    "matrix_power": [
        *squares(REAL, n=3),
        *(one(REAL, 2, 2, n=n) for n in (0, 1, 2, 5)),
        *(one(REGULAR, 2, 2, n=n) for n in (-1, -3)),
        one(REAL, 2, 2, 2, n=0),
    ],
    "expm": [one(REAL, *shape) for shape in ((2, 2), (1, 1), (3, 3), (2, 2, 2), (0, 0))],
    "expm_frechet": [
        Sample((REAL, REAL), (shape, shape))
        for shape in ((2, 2), (1, 1), (2, 2, 2), (3, 3), (0, 0))
    ],
}

lower = st.booleans()

RANDOM: dict[str, SearchStrategy[Sample]] = {
    "inv": any_square(REGULAR),
    "solve": any_equation(REGULAR),
    "triangular_solve": any_equation(TRIANGULAR, lower=lower),
    "matrix_power": any_square(REGULAR, n=st.integers(-2, 4)),
    "expm": any_square(REAL),
    "expm_frechet": any_square(REAL).map(lambda s: Sample((REAL, REAL), s.shapes * 2)),
}


def by_matrix(function: Callable[[Any], Any]) -> Callable[..., Array]:
    """From a function of one mpmath matrix, the function of a stack of arrays."""

    def value(x: Array, **keywords: Any) -> Array:
        result = np.empty(x.shape)
        with mpmath.workprec(200):
            for i in np.ndindex(x.shape[:-2]):
                found = function(mpmath.matrix(x[i].tolist()), **keywords)
                result[i] = np.array(found.tolist(), np.float64).reshape(x.shape[-2:])
        return result

    def guarded(x: Array, **keywords: Any) -> Array:
        return value(x, **keywords) if x.size else np.zeros(x.shape)

    return guarded


def _solved(a: Array, b: Array) -> Array:
    columns = b[:, None] if b.ndim == 1 else b
    y = by_matrix(lambda m: m**-1)(a) @ columns
    return y[..., 0] if b.ndim == 1 else y


def _frechet(x: Array, e: Array) -> Array:
    """By its definition, a difference quotient, in 60 digits more than are wanted."""
    result = np.empty(x.shape)
    with mpmath.workprec(500):
        h = mpmath.mpf(2) ** -200
        for i in np.ndindex(x.shape[:-2] if x.size else (0,)):
            a, b = mpmath.matrix(x[i].tolist()), mpmath.matrix(e[i].tolist())
            slope = (mpmath.expm(a + h * b) - mpmath.expm(a - h * b)) / (2 * h)
            result[i] = np.array(slope.tolist(), np.float64)
    return result


VALUES: dict[str, Callable[..., Any]] = {
    "inv": by_matrix(lambda m: m**-1),
    "solve": _solved,
    "triangular_solve": lambda a, b, lower=True: _solved(np.tril(a) if lower else np.triu(a), b),
    "matrix_power": np.linalg.matrix_power,
    "expm": by_matrix(mpmath.expm),
    "expm_frechet": _frechet,
}
