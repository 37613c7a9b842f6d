"""Samples of ops/linalg.py."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import REAL, Sample

Shapes = tuple[tuple[int, ...], ...]


def calls(*shapes: Shapes, **keywords: Any) -> list[Sample]:
    return [Sample((REAL,) * len(each), each, keywords) for each in shapes]


EINSUMS: tuple[tuple[str, Shapes], ...] = (
    ("ij,jk->ik", ((2, 3), (3, 4))),
    ("ij,jk", ((2, 3), (3, 2))),
    ("i,i->", ((3,), (3,))),
    ("i,j->ij", ((2,), (3,))),
    ("ba,b", ((2, 3), (2,))),
    ("ij->ji", ((2, 3),)),
    ("ij->", ((2, 3),)),
    ("ij->i", ((2, 3),)),
    ("ijk->ik", ((2, 1, 2),)),
    ("ijj", ((2, 1, 1),)),
    ("ii->i", ((3, 3),)),
    ("ii", ((3, 3),)),
    ("iji->ij", ((2, 3, 2),)),
    ("iij,jk->ik", ((2, 2, 3), (3, 2))),
    ("iii,i->", ((2, 2, 2), (2,))),
    ("...ij,...jk->...ik", ((2, 1, 2, 3), (4, 3, 2))),
    ("...i,...i", ((2, 3), (3,))),
    ("i...,i...->...", ((3, 2), (3,))),
    ("b...d,dk->bk...", ((2, 2, 3), (3, 2))),
    ("ij,jk,kl->il", ((2, 3), (3, 2), (2, 2))),
    ("ij,kl->l", ((2, 3), (2, 3))),
    ("ij,jk->ik", ((2, 1), (3, 4))),
    ("bqd,bkd->bqk", ((2, 3, 2), (2, 2, 2))),
    (",i->i", ((), (3,))),
    ("i j, j -> i", ((2, 3), (3,))),
    ("Aa,ab->bA", ((2, 3), (3, 2))),
    ("ij,jk->ik", ((0, 3), (3, 2))),
    ("ij,jk->ik", ((2, 0), (0, 2))),
)

ROWS: dict[str, list[Sample]] = {
    "matmul": calls(
        ((2, 3), (3, 4)),
        ((3,), (3,)),
        ((3,), (3, 2)),
        ((2, 3), (3,)),
        ((2, 2, 3), (2, 3, 2)),
        ((2, 1, 2, 3), (4, 3, 2)),
        ((3,), (2, 3, 2)),
        ((2, 2, 3), (3,)),
        ((1, 1), (1, 1)),
        ((0, 3), (3, 2)),
        ((2, 0), (0, 2)),
    ),
    "dot": calls(
        ((3,), (3,)),
        ((2, 3), (3, 4)),
        ((2, 3), (3,)),
        ((3,), (3, 2)),
        ((), (2, 3)),
        ((3,), ()),
        ((), ()),
        ((2, 3), (2, 3, 2)),
        ((1, 1), (1, 1)),
        ((2, 0), (0, 2)),
    ),
    "tensordot": [
        *calls(((2, 3), (2, 3)), ((4, 2, 3), (2, 3)), ((2, 3), (2, 3, 2)), ((2, 0), (2, 0, 2))),
        *calls(((2,), (3,)), ((), (2,)), ((2, 1), (3,)), axes=0),
        *calls(((2, 3), (3, 2)), ((3,), (3,)), axes=1),
        *calls(((2, 3, 4), (4, 2, 3)), axes=((0, 2), (1, 0))),
        *calls(((2, 3, 2), (3, 2)), axes=((-2, -1), (0, 1))),
        *calls(((2, 3), (3, 4)), axes=((1,), (0,))),
    ],
    "outer": calls(((2,), (3,)), ((1,), (1,)), ((0,), (2,))),
    "cross": [
        *calls(((3,), (3,)), ((2, 3), (3,)), ((2, 1, 3), (4, 3)), ((0, 3), (3,))),
        *calls(((3, 2), (3, 2)), ((3, 1), (3, 2)), axis=0),
        *calls(((2, 3, 2), (3, 2)), axis=-2),
    ],
    "kron": calls(
        ((2,), (3,)),
        ((2, 2), (3, 1)),
        ((2,), (2, 3)),
        ((2, 1, 2), (3,)),
        ((), (2,)),
        ((1, 1), (1, 1)),
        ((0,), (2,)),
    ),
    "einsum": [sample for text, shapes in EINSUMS for sample in calls(shapes, subscripts=text)],
}

sizes = st.integers(0, 3)


@st.composite
def any_product(draw: Any) -> Sample:
    """Two stacks of matrices, or vectors, that can be multiplied."""
    n, k, m = draw(sizes), draw(sizes), draw(sizes)
    batch = draw(st.integers(1, 2))
    left = draw(st.sampled_from([(k,), (n, k), (batch, n, k), (1, n, k)]))
    right = draw(st.sampled_from([(k,), (k, m), (batch, k, m), (2, 1, k, m)]))
    return calls((left, right))[0]


@st.composite
def any_dot(draw: Any) -> Sample:
    n, k, m = draw(sizes), draw(sizes), draw(sizes)
    left = draw(st.sampled_from([(), (k,), (n, k), (2, n, k)]))
    right = draw(st.sampled_from([(), (k,), (k, m), (2, k, m)]))
    return calls((left, right))[0]


@st.composite
def any_tensordot(draw: Any) -> Sample:
    """Axes of two arrays, joined in pairs that are drawn."""
    shared = draw(st.lists(sizes, max_size=2))
    left = draw(st.permutations([*shared, *draw(st.lists(sizes, max_size=2))]))
    right = draw(st.permutations([*shared, *draw(st.lists(sizes, max_size=1))]))
    first: list[int] = []
    second: list[int] = []
    for n in shared:
        first.append(next(i for i, size in enumerate(left) if size == n and i not in first))
        second.append(next(i for i, size in enumerate(right) if size == n and i not in second))
    axes = (tuple(first), tuple(second))
    return calls((tuple(left), tuple(right)), axes=axes)[0]


@st.composite
def any_cross(draw: Any) -> Sample:
    n = draw(sizes)
    left = draw(st.sampled_from([(3,), (n, 3), (1, 3), (2, 1, 3)]))
    right = draw(st.sampled_from([(3,), (n, 3), (2, 1, 3)]))
    if draw(st.booleans()):
        return calls((left, right))[0]
    return calls(((3, *left[:-1]), (3, *left[:-1])), axis=0)[0]


@st.composite
def any_einsum(draw: Any) -> Sample:
    """One to three terms over four labels of fixed sizes, and a result with some of them."""
    lengths = dict(zip("abcd", draw(st.permutations([1, 2, 2, 3])), strict=True))
    term = st.lists(st.sampled_from("abcd"), max_size=3).map("".join)
    terms = draw(st.lists(term, min_size=1, max_size=3))
    named = sorted(set("".join(terms)))
    result = draw(st.permutations(named))[: draw(st.integers(0, 3))]
    shapes = tuple(tuple(lengths[label] for label in one) for one in terms)
    text = ",".join(terms)
    if draw(st.booleans()):
        text += "->" + "".join(result)
    return calls(shapes, subscripts=text)[0]


vectors = st.tuples(sizes.map(lambda n: (n,)), sizes.map(lambda n: (n,)))
small = st.lists(st.integers(0, 2), max_size=3).map(tuple)

RANDOM: dict[str, SearchStrategy[Sample]] = {
    "matmul": any_product(),
    "dot": any_dot(),
    "tensordot": any_tensordot(),
    "outer": vectors.map(lambda pair: calls(pair)[0]),
    "cross": any_cross(),
    "kron": st.tuples(small, small).map(lambda pair: calls(pair)[0]),
    "einsum": any_einsum(),
}

VALUES: dict[str, Callable[..., Any]] = {
    "matmul": np.matmul,
    "dot": np.dot,
    "tensordot": np.tensordot,
    "outer": np.outer,
    "cross": np.cross,
    "kron": np.kron,
    "einsum": lambda *xs, subscripts: np.einsum(subscripts, *xs),
}
