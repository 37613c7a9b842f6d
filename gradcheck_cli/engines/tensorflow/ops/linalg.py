"""Products of vectors, matrices and arrays of any rank."""

from __future__ import annotations

import math
from typing import Any

from gradcheck_cli.engines.kit.axes import pair_of_axes
from gradcheck_cli.engines.kit.lowerings import Lowering


def cross(tf: Any, x1: Any, x2: Any, axis: int = -1) -> Any:
    """tf.linalg.cross takes equal shapes and the last axis: broadcast, and moved there."""
    rank = max(x1.shape.rank, x2.shape.rank)
    last = [*(i for i in range(rank) if i != axis % rank), axis % rank]
    shape = tf.broadcast_static_shape(x1.shape, x2.shape)
    x1, x2 = (tf.transpose(tf.broadcast_to(x, shape), last) for x in (x1, x2))
    return tf.transpose(tf.linalg.cross(x1, x2), [last.index(i) for i in range(rank)])


def dot(tf: Any, x1: Any, x2: Any) -> Any:
    if x1.shape.rank == 0 or x2.shape.rank == 0:
        return x1 * x2
    return tf.tensordot(x1, x2, axes=[[-1], [-1 if x2.shape.rank == 1 else -2]])


def einsum(tf: Any, *xs: Any, subscripts: str) -> Any:
    """tf.einsum does not broadcast named axes of length 1: they are summed over first."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    named = "".join(sorted({c for c in left if c.isalpha() and left.count(c) == 1}))
    right = right if arrow else ("..." if "..." in left else "") + named
    terms = left.split(",")
    sizes: dict[str, int] = {}
    for term, x in zip(terms, xs, strict=True):
        for label, size in _sizes(term, x).items():
            sizes[label] = max(size, sizes.get(label, 0))
    reduced = [_without_ones(tf, term, x, sizes) for term, x in zip(terms, xs, strict=True)]
    plan = ",".join(term for term, _ in reduced) + "->" + right
    return tf.einsum(plan, *(x for _, x in reduced))


def _places(term: str, x: Any) -> dict[str, list[int]]:
    """The axes of every label of a term."""
    before, dots, after = term.partition("...")
    places: dict[str, list[int]] = {}
    for i, label in enumerate(before):
        places.setdefault(label, []).append(i)
    for i, label in enumerate(after if dots else ""):
        places.setdefault(label, []).append(x.shape.rank - len(after) + i)
    return places


def _sizes(term: str, x: Any) -> dict[str, int]:
    return {label: x.shape[axes[0]] for label, axes in _places(term, x).items()}


def _without_ones(tf: Any, term: str, x: Any, sizes: dict[str, int]) -> tuple[str, Any]:
    """A term and its array without the axes of length 1 that are longer in another array."""
    short = [label for label, size in _sizes(term, x).items() if size == 1 < sizes[label]]
    places = _places(term, x)
    for label in short:
        term = term.replace(label, "")
    return term, tf.squeeze(x, [i for label in short for i in places[label]]) if short else x


def kron(tf: Any, x1: Any, x2: Any) -> Any:
    """By broadcasting: every axis of x1 beside its partner of x2."""
    rank = max(x1.shape.rank, x2.shape.rank)
    first, second = ((1,) * (rank - x.shape.rank) + tuple(x.shape) for x in (x1, x2))
    x1 = tf.reshape(x1, [size for n in first for size in (n, 1)])
    x2 = tf.reshape(x2, [size for n in second for size in (1, n)])
    return tf.reshape(x1 * x2, [math.prod(pair) for pair in zip(first, second, strict=True)])


def matmul(tf: Any, x: Any, y: Any) -> Any:
    """tf.matmul takes matrices only; a vector becomes one and its axis goes again."""
    left, right = x.shape.rank == 1, y.shape.rank == 1
    x = tf.expand_dims(x, 0) if left else x
    y = tf.expand_dims(y, -1) if right else y
    z = tf.matmul(x, y)
    axes = ([-2] if left else []) + ([-1] if right else [])
    return tf.squeeze(z, axis=axes) if axes else z


def outer(tf: Any, x1: Any, x2: Any) -> Any:
    return tf.tensordot(x1, x2, axes=0)


def tensordot(tf: Any, x1: Any, x2: Any, axes: Any = 2) -> Any:
    return tf.tensordot(x1, x2, axes=pair_of_axes(axes))


ROWS: dict[str, Lowering] = {
    "cross": cross,
    "dot": dot,
    "einsum": einsum,
    "kron": kron,
    "matmul": matmul,
    "outer": outer,
    "tensordot": tensordot,
}
