"""Samples of ops/convolution.py."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import REAL, Array, Sample

Shape = tuple[int, ...]


def _two(first: Shape, second: Shape, **keywords: Any) -> Sample:
    return Sample((REAL, REAL), (first, second), keywords)


ROWS: dict[str, list[Sample]] = {
    "conv1d": [
        _two((2, 1, 4), (2, 1, 3)),
        _two((1, 2, 5), (1, 2, 2), stride=2, padding=1),
        _two((1, 2, 5), (2, 1, 2), dilation=2, groups=2),
        _two((1, 1, 1), (1, 1, 1)),
        _two((0, 1, 3), (2, 1, 2)),
        _two((1, 2, 4), (4, 1, 3), stride=(1,), padding=(2,), groups=2),
    ],
    "conv2d": [
        _two((1, 2, 3, 3), (1, 2, 2, 2)),
        _two((2, 1, 3, 2), (2, 1, 2, 1), stride=(2, 1), padding=(1, 0)),
        _two((1, 2, 3, 4), (2, 1, 2, 2), dilation=(1, 2), groups=2),
        _two((1, 1, 4, 4), (1, 1, 2, 2), stride=3, padding=1),
        _two((1, 1, 1, 1), (1, 1, 1, 1)),
        _two((0, 1, 3, 3), (1, 1, 2, 2)),
        _two((1, 1, 3, 3), (2, 1, 2, 2), stride=2, padding=1, dilation=2),
    ],
    "conv_transpose2d": [
        _two((1, 2, 2, 2), (2, 1, 2, 2)),
        _two((2, 1, 2, 1), (1, 2, 2, 1), stride=(2, 1)),
        _two((1, 2, 2, 2), (2, 1, 2, 3), stride=2, padding=1, output_padding=1, groups=2),
        _two((1, 1, 2, 3), (1, 1, 2, 2), dilation=2, padding=(0, 1)),
        _two((1, 1, 1, 1), (1, 1, 1, 1)),
        _two((0, 1, 2, 2), (1, 1, 2, 2)),
    ],
    "conv_input": [
        _two((1, 1, 2, 2), (1, 2, 2, 2), size=(3, 3)),
        _two((1, 2, 2), (2, 1, 2), size=(4,), stride=2, groups=2),
        _two((1, 1, 1, 2), (1, 1, 2, 2), size=(4, 3), padding=(0, 1), stride=2, dilation=2),
    ],
    "conv_weight": [
        _two((1, 2, 3, 3), (1, 1, 2, 2), kernel=(2, 2)),
        _two((1, 2, 4), (1, 2, 2), kernel=(2,), stride=2, groups=2),
        _two((2, 1, 3, 3), (2, 1, 2, 1), kernel=(2, 3), padding=(1, 0), stride=(2, 1)),
    ],
}


DATA_MOVEMENT = ("stride", "padding", "dilation")


@st.composite
def _layer(draw: st.DrawFn, axes: int) -> dict[str, Any]:
    """Shapes of x, w and y of a convolution, and its keywords."""

    def some(least: int, most: int) -> Shape:
        numbers = st.lists(st.integers(least, most), min_size=axes, max_size=axes)
        return tuple(draw(numbers))

    kernel, stride, dilation, padding = some(1, 2), some(1, 2), some(1, 2), some(0, 1)
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    least = [max(1, span - 2 * p) for span, p in zip(spans, padding, strict=True)]
    size = tuple(n + extra for n, extra in zip(least, some(0, 1), strict=True))
    batch, groups, inner, outer = (draw(st.integers(1, 2)) for _ in range(4))
    moves = dict(zip(DATA_MOVEMENT, (stride, padding, dilation), strict=True))
    return {
        "x": (batch, groups * inner, *size),
        "w": (groups * outer, inner, *kernel),
        "y": (batch, groups * outer, *_steps(size, kernel, **moves)),
        "keywords": {**moves, "groups": groups},
    }


def _called(first: str, second: str, **more: str) -> Callable[[dict[str, Any]], Sample]:
    """The call of a row with two of the three arrays; `more` are the spatial lengths of others."""

    def sample(layer: dict[str, Any]) -> Sample:
        lengths = {keyword: layer[array][2:] for keyword, array in more.items()}
        return _two(layer[first], layer[second], **lengths, **layer["keywords"])

    return sample


@st.composite
def _transposed(draw: st.DrawFn) -> Sample:
    layer = draw(_layer(2))
    stride = layer["keywords"]["stride"]
    extra = tuple(draw(st.integers(0, s - 1)) for s in stride)
    sample = _two(layer["y"], layer["w"], output_padding=extra, **layer["keywords"])
    assume(min(_transposed_size(sample.shapes[0], sample.shapes[1], **sample.keywords)) > 0)
    return sample


RANDOM: dict[str, SearchStrategy[Sample]] = {
    "conv1d": _layer(1).map(_called("x", "w")),
    "conv2d": _layer(2).map(_called("x", "w")),
    "conv_transpose2d": _transposed(),
    "conv_input": st.integers(1, 2).flatmap(_layer).map(_called("y", "w", size="x")),
    "conv_weight": st.integers(1, 2).flatmap(_layer).map(_called("x", "y", kernel="w")),
}


def _each(value: Any, axes: int) -> Shape:
    return tuple(value) if isinstance(value, tuple) else (value,) * axes


def _steps(
    size: Shape, kernel: Shape, stride: Any = 1, padding: Any = 0, dilation: Any = 1
) -> Shape:
    moves = (_each(value, len(size)) for value in (stride, padding, dilation))
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(size, kernel, *moves, strict=True)
    )


def _transposed_size(
    x: Shape,
    w: Shape,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Shape:
    moves = (_each(value, 2) for value in (stride, padding, output_padding, dilation))
    return tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + e + 1
        for n, k, s, p, e, d in zip(x[2:], w[2:], *moves, strict=True)
    )


def _meetings(
    size: Shape,
    kernel: Shape,
    steps: Shape,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
) -> Iterator[tuple[Shape, Shape, Shape]]:
    """Which element of x meets which of w for which of y: places in x, w and y."""
    axes = len(size)
    stride, padding, dilation = (_each(value, axes) for value in (stride, padding, dilation))
    for k, s in product(np.ndindex(*kernel), np.ndindex(*steps)):
        at = tuple(s[a] * stride[a] + k[a] * dilation[a] - padding[a] for a in range(axes))
        if all(0 <= at[a] < size[a] for a in range(axes)):
            yield at, k, s


def _blocks(groups: int, *channels: int) -> Iterator[tuple[slice, ...]]:
    """For every group, its channels of each array."""
    for g in range(groups):
        yield tuple(slice(g * n // groups, (g + 1) * n // groups) for n in channels)


ALL = slice(None)


def _conv(x: Array, w: Array, groups: int = 1, **moves: Any) -> Array:
    steps = _steps(x.shape[2:], w.shape[2:], **moves)
    y = np.zeros((len(x), len(w), *steps))
    for at, k, s in _meetings(x.shape[2:], w.shape[2:], steps, **moves):
        for inner, outer in _blocks(groups, x.shape[1], len(w)):
            y[(ALL, outer, *s)] += x[(ALL, inner, *at)] @ w[(outer, ALL, *k)].T
    return y


def _conv_input(y: Array, w: Array, size: Shape, groups: int = 1, **moves: Any) -> Array:
    channels = w.shape[1] * groups
    x = np.zeros((len(y), channels, *size))
    for at, k, s in _meetings(size, w.shape[2:], y.shape[2:], **moves):
        for inner, outer in _blocks(groups, channels, len(w)):
            x[(ALL, inner, *at)] += y[(ALL, outer, *s)] @ w[(outer, ALL, *k)]
    return x


def _conv_weight(x: Array, y: Array, kernel: Shape, groups: int = 1, **moves: Any) -> Array:
    w = np.zeros((y.shape[1], x.shape[1] // groups, *kernel))
    for at, k, s in _meetings(x.shape[2:], kernel, y.shape[2:], **moves):
        for inner, outer in _blocks(groups, x.shape[1], y.shape[1]):
            w[(outer, ALL, *k)] += y[(ALL, outer, *s)].T @ x[(ALL, inner, *at)]
    return w


def _conv_transpose2d(
    x: Array, w: Array, output_padding: Any = 0, groups: int = 1, **moves: Any
) -> Array:
    size = _transposed_size(x.shape, w.shape, output_padding=output_padding, **moves)
    return _conv_input(x, w, size, groups, **moves)


VALUES: dict[str, Callable[..., Any]] = {
    "conv1d": _conv,
    "conv2d": _conv,
    "conv_transpose2d": _conv_transpose2d,
    "conv_input": _conv_input,
    "conv_weight": _conv_weight,
}
