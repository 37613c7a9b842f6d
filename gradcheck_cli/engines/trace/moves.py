"""Rows for what an operation moves, found in the places that it took the numbers from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from reference_engine.traced import ROWS, Value, shape_of

_MOST_AXES = 5  # 120 orders of axes are tried


def taken(parts: Sequence[Value], places: Array) -> Value:
    """An array of the shape of `places`, each its number's place in all `parts`, one after the
    other; the first part is what stands where nothing came from. In the rows that a reader would
    write where there are some: reshape, transpose, slices, broadcast_to, concatenate, stack; else
    as indices."""
    ends = np.cumsum([math.prod(shape_of(part)) for part in parts])
    used = np.unique(np.searchsorted(ends, places.ravel(), side="right"))
    inside = places.astype(np.int64)
    if not len(used):
        return np.zeros(places.shape)
    if len(used) == 1:
        (which,) = used
        return _from_one(parts[which], inside - (ends[which - 1] if which else 0))
    joined = _joined([parts[i] for i in used], inside, [ends[i - 1] if i else 0 for i in used])
    if joined is not None:
        return joined
    flat = [ROWS["reshape"](part, shape=(-1,)) for part in parts]
    return _indexed(ROWS["concatenate"](*flat, axis=0), inside)


def _from_one(x: Value, places: Array) -> Value:
    """What is taken from one array alone."""
    shape = shape_of(x)
    own = np.arange(math.prod(shape)).reshape(shape)
    if own.size == places.size and np.array_equal(own.ravel(), places.ravel()):
        return x if shape == places.shape else ROWS["reshape"](x, shape=places.shape)
    for order in _orders(len(shape), shape, places.shape):
        if np.array_equal(own.transpose(order), places):
            reverse = order == tuple(reversed(range(len(shape))))
            return ROWS["transpose"](x, axes=None if reverse else order)
    if _broadcasts(shape, places.shape) and np.array_equal(
        np.broadcast_to(own, places.shape), places
    ):
        return ROWS["broadcast_to"](x, shape=places.shape)
    index = _index(shape, places)
    if index is not None and np.array_equal(own[index].ravel(), places.ravel()):
        part = ROWS["getitem"](x, index=index)
        same = shape_of(part) == places.shape
        return part if same else ROWS["reshape"](part, shape=places.shape)
    return _indexed(ROWS["reshape"](x, shape=(-1,)), places)


def _indexed(flat: Value, places: Array) -> Value:
    found = ROWS["take"](flat, places.reshape(-1), axis=0)
    return found if places.ndim == 1 else ROWS["reshape"](found, shape=places.shape)


def _orders(
    axes: int, shape: tuple[int, ...], wanted: tuple[int, ...]
) -> Iterator[tuple[int, ...]]:
    if axes <= _MOST_AXES and sorted(shape) == sorted(wanted):
        for order in permutations(range(axes)):
            if tuple(shape[i] for i in order) == wanted:
                yield order


def _broadcasts(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    tail = wanted[len(wanted) - len(shape) :]
    return len(shape) <= len(wanted) and all(n in (1, m) for n, m in zip(shape, tail, strict=True))


def _index(shape: tuple[int, ...], places: Array) -> tuple[int | slice, ...] | None:
    """The stretch of each axis that is met, with its step, or the number of an axis that the
    result does not have; None where steps differ."""
    found: list[int | slice] = []
    left = list(places.shape)  # of the result's axes: the last ones are those that are kept
    for size, met in reversed([*zip(shape, np.unravel_index(places.ravel(), shape), strict=True)]):
        one = np.unique(met)
        steps = np.unique(np.diff(one))
        if len(steps) > 1:
            return None
        if len(one) == 1 and left[-1:] != [1]:
            found.append(int(one[0]))
            continue
        left = left[:-1]
        step = int(steps[0]) if len(steps) else 1
        stretch = slice(int(one[0]), int(one[-1]) + 1, step if step > 1 else None)
        found.append(slice(None) if len(one) == size else stretch)
    return _written(found)


def without_axes(
    index: tuple[Any, ...], shape: tuple[int, ...], wanted: tuple[int, ...]
) -> tuple[Any, ...] | None:
    """The index that gives the result of another one, of this shape, without some of its axes of
    one number each; None where that is not what the wanted shape is."""
    if not all(isinstance(part, int | slice) for part in index):
        return None
    slices = sum(isinstance(part, slice) for part in index)
    full = [*index, *[slice(None)] * (len(shape) - slices)]
    left, lengths = list(wanted), list(shape)
    found: list[int | slice] = []
    for part in reversed(full):
        length = lengths.pop() if isinstance(part, slice) else 0
        if length == 1 and left[-1:] != [1]:
            found.append(part.start or 0)
            continue
        if length and (not left or left.pop() != length):
            return None
        found.append(part)
    return None if left else _written(found)


def _written(reversed_index: list[int | slice]) -> tuple[int | slice, ...]:
    """The index, without the whole axes at its end."""
    while reversed_index and reversed_index[0] == slice(None):
        reversed_index.pop(0)
    return tuple(reversed(reversed_index))


def _joined(parts: Sequence[Value], places: Array, starts: Sequence[Any]) -> Value | None:
    """The parts whole, along an axis that they have or along a new one; else None."""
    shapes = [shape_of(part) for part in parts]
    own = [
        np.arange(start, start + math.prod(shape)).reshape(shape)
        for start, shape in zip(starts, shapes, strict=True)
    ]
    if len({len(shape) for shape in shapes}) > 1:
        return None
    for axis in range(len(shapes[0])):
        rest = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
        if len(rest) == 1 and _equal(np.concatenate(own, axis), places):
            return ROWS["concatenate"](*parts, axis=axis)
    if len(set(shapes)) == 1:
        for axis in range(len(shapes[0]) + 1):
            if _equal(np.stack(own, axis), places):
                return ROWS["stack"](*parts, axis=axis)
    return None


def _equal(one: Array, other: Array) -> bool:
    return one.shape == other.shape and np.array_equal(one, other)
