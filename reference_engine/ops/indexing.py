"""Taking arrays apart and putting them together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reference_engine.op import REQUIRED, Op, register
from reference_engine.rules import JointlyLinear, Linear
from reference_engine.traced import Value, shape_of

FAMILY = "indexing"

getitem: Op = register(
    Op(
        "getitem",
        lambda x, index: np.asarray(x)[index],
        Linear(lambda g, x, index: scatter(g, shape=shape_of(x), index=index)),
        family=FAMILY,
        keywords={"index": REQUIRED},
        formula="x[index]; the index has ints, slices, None, Ellipsis, or arrays of ints or bools",
        derivative="getitem; transposed: add each element where it was taken from, 0 elsewhere",
        source="NumPy",
        rounding="none",
    )
)


def _scatter_value(g: Any, shape: tuple[int, ...], index: Any) -> Any:
    x = np.zeros(shape, g.dtype)
    parts = index if isinstance(index, tuple) else (index,)
    if any(isinstance(part, (list, np.ndarray)) for part in parts):
        np.add.at(x, index, g)  # an element may have been taken twice
    else:
        x[index] = g
    return x


scatter: Op = register(
    Op(
        "scatter",
        _scatter_value,
        Linear(lambda g, x, shape, index: getitem(g, index=index)),
        family=FAMILY,
        keywords={"shape": REQUIRED, "index": REQUIRED},
        formula="zeros of a shape with x added at x[index]",
        derivative="scatter; transposed: getitem",
        source="the transpose of NumPy's indexing",
    ),
    internal=True,
)


def _slice_back(g: Value, i: int, xs: Sequence[Value], axis: int = 0) -> Value:
    axis %= len(shape_of(g))
    start = sum(shape_of(x)[axis] for x in xs[:i])
    index = (*(slice(None),) * axis, slice(start, start + shape_of(xs[i])[axis]))
    return getitem(g, index=index)


concatenate: Op = register(
    Op(
        "concatenate",
        lambda *xs, axis=0: np.concatenate(xs, axis),
        JointlyLinear(_slice_back),
        family=FAMILY,
        arrays=("*x",),
        keywords={"axis": 0},
        aliases=("concat",),
        formula="the arrays one after the other along an axis",
        derivative="concatenate; transposed: take the pieces apart",
        source="NumPy",
        rounding="none",
    )
)


def _item_back(g: Value, i: int, xs: Sequence[Value], axis: int = 0) -> Value:
    axis %= len(shape_of(g))
    return getitem(g, index=(*(slice(None),) * axis, i))


stack: Op = register(
    Op(
        "stack",
        lambda *xs, axis=0: np.stack(xs, axis),
        JointlyLinear(_item_back),
        family=FAMILY,
        arrays=("*x",),
        keywords={"axis": 0},
        formula="the arrays side by side along a new axis",
        derivative="stack; transposed: take the pieces apart",
        source="NumPy",
        rounding="none",
    )
)
