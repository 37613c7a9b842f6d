"""Axes and shapes as frameworks want them."""

from __future__ import annotations


def axes_of(axis: int | tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    """The reduced axes, counted from 0, in order; None means all."""
    if axis is None:
        return tuple(range(rank))
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    return tuple(sorted(a % rank for a in given))


def new_axes(axis: int | tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Where the new axes of an array of `rank` axes will be, in order."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    return tuple(sorted(a % (rank + len(axes)) for a in axes))


def shape_of(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    """A shape of one axis may be given as a number."""
    return (shape,) if isinstance(shape, int) else tuple(shape)
