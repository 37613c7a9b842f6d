"""Sums, products and extremes over axes, or over everything without an axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from reference_engine.floats import in_float32
from reference_engine.op import Op, Point, Rounding, internal, row
from reference_engine.ops.arithmetic import divide
from reference_engine.ops.control import astype
from reference_engine.ops.indexing import getitem
from reference_engine.ops.selection import equal, where
from reference_engine.ops.shape import reshape, transpose
from reference_engine.rules import LinearReduction, Reduction, Tangents, axes_of
from reference_engine.traced import Value, shape_of

ROUNDING: Rounding = "none"


def _reducer(function: Any) -> Callable[..., Any]:
    return lambda x, *, axis=None, keepdims=False: function.reduce(x, axis=axis, keepdims=keepdims)


sum_: Op = row(
    "sum", in_float32(_reducer(np.add)), LinearReduction(lambda g, y, x, axis: g), rounding="sums"
).says("sum of x over the axes", "1 for every element")


def count_along(x: Value, axis: Any) -> int:
    """The number of elements of x that are reduced to one."""
    shape = shape_of(x)
    return math.prod(shape if axis is None else [shape[i] for i in axes_of(axis, len(shape))])


def _mean_value(x: Any, *, axis: Any = None, keepdims: bool = False) -> Any:
    """np.mean, at a third of its overhead. Integers are summed in float64."""
    dtype = np.float64 if x.dtype.kind in "biu" else None
    add: Any = np.add
    return add.reduce(x, axis=axis, dtype=dtype, keepdims=keepdims) / count_along(x, axis)


mean: Op = row(
    "mean",
    in_float32(_mean_value),
    LinearReduction(lambda g, y, x, axis: g / count_along(x, axis)),
    rounding="sums",
).says("sum of x over the axes / number of elements", "1 / number of elements, for every element")


def shared(g: Value, y: Value, x: Value, axis: Any) -> Value:
    """g, shared equally among the elements that equal y."""
    attained = equal(x, y)
    ties = astype(sum_(attained, axis=axis, keepdims=True), dtype=g.dtype)
    return where(attained, divide(g, ties), 0.0)


def _ties_of(extreme: Any) -> Callable[..., Any]:
    def kinks_at(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        attained = np.equal(x, extreme.reduce(x, axis=axis, keepdims=True))
        return np.sum(attained, axis=axis, keepdims=keepdims) > 1

    return kinks_at


def _extreme(name: str, alias: str, function: Any, adjective: str) -> Op:
    return row(
        name,
        _reducer(function),
        Reduction(shared),
        aliases=(alias,),
        points=(
            Point("k elements tie", "tie", ([2.0, 2.0],), ([0.5, 0.5],)).because(
                "1/k each, as by torch.amax; torch.max with a dim takes one of them"
            ),
        ),
        kinks_at=_ties_of(function),
    ).says(
        f"the {adjective} element over the axes; nan if one is nan",
        f"1 for the {adjective} element, 0 for the others",
        domain="at least one element",
    )


max_ = _extreme("max", "amax", np.maximum, "largest")
_extreme("min", "amin", np.minimum, "smallest")


def _exclusive_value(x: Any) -> Any:
    """The product of everything on the left of each element and everything on its right."""
    left, right = np.ones_like(x), np.ones_like(x)
    left[..., 1:] = np.cumprod(x[..., :-1], axis=-1)
    right[..., -2::-1] = np.cumprod(x[..., :0:-1], axis=-1)
    return left * right


def _exclusive_push(x_dot: Value, y: Value, x: Value) -> Value:
    """The sum over j != i of x_dot_j times the product of all elements but i and j. Takes n^2
    memory."""
    diagonal = np.eye(shape_of(x)[-1], dtype=np.bool_)
    rows = (..., None, slice(None))
    without_two = exclusive_prod(where(diagonal, 1.0, getitem(x, index=rows)))
    moved = where(diagonal, 0.0, getitem(x_dot, index=rows))
    return sum_(without_two * moved, axis=-1)


exclusive_prod: Op = internal(
    "exclusive_prod", in_float32(_exclusive_value), Tangents(_exclusive_push), rounding="result"
).says(
    "for every element the product of the others along the last axis",
    "y_dot_i = sum over j != i of x_dot_j * product of all but i and j",
)


def _prod_part(g: Value, y: Value, x: Value, axis: Any) -> Value:
    """g times the product of the other elements. y / x would be 0 / 0 at a zero."""
    shape = shape_of(x)
    axes = axes_of(axis, len(shape))
    order = (*(i for i in range(len(shape)) if i not in axes), *axes)
    moved = tuple(shape[i] for i in order)
    flat = (*moved[: len(shape) - len(axes)], count_along(x, axis))
    others = exclusive_prod(reshape(transpose(x, axes=order), shape=flat))
    back = tuple(int(i) for i in np.argsort(order))
    return g * transpose(reshape(others, shape=moved), axes=back)


prod: Op = row(
    "prod", in_float32(_reducer(np.multiply)), Reduction(_prod_part), rounding="result"
).says(
    "product of x over the axes",
    "for every element the product of the others, right with zeros too",
)


def _argument(name: str, function: Any, extreme: Any, adjective: str) -> Op:
    return row(
        name,
        lambda x, *, axis=None, keepdims=False: function(x, axis=axis, keepdims=keepdims),
        None,
        points=(Point("k elements tie", "jump", ([2.0, 2.0],), (None,), value=0),),
        kinks_at=_ties_of(extreme),
    ).says(
        f"the index of the {adjective} element along an axis, of several the first; "
        "without an axis in the order of the elements",
        "none: the result is a whole number",
        domain="at least one element",
        source="NumPy",
    )


argmax = _argument("argmax", np.argmax, np.maximum, "largest")
argmin = _argument("argmin", np.argmin, np.minimum, "smallest")


def _of_truths(name: str, function: Any, formula: str) -> Op:
    return row(name, function, None, kinds={0: "bool"}).says(
        formula, "none: the result is true or false", source="NumPy"
    )


_of_truths(
    "all",
    lambda x, *, axis=None, keepdims=False: np.all(x, axis=axis, keepdims=keepdims),
    "whether every element along the axes is true (a number: not 0)",
)
_of_truths(
    "any",
    lambda x, *, axis=None, keepdims=False: np.any(x, axis=axis, keepdims=keepdims),
    "whether any element along the axes is true (a number: not 0)",
)

count_nonzero: Op = row(
    "count_nonzero",
    lambda x, *, axis=None, keepdims=False: np.count_nonzero(x, axis=axis, keepdims=keepdims),
    None,
    points=(Point("an x = 0", "jump", ([0.0, 2.0],), (None,), value=1),),
    kinks_at=lambda x, axis=None, keepdims=False: np.any(
        np.equal(x, 0), axis=axis, keepdims=keepdims
    ),
).says(
    "how many elements along the axes are not 0",
    "none: the result is a whole number",
    source="NumPy",
)
