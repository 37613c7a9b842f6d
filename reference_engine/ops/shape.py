"""Operations that move elements and compute nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_engine.floats import in_float32
from reference_engine.op import Op, Rounding, row
from reference_engine.rules import Linear, Tangents
from reference_engine.traced import ROWS, Value, shape_of

ROUNDING: Rounding = "none"
SOURCE = "NumPy"


def _to_shape_of(g: Value, x: Value, **_: Any) -> Value:
    """The transpose of all operations that only reshape."""
    return reshape(g, shape=shape_of(x))


reshape: Op = row("reshape", lambda x, *, shape: np.reshape(x, shape), Linear(_to_shape_of)).says(
    "the elements of x in order, in another shape; one length may be -1",
    "reshape; transposed: reshape back",
)

expand_dims: Op = row(
    "expand_dims",
    lambda x, *, axis: np.expand_dims(x, axis),
    Linear(_to_shape_of),
    aliases=("unsqueeze",),
).says("x with a new axis of length 1", "expand_dims; transposed: reshape back")

squeeze: Op = row(
    "squeeze", lambda x, *, axis=None: np.squeeze(x, axis), Linear(_to_shape_of)
).says(
    "x without its axes of length 1, or without the given ones", "squeeze; transposed: reshape back"
)


def _transpose_back(g: Value, x: Value, axes: Any = None) -> Value:
    if axes is None:
        return transpose(g)
    ndim = len(shape_of(x))
    return transpose(g, axes=tuple(int(i) for i in np.argsort([a % ndim for a in axes])))


transpose: Op = row(
    "transpose",
    lambda x, *, axes=None: np.transpose(x, axes),
    Linear(_transpose_back),
    aliases=("permute_dims", "permute"),
).says(
    "x with its axes in the given order, by default reversed",
    "transpose; transposed: the inverse order",
)

# The walker sums a cotangent with more elements than its argument, as for every operation.
broadcast_to: Op = row(
    "broadcast_to",
    lambda x, *, shape: np.array(np.broadcast_to(x, shape)),
    Linear(lambda g, x, shape: g),
).says(
    "x repeated along new axes and axes of length 1",
    "broadcast_to; transposed: the sum along those axes",
)


moveaxis: Op = row(
    "moveaxis",
    lambda x, *, source, destination: np.moveaxis(x, source, destination),
    Linear(lambda g, x, source, destination: moveaxis(g, source=destination, destination=source)),
).says(
    "x with some of its axes at other places, the others in their order",
    "moveaxis; transposed: move them back",
)

flip: Op = row(
    "flip",
    lambda x, *, axis=None: np.flip(x, axis),
    Linear(lambda g, x, axis=None: flip(g, axis=axis)),
).says("x backwards along the axes, by default along all", "flip; transposed: flip")


def _roll_back(g: Value, x: Value, shift: Any, axis: Any = None) -> Value:
    back = -shift if isinstance(shift, int) else tuple(-one for one in shift)
    return roll(g, shift=back, axis=axis)


roll: Op = row(
    "roll", lambda x, *, shift, axis=None: np.roll(x, shift, axis), Linear(_roll_back)
).says(
    "x moved along the axes, what leaves at the end comes in at the start; without an "
    "axis in the order of all elements",
    "roll; transposed: roll back",
)


def _times(reps: Any, ndim: int) -> tuple[int, ...]:
    """The number of repetitions along each axis, including new axes in front. Raises ValueError for
    a negative number."""
    given = (reps,) if isinstance(reps, int) else tuple(reps)
    if any(n < 0 for n in given):
        raise ValueError(f"an array cannot be repeated {min(given)} times")
    return (*(1,) * (ndim - len(given)), *given)


def _tile_value(x: Any, *, reps: Any) -> Any:
    return np.tile(x, _times(reps, np.ndim(x)))


def _tile_back(g: Value, x: Value, reps: Any) -> Value:
    """The sum over the copies: each axis is split into copies and elements."""
    shape = shape_of(x)
    times = _times(reps, len(shape))
    sizes = (*(1,) * (len(times) - len(shape)), *shape)
    split = tuple(size for pair in zip(times, sizes, strict=True) for size in pair)
    total = ROWS["sum"](reshape(g, shape=split), axis=tuple(range(0, len(split), 2)))
    return reshape(total, shape=shape)


def _tile_shape(shape: tuple[int, ...], reps: Any) -> tuple[int, ...]:
    times = _times(reps, len(shape))
    sizes = (*(1,) * (len(times) - len(shape)), *shape)
    return tuple(n * size for n, size in zip(times, sizes, strict=True))


tile: Op = row("tile", _tile_value, Linear(_tile_back), result_shape=_tile_shape).says(
    "x side by side with itself, so often along each axis (the last ones, where fewer "
    "numbers are given)",
    "tile; transposed: the sum over the copies",
)


def _repeat_back(g: Value, x: Value, repeats: Any, axis: int | None = None) -> Value:
    """The sum over the copies of each element."""
    shape = shape_of(x)
    flat = (int(np.prod(shape)),) if axis is None else shape
    axis = 0 if axis is None else axis % len(shape)
    if isinstance(repeats, int):
        split = (*flat[: axis + 1], repeats, *flat[axis + 1 :])
        total = ROWS["sum"](reshape(g, shape=split), axis=axis + 1)
    else:
        index = (*(slice(None),) * axis, np.repeat(np.arange(flat[axis]), repeats))
        total = ROWS["scatter"](g, shape=flat, index=index)
    return reshape(total, shape=shape)


def _repeat_shape(shape: tuple[int, ...], repeats: Any, axis: int | None = None) -> tuple[int, ...]:
    if axis is None:
        shape, axis = (int(np.prod(shape)),), 0
    n = shape[axis]
    given = (repeats,) if isinstance(repeats, int) else tuple(repeats)
    if len(given) not in (1, n):
        raise ValueError(f"{len(given)} repeats for {n} elements")
    if any(one < 0 for one in given):
        raise ValueError(f"an element cannot be repeated {min(given)} times")
    count = n * given[0] if len(given) == 1 else sum(given)
    axis %= len(shape)
    return (*shape[:axis], count, *shape[axis + 1 :])


repeat: Op = row(
    "repeat",
    lambda x, *, repeats, axis=None: np.repeat(x, repeats, axis),
    Linear(_repeat_back),
    aliases=("repeat_interleave",),
    result_shape=_repeat_shape,
).says(
    "every element along an axis several times in a row, a number for all or one for "
    "each; without an axis of all elements in order",
    "repeat; transposed: the sum over each element's copies",
)


def _widths(pad_width: Any, ndim: int) -> list[tuple[int, int]]:
    """The padding before and after each axis. Raises ValueError if it does not fit x or is
    negative."""
    given = (
        np.broadcast_to(np.asarray(pad_width, np.int64), (ndim, 2)) if ndim else np.empty((0, 2))
    )
    if np.any(given < 0):
        raise ValueError("a width is at least 0")
    return [(int(before), int(after)) for before, after in given]


def _pad_value(x: Any, *, pad_width: Any, value: float = 0.0) -> Any:
    x = np.asarray(x)
    return np.pad(x, _widths(pad_width, x.ndim), constant_values=value)


def _pad_push(x_dot: Value, y: Value, x: Value, pad_width: Any, value: float = 0.0) -> Value:
    widths = _widths(pad_width, len(shape_of(x)))
    index = tuple(
        slice(before, before + n) for (before, _), n in zip(widths, shape_of(x), strict=True)
    )
    return ROWS["scatter"](x_dot, shape=shape_of(y), index=index)


def _pad_shape(shape: tuple[int, ...], pad_width: Any, value: float = 0.0) -> tuple[int, ...]:
    widths = _widths(pad_width, len(shape))
    return tuple(before + n + after for (before, after), n in zip(widths, shape, strict=True))


pad: Op = row("pad", _pad_value, Tangents(_pad_push), result_shape=_pad_shape).says(
    "x with a frame of `value` around it: a width for all sides, a pair (before, "
    "after) for all axes, or a pair for each",
    "x_dot with a frame of zeros; transposed: what is inside the frame",
    source="numpy.pad",
)


def _triangle(name: str, function: Any, formula: str) -> Op:
    def value(x: Any, k: int = 0) -> Any:
        if np.ndim(x) < 2:
            raise ValueError("a triangle needs a matrix")
        return function(x, k)

    made: Op = row(name, value, Linear(lambda g, x, k=0: made(g, k=k)), keywords={"k": 0}).says(
        formula, f"{name}; transposed: {name}"
    )
    return made


tril = _triangle(
    "tril", np.tril, "matrices with 0 above the k-th diagonal (k > 0: above the main one)"
)
triu = _triangle(
    "triu", np.triu, "matrices with 0 below the k-th diagonal (k > 0: above the main one)"
)


def _diag_value(x: Any, *, k: int = 0) -> Any:
    return np.array(np.diag(x, k))  # of a matrix it is a read-only view


def _diag_back(g: Value, x: Value, k: int = 0) -> Value:
    shape = shape_of(x)
    if len(shape) == 1:
        return diag(g, k=k)
    along = np.arange(shape_of(g)[0])
    return ROWS["scatter"](g, shape=shape, index=(along + max(-k, 0), along + max(k, 0)))


def _diag_shape(shape: tuple[int, ...], k: int = 0) -> tuple[int, ...]:
    if len(shape) == 1:
        return (shape[0] + abs(k),) * 2
    if len(shape) != 2:
        raise ValueError("a vector or a matrix is needed")
    return (max(0, min(shape[0] + min(k, 0), shape[1] - max(k, 0))),)


diag: Op = row("diag", _diag_value, Linear(_diag_back), result_shape=_diag_shape).says(
    "a matrix with a vector on its k-th diagonal and 0 elsewhere, or the k-th diagonal of a matrix",
    "diag; transposed: diag, in the shape of x",
    domain="one axis or two",
)


def _trace_back(g: Value, x: Value, offset: int = 0) -> Value:
    rows, columns = shape_of(x)[-2:]
    mask = np.eye(rows, columns, offset, np.bool_)
    return ROWS["where"](mask, expand_dims(g, axis=(-2, -1)), 0.0)


trace: Op = row(
    "trace",
    in_float32(lambda x, *, offset=0: np.trace(x, offset, axis1=-2, axis2=-1)),
    Linear(_trace_back),
    rounding="sums",
).says(
    "the sum of a diagonal of the matrices in the last two axes",
    "trace; transposed: y_bar on the diagonal, 0 elsewhere",
    domain="at least two axes",
    source="Array API",
)
