"""Products of vectors, matrices and arrays of any rank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from string import ascii_letters
from typing import Any

import numpy as np

from reference_engine.errors import ShapeError
from reference_engine.floats import all_in_float32, is_narrow
from reference_engine.op import REQUIRED, Op, Rounding, composite, row
from reference_engine.ops.arithmetic import multiply
from reference_engine.ops.selection import where
from reference_engine.ops.shape import broadcast_to, reshape, transpose
from reference_engine.rules import Contraction, Multilinear
from reference_engine.traced import Value, shape_of

ROUNDING: Rounding = "sums"

Shape = tuple[int, ...]


def _matmul_value(x1: Any, x2: Any) -> Any:
    x1, x2 = np.asarray(x1), np.asarray(x2)
    if x1.dtype.itemsize == 2 and is_narrow(x1.dtype) and x1.dtype == x2.dtype:
        wide = np.matmul(x1.astype(np.float32), x2.astype(np.float32))
        return np.asarray(wide).astype(x1.dtype)
    return np.matmul(x1, x2)


def swapped(x: Value) -> Value:
    """x with its last two axes exchanged."""
    ndim = len(shape_of(x))
    return transpose(x, axes=(*range(ndim - 2), ndim - 1, ndim - 2))


def symmetric_of(x: Value) -> Value:
    """(x + x^T) / 2"""
    half = 0.5 * x
    return half + swapped(half)


def _matmul_by_first(g: Value, a: Value, b: Value) -> Value:
    """g b^T; a vector is a row on the left and a column on the right."""
    if len(shape_of(b)) == 1:
        return g[..., None] * b
    if len(shape_of(a)) == 1:
        return matmul(b, g) if len(shape_of(b)) == 2 else matmul(b, g[..., None])[..., 0]
    return matmul(g, swapped(b))


def _matmul_by_second(g: Value, a: Value, b: Value) -> Value:
    """a^T g; vectors are read as in `_matmul_by_first`."""
    if len(shape_of(a)) == 1:
        return g * a if len(shape_of(b)) == 1 else a[..., None] * g[..., None, :]
    if len(shape_of(b)) == 1:
        return matmul(g, a) if len(shape_of(a)) == 2 else matmul(g[..., None, :], a)[..., 0, :]
    return matmul(swapped(a), g)


def _matmul_shape(left: Shape, right: Shape) -> Shape:
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


matmul: Op = row(
    "matmul",
    _matmul_value,
    Multilinear(_matmul_by_first, _matmul_by_second),
    result_shape=_matmul_shape,
).says(
    "x1 @ x2, of shapes (..., n, k) and (..., k, m), or (k,) on either side",
    "linear in each; transposed: y_bar x2^T, x1^T y_bar",
    source="Giles, Collected matrix derivative results for forward and reverse mode (2008)",
)


def _contracted(axes: Any, a: int, b: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes over which tensordot sums, in arrays of a and b axes, counted from the front."""
    if isinstance(axes, (int, np.integer)):
        if not 0 <= axes <= min(a, b):
            raise ValueError(f"there are not {axes} axes to sum over in both")
        return tuple(range(a - axes, a)), tuple(range(axes))
    first, second = (
        tuple(range(rank)[one] for one in ((given,) if isinstance(given, int) else given))
        for given, rank in zip(axes, (a, b), strict=True)
    )
    if len(set(first)) < len(first) or len(set(second)) < len(second):
        raise ValueError("an axis is named twice")
    return first, second


def _tensordot_shape(a: Shape, b: Shape, axes: Any = 2) -> Shape:
    try:
        first, second = _contracted(axes, len(a), len(b))
    except IndexError:
        raise ShapeError("tensordot", (a, b), f"there are no axes {axes}") from None
    except ValueError as error:
        raise ShapeError("tensordot", (a, b), str(error)) from None
    if [a[i] for i in first] != [b[i] for i in second]:
        raise ShapeError("tensordot", (a, b), "the axes to be summed over differ in size")
    return tuple(n for i, n in enumerate(a) if i not in first) + tuple(
        n for i, n in enumerate(b) if i not in second
    )


def _tensordot(x1: Value, x2: Value, *, axes: Any = 2) -> Value:
    """A product of two matrices between reshapes."""
    left, right = shape_of(x1), shape_of(x2)
    shape = _tensordot_shape(left, right, axes)
    first, second = _contracted(axes, len(left), len(right))
    rows = tuple(i for i in range(len(left)) if i not in first)
    columns = tuple(i for i in range(len(right)) if i not in second)
    inner = math.prod(left[i] for i in first)
    x1 = reshape(
        transpose(x1, axes=(*rows, *first)), shape=(math.prod(left[i] for i in rows), inner)
    )
    x2 = transpose(x2, axes=(*second, *columns))
    x2 = reshape(x2, shape=(inner, math.prod(right[i] for i in columns)))
    return reshape(matmul(x1, x2), shape=shape)


tensordot: Op = composite("tensordot", _tensordot, result_shape=_tensordot_shape).says(
    "sum of x1 x2 over the last `axes` axes of x1 and the first of x2, or over the axes"
    " that a pair of lists names",
    "linear in each, through reshape and matmul",
    source="Array API, tensordot",
)


def _dot_axes(b: Shape) -> Any:
    return ((-1,), (-1 if len(b) == 1 else -2,))


def _dot(x1: Value, x2: Value) -> Value:
    if not shape_of(x1) or not shape_of(x2):
        return multiply(x1, x2)
    return tensordot(x1, x2, axes=_dot_axes(shape_of(x2)))


dot: Op = composite(
    "dot",
    _dot,
    result_shape=lambda a, b: _tensordot_shape(a, b, _dot_axes(b)) if a and b else a or b,
).says(
    "sum of x1 x2 over the last axis of x1 and the last but one of x2 (its only one for"
    " a vector); the product where one is a number",
    "linear in each, through matmul",
    source="NumPy, dot",
)


def _outer_shape(a: Shape, b: Shape) -> Shape:
    if len(a) != 1 or len(b) != 1:
        raise ShapeError("outer", (a, b), "outer takes two vectors")
    return (*a, *b)


@all_in_float32
def _outer_value(x1: Any, x2: Any) -> Any:
    _outer_shape(x1.shape, x2.shape)
    return np.multiply(x1[:, None], x2)


outer: Op = row(
    "outer",
    _outer_value,
    Multilinear(lambda g, a, b: matmul(g, b), lambda g, a, b: matmul(a, g)),
    result_shape=_outer_shape,
    rounding="result",
).says(
    "x1_i x2_j, for two vectors",
    "linear in each; transposed: y_bar x2, x1 y_bar",
    source="Array API, linalg.outer",
)


def _cross_shape(a: Shape, b: Shape, axis: int = -1) -> Shape:
    if len(a) != len(b) and axis >= 0:
        raise ShapeError("cross", (a, b), "where the numbers of axes differ, axis must be negative")
    if not all(-len(x) <= axis < len(x) and x[axis] == 3 for x in (a, b)):
        raise ShapeError("cross", (a, b), f"the axis {axis} must have 3 elements in both")
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        raise ShapeError("cross", (a, b), "the other axes do not fit") from None


@all_in_float32
def _cross_value(x1: Any, x2: Any, *, axis: int = -1) -> Any:
    _cross_shape(x1.shape, x2.shape, axis)
    return np.cross(x1, x2, axis=axis)


cross: Op = row(
    "cross",
    _cross_value,
    Multilinear(
        lambda g, a, b, axis=-1: cross(b, g, axis=axis),
        lambda g, a, b, axis=-1: cross(g, a, axis=axis),
    ),
    rounding="inputs",
    result_shape=_cross_shape,
).says(
    "the vector product x1 x x2 of the three elements along an axis",
    "linear in each; transposed: x2 x y_bar, y_bar x x1",
    source="Array API, linalg.cross",
)


def _kron_shape(a: Shape, b: Shape) -> Shape:
    rank = max(len(a), len(b))
    padded = ((1,) * (rank - len(x)) + x for x in (a, b))
    return tuple(n * m for n, m in zip(*padded, strict=True))


def _kron(x1: Value, x2: Value) -> Value:
    """Each axis of x1 next to the corresponding axis of x2, multiplied by broadcasting, and
    merged."""
    left, right = shape_of(x1), shape_of(x2)
    rank = max(len(left), len(right))
    pairs = zip((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right, strict=True)
    sizes = list(pairs)
    x1 = reshape(x1, shape=tuple(size for n, _ in sizes for size in (n, 1)))
    x2 = reshape(x2, shape=tuple(size for _, m in sizes for size in (1, m)))
    return reshape(multiply(x1, x2), shape=_kron_shape(left, right))


kron: Op = composite("kron", _kron, result_shape=_kron_shape, rounding="result").says(
    "x1_i x2_j at the index i n + j of every axis, n the size of x2 there",
    "linear in each, through multiply",
    source="NumPy, kron",
)

# Searching for a good order of contractions costs as much as about 10^4 multiplications (20 us).
_WORTH_A_PLAN = 10_000


def _einsum_shape(*shapes: Shape, subscripts: str) -> Shape:
    try:
        inputs, output = explicit(subscripts, tuple(map(len, shapes)))
        sizes = sizes_of(inputs, shapes)
    except ValueError as error:
        raise ShapeError("einsum", shapes, str(error)) from None
    return tuple(sizes[label] for label in output)


@all_in_float32
def _einsum_value(*xs: Any, subscripts: str) -> Any:
    inputs, output = explicit(subscripts, tuple(x.ndim for x in xs))
    work = math.prod(sizes_of(inputs, [x.shape for x in xs]).values())
    plan = f"{','.join(inputs)}->{output}"
    return np.array(np.einsum(plan, *xs, optimize=work > _WORTH_A_PLAN))


def _einsum_back(g: Value, i: int, xs: Sequence[Value], subscripts: str) -> Value:
    """The einsum of g with the other arrays, to the labels of argument i.

    g is repeated along labels that only occur in that argument, because they were summed over. If a
    label occurs twice in it, only the diagonal was read.
    """
    inputs, output = explicit(subscripts, tuple(len(shape_of(x)) for x in xs))
    others = [(term, x) for j, (term, x) in enumerate(zip(inputs, xs, strict=True)) if j != i]
    reached = set(output).union(*(term for term, _ in others))
    labels = "".join(dict.fromkeys(label for label in inputs[i] if label in reached))
    back = ",".join([output, *(term for term, _ in others)]) + "->" + labels
    x_bar = einsum(g, *(x for _, x in others), subscripts=back)
    sizes = dict(zip(labels, shape_of(x_bar), strict=True))
    first = [inputs[i].index(label) == k for k, label in enumerate(inputs[i])]
    kept = tuple(
        sizes.get(label, 1) if fresh else 1 for label, fresh in zip(inputs[i], first, strict=True)
    )
    own = zip(inputs[i], shape_of(xs[i]), strict=True)
    full = tuple(n if sizes.get(label, 1) == 1 else sizes[label] for label, n in own)
    if kept != shape_of(x_bar):
        x_bar = reshape(x_bar, shape=kept)
    if kept != full:
        x_bar = broadcast_to(x_bar, shape=full)
    return x_bar if all(first) else where(_diagonal(inputs[i], full), x_bar, 0.0)


def _diagonal(labels: str, shape: Shape) -> Any:
    """A mask of the elements whose indices are equal wherever the labels are."""
    index = np.indices(shape, sparse=True)
    same = [index[k] == index[labels.index(label)] for k, label in enumerate(labels)]
    return np.broadcast_to(np.logical_and.reduce(np.broadcast_arrays(*same)), shape)


einsum: Op = row(
    "einsum",
    _einsum_value,
    Contraction(_einsum_back),
    arrays=("*x",),
    keywords={"subscripts": REQUIRED},
    result_shape=_einsum_shape,
).says(
    "the sum of products that the subscripts name, as einsum('ij,jk->ik', x1, x2)",
    "linear in each; transposed: the einsum of y_bar with the others, on the "
    "diagonal for a label that occurs twice in one array",
    source="NumPy, einsum",
)


@lru_cache(maxsize=512)
def explicit(subscripts: str, ranks: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
    """The labels of every array and of the result, one letter for each axis, without `...` and
    `->`.

    Without `->`, the result has the axes of the ellipsis, then the labels that occur once, in
    alphabetical order. Raises ValueError if the subscripts do not fit arrays of these ranks.
    """
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        wanted = "1 array" if len(terms) == 1 else f"{len(terms)} arrays"
        raise ValueError(f"{subscripts!r} is for {wanted}, not for {len(ranks)}")
    spare = [letter for letter in ascii_letters if letter not in subscripts]
    hidden = [_ellipsis_rank(term, rank) for term, rank in zip(terms, ranks, strict=True)]
    rest = "".join(spare[: max(hidden)])
    inputs = tuple(
        term.replace("...", rest[len(rest) - count :])
        for term, count in zip(terms, hidden, strict=True)
    )
    if arrow:
        if rest and "..." not in right:
            raise ValueError(
                f"the result of {subscripts!r} has no `...` for the axes that it hides"
            )
        output = right.replace("...", rest)
    else:
        named = left.replace("...", "").replace(",", "")
        output = rest + "".join(sorted(label for label in set(named) if named.count(label) == 1))
    if len(set(output)) < len(output):
        raise ValueError(f"a label occurs twice in the result of {subscripts!r}")
    if not set(output) <= {label for term in inputs for label in term}:
        raise ValueError(f"a label of the result of {subscripts!r} occurs in no array")
    return inputs, output


def _ellipsis_rank(term: str, rank: int) -> int:
    """The number of axes that `...` represents in a term."""
    labels = term.replace("...", "", 1)
    if labels and not (labels.isascii() and labels.isalpha()):
        raise ValueError(f"subscripts are letters, `...`, `,` and `->`, not {term!r}")
    count = rank - len(labels)
    if count < 0 or (count and "..." not in term):
        raise ValueError(f"{term!r} does not fit an array of {rank} axes")
    return count


def sizes_of(inputs: Sequence[str], shapes: Sequence[Shape]) -> dict[str, int]:
    """The size of each label. An axis of size 1 is broadcast, as in NumPy.

    Raises ValueError if a label has two sizes.
    """
    sizes: dict[str, int] = {}
    for term, shape in zip(inputs, shapes, strict=True):
        for label, size in zip(term, shape, strict=True):
            if size != shape[term.index(label)]:
                raise ValueError(f"the two axes named {label} in {term!r} differ in size")
            known = sizes.setdefault(label, size)
            if known == 1:
                sizes[label] = size
            elif size not in (1, known):
                raise ValueError(f"the axes named {label} have the sizes {known} and {size}")
    return sizes
