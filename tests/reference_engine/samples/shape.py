"""Samples of ops/shape.py."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import REAL, Sample, any_sizes, one

ROWS: dict[str, list[Sample]] = {
    "reshape": [
        one(REAL, 2, 3, shape=(3, 2)),
        one(REAL, 2, 3, shape=(-1,)),
        one(REAL, 1, shape=()),
        one(REAL, shape=(1, 1)),
        one(REAL, 0, 2, shape=(0,)),
    ],
    "expand_dims": [one(REAL, 3, axis=0), one(REAL, 2, 3, axis=-1), one(REAL, axis=0)],
    "squeeze": [one(REAL, 1, 3, 1), one(REAL, 1, 3, 1, axis=0), one(REAL, 1, axis=-1)],
    "transpose": [
        one(REAL, 2, 3),
        one(REAL, 2, 3, 4, axes=(2, 0, 1)),
        one(REAL, 2, 3, 4, axes=(-1, 0, -2)),
        one(REAL),
        one(REAL, 0, 2),
    ],
    "broadcast_to": [
        one(REAL, 3, shape=(2, 3)),
        one(REAL, 2, 1, shape=(2, 3)),
        one(REAL, shape=(2, 2)),
        one(REAL, 1, shape=(0,)),
        one(REAL, 2, shape=(2,)),
    ],
    "moveaxis": [
        one(REAL, 2, 3, source=0, destination=-1),
        one(REAL, 2, 3, 4, source=(0, -1), destination=(1, 0)),
        one(REAL, 3, source=0, destination=0),
        one(REAL, 0, 2, source=1, destination=0),
    ],
    "flip": [
        one(REAL, 2, 3),
        one(REAL, 2, 3, axis=1),
        one(REAL, 2, 3, 2, axis=(0, -1)),
        one(REAL),
        one(REAL, 0, 2),
    ],
    "roll": [
        one(REAL, 4, shift=1),
        one(REAL, 2, 3, shift=-2),
        one(REAL, 2, 3, shift=5, axis=1),
        one(REAL, 2, 3, shift=(1, -1), axis=(0, -1)),
        one(REAL, 1, shift=1, axis=0),
    ],
    "tile": [
        one(REAL, 3, reps=2),
        one(REAL, 2, 3, reps=(2,)),
        one(REAL, 2, reps=(3, 1)),
        one(REAL, 2, 1, reps=(1, 2)),
        one(REAL, reps=3),
        one(REAL, 2, reps=0),
    ],
    "repeat": [
        one(REAL, 3, repeats=2),
        one(REAL, 2, 3, repeats=2),
        one(REAL, 2, 3, repeats=2, axis=-1),
        one(REAL, 2, 3, repeats=(2, 0, 1), axis=1),
        one(REAL, 2, repeats=(1, 3)),
        one(REAL, 2, 3, repeats=(2,), axis=0),
        one(REAL, repeats=2),
        one(REAL, 2, repeats=0),
    ],
    "pad": [
        one(REAL, 3, pad_width=1),
        one(REAL, 2, 3, pad_width=(1, 2)),
        one(REAL, 2, 3, pad_width=((1, 0), (0, 2)), value=0.5),
        one(REAL, 2, pad_width=0),
        one(REAL, 0, 2, pad_width=1, value=-1.0),
    ],
    "tril": [
        one(REAL, 3, 3),
        one(REAL, 2, 3, k=1),
        one(REAL, 2, 3, 2, k=-1),
        one(REAL, 1, 1),
        one(REAL, 0, 2),
    ],
    "triu": [
        one(REAL, 3, 3),
        one(REAL, 2, 3, k=1),
        one(REAL, 2, 3, 2, k=-1),
        one(REAL, 1, 1),
        one(REAL, 0, 2),
    ],
    "diag": [
        one(REAL, 3),
        one(REAL, 2, k=1),
        one(REAL, 2, k=-2),
        one(REAL, 3, 3),
        one(REAL, 2, 3, k=1),
        one(REAL, 2, 3, k=-1),
        one(REAL, 1, 1),
    ],
    "trace": [
        one(REAL, 3, 3),
        one(REAL, 2, 3, offset=1),
        one(REAL, 2, 3, 2, offset=-1),
        one(REAL, 1, 1),
        one(REAL, 2, 2, offset=3),
    ],
}

SMALL = st.integers(-3, 3)


@st.composite
def _factors(pick: Any, size: int) -> tuple[int, ...]:
    """A shape of that many elements."""
    shape = []
    while size > 1:
        shape.append(pick(st.sampled_from([n for n in range(2, size + 1) if size % n == 0])))
        size //= shape[-1]
    ones = pick(st.lists(st.just(1), max_size=2))
    return tuple(pick(st.permutations([*shape, *ones])))


@st.composite
def _reshape(pick: Any) -> Sample:
    shape = pick(any_sizes(min_side=1))
    return one(REAL, *shape, shape=pick(_factors(prod(shape))))


@st.composite
def _with_axes(pick: Any, name: str) -> Sample:
    """Some of the axes in some order, from either end."""
    shape = pick(any_sizes(min_dims=1))
    ndim = len(shape)
    order = pick(st.permutations(range(ndim)))
    if name == "transpose":
        return one(REAL, *shape, axes=tuple(i - pick(st.sampled_from([0, ndim])) for i in order))
    count = pick(st.integers(1, ndim))
    axes = tuple(i - pick(st.sampled_from([0, ndim])) for i in order[:count])
    if name == "flip":
        return one(REAL, *shape, axis=pick(st.sampled_from([None, axes, axes[0]])))
    if name == "roll":
        shift = tuple(pick(SMALL) for _ in axes)
        choices = [(shift, axes), (shift[0], axes[0]), (shift[0], None)]
        chosen, axis = pick(st.sampled_from(choices))
        return one(REAL, *shape, shift=chosen, axis=axis)
    places = pick(st.permutations(range(ndim)))[:count]
    return one(REAL, *shape, source=axes, destination=tuple(places))


@st.composite
def _new_axes(pick: Any) -> Sample:
    shape = pick(any_sizes())
    return one(REAL, *shape, axis=pick(st.integers(-len(shape) - 1, len(shape))))


@st.composite
def _squeeze(pick: Any) -> Sample:
    shape = list(pick(any_sizes()))
    at = pick(st.integers(0, len(shape)))
    shape.insert(at, 1)
    axis = pick(st.sampled_from([None, at, at - len(shape)]))
    return one(REAL, *shape, axis=axis)


@st.composite
def _broadcast_to(pick: Any) -> Sample:
    full = pick(any_sizes())
    kept = full[pick(st.integers(0, len(full))) :]
    shape = tuple(pick(st.sampled_from([n, 1])) for n in kept)
    return one(REAL, *shape, shape=full)


@st.composite
def _copies(pick: Any, name: str) -> Sample:
    shape = pick(any_sizes().filter(lambda shape: prod(shape) <= 6))
    few = st.integers(0, 2)
    if name == "tile":
        return one(REAL, *shape, reps=tuple(pick(st.lists(few, min_size=1, max_size=3))))
    axis = pick(st.sampled_from([None, *range(-len(shape), len(shape))]))
    size = prod(shape) if axis is None else shape[axis]
    each = st.lists(few, min_size=size, max_size=size).map(tuple)
    return one(REAL, *shape, repeats=pick(few if size in (0, 1) else few | each), axis=axis)


@st.composite
def _pad(pick: Any) -> Sample:
    shape = pick(any_sizes(min_dims=1).filter(lambda shape: prod(shape) <= 6))
    pair = st.tuples(st.integers(0, 2), st.integers(0, 2))
    widths = st.tuples(*(pair for _ in shape))
    value = pick(st.sampled_from([0.0, 1.5]))
    return one(REAL, *shape, pad_width=pick(st.integers(0, 1) | pair | widths), value=value)


@st.composite
def _matrix(pick: Any, keyword: str) -> Sample:
    shape = pick(any_sizes(min_dims=2))
    return one(REAL, *shape, **{keyword: pick(SMALL)})


@st.composite
def _diag(pick: Any) -> Sample:
    shape = pick(any_sizes(min_dims=1, min_side=1).filter(lambda shape: len(shape) < 3))
    k = pick(SMALL if len(shape) == 1 else st.integers(1 - shape[0], shape[1] - 1))
    return one(REAL, *shape, k=k)


RANDOM: dict[str, SearchStrategy[Sample]] = {
    "reshape": _reshape(),
    "expand_dims": _new_axes(),
    "squeeze": _squeeze(),
    "broadcast_to": _broadcast_to(),
    **{name: _with_axes(name) for name in ("transpose", "moveaxis", "flip", "roll")},
    "tile": _copies("tile"),
    "repeat": _copies("repeat"),
    "pad": _pad(),
    "tril": _matrix("k"),
    "triu": _matrix("k"),
    "trace": _matrix("offset"),
    "diag": _diag(),
}


def _distance(x: Any) -> Any:
    """How far an element of the matrices lies above the main diagonal."""
    rows, columns = np.indices(x.shape[-2:])
    return columns - rows


def _diag_value(x: Any, k: int = 0) -> Any:
    if x.ndim == 2:
        return np.array([x[i, i + k] for i in range(x.shape[0]) if 0 <= i + k < x.shape[1]])
    y = np.zeros((x.size + abs(k),) * 2)
    for i, element in enumerate(x):
        y[i + max(-k, 0), i + max(k, 0)] = element
    return y


VALUES: dict[str, Callable[..., Any]] = {
    "reshape": np.reshape,
    "expand_dims": np.expand_dims,
    "squeeze": np.squeeze,
    "transpose": np.transpose,
    "broadcast_to": np.broadcast_to,
    "moveaxis": np.moveaxis,
    "flip": np.flip,
    "roll": np.roll,
    "tile": np.tile,
    "repeat": np.repeat,
    "pad": lambda x, pad_width, value=0.0: np.pad(x, pad_width, constant_values=value),
    "tril": lambda x, k=0: np.where(_distance(x) <= k, x, 0),
    "triu": lambda x, k=0: np.where(_distance(x) >= k, x, 0),
    "diag": _diag_value,
    "trace": lambda x, offset=0: np.sum(np.where(_distance(x) == offset, x, 0), axis=(-2, -1)),
}
