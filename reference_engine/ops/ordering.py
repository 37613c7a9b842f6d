"""Order statistics: sorting, the median, the largest elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_engine.floats import Array, in_float32
from reference_engine.op import REQUIRED, Op, Point, Rounding, Several, row, several
from reference_engine.ops.indexing import take_along_axis
from reference_engine.ops.reductions import count_along, shared
from reference_engine.rules import Reduction, Tangents, axes_of
from reference_engine.traced import Value, to_array

ROUNDING: Rounding = "none"
SOURCE = "NumPy"

SORTING = {"axis": -1, "descending": False}
TOP = {"k": REQUIRED, "axis": -1, "largest": True}


def _order(x: Array, axis: int, descending: bool) -> Array:
    """The indices that sort x. Equal elements keep their order."""
    if not descending:
        return np.argsort(x, axis=axis, stable=True)
    flipped = np.argsort(np.flip(x, axis), axis=axis, stable=True)
    return np.flip(x.shape[axis] - 1 - flipped, axis)


def _sort_value(x: Any, axis: int = -1, descending: bool = False) -> Any:
    x = np.asarray(x)
    return np.take_along_axis(x, _order(x, axis, descending), axis)


def _sort_push(x_dot: Value, y: Value, x: Value, axis: int = -1, descending: bool = False) -> Value:
    return take_along_axis(x_dot, _order(to_array(x), axis, descending), axis=axis)


def _neighbours_equal(ordered: Array, axis: int) -> Array:
    """A mask of the elements of a sorted array that equal a neighbour."""
    moved = np.moveaxis(ordered, axis, -1)
    beside = np.equal(moved[..., 1:], moved[..., :-1])
    equal = np.zeros(moved.shape, np.bool_)
    equal[..., 1:] |= beside
    equal[..., :-1] |= beside
    return np.moveaxis(equal, -1, axis)


def _sort_kinks(x: Any, axis: int = -1, descending: bool = False) -> Any:
    return _neighbours_equal(_sort_value(x, axis, descending), axis)


sort: Op = row(
    "sort",
    _sort_value,
    Tangents(_sort_push),
    keywords=SORTING,
    points=(
        Point("elements tie", "tie", ([2.0, 2.0],), ([1.0, 1.0],)).because(
            "elements that are equal stay in their order"
        ),
    ),
    kinks_at=_sort_kinks,
).says(
    "the elements along an axis in order, nan counting as the largest",
    "x_dot in the order that sorts x",
    domain="at least one axis",
)

argsort: Op = row(
    "argsort",
    lambda x, *, axis=-1, descending=False: _order(np.asarray(x), axis, descending),
    None,
    points=(Point("elements tie", "jump", ([2.0, 2.0],), (None,), value=[0, 1]),),
    kinks_at=_sort_kinks,
).says(
    "the indices that sort x along an axis; elements that are equal stay in their order",
    "none: the result is whole numbers",
    domain="at least one axis",
)


def _in_order(x: Array, axis: Any) -> Array:
    """x sorted, with the axes flattened into a last one."""
    axes = axes_of(axis, x.ndim)
    moved = np.moveaxis(x, axes, range(x.ndim - len(axes), x.ndim))
    flat = moved.reshape((*moved.shape[: x.ndim - len(axes)], count_along(x, axes)))
    return np.sort(flat, axis=-1)


def _middle(x: Array, axis: Any) -> tuple[Array, Array]:
    """The lower and the upper middle element, with the axes kept at length 1."""
    axes = axes_of(axis, x.ndim)
    ordered = _in_order(x, axis)
    n = ordered.shape[-1]
    if not n:
        raise ValueError("the median of no elements")
    kept = tuple(1 if i in axes else size for i, size in enumerate(x.shape))
    last = ordered[..., -1]
    missing = last != last  # sorting puts nan last
    lower, upper = (
        np.where(missing, ordered[..., -1], ordered[..., i]).reshape(kept)
        for i in ((n - 1) // 2, n // 2)
    )
    return lower, upper


@in_float32
def _median_value(x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    x = np.asarray(x, np.result_type(x, np.float32)) if x.dtype.kind != "f" else x
    lower, upper = _middle(x, axis)
    # Halve first, so that no sum overflows. (Two subnormal numbers lose half an ulp.)
    y = np.where(lower == upper, lower, 0.5 * lower + 0.5 * upper)
    return y if keepdims else np.squeeze(y, axis=axes_of(axis, x.ndim))


def _median_part(g: Value, y: Value, x: Value, axis: Any) -> Value:
    lower, upper = _middle(to_array(x), axis)
    return shared(0.5 * g, lower, x, axis) + shared(0.5 * g, upper, x, axis)


def _median_kinks(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """A mask of kinks: a middle element equals its neighbour on the far side from the middle."""
    ordered = _in_order(x, axis)
    n = ordered.shape[-1]
    low, high = (n - 1) // 2, n // 2
    kinks = np.zeros(ordered.shape[:-1], np.bool_)
    if low > 0:
        kinks |= ordered[..., low - 1] == ordered[..., low]
        kinks |= ordered[..., high] == ordered[..., high + 1]
    axes = axes_of(axis, np.ndim(x))
    kept = tuple(1 if i in axes else size for i, size in enumerate(np.shape(x)))
    return kinks.reshape(kept) if keepdims else kinks


median: Op = row(
    "median",
    _median_value,
    Reduction(_median_part),
    points=(
        Point(
            "k elements equal the middle one", "tie", ([1.0, 2.0, 2.0],), ([0.0, 0.5, 0.5],)
        ).because(
            "1/k each, as for max; sorting first gives all to one of them",
            frameworks=([0.0, 1.0, 0.0],),
        ),
    ),
    kinks_at=_median_kinks,
    rounding="result",
).says(
    "the middle element over the axes, of an even number the mean of the middle two; "
    "nan if one is nan",
    "1 for the middle element, or 1/2 for each of two; 0 for the others",
    domain="at least one element",
)


def _top(x: Array, k: int, axis: int, largest: bool) -> Array:
    if not 0 <= k <= x.shape[axis]:
        raise ValueError(f"there are no {k} elements on an axis of size {x.shape[axis]}")
    return np.take(_order(x, axis, largest), range(k), axis)


def _top_value(x: Any, *, k: int, axis: int = -1, largest: bool = True) -> Any:
    x = np.asarray(x)
    return np.take_along_axis(x, _top(x, k, axis, largest), axis)


def _top_push(
    x_dot: Value, y: Value, x: Value, k: int, axis: int = -1, largest: bool = True
) -> Value:
    return take_along_axis(x_dot, _top(to_array(x), k, axis, largest), axis=axis)


def _top_kinks(x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
    ties = _sort_kinks(x, axis, largest)
    return np.take(ties, range(k), axis)


topk_values: Op = row(
    "topk_values",
    _top_value,
    Tangents(_top_push),
    points=(
        Point(
            "elements tie at the k-th place", "tie", ([2.0, 2.0],), ([1.0, 0.0],), {"k": 1}
        ).because("of elements that are equal the first is taken"),
    ),
    kinks_at=_top_kinks,
).says(
    "the k largest elements along an axis, the largest first; or the smallest",
    "x_dot of the elements that are taken",
    domain="at least k elements",
    source="torch.topk, tf.math.top_k",
)

topk_indices: Op = row(
    "topk_indices",
    lambda x, *, k, axis=-1, largest=True: _top(np.asarray(x), k, axis, largest),
    None,
    points=(Point("elements tie", "jump", ([2.0, 2.0],), (None,), {"k": 1}, value=[0]),),
    kinks_at=_top_kinks,
).says(
    "the indices of the k largest elements along an axis; or of the smallest",
    "none: the result is whole numbers",
    domain="at least k elements",
    source="torch.topk, tf.math.top_k",
)


topk: Several = several(
    "topk",
    lambda shape, **keywords: ((topk_values, keywords), (topk_indices, keywords)),
    results=("values", "indices"),
    formula="the k largest elements along an axis, the largest first, and their indices; or "
    "the smallest",
    keywords=TOP,
    aliases=("top_k",),
)
