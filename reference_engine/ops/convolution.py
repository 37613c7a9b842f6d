"""Convolutions: three operations on an input, a kernel and an output, linear in each.

    conv(x, w)              the convolution of a layer
    conv_input(y, w)        its transpose for x, which is also the transposed convolution
    conv_weight(x, y)       its transpose for w

The derivatives of each are written in the other two, so every order follows. All three are products
of matrices (im2col: Chellapilla, Puri, Simard, High performance convolutional neural
networks for document processing, 2006), a few images or rows at a time: memory stays small.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from reference_engine.errors import Shape, ShapeError
from reference_engine.floats import Array, all_in_float32
from reference_engine.op import REQUIRED, Composite, Op, Rounding, composite, internal, row
from reference_engine.rules import Multilinear
from reference_engine.traced import Value, shape_of

ROUNDING: Rounding = "sums"

KEYWORDS = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}

_COLUMNS = 2**19
"""Bytes of the matrix of columns that is made at a time. It fits into a cache, and the products are
not faster with more."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The positions of a window over the spatial axes, with one number for each axis.

    size    lengths of the array that it moves over, without padding
    kernel  lengths of the window, in elements
    steps   number of positions
    """

    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def window_size(self) -> int:
        return math.prod(self.kernel)

    @property
    def places(self) -> int:
        return math.prod(self.steps)

    @property
    def padded(self) -> tuple[int, ...]:
        return tuple(n + 2 * p for n, p in zip(self.size, self.padding, strict=True))

    @property
    def inside(self) -> tuple[Any, ...]:
        """The index of the array within its padded form."""
        return (..., *(slice(p, p + n) for n, p in zip(self.size, self.padding, strict=True)))


def per_axis(what: str, value: Any, count: int, least: int) -> tuple[int, ...]:
    """One integer for each of `count` axes. A single integer counts for all. Raises ValueError."""
    numbers = tuple(value) if isinstance(value, (tuple, list)) else (value,) * count
    whole = all(isinstance(n, (int, np.integer)) and n >= least for n in numbers)
    if len(numbers) != count or not whole:
        wanted = f"a whole number of at least {least}" + (f", or {count}" if count > 1 else "")
        raise ValueError(f"{what} must be {wanted}, not {value!r}")
    return tuple(int(n) for n in numbers)


def windows_over(
    size: tuple[int, ...], kernel: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1
) -> Windows:
    """The windows over an array of this size. Raises ValueError if the window is larger than the
    padded array."""
    count = len(size)
    kernel = per_axis("kernel_size", kernel, count, 1)
    stride = per_axis("stride", stride, count, 1)
    padding = per_axis("padding", padding, count, 0)
    dilation = per_axis("dilation", dilation, count, 1)
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    room = [n + 2 * p - s for n, p, s in zip(size, padding, spans, strict=True)]
    if min(room, default=0) < 0:
        raise ValueError(f"a window of {tuple(spans)} does not fit into {size} padded by {padding}")
    steps = tuple(r // s + 1 for r, s in zip(room, stride, strict=True))
    return Windows(size, kernel, stride, padding, dilation, steps)


def unfolded(x: Array, windows: Windows) -> Array:
    """The elements in each window, of shape (N, C, *kernel, *steps): a view, of x itself if nothing
    is padded.

    `x` has the shape (N, C, *size).
    """
    if any(windows.padding):
        inner, x = x, np.zeros((*x.shape[:2], *windows.padded), x.dtype)
        x[windows.inside] = inner
    strides = x.strides[2:]
    return as_strided(
        x,
        (*x.shape[:2], *windows.kernel, *windows.steps),
        (
            *x.strides[:2],
            *(s * d for s, d in zip(strides, windows.dilation, strict=True)),
            *(s * t for s, t in zip(strides, windows.stride, strict=True)),
        ),
        writeable=False,
    )


def fold_into(x: Array, columns: Array, windows: Windows, first: int = 0) -> None:
    """Add to x, padded and of shape (N, C, *padded), the elements that `unfolded` would read there.

    `columns` may have only some steps along the first spatial axis, starting at `first`.
    """
    axes = len(windows.size)
    starts, steps = (first, *(0,) * (axes - 1)), columns.shape[-axes:]
    for place in np.ndindex(*windows.kernel):
        moves = zip(place, windows.dilation, windows.stride, starts, steps, strict=True)
        at: tuple[Any, ...] = tuple(
            slice(d * i + t * a, d * i + t * (a + n - 1) + 1, t) for i, d, t, a, n in moves
        )
        x[(..., *at)] += columns[(slice(None), slice(None), *place)]


def _tiles(x: Array, channels: int, windows: Windows) -> Iterator[tuple[slice, slice]]:
    """Split all images of x, and all steps along the first axis, into parts with few enough
    columns: several whole images, or a part of one."""
    rows = windows.steps[0]
    row = max(1, channels * windows.window_size * windows.places // rows) * x.itemsize
    images = max(1, _COLUMNS // (row * rows))
    rows = rows if images > 1 else min(rows, max(1, _COLUMNS // row))
    for i in range(0, len(x), images):
        for j in range(0, windows.steps[0], rows):
            yield slice(i, min(i + images, len(x))), slice(j, min(j + rows, windows.steps[0]))


def _columns(view: Array, axes: int, images: slice, rows: slice, groups: int) -> Array:
    """The elements of a tile's windows, as a copy of part of the result of `unfolded`, of shape
    (groups, channels of a group * kernel, images * places)."""
    part = view[(images, *(slice(None),) * (1 + axes), rows)]
    part = part.transpose(*range(1, 2 + axes), 0, *range(2 + axes, 2 + 2 * axes))
    seen = math.prod(part.shape[: 1 + axes]) // groups
    return part.reshape(groups, seen, math.prod(part.shape[1 + axes :]))


def _outputs(y: Array, images: slice, rows: slice, groups: int) -> Array:
    """A tile of (N, O, *steps), as (groups, channels of a group, images * places)."""
    part = y[images, :, rows].swapaxes(0, 1)
    return part.reshape(groups, y.shape[1] // groups, math.prod(part.shape[1:]))


def _convolve(x: Array, w: Array, windows: Windows, groups: int) -> Array:
    out, axes, view = len(w), len(windows.size), unfolded(x, windows)
    kernels = w.reshape(groups, out // groups, w[0].size)
    y = np.empty((len(x), out, *windows.steps), x.dtype)
    for images, rows in _tiles(x, x.shape[1], windows):
        part = y[images, :, rows].swapaxes(0, 1)
        product = np.matmul(kernels, _columns(view, axes, images, rows, groups))
        part[...] = product.reshape(part.shape)
    return y


def _convolve_input(y: Array, w: Array, windows: Windows, groups: int) -> Array:
    channels, axes = w.shape[1] * groups, len(windows.size)
    kernels = w.reshape(groups, len(w) // groups, w[0].size).swapaxes(1, 2)
    x = np.zeros((len(y), channels, *windows.padded), y.dtype)
    for images, rows in _tiles(y, channels, windows):
        part = y[images, 0, rows]
        columns = np.matmul(kernels, _outputs(y, images, rows, groups))
        columns = columns.reshape(channels, *windows.kernel, *part.shape)
        fold_into(x[images], np.moveaxis(columns, 1 + axes, 0), windows, rows.start)
    return x[windows.inside]


def _convolve_weight(x: Array, y: Array, windows: Windows, groups: int) -> Array:
    inner, axes, view = x.shape[1] // groups, len(windows.size), unfolded(x, windows)
    w = np.zeros((groups, y.shape[1] // groups, inner * windows.window_size), x.dtype)
    for images, rows in _tiles(x, x.shape[1], windows):
        columns = _columns(view, axes, images, rows, groups)
        w += np.matmul(_outputs(y, images, rows, groups), columns.swapaxes(1, 2))
    return w.reshape(y.shape[1], inner, *windows.kernel)


def _layer(
    name: str, axes: int, x: Shape, w: Shape, groups: int, **moves: Any
) -> tuple[Windows, Shape]:
    """The windows of a convolution and the shape of its result. Raises ShapeError."""
    try:
        if len(x) != axes + 2 or len(w) != axes + 2:
            raise ValueError(f"x and w must have {axes + 2} axes")
        (groups,) = per_axis("groups", groups, 1, 1)
        if w[0] % groups or x[1] != w[1] * groups:
            raise ValueError(
                f"w of {w[0]} outputs and {w[1]} channels in {groups} groups "
                f"does not fit the {x[1]} channels of x"
            )
        windows = windows_over(x[2:], w[2:], **moves)
    except ValueError as error:
        raise ShapeError(name, (x, w), str(error)) from error
    return windows, (x[0], w[0], *windows.steps)


def _conv(name: str, axes: int, formula: str) -> Op:
    @all_in_float32
    def value(x: Array, w: Array, groups: int = 1, **moves: Any) -> Array:
        windows, _ = _layer(name, axes, x.shape, w.shape, groups, **moves)
        return _convolve(x, w, windows, groups)

    def result_shape(x: Shape, w: Shape, groups: int = 1, **moves: Any) -> Shape:
        return _layer(name, axes, x, w, groups, **moves)[1]

    return row(
        name,
        value,
        Multilinear(
            lambda g, x, w, **moves: conv_input(g, w, size=shape_of(x)[2:], **moves),
            lambda g, x, w, **moves: conv_weight(x, g, kernel=shape_of(w)[2:], **moves),
        ),
        arrays=("x", "w"),
        keywords=KEYWORDS,
        result_shape=result_shape,
    ).says(
        formula,
        "linear in x and in w; transposed: the transposed convolution of y_bar "
        "with w, the convolution of x with y_bar",
        source="torch.nn.functional." + name,
    )


conv1d = _conv(
    "conv1d",
    1,
    "y[n, o, i] = sum over c, k of w[o, c, k] x[n, c, stride i + dilation k - padding], x being 0 "
    "outside; x of shape (N, C, L), w of shape (O, C / groups, K): each group of outputs sees its "
    "own channels. For a bias add b[:, None]",
)
conv2d = _conv(
    "conv2d",
    2,
    "y[n, o, i, j] = sum over c, k, l of w[o, c, k, l] x[n, c, stride i + dilation k - padding, "
    "stride j + dilation l - padding], x being 0 outside; x of shape (N, C, H, W), w of shape "
    "(O, C / groups, K, L): each group of outputs sees its own channels. stride, padding and "
    "dilation are numbers or pairs. For a bias add b[:, None, None]",
)
_BY_AXES = {1: conv1d, 2: conv2d}


def _convolution(x: Value, w: Value, **keywords: Any) -> Value:
    return _BY_AXES[len(shape_of(x)) - 2](x, w, **keywords)


@all_in_float32
def _conv_input_value(
    y: Array, w: Array, size: tuple[int, ...], groups: int = 1, **moves: Any
) -> Array:
    windows = windows_over(size, w.shape[2:], **moves)
    return _convolve_input(y, w, windows, groups)


conv_input: Op = internal(
    "conv_input",
    _conv_input_value,
    Multilinear(
        lambda g, y, w, size, **moves: _convolution(g, w, **moves),
        lambda g, y, w, size, **moves: conv_weight(g, y, kernel=shape_of(w)[2:], **moves),
    ),
    arrays=("y", "w"),
    keywords={"size": REQUIRED, **KEYWORDS},
).says(
    "the transpose of a convolution with w of arrays with the spatial lengths `size`",
    "linear in y and in w; transposed: the convolution of x_bar with w, that of x_bar with y",
    source="Dumoulin, Visin, A guide to convolution arithmetic for deep learning (2016)",
)


@all_in_float32
def _conv_weight_value(
    x: Array, y: Array, kernel: tuple[int, ...], groups: int = 1, **moves: Any
) -> Array:
    windows = windows_over(x.shape[2:], kernel, **moves)
    return _convolve_weight(x, y, windows, groups)


conv_weight: Op = internal(
    "conv_weight",
    _conv_weight_value,
    Multilinear(
        lambda g, x, y, kernel, **moves: conv_input(y, g, size=shape_of(x)[2:], **moves),
        lambda g, x, y, kernel, **moves: _convolution(x, g, **moves),
    ),
    arrays=("x", "y"),
    keywords={"kernel": REQUIRED, **KEYWORDS},
).says(
    "the transpose of a convolution of x as a function of w, whose spatial lengths are `kernel`",
    "linear in x and in y; transposed: the transposed convolution of y with w_bar, "
    "the convolution of x with w_bar",
    source="torch.nn.grad.conv2d_weight",
)


def _transposed_layer(
    x: Shape,
    w: Shape,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Shape:
    """The shape of conv_transpose2d's result. Raises ShapeError."""
    try:
        if len(x) != 4 or len(w) != 4 or x[1] != w[0]:
            raise ValueError("x must be (N, C, H, W) and w (C, O / groups, K, L)")
        (groups,) = per_axis("groups", groups, 1, 1)
        if w[0] % groups:
            raise ValueError(f"{w[0]} channels do not fall into {groups} groups")
        stride, extra = (
            per_axis("stride", stride, 2, 1),
            per_axis("output_padding", output_padding, 2, 0),
        )
        padding, dilation = per_axis("padding", padding, 2, 0), per_axis("dilation", dilation, 2, 1)
        if any(e >= s for e, s in zip(extra, stride, strict=True)):
            raise ValueError("output_padding must be less than stride")
        size = tuple(
            (n - 1) * s - 2 * p + d * (k - 1) + e + 1
            for n, k, s, p, d, e in zip(x[2:], w[2:], stride, padding, dilation, extra, strict=True)
        )
        if min(size) < 1:
            raise ValueError(f"nothing is left: the result would have the size {size}")
    except ValueError as error:
        raise ShapeError("conv_transpose2d", (x, w), str(error)) from error
    return (x[0], w[1] * groups, *size)


def _conv_transpose2d(x: Value, w: Value, output_padding: Any = 0, **moves: Any) -> Value:
    shape = _transposed_layer(shape_of(x), shape_of(w), output_padding=output_padding, **moves)
    return conv_input(x, w, size=shape[2:], **moves)


conv_transpose2d: Composite = composite(
    "conv_transpose2d",
    _conv_transpose2d,
    arrays=("x", "w"),
    keywords={"stride": 1, "padding": 0, "output_padding": 0, "dilation": 1, "groups": 1},
    result_shape=_transposed_layer,
).says(
    "the transpose of conv2d as a function of its x: x of shape (N, C, H, W), w of shape "
    "(C, O / groups, K, L); the result has (H - 1) stride - 2 padding + dilation (K - 1) + "
    "output_padding + 1 rows",
    "linear in x and in w; transposed: conv2d of y_bar with w, that of y_bar with x",
    domain="output_padding < stride",
    source="Dumoulin, Visin, A guide to convolution arithmetic for deep learning (2016); "
    "torch.nn.functional.conv_transpose2d",
)
