"""Shapes and kinds of values, found by running each row on numbers of that shape."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.formula.errors import Problem
from reference_engine.op import Op

Shape = tuple[int, ...]
MAX_ENTRIES = 20_000_000
"""Entries of one value of the formula: 160 MB in float64. More would only exhaust memory."""

KINDS = {"f": "float", "i": "int", "u": "int", "b": "bool"}
_DTYPES: dict[str, type[np.generic]] = {"float": np.float64, "int": np.int64, "bool": np.bool_}


def infer(
    row: Op, shapes: Sequence[Shape], kinds: Sequence[str], keywords: Mapping[str, Any]
) -> tuple[Shape, str]:
    """Shape and kind of the row's value. Raises Problem (GC906) where the arguments do not fit."""
    _check_axes(row, shapes, keywords)
    if row.name == "getitem":
        _check_index(shapes[0], keywords["index"])
    if row.name == "matmul":
        shape = _matmul(shapes[0], shapes[1])
        _check_size(shape)
        # The product itself would cost time: its kind is that of any product.
        shapes = ((1, 1), (1, 1))
        return shape, _run(row, shapes, kinds, keywords)[1]
    _check_growth(row, shapes, keywords)
    shape, kind = _run(row, shapes, kinds, keywords)
    if 0 in shape:
        raise Problem("GC906", "nothing is left: the slice is empty")
    return shape, kind


def _run(
    row: Op, shapes: Sequence[Shape], kinds: Sequence[str], keywords: Mapping[str, Any]
) -> tuple[Shape, str]:
    if row.name in ("negative", "subtract") and set(kinds) == {"bool"}:
        raise Problem("GC906", "- works on numbers, not on comparisons", "~ negates a comparison")
    arrays = [
        np.broadcast_to(np.ones((), _DTYPES[kind]), shape)
        for shape, kind in zip(shapes, kinds, strict=True)
    ]
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = row.value(*arrays, **keywords)
    except (ValueError, IndexError, TypeError) as error:
        raise Problem("GC906", _reason(row, shapes, error)) from error
    kind = KINDS.get(value.dtype.kind)
    if kind is None:
        raise Problem("GC906", f"{row.name} gives no numbers here")
    return value.shape, kind


def _reason(row: Op, shapes: Sequence[Shape], error: Exception) -> str:
    """Why the row does not run on these shapes."""
    if row.arity > 1 and (mismatch := _broadcast_mismatch(shapes)):
        return mismatch
    if row.name == "concatenate":
        return "all sizes but those on the joined axis must be equal"
    if row.name == "stack":
        return "all shapes must be equal"
    text = str(error).strip().split("\n")[0]
    return text.split(": ", 1)[-1] if text.startswith(row.name) else text


def _broadcast_mismatch(shapes: Sequence[Shape]) -> str:
    """Which axes cannot be broadcast, or nothing if all can."""
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        pass
    else:
        return ""
    for back in range(1, max(map(len, shapes)) + 1):
        sizes = sorted({shape[-back] for shape in shapes if len(shape) >= back} - {1})
        if len(sizes) > 1:
            return f"the sizes {' and '.join(map(str, sizes))} on axis {-back} differ"
    return "the shapes do not fit"


def _check_axes(row: Op, shapes: Sequence[Shape], keywords: Mapping[str, Any]) -> None:
    """Raises Problem where an axis is out of range. `stack` and `expand_dims` make new axes."""
    axis = keywords.get("axis")
    if axis is None or not shapes:
        return
    axes = axis if isinstance(axis, tuple) else (axis,)
    count = len(shapes[0])
    if row.name == "stack":
        count += 1
    elif row.name == "expand_dims":
        count += len(axes)
    for one in axes:
        if not -count <= one < count:
            if count == 0:
                raise Problem("GC906", f"there is no axis {one}: the argument is a single number")
            raise Problem("GC906", f"there is no axis {one}", f"valid: {-count} to {count - 1}")
    if len({one % count for one in axes}) < len(axes):
        raise Problem("GC906", f"an axis is named twice in {axes}")


def _check_index(shape: Shape, index: Sequence[Any]) -> None:
    """Every integer of an index must be inside its axis."""
    taken = sum(1 for part in index if part is not None and part is not Ellipsis)
    if sum(1 for part in index if part is Ellipsis) > 1:
        raise Problem("GC906", "an index can have only one `...`")
    if taken > len(shape):
        what = f"{taken} indices for a value of {len(shape)} axes" if shape else "a single number"
        raise Problem("GC906", f"{what} has no such entry" if not shape else what)
    axis = 0
    for part in index:
        if part is Ellipsis:
            axis += len(shape) - taken
        elif part is not None:
            if isinstance(part, int) and not -shape[axis] <= part < shape[axis]:
                size = shape[axis]
                message = f"the index {part} is outside axis {axis}, which has size {size}"
                raise Problem("GC906", message, f"valid: {-size} to {size - 1}")
            if isinstance(part, slice) and part.step == 0:
                raise Problem("GC906", "the step of a slice cannot be 0")
            axis += 1


def _matmul(left: Shape, right: Shape) -> Shape:
    """The shape of left @ right, as in NumPy (Array API, matmul)."""
    if not left or not right:
        raise Problem("GC906", "@ needs a vector or a matrix on both sides", "for numbers write *")
    rows = left if len(left) > 1 else (1, *left)
    columns = right if len(right) > 1 else (*right, 1)
    if rows[-1] != columns[-2]:
        raise Problem("GC906", f"the inner sizes {rows[-1]} and {columns[-2]} differ")
    mismatch = _broadcast_mismatch((rows[:-2], columns[:-2])) if rows[:-2] and columns[:-2] else ""
    if mismatch:
        raise Problem("GC906", f"the batch axes do not fit: {mismatch}")
    batch = np.broadcast_shapes(rows[:-2], columns[:-2])
    last = () if len(right) == 1 else (columns[-1],)
    return (*batch, *(() if len(left) == 1 else (rows[-2],)), *last)


def _check_growth(row: Op, shapes: Sequence[Shape], keywords: Mapping[str, Any]) -> None:
    """Refuses a value that would be huge before anything of that size is made."""
    if row.arity > 1:
        try:
            _check_size(np.broadcast_shapes(*shapes))
        except ValueError:
            return  # the row itself says what does not fit
    elif row.arity < 0:
        _check_size((sum(math.prod(shape) for shape in shapes),))
    target = keywords.get("shape")
    if isinstance(target, int):
        target = (target,)
    if isinstance(target, tuple):
        if not all(isinstance(size, int) and not isinstance(size, bool) for size in target):
            raise Problem("GC906", "a shape is a tuple of whole numbers, for example (2, 3)")
        _check_size(target)


def _check_size(shape: Shape) -> None:
    count = math.prod(abs(size) for size in shape)
    if count > MAX_ENTRIES:
        message = f"the value would have {count:.3g} entries, more than the {MAX_ENTRIES:,} allowed"
        raise Problem("GC906", message)
