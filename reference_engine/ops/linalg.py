"""Products of matrices and lengths of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_engine.arithmetic.floats import is_narrow
from reference_engine.errors import ShapeError
from reference_engine.op import Op, register
from reference_engine.ops.indexing import getitem
from reference_engine.ops.shape import expand_dims, transpose
from reference_engine.rules import Multilinear
from reference_engine.traced import Value, shape_of

FAMILY = "linalg"


def _matmul_value(a: Any, b: Any) -> Any:
    a, b = np.asarray(a), np.asarray(b)
    if is_narrow(a.dtype) and a.dtype == b.dtype:
        wide = np.matmul(a.astype(np.float32), b.astype(np.float32))
        return np.asarray(wide).astype(a.dtype)
    return np.matmul(a, b)


def _swapped(x: Value) -> Value:
    """x with its last two axes exchanged."""
    ndim = len(shape_of(x))
    return transpose(x, axes=(*range(ndim - 2), ndim - 1, ndim - 2))


def _matmul_by_first(g: Value, a: Value, b: Value) -> Value:
    """g b^T; a vector is a row on the left and a column on the right."""
    if len(shape_of(b)) == 1:
        return expand_dims(g, axis=-1) * b
    if len(shape_of(a)) == 1:
        return getitem(matmul(expand_dims(g, axis=-2), _swapped(b)), index=(..., 0, slice(None)))
    return matmul(g, _swapped(b))


def _matmul_by_second(g: Value, a: Value, b: Value) -> Value:
    """a^T g, with the same reading of vectors."""
    if len(shape_of(a)) == 1:
        if len(shape_of(b)) == 1:
            return g * a
        return expand_dims(a, axis=-1) * expand_dims(g, axis=-2)
    if len(shape_of(b)) == 1:
        return getitem(matmul(_swapped(a), expand_dims(g, axis=-1)), index=(..., 0))
    return matmul(_swapped(a), g)


def _matmul_shape(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of left @ right (Array API, matmul)."""
    given = (left, right)
    if not left or not right:
        reason = "@ needs a vector or a matrix on both sides; for numbers write *"
        raise ShapeError("matmul", given, reason)
    rows = left if len(left) > 1 else (1, *left)
    columns = right if len(right) > 1 else (*right, 1)
    if rows[-1] != columns[-2]:
        reason = f"the inner sizes {rows[-1]} and {columns[-2]} differ"
        raise ShapeError("matmul", given, reason)
    try:
        batch = np.broadcast_shapes(rows[:-2], columns[:-2])
    except ValueError:
        reason = f"the batch axes {rows[:-2]} and {columns[:-2]} do not fit"
        raise ShapeError("matmul", given, reason) from None
    last = () if len(right) == 1 else (columns[-1],)
    return (*batch, *(() if len(left) == 1 else (rows[-2],)), *last)


matmul: Op = register(
    Op(
        "matmul",
        _matmul_value,
        Multilinear(_matmul_by_first, _matmul_by_second),
        family=FAMILY,
        arrays=("x1", "x2"),
        formula="x1 @ x2, of shapes (..., n, k) and (..., k, m), or (k,) on either side",
        derivative="linear in each; transposed: y_bar x2^T, x1^T y_bar",
        rounding="sums",
        result_shape=_matmul_shape,
        source="Giles, Collected matrix derivative results for forward and reverse mode (2008)",
    )
)
