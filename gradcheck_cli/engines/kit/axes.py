"""Converts axes and shapes to the forms that frameworks take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def axes_of(axis: int | tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    """The reduced axes, counted from 0, in order; None means all."""
    if axis is None:
        return tuple(range(rank))
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    return tuple(sorted(a % rank for a in given))


def new_axes(axis: int | tuple[int, ...], rank: int) -> tuple[int, ...]:
    """The positions of the new axes in an array with `rank` axes before, in order."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    return tuple(sorted(a % (rank + len(axes)) for a in axes))


def shape_of(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    """A shape. A shape with one axis may be given as a number."""
    return (shape,) if isinstance(shape, int) else tuple(shape)


Pair = int | tuple[int, ...]
"""One number for every axis of a window, or one an axis."""


def per_axis(value: Pair, axes: int) -> tuple[int, ...]:
    """One number for each axis."""
    return (value,) * axes if isinstance(value, int) else tuple(value)


def restored(shape: Sequence[int], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with the reduced axes at length 1."""
    return tuple(1 if i in axes else n for i, n in enumerate(shape))


def moved_axes(
    source: int | tuple[int, ...], destination: int | tuple[int, ...], rank: int
) -> tuple[int, ...]:
    """The order of the axes after some were moved. The others keep their order."""
    pairs = zip(_normal(destination, rank), _normal(source, rank), strict=True)
    order = [i for i in range(rank) if i not in _normal(source, rank)]
    for place, axis in sorted(pairs):
        order.insert(place, axis)
    return tuple(order)


def _normal(axis: int | tuple[int, ...], rank: int) -> tuple[int, ...]:
    given = (axis,) if isinstance(axis, int) else axis
    return tuple(a % rank for a in given)


def whole_numbers(start: int, stop: int | None, step: int) -> range:
    """The same as `range`, but an empty one ends where it starts."""
    numbers = range(start) if stop is None else range(start, stop, step)
    return numbers if numbers else range(numbers.start, numbers.start, step)


def widths_of(pad_width: Any, rank: int) -> list[list[int]]:
    """The widths before and after each axis. One pair applies to all axes, one number to both
    sides."""
    return np.broadcast_to(pad_width, (rank, 2)).tolist()


def pair_of_axes(axes: Any) -> int | list[list[int]]:
    """The axes of tensordot: how many, or two lists, in which a single number stands for a list."""
    if isinstance(axes, int):
        return axes
    return [[one] if isinstance(one, int) else list(one) for one in axes]


def from_the_start(framework: Any, indices: Any, size: int) -> Any:
    """Indices counted from the start, because not every function takes negative ones."""
    return framework.where(indices < 0, indices + size, indices)
