"""Samples of ops/indexing.py."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import basic_indices
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import REAL, Sample, any_sizes, below, one

ROWS: dict[str, list[Sample]] = {
    "getitem": [
        one(REAL, 4, index=(1,)),
        one(REAL, 4, index=(-1,)),
        one(REAL, 4, index=(slice(None, None, -2),)),
        one(REAL, 3, 4, index=(slice(1, None), None, 2)),
        one(REAL, 2, 3, 4, index=(..., 1)),
        one(REAL, 4, index=(np.array([0, 2, 0]),)),
        one(REAL, 4, index=(np.array([True, False, True, True]),)),
        one(REAL, 4, index=(slice(2, 2),)),
        one(REAL, index=()),
    ],
    "scatter": [
        one(REAL, 2, shape=(4,), index=(slice(1, 3),)),
        one(REAL, shape=(3, 2), index=(1, 0)),
        one(REAL, 3, shape=(4,), index=(np.array([0, 2, 0]),)),
    ],
    "concatenate": [
        Sample((REAL, REAL), ((2,), (3,))),
        Sample((REAL, REAL, REAL), ((2, 1), (2, 2), (2, 0)), {"axis": -1}),
        Sample((REAL,), ((3,),)),
    ],
    "stack": [
        Sample((REAL, REAL), ((3,), (3,))),
        Sample((REAL, REAL), ((), ())),
        Sample((REAL, REAL, REAL), ((2, 3), (2, 3), (2, 3)), {"axis": -1}),
    ],
    "take": [
        Sample((REAL, below(4)), ((4,), (3,))),
        Sample((REAL, below(4)), ((4,), ())),
        Sample((REAL, below(3)), ((2, 3), (2, 2)), {"axis": 1}),
        Sample((REAL, below(2)), ((2, 3, 2), (5,)), {"axis": -3}),
        Sample((REAL, below(1)), ((1, 2), (3,)), {"axis": 0}),
        Sample((REAL, below(2)), ((2,), (0,))),
    ],
    "take_along_axis": [
        Sample((REAL, below(3)), ((2, 3), (2, 1))),
        Sample((REAL, below(3)), ((3,), (4,))),
        Sample((REAL, below(2)), ((2, 3), (4, 3)), {"axis": 0}),
        Sample((REAL, below(3)), ((2, 3), (1, 2))),
        Sample((REAL, below(3)), ((1, 3), (2, 2)), {"axis": -1}),
        Sample((REAL, below(2)), ((2, 2, 2), (2, 3, 2)), {"axis": 1}),
    ],
    "scatter_add": [
        Sample((REAL, below(3), REAL), ((3,), (5,), (5,))),
        Sample((REAL, below(3), REAL), ((2, 3), (2, 4), (2, 4)), {"axis": 1}),
        Sample((REAL, below(2), REAL), ((2, 3), (4, 2), (4, 2)), {"axis": 0}),
        Sample((REAL, below(2), REAL), ((2, 1, 2), (1, 1, 2), (1, 1, 2))),
        Sample((REAL, below(2), REAL), ((2,), (0,), (0,))),
    ],
    "one_hot": [
        Sample((below(3),), ((4,),), {"num_classes": 3}),
        Sample((below(3),), ((),), {"num_classes": 2}),
        Sample((below(3),), ((2, 2),), {"num_classes": 3, "axis": 0}),
        Sample((below(3),), ((2, 1),), {"num_classes": 3, "axis": 1}),
        Sample((below(3),), ((2, 1),), {"num_classes": 1, "axis": -2}),
    ],
}


@st.composite
def _index(pick: Any) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """A shape, and an index of ints, slices, None and Ellipsis into it."""
    shape = pick(any_sizes(min_dims=1, min_side=1))
    index = pick(basic_indices(shape, min_dims=0, max_dims=4, allow_newaxis=True))
    return shape, index if isinstance(index, tuple) else (index,)


def _scatter(pair: Any) -> Sample:
    shape, index = pair
    return one(REAL, *np.empty(shape)[index].shape, shape=shape, index=index)


@st.composite
def _joined(pick: Any, name: str) -> Sample:
    shape = pick(any_sizes(min_dims=1).filter(lambda shape: np.prod(shape) <= 8))
    count = pick(st.integers(1, 3))
    if name == "stack":
        axis = pick(st.integers(-len(shape) - 1, len(shape)))
        return Sample((REAL,) * count, (shape,) * count, {"axis": axis})
    axis = pick(st.integers(-len(shape), len(shape) - 1))
    sizes = [
        tuple(pick(st.integers(0, 3)) if i == axis % len(shape) else n for i, n in enumerate(shape))
        for _ in range(count)
    ]
    return Sample((REAL,) * count, tuple(sizes), {"axis": axis})


@st.composite
def _taken(pick: Any, name: str) -> Sample:
    shape = pick(any_sizes(min_dims=1, min_side=1))
    axis = pick(st.integers(-len(shape), len(shape) - 1))
    at = axis % len(shape)
    draw = below(shape[at])
    if name == "take":
        indices = pick(any_sizes().filter(lambda shape: len(shape) < 3 and np.prod(shape) <= 4))
        return Sample((REAL, draw), (shape, indices), {"axis": axis})
    count = pick(st.integers(0, 3))
    if name == "take_along_axis":
        indices = tuple(
            count if i == at else pick(st.sampled_from([n, 1])) for i, n in enumerate(shape)
        )
        return Sample((REAL, draw), (shape, indices), {"axis": axis})
    indices = tuple(count if i == at else pick(st.integers(0, n)) for i, n in enumerate(shape))
    return Sample((REAL, draw, REAL), (shape, indices, indices), {"axis": axis})


@st.composite
def _one_hot(pick: Any) -> Sample:
    shape = pick(any_sizes().filter(lambda shape: np.prod(shape) <= 6))
    axis = pick(st.integers(-len(shape) - 1, len(shape)))
    return Sample((below(4),), (shape,), {"num_classes": pick(st.integers(1, 4)), "axis": axis})


RANDOM: dict[str, SearchStrategy[Sample]] = {
    "getitem": _index().map(lambda pair: one(REAL, *pair[0], index=pair[1])),
    "scatter": _index().map(_scatter),
    "concatenate": _joined("concatenate"),
    "stack": _joined("stack"),
    **{name: _taken(name) for name in ("take", "take_along_axis", "scatter_add")},
    "one_hot": _one_hot(),
}


def _scattered(x: Any, shape: tuple[int, ...], index: Any) -> Any:
    """One element at a time: where an array of positions is indexed like the result."""
    positions = np.arange(int(np.prod(shape))).reshape(shape)[index]
    y = np.zeros(int(np.prod(shape)))
    for position, element in zip(np.ravel(positions), np.ravel(x), strict=True):
        y[position] += element
    return y.reshape(shape)


def _scatter_add(x: Any, indices: Any, updates: Any, axis: int = -1) -> Any:
    y = x.copy()
    for place in np.ndindex(indices.shape):
        target = list(place)
        target[axis] = indices[place]
        y[tuple(target)] += updates[place]
    return y


def _one_hot_value(indices: Any, num_classes: int, axis: int = -1, dtype: Any = None) -> Any:
    classes = [np.where(indices == k, 1.0, 0.0) for k in range(num_classes)]
    return np.stack(classes, axis)


VALUES: dict[str, Callable[..., Any]] = {
    "getitem": lambda x, index: x[index],
    "scatter": _scattered,
    "concatenate": lambda *xs, axis=0: np.concatenate(xs, axis),
    "stack": lambda *xs, axis=0: np.stack(xs, axis),
    "take": np.take,
    "take_along_axis": np.take_along_axis,
    "scatter_add": _scatter_add,
    "one_hot": _one_hot_value,
}
