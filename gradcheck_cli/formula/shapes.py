"""The shapes and kinds of values. Each row is run on numbers of the given shapes to find them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.formula.errors import ShapeProblem
from reference_engine.errors import ShapeError
from reference_engine.op import Op

Shape = tuple[int, ...]
MAX_ENTRIES = 20_000_000
MAX_AXES = 32  # of `numpy.broadcast`; an array may have 64
"""Entries of one value of the formula: 160 MB in float64. More would only exhaust memory."""

KINDS = {"f": "float", "i": "int", "u": "int", "b": "bool"}
RANK = {"bool": 0, "int": 1, "float": 2}
COMPARISONS = frozenset(("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"))
_REFUSALS = (ValueError, IndexError, TypeError, ArithmeticError)
"""What a row raises where its arguments do not fit."""
_DTYPES: dict[str, type[np.generic]] = {"float": np.float64, "int": np.int64, "bool": np.bool_}


def broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """Whether an array of one shape can be broadcast to the other."""
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False


def infer(
    row: Op, shapes: Sequence[Shape], kinds: Sequence[str], keywords: Mapping[str, Any]
) -> tuple[Shape, str]:
    """The shape and kind of the value of the row. Raises Problem (GC906) if the arguments do not
    fit."""
    _check_kinds(row, kinds)
    check_axes(row.name, shapes, keywords)
    if row.name == "getitem":
        _check_index(shapes[0], keywords["index"])
    if row.result_shape is not None and shapes:
        shape, kind = _stated_shape(row, shapes, keywords), _promoted(row, kinds)
    else:
        _check_growth(row, shapes, keywords)
        shape, kind = _run(row, shapes, kinds, keywords)
    if 0 in shape:
        raise ShapeProblem("nothing is left: the slice is empty")
    return shape, kind


def wanted_kinds(row: Op, kinds: Sequence[str], result: str) -> tuple[str, ...]:
    """The kinds in which a row takes its arguments: the kinds that it declares, or at least the
    kind of the result. The operands of a comparison have one kind."""
    lowest = max(kinds, key=RANK.__getitem__) if row.name in COMPARISONS else result
    return tuple(
        row.kinds.get(i) or max(lowest, kind, key=RANK.__getitem__) for i, kind in enumerate(kinds)
    )


def _check_kinds(row: Op, kinds: Sequence[str]) -> None:
    """Raises Problem if an index is not a whole number."""
    for i, wanted in row.kinds.items():
        if wanted == "int" and kinds[i] == "float":
            name = row.arrays[i]
            message = f"`{name}` of {row.name} must be whole numbers"
            help = f"an input of whole numbers: {name}: {{value: [0, 2, 1], dtype: int64}}"
            raise ShapeProblem(message, help)


def _promoted(row: Op, kinds: Sequence[str]) -> str:
    """The kind of a result that is computed from the arguments other than indices."""
    if "dtype" in row.keywords or row.rounding == "inputs":  # creation; linear algebra
        return "float"
    given = [kind for i, kind in enumerate(kinds) if i not in row.kinds]
    return max(given, key=RANK.__getitem__)


def _stated_shape(row: Op, shapes: Sequence[Shape], keywords: Mapping[str, Any]) -> Shape:
    assert row.result_shape is not None
    given = {name: value for name, value in keywords.items() if name != "dtype"}
    try:
        shape = tuple(int(size) for size in row.result_shape(*shapes, **given))
    except _REFUSALS as error:
        raise ShapeProblem(_reason(row, shapes, error)) from error
    _check_size(shape)
    return shape


def _run(
    row: Op, shapes: Sequence[Shape], kinds: Sequence[str], keywords: Mapping[str, Any]
) -> tuple[Shape, str]:
    if row.name in ("negative", "subtract") and set(kinds) == {"bool"}:
        raise ShapeProblem("- works on numbers, not on comparisons", "~ negates a comparison")
    arrays = [
        # an index of 0 is inside every axis
        np.broadcast_to(np.full((), row.kinds.get(i) != "int", _DTYPES[kind]), shape)
        for i, (shape, kind) in enumerate(zip(shapes, kinds, strict=True))
    ]
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = row.value(*arrays, **keywords)
    except _REFUSALS as error:
        raise ShapeProblem(_reason(row, shapes, error)) from error
    kind = KINDS.get(value.dtype.kind)
    if kind is None:
        raise ShapeProblem(f"{row.name} returns no numbers here")
    return value.shape, kind


def _reason(row: Op, shapes: Sequence[Shape], error: Exception) -> str:
    """Why the row cannot run on these shapes."""
    if row.elementwise and (mismatch := _broadcast_mismatch(shapes)):
        return mismatch
    if row.name == "concatenate":
        return "all sizes but those on the joined axis must be equal"
    if row.name == "stack":
        return "all shapes must be equal"
    if isinstance(error, ShapeError):
        return error.reason
    if isinstance(error, OverflowError):
        return f"a number is larger than {row.name} can take"
    text = str(error).strip().split("\n")[0]
    return text.split(": ", 1)[-1] if text.startswith(row.name) else text


def _broadcast_mismatch(shapes: Sequence[Shape]) -> str:
    """Which axes cannot be broadcast; empty if all can."""
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


def check_axes(op: str, shapes: Sequence[Shape], keywords: Mapping[str, Any]) -> None:
    """Raises Problem if an axis is out of range. `stack` and `expand_dims` make new axes."""
    axis = keywords.get("axis")
    if axis is None or not shapes:
        return
    axes = axis if isinstance(axis, tuple) else (axis,)
    count = len(shapes[0])
    if op == "stack":
        count += 1
    elif op == "expand_dims":
        count += len(axes)
    for one in axes:
        if not -count <= one < count:
            if count == 0:
                raise ShapeProblem(f"there is no axis {one}: the argument is a single number")
            raise ShapeProblem(f"there is no axis {one}", f"valid: {-count} to {count - 1}")
    if len({one % count for one in axes}) < len(axes):
        raise ShapeProblem(f"an axis is named twice in {axes}")


def _check_index(shape: Shape, index: Sequence[Any]) -> None:
    """Raises Problem if an integer of an index is outside of its axis."""
    taken = sum(1 for part in index if part is not None and part is not Ellipsis)
    if sum(1 for part in index if part is Ellipsis) > 1:
        raise ShapeProblem("an index can have only one `...`")
    if taken > len(shape):
        what = f"{taken} indices for a value of {len(shape)} axes" if shape else "a single number"
        raise ShapeProblem(f"{what} has no such entry" if not shape else what)
    axis = 0
    for part in index:
        if part is Ellipsis:
            axis += len(shape) - taken
        elif part is not None:
            if isinstance(part, int) and not -shape[axis] <= part < shape[axis]:
                size = shape[axis]
                message = f"the index {part} is outside axis {axis}, which has size {size}"
                raise ShapeProblem(message, f"valid: {-size} to {size - 1}")
            if isinstance(part, slice) and part.step == 0:
                raise ShapeProblem("the step of a slice cannot be 0")
            axis += 1


def _check_growth(row: Op, shapes: Sequence[Shape], keywords: Mapping[str, Any]) -> None:
    """Raises Problem if the value would be huge, before anything of that size is allocated."""
    for shape in shapes:
        _check_size(shape)
    if row.result_shape is not None:
        _stated_shape(row, shapes, keywords)
    elif row.arity > 1:
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
            raise ShapeProblem("a shape is a tuple of whole numbers, for example (2, 3)")
        _check_size(target)


def _check_size(shape: Shape) -> None:
    if len(shape) > MAX_AXES:
        message = f"the value would have {len(shape)} axes, more than the {MAX_AXES} allowed"
        raise ShapeProblem(message)
    count = math.prod(abs(size) for size in shape)
    if count > MAX_ENTRIES:
        message = f"the value would have {count:.3g} entries, more than the {MAX_ENTRIES:,} allowed"
        raise ShapeProblem(message)
