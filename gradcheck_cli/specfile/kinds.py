"""Kinds of values that must be preserved: rotations, positive definite matrices and others.

A value of a kind moves on a manifold. Its coordinates there have their own shape, and are zero at
the value itself. The `motion` of a kind describes the effect of one coordinate. The last axes hold
one value (two axes for a matrix, one for a vector); all other axes hold several values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.records import dataclass

SLACK = 1e-5
"""What a value may be off its kind, beside its size: written numbers are float32 ones mostly."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind. `axes` of the value are one of it; `motion` says what the entry [i, j] of the
    gradient is about.

    drawn(rng, shape)   a random value
    off(x)              how far x is off this kind, beside its size
    moved(x, t)         the value at the coordinates t, x where they are zero
    along(x, u)         its derivative by t at 0, along u
    pulled(x, g)        the transpose: the gradient by t from that by the entries
    spread(x, e)        how far errors e >= 0 of the entries of g move what `pulled` gives, at most
    """

    name: str
    axes: int
    motion: str
    drawn: Callable[[np.random.Generator, tuple[int, ...]], Array]
    off: Callable[[Array], float]
    moved: Callable[[Array, Array], Array]
    along: Callable[[Array, Array], Array]
    pulled: Callable[[Array, Array], Array]
    spread: Callable[[Array, Array], Array]


def _symmetric_part(t: Array) -> Array:
    """The sum of both coordinates for entries [i, j] and [j, i], and the own coordinate on the
    diagonal."""
    return t + t.mT - t * np.eye(t.shape[-1])


def _turned(x: Array, t: Array) -> Array:
    """x @ exp(t - t'), an exact rotation, from the eigenvalues of a Hermitian matrix."""
    angles, axes = np.linalg.eigh(1j * (t - t.mT))
    turn = (axes * np.exp(-1j * angles)[..., None, :]) @ np.conj(axes.mT)
    return np.asarray(x @ turn.real)


def _stretched(x: Array, t: Array) -> Array:
    """L exp(L^-1 S L^-T) L' with S from the coordinates. It stays positive definite for coordinates
    of any size."""
    low = np.linalg.cholesky(x)
    inner = np.linalg.solve(low, np.linalg.solve(low, _symmetric_part(t)).mT)
    sizes, axes = np.linalg.eigh((inner + inner.mT) / 2)
    found = low @ (axes * np.expm1(sizes)[..., None, :]) @ axes.mT @ low.mT
    return np.asarray(x + (found + found.mT) / 2)


_CONJUGATED = np.array([1.0, -1.0])  # the real and the imaginary part


def adjoint(x: Array) -> Array:
    """The conjugate transpose of matrices of pairs, (..., n, n, 2)."""
    return np.asarray(np.swapaxes(x, -2, -3) * _CONJUGATED)


def _hermitian_part(t: Array) -> Array:
    """`_symmetric_part` for pairs. Imaginary parts on the diagonal have no effect."""
    return np.asarray(t + adjoint(t) - t * _real_diagonal(t))


def _real_diagonal(t: Array) -> Array:
    return np.asarray(np.eye(t.shape[-2])[..., None] * [1.0, 0.0])


def _hermitian(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    drawn = rng.standard_normal(shape)
    return np.asarray((drawn + adjoint(drawn)) / 2)


def _size(x: Array) -> Array:
    return np.asarray(np.sqrt(np.sum(x * x, axis=-1, keepdims=True)))


def _on_the_sphere(x: Array, t: Array) -> Array:
    size = _size(x)
    there = x / size + t
    return np.asarray(size * there / _size(there))


def _off_the_normal(x: Array, u: Array) -> Array:
    size = _size(x)
    return np.asarray(size * u - x * np.sum(x * u, axis=-1, keepdims=True) / size)


def _on_the_simplex(x: Array, t: Array) -> Array:
    total = np.sum(x, axis=-1, keepdims=True)
    there = x * np.exp(t - np.max(t, axis=-1, keepdims=True))
    return np.asarray(total * there / np.sum(there, axis=-1, keepdims=True))


def _between_shares(x: Array, u: Array) -> Array:
    mean = np.sum(x * u, axis=-1, keepdims=True) / np.sum(x, axis=-1, keepdims=True)
    return np.asarray(x * (u - mean))


def _orthogonal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    q, r = np.linalg.qr(rng.standard_normal(shape))
    return np.asarray(q * np.sign(np.diagonal(r, axis1=-2, axis2=-1))[..., None, :])


def _rotation(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    matrices = _orthogonal(rng, shape)
    matrices[..., 0] *= np.linalg.det(matrices)[..., None]
    return matrices


def _definite(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    drawn = rng.standard_normal(shape)
    return np.asarray(drawn @ drawn.mT / shape[-1] + np.eye(shape[-1]) / 2)


def _simplex(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    drawn = rng.standard_exponential(shape)
    return np.asarray(drawn / np.sum(drawn, axis=-1, keepdims=True))


def _unit(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    drawn = rng.standard_normal(shape)
    return np.asarray(drawn / _size(drawn))


def _symmetric(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    drawn = rng.standard_normal(shape)
    return np.asarray((drawn + drawn.mT) / 2)


def _largest(x: Array) -> float:
    return float(np.max(np.abs(x), initial=0.0))


def _off_orthogonal(x: Array) -> float:
    return _largest(x.mT @ x - np.eye(x.shape[-1]))


def _off_symmetric(x: Array) -> float:
    return _largest(x - x.mT) / (_largest(x) or 1.0)


def _off_definite(x: Array) -> float:
    least = np.min(np.linalg.eigvalsh(x), initial=np.inf)
    return _off_symmetric(x) if least > 0 else np.inf


def _turning(x: Array, g: Array) -> Array:
    inner = x.mT @ g
    return np.asarray(inner - inner.mT)


def _spread_by_turning(x: Array, e: Array) -> Array:
    inner = np.abs(x).mT @ e
    return np.asarray(inner + inner.mT)


def _spread_on_the_sphere(x: Array, e: Array) -> Array:
    size = _size(x)
    return np.asarray(size * e + np.abs(x) * np.sum(np.abs(x) * e, axis=-1, keepdims=True) / size)


def _spread_over_shares(x: Array, e: Array) -> Array:
    mean = np.sum(x * e, axis=-1, keepdims=True) / np.sum(x, axis=-1, keepdims=True)
    return np.asarray(x * (e + mean))


def _symmetric_tangent(x: Array, t: Array) -> Array:
    return _symmetric_part(t)


_ROTATION = Kind(
    "rotation",
    2,
    "turns column i against column j",
    _rotation,
    lambda x: max(_off_orthogonal(x), _largest(np.linalg.det(x) - 1)),
    _turned,
    lambda x, u: np.asarray(x @ (u - u.mT)),
    _turning,
    _spread_by_turning,
)
KINDS = {
    kind.name: kind
    for kind in (
        _ROTATION,
        replace(_ROTATION, name="orthogonal", drawn=_orthogonal, off=_off_orthogonal),
        Kind(
            "symmetric",
            2,
            "moves the entries [i, j] and [j, i] together",
            _symmetric,
            _off_symmetric,
            lambda x, t: x + _symmetric_part(t),
            _symmetric_tangent,
            _symmetric_tangent,
            _symmetric_tangent,
        ),
        Kind(
            "positive_definite",
            2,
            "moves the entries [i, j] and [j, i] together",
            _definite,
            _off_definite,
            _stretched,
            _symmetric_tangent,
            _symmetric_tangent,
            _symmetric_tangent,
        ),
        Kind(
            "simplex",
            1,
            "grows entry i in proportion to itself, at the cost of all",
            _simplex,
            lambda x: max(_largest(np.sum(x, axis=-1) - 1), -float(np.min(x, initial=0.0)) / SLACK),
            _on_the_simplex,
            _between_shares,
            _between_shares,
            _spread_over_shares,
        ),
        Kind(
            "unit_vector",
            1,
            "turns the vector towards axis i",
            _unit,
            lambda x: _largest(_size(x) - 1),
            _on_the_sphere,
            _off_the_normal,
            _off_the_normal,
            _spread_on_the_sphere,
        ),
    )
}


HERMITIAN = Kind(
    "Hermitian",
    2,
    "moves the entries [i, j] and [j, i] together, which are each other's conjugates",
    _hermitian,
    lambda x: _largest(x - adjoint(x)) / (_largest(x) or 1.0),
    lambda x, t: x + _hermitian_part(t),
    lambda x, u: _hermitian_part(u),
    lambda x, g: _hermitian_part(g),
    lambda x, e: e + np.swapaxes(e, -2, -3) - e * _real_diagonal(e),
)
"""Of a complex input, (..., n, n, 2): found by gradcheck, and not declared."""


def wrong_shape(kind: str, shape: tuple[int, ...]) -> str:
    """Why no value of this kind can have this shape; empty if it can."""
    if KINDS[kind].axes == 2 and (len(shape) < 2 or shape[-1] != shape[-2]):
        return f"a {kind.replace('_', ' ')} matrix is square, but the shape is {shape}"
    if not shape or shape[-1] < 2:
        return f"a value of kind {kind} has at least two entries, but the shape is {shape}"
    return ""


def wrong_value(kind: str, value: Array) -> str:
    """Why a value is not of this kind; empty if it is."""
    if not np.all(np.isfinite(value)):
        return f"the value is not of kind {kind}: it is not finite"
    off = KINDS[kind].off(value)
    if off <= SLACK:
        return ""
    return f"the value is not of kind {kind}" + (f": it is {off:.2g} off" if off < 1 else "")
