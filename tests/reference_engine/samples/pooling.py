"""Samples of ops/pooling.py."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import DISTINCT, REAL, Array, Draw, Sample, one

Shape = tuple[int, ...]


def _pools(draw: Draw, **keywords: Any) -> list[Sample]:
    return [
        one(draw, 1, 2, 2, 4, kernel_size=2, **keywords),
        one(draw, 2, 1, 3, 3, kernel_size=2, stride=1, **keywords),
        one(draw, 1, 1, 4, 3, kernel_size=(3, 2), stride=(2, 1), padding=(1, 0), **keywords),
        one(draw, 1, 1, 3, 4, kernel_size=2, padding=1, **keywords),
        one(draw, 1, 2, 1, 1, kernel_size=1, **keywords),
        one(draw, 0, 1, 2, 2, kernel_size=2, **keywords),
    ]


MOVED = {"kernel_size": (2, 2), "stride": (2, 1), "padding": (1, 0)}

ROWS: dict[str, list[Sample]] = {
    "max_pool2d": _pools(DISTINCT),
    "avg_pool2d": [*_pools(REAL), *_pools(REAL, count_include_pad=False)],
    "patches": [
        one(REAL, 1, 2, 3, 2, **MOVED),
        one(REAL, 1, 1, 3, 3, kernel_size=2, stride=None, padding=0),
    ],
    "unpatch": [
        one(REAL, 1, 2, 4, 2, 1, size=(3, 2), **MOVED),
        one(REAL, 1, 1, 4, 1, 1, size=(3, 3), kernel_size=2, stride=None, padding=0),
    ],
}


@st.composite
def _moves(draw: st.DrawFn) -> tuple[Shape, dict[str, Any]]:
    """The lengths of an array, and how a window moves over it."""
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(2))
    padding = tuple(draw(st.integers(0, k // 2)) for k in kernel)
    stride = draw(st.none() | st.integers(1, 2) | st.tuples(*(st.integers(1, 3),) * 2))
    size = tuple(
        max(1, k - 2 * p) + draw(st.integers(0, 1)) for k, p in zip(kernel, padding, strict=True)
    )
    return size, {"kernel_size": kernel, "stride": stride, "padding": padding}


@st.composite
def _pool(draw: st.DrawFn, numbers: Draw, **more: SearchStrategy[Any]) -> Sample:
    size, moves = draw(_moves())
    channels = draw(st.tuples(st.integers(0, 2), st.integers(1, 2)))
    return one(numbers, *channels, *size, **moves, **draw(st.fixed_dictionaries(more)))


@st.composite
def _unpatch_call(draw: st.DrawFn) -> Sample:
    size, moves = draw(_moves())
    shape = _patches(np.zeros((1, draw(st.integers(1, 2)), *size)), **moves).shape
    return one(REAL, *shape, size=size, **moves)


RANDOM: dict[str, SearchStrategy[Sample]] = {
    "max_pool2d": _pool(DISTINCT),
    "avg_pool2d": _pool(REAL, count_include_pad=st.booleans()),
    "patches": _pool(REAL),
    "unpatch": _unpatch_call(),
}


def _pair(value: Any) -> Shape:
    return tuple(value) if isinstance(value, tuple) else (value, value)


def _patches(
    x: Array, kernel_size: Any, stride: Any = None, padding: Any = 0, fill: float = 0.0
) -> Array:
    """NumPy's sliding windows over the padded array."""
    (k, m), (p, q) = _pair(kernel_size), _pair(padding)
    s, t = _pair(kernel_size if stride is None else stride)
    wide = np.pad(x, ((0, 0), (0, 0), (p, p), (q, q)), constant_values=fill)
    seen = np.lib.stride_tricks.sliding_window_view(wide, (k, m), (2, 3))[:, :, ::s, ::t]
    return np.moveaxis(seen.reshape(*seen.shape[:4], k * m), -1, 2)


def _max_pool(x: Array, **moves: Any) -> Array:
    return np.asarray(_patches(x, fill=-np.inf, **moves).max(axis=2))


def _avg_pool(x: Array, count_include_pad: bool = True, **moves: Any) -> Array:
    seen = _patches(x, fill=0.0 if count_include_pad else np.nan, **moves)
    return np.asarray(np.nanmean(seen, axis=2))


def _unpatch(y: Array, size: Shape, **moves: Any) -> Array:
    """Where each element of the patches comes from, found from their numbers."""
    count = int(np.prod(size))
    source = _patches(np.arange(1.0, count + 1).reshape(1, 1, *size), **moves)[0, 0]
    flat = y.reshape(*y.shape[:2], -1)
    x = [np.sum(flat[..., source.ravel() == i + 1], axis=-1) for i in range(count)]
    return np.stack(x, axis=-1).reshape(*y.shape[:2], *size)


VALUES: dict[str, Callable[..., Any]] = {
    "max_pool2d": _max_pool,
    "avg_pool2d": _avg_pool,
    "patches": _patches,
    "unpatch": _unpatch,
}
