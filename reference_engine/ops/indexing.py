"""Taking arrays apart and putting them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reference_engine.errors import ShapeError
from reference_engine.floats import Array, all_in_float32, as_dtype
from reference_engine.op import REQUIRED, Op, Rounding, Several, internal, row, several
from reference_engine.rules import JointlyLinear, Linear, axes_of
from reference_engine.traced import Value, shape_of, to_array

ROUNDING: Rounding = "none"
SOURCE = "NumPy"


def _add_at(x: Any, g: Any, index: Any) -> None:
    """x[index] += g. An element that was taken twice is added to twice."""
    for part in index if isinstance(index, tuple) else (index,):
        if isinstance(part, (list, np.ndarray)):
            np.add.at(x, index, g)
            return
    x[index] += g


getitem: Op = row(
    "getitem",
    lambda x, *, index: np.asarray(x)[index],
    Linear(lambda g, x, index: scatter(g, shape=shape_of(x), index=index), add_to=_add_at),
).says(
    "x[index]; the index has ints, slices, None, Ellipsis, or arrays of ints or bools",
    "getitem; transposed: add each element where it was taken from, 0 elsewhere",
)


def _scatter_value(x: Any, *, shape: tuple[int, ...], index: Any) -> Any:
    y = np.zeros(shape, x.dtype)
    _add_at(y, x, index)
    return y


scatter: Op = internal(
    "scatter",
    _scatter_value,
    Linear(lambda g, x, shape, index: getitem(g, index=index)),
    rounding="result",
).says(
    "zeros of a shape with x added at x[index]",
    "scatter; transposed: getitem",
    source="the transpose of NumPy's indexing",
)


def _slice_back(g: Value, i: int, xs: Sequence[Value], axis: int = 0) -> Value:
    axis %= len(shape_of(g))
    start = sum(shape_of(x)[axis] for x in xs[:i])
    index = (*(slice(None),) * axis, slice(start, start + shape_of(xs[i])[axis]))
    return getitem(g, index=index)


concatenate: Op = row(
    "concatenate",
    lambda *xs, axis=0: np.concatenate(xs, axis),
    JointlyLinear(_slice_back),
    arrays=("*x",),
    keywords={"axis": 0},
    aliases=("concat",),
).says(
    "the arrays one after the other along an axis", "concatenate; transposed: take the pieces apart"
)


def _item_back(g: Value, i: int, xs: Sequence[Value], axis: int = 0) -> Value:
    axis %= len(shape_of(g))
    return getitem(g, index=(*(slice(None),) * axis, i))


stack: Op = row(
    "stack",
    lambda *xs, axis=0: np.stack(xs, axis),
    JointlyLinear(_item_back),
    arrays=("*x",),
    keywords={"axis": 0},
).says("the arrays side by side along a new axis", "stack; transposed: take the pieces apart")


def _split_parts(
    shape: tuple[int, ...], sections: Any, axis: int = 0
) -> list[tuple[Op, Mapping[str, Any]]]:
    (axis,) = axes_of(axis, len(shape))
    size = shape[axis]
    if isinstance(sections, int):
        if sections < 1 or size % sections:
            reason = f"{size} elements do not make {sections} equal parts"
            raise ShapeError("split", (shape,), reason)
        step = size // sections
        ends = [step * (i + 1) for i in range(sections)]
    else:
        ends = [*sections, size]
    before = (slice(None),) * axis
    return [
        (getitem, {"index": (*before, slice(start, end))})
        for start, end in zip([0, *ends[:-1]], ends, strict=True)
    ]


split: Several = several(
    "split",
    _split_parts,
    results=("*parts",),
    formula="x taken apart along an axis: into so many equal parts, or before each of the "
    "given indices",
    keywords={"sections": REQUIRED, "axis": 0},
)


def _take_index(x: Value, indices: Value, axis: int | None) -> tuple[Any, ...]:
    """The index that takes elements of x along the axis. Raises ValueError if the axis is
    missing."""
    ndim = len(shape_of(x))
    if axis is None and ndim != 1:
        raise ValueError(f"an array of {ndim} axes needs the axis to take along")
    axis = int(np.lib.array_utils.normalize_axis_index(axis or 0, ndim))
    return (*(slice(None),) * axis, to_array(indices))


def _take_value(x: Any, indices: Any, *, axis: int | None = None) -> Any:
    return np.asarray(x)[_take_index(x, indices, axis)]


def _take_back(g: Value, i: int, xs: Sequence[Value], axis: int | None = None) -> Value:
    x, indices = xs
    return scatter(g, shape=shape_of(x), index=_take_index(x, indices, axis))


def _take_shape(
    shape: tuple[int, ...], indices: tuple[int, ...], axis: int | None = None
) -> tuple[int, ...]:
    if axis is None and len(shape) != 1:
        raise ValueError(f"an array of {len(shape)} axes needs the axis to take along")
    axis = int(np.lib.array_utils.normalize_axis_index(axis or 0, len(shape)))
    return (*shape[:axis], *indices, *shape[axis + 1 :])


take: Op = row(
    "take", _take_value, JointlyLinear(_take_back), kinds={1: "int"}, result_shape=_take_shape
).says(
    "the elements of x at the indices along an axis, which is needed unless there is "
    "but one; negative indices count from the end",
    "take; transposed: add each element where it was taken from",
    domain="indices inside the axis",
    source="Array API",
)


def _along_axis(sizes: Sequence[int], indices: Array, axis: int) -> tuple[Array, ...]:
    """The index with `indices` on the axis and every position of `sizes` on the others."""
    ndim = len(sizes)
    axis = int(np.lib.array_utils.normalize_axis_index(axis, ndim))
    if indices.ndim != ndim:
        raise ValueError(f"the indices must have {ndim} axes")
    return tuple(
        indices if i == axis else np.arange(n).reshape([-1 if j == i else 1 for j in range(ndim)])
        for i, n in enumerate(sizes)
    )


def _gather_back(g: Value, i: int, xs: Sequence[Value], axis: int = -1) -> Value:
    x, indices = xs
    index = _along_axis(shape_of(x), to_array(indices), axis)
    return scatter(g, shape=shape_of(x), index=index)


take_along_axis: Op = row(
    "take_along_axis",
    lambda x, indices, *, axis=-1: np.asarray(x)[_along_axis(shape_of(x), to_array(indices), axis)],
    JointlyLinear(_gather_back),
    aliases=("take_along_dim",),
    kinds={1: "int"},
).says(
    "y[i, j] = x[i, indices[i, j]]: an index along the axis for each element; negative "
    "ones count from the end, other axes broadcast",
    "take_along_axis; transposed: add each element where it was taken from",
    domain="indices inside the axis",
    source="Array API",
)


def _scattered(x: Value, indices: Value, axis: int) -> tuple[Array, ...]:
    """The index at which updates are added. Raises ValueError if the indices do not fit x."""
    given, sizes = to_array(indices), shape_of(x)
    index = _along_axis(given.shape if given.ndim == len(sizes) else sizes, given, axis)
    if any(
        n > size
        for i, (n, size) in enumerate(zip(given.shape, sizes, strict=True))
        if i != axis % len(sizes)
    ):
        raise ValueError("only along the axis may there be more indices than elements")
    return index


@all_in_float32
def _scatter_add(x: Any, updates: Any, index: Any) -> Any:
    y = np.array(x)
    np.add.at(y, index, updates)  # an element may be met more than once
    return y


def _scatter_add_value(x: Any, indices: Any, updates: Any, *, axis: int = -1) -> Any:
    if np.shape(indices) != np.shape(updates):
        raise ValueError("there must be as many updates as indices")
    return _scatter_add(x, updates, index=_scattered(x, indices, axis))


def _scatter_add_back(g: Value, i: int, xs: Sequence[Value], axis: int = -1) -> Value:
    return g if i == 0 else getitem(g, index=_scattered(xs[0], xs[1], axis))


scatter_add: Op = row(
    "scatter_add",
    _scatter_add_value,
    JointlyLinear(_scatter_add_back),
    kinds={1: "int"},
    rounding="sums",
    result_shape=lambda x, indices, updates, axis=-1: x,
).says(
    "x with updates[i, j] added at x[i, indices[i, j]]: an index along the axis for "
    "each update; negative ones count from the end",
    "scatter_add; transposed: 1 for x, for the updates take_along_axis",
    domain="indices inside the axis",
    source="torch.scatter_add",
)


def _one_hot_value(indices: Any, *, num_classes: int, axis: int = -1, dtype: Any = None) -> Any:
    indices = np.asarray(indices)
    axis = int(np.lib.array_utils.normalize_axis_index(axis, indices.ndim + 1))
    classes = np.arange(num_classes).reshape((-1, *(1,) * (indices.ndim - axis)))
    chosen = np.expand_dims(indices, axis) == classes
    return chosen.astype(np.float64 if dtype is None else as_dtype(dtype))


def _one_hot_shape(shape: tuple[int, ...], num_classes: int, axis: int = -1) -> tuple[int, ...]:
    axis = int(np.lib.array_utils.normalize_axis_index(axis, len(shape) + 1))
    return (*shape[:axis], num_classes, *shape[axis:])


one_hot: Op = row(
    "one_hot", _one_hot_value, None, kinds={0: "int"}, result_shape=_one_hot_shape
).says(
    "1 at the index along a new axis, 0 elsewhere; all 0 for an index outside the classes",
    "none: the result depends on whole numbers",
    domain="whole numbers",
    source="tf.one_hot",
)
