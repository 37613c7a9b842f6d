"""Kernels that write to positions of an array, or reduce everything at one position.

Indices and masks are plain arrays: the position of an element does not depend on numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcheck_cli.engines.torch.kernels.elementwise import scaled
from gradcheck_cli.engines.trace.exact_kernels import Kernel, is_symbol, row
from gradcheck_cli.engines.trace.window_kernels import of_groups, padded

Places = np.ndarray[Any, np.dtype[np.int64]]
"""Of elements of an array, flattened."""


def _flat(x: Any) -> Any:
    return row("reshape")(x, shape=(-1,))


def _places(x: Any) -> Places:
    return np.arange(x.size).reshape(x.shape)


def _broadcast_flat(values: Any, places: Places) -> Any:
    """The values, broadcast to the places and flattened."""
    if not hasattr(values, "shape"):
        values = np.asarray(float(values))
    return _flat(row("broadcast_to")(values, shape=places.shape))


def _with_values_at(x: Any, places: Places, values: Any) -> Any:
    """x with the values at the places. If several have the same place, the last one counts."""
    pool = row("concatenate")(_flat(x), _broadcast_flat(values, places))
    sources = np.arange(x.size)
    sources[places.ravel()] = x.size + np.arange(places.size)
    return row("reshape")(row("take")(pool, sources, axis=0), shape=x.shape)


def _added(x: Any, places: Places, values: Any) -> Any:
    """x with the values added at the places."""
    y = row("scatter_add")(_flat(x), places.ravel(), _broadcast_flat(values, places), axis=0)
    return row("reshape")(y, shape=x.shape)


def _reduced(x: Any, places: Places, values: Any, reduce: str, with_x: bool) -> Any:
    """x, where each place that receives values holds all of them reduced to one number."""
    reduce = {"add": "sum", "multiply": "prod", "amax": "max", "amin": "min"}.get(reduce, reduce)
    groups: list[list[int]] = [[i] if with_x else [] for i in range(x.size)]
    for k, place in enumerate(places.ravel()):
        groups[place].append(x.size + k)
    groups = [group or [i] for i, group in enumerate(groups)]
    pool = row("concatenate")(_flat(x), _broadcast_flat(values, places))
    return row("reshape")(of_groups(pool, groups, reduce), shape=x.shape)


def _index_put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    index = tuple(slice(None) if i is None else i for i in indices)
    return (_added if accumulate else _with_values_at)(x, _places(x)[index], values)


def _put_flat(x: Any, index: Places, values: Any, accumulate: bool = False) -> Any:
    return (_added if accumulate else _with_values_at)(x, index % max(x.size, 1), values)


def _at(x: Any, dim: int, index: Places) -> Places:
    """The places that `index` refers to along an axis."""
    if not x.ndim:
        return np.zeros(index.shape, np.int64)
    within = _places(x)[
        tuple(slice(n) if i != dim % x.ndim else slice(None) for i, n in enumerate(index.shape))
    ]
    return np.take_along_axis(within, index, dim)


def _slices_at(x: Any, dim: int, index: Places) -> Places:
    return np.take(_places(x), index, dim) if x.ndim else np.zeros(index.shape, np.int64)


def _scatter(x: Any, dim: int, index: Places, values: Any, *, reduce: str = "") -> Any:
    if is_symbol(index):
        return _scatter_on_zeros(x, dim, index, values, reduce)
    places = _at(x, dim, index)
    values = _part(values, index.shape)
    return (
        _reduced(x, places, values, reduce, True) if reduce else _with_values_at(x, places, values)
    )


def _scatter_on_zeros(x: Any, dim: int, index: Any, values: Any, reduce: str) -> Any:
    """Zeros with the values at places that depend on numbers. Raises TypeError for a reduction, and
    for arrays other than zeros."""
    if reduce or is_symbol(x) or np.any(np.asarray(x) != 0) or not np.ndim(x):
        raise TypeError("places that depend on numbers are taken of zeros alone")
    zeros = np.zeros(np.shape(x))
    return row("scatter_add")(zeros, index, _part(values, index.shape), axis=dim)


def _part(values: Any, shape: tuple[int, ...]) -> Any:
    """The leading part of the values that has the shape of the index."""
    if not hasattr(values, "shape") or values.shape == shape:
        return values
    return row("getitem")(values, index=tuple(slice(n) for n in shape))


def _scatter_reduce(
    x: Any, dim: int, index: Places, values: Any, reduce: str, *, include_self: bool = True
) -> Any:
    return _reduced(x, _at(x, dim, index), _part(values, index.shape), reduce, include_self)


def _index_add(x: Any, dim: int, index: Places, values: Any, *, alpha: Any = 1) -> Any:
    return _added(x, _slices_at(x, dim, index), scaled(values, alpha))


def _index_reduce(
    x: Any, dim: int, index: Places, values: Any, reduce: str, *, include_self: bool = True
) -> Any:
    return _reduced(x, _slices_at(x, dim, index), values, reduce, include_self)


def _pad(x: Any, pad: Sequence[int], value: Any = 0) -> Any:
    """Pad from the last axis on, by a number of elements before and after. A negative number cuts
    elements off."""
    pairs = [*zip(pad[::2], pad[1::2], strict=True)][::-1]
    return padded(x, [(0, 0)] * (x.ndim - len(pairs)) + pairs, float(value))


def _segments(
    x: Any,
    reduce: str,
    *,
    lengths: Any = None,
    indices: Any = None,
    offsets: Any = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Any:
    """Reduce consecutive segments of these lengths along an axis."""
    lengths = np.diff(offsets, axis=-1) if lengths is None else lengths
    batch, inner = x.shape[:axis], x.shape[axis + 1 :]
    area = math.prod(inner)
    places = _places(x).reshape(math.prod(batch), x.shape[axis], area)
    groups: list[list[int]] = []
    for part, own in zip(places, lengths.reshape(len(places), lengths.shape[-1]), strict=True):
        for end, length in zip(np.cumsum(own), own, strict=True):
            groups += part[end - length : end].T.tolist()
    pool = _flat(x)
    counts = np.array([max(len(group), 1) for group in groups], np.float64)
    if initial is not None:
        pool = row("concatenate")(pool, np.asarray([float(initial)]))
        groups = [[*group, x.size] for group in groups]
    y = of_groups(pool, groups, "sum" if reduce == "mean" else reduce)
    y = y / counts if reduce == "mean" else y
    return row("reshape")(y, shape=(*batch, lengths.shape[-1], *inner))


def _embedding_bag(
    weight: Any,
    indices: Places,
    offsets: Places,
    scale_grad: bool = False,
    mode: int = 0,
    sparse: bool = False,
    factors: Any = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    """The sum, mean or maximum of each bag of rows, followed by results that no gradient reads."""
    starts = offsets[:-1] if include_last_offset else offsets
    bags = [
        [i for i in bag if indices[i] != padding_idx]
        for bag in np.split(np.arange(len(indices)), starts[1:])
    ]
    rows = row("take")(weight, indices, axis=0)
    rows = rows if factors is None else rows * row("expand_dims")(factors, axis=1)
    width = weight.shape[1]
    groups = [[i * width + k for i in bag] for bag in bags for k in range(width)]
    y = of_groups(_flat(rows), groups, ("sum", "mean", "max")[mode])
    return row("reshape")(y, shape=(len(bags), width)), None, None, None


INDEXING: dict[str, Kernel] = {
    **dict.fromkeys(("index_put", "_index_put_impl", "_unsafe_index_put"), _index_put),
    "put": _put_flat,
    "scatter": _scatter,
    "scatter_add": lambda x, dim, index, values: _added(
        x, _at(x, dim, index), _part(values, index.shape)
    ),
    "scatter_reduce": _scatter_reduce,
    "index_add": _index_add,
    "index_reduce": _index_reduce,
    "index_fill": lambda x, dim, index, value: _with_values_at(x, _slices_at(x, dim, index), value),
    "constant_pad_nd": _pad,
    "segment_reduce": _segments,
    **dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only"), _embedding_bag),
}
