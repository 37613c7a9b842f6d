"""Lowerings whose calls differ from those of their row only in form.

Each function takes a dotted name in a framework, and returns a lowering.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from gradcheck_cli.engines.kit.axes import pair_of_axes, shape_of, whole_numbers

Function = Callable[..., Any]


def shaped(name: str, keyword: str = "shape") -> Function:
    """The shape follows the arrays, as a tuple."""

    def call(framework: Any, *arrays: Any, **keywords: Any) -> Any:
        shape = shape_of(keywords.pop(keyword))
        return attrgetter(name)(framework)(*arrays, shape, **keywords)

    return call


def arange_args(name: str) -> Function:
    """`arange` with all three of its numbers."""

    def call(framework: Any, start: int, stop: int | None, step: int, dtype: Any) -> Any:
        numbers = whole_numbers(start, stop, step)
        return attrgetter(name)(framework)(numbers.start, numbers.stop, numbers.step, dtype=dtype)

    return call


def listed(name: str, axis: str = "axis") -> Function:
    """The arrays are one list."""
    word = axis

    def call(framework: Any, *arrays: Any, axis: int) -> Any:
        return attrgetter(name)(framework)(arrays, **{word: axis})

    return call


def leading(name: str, keyword: str) -> Function:
    """A keyword comes before the arrays."""

    def call(framework: Any, *arrays: Any, **keywords: Any) -> Any:
        return attrgetter(name)(framework)(keywords[keyword], *arrays)

    return call


def running(name: str, axis: str = "axis", part: str | None = None) -> Function:
    """Along an axis, the first one by default. `part` selects one of several results."""
    word = axis

    def call(framework: Any, x: Any, axis: int | None) -> Any:
        result = attrgetter(name)(framework)(x, **{word: axis or 0})
        return result if part is None else getattr(result, part)

    return call


def contracted(name: str, axes: str = "axes") -> Function:
    """`tensordot` with its axes as a number or as two lists."""
    word = axes

    def call(framework: Any, x1: Any, x2: Any, axes: Any) -> Any:
        return attrgetter(name)(framework)(x1, x2, **{word: pair_of_axes(axes)})

    return call
