"""Rows that move the numbers of float balls, and add some of them up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from reference_engine.arithmetic.float_balls import (
    GROWN,
    UNIT,
    FloatBall,
    as_float_ball,
    exactly_floats,
)
from reference_engine.traced import ROWS, Value, shape_of

MOVING = (
    *("reshape", "expand_dims", "squeeze", "transpose", "broadcast_to", "moveaxis", "flip"),
    *("roll", "tile", "repeat", "tril", "triu", "diag", "patches", "stop_gradient"),
)
"""Rows of one array that leave each of its numbers as it is."""


def summed(terms: float) -> float:
    """The error of a sum of so many terms, beside the sum of their sizes."""
    return 1.01 * terms * UNIT  # for fewer than 2^45 terms


def linear(name: str, passive: tuple[int, ...] = ()) -> Callable[..., FloatBall]:
    """A row that moves numbers and adds some of them up."""
    row = ROWS[name]

    def value(*xs: Any, **keywords: Any) -> FloatBall:
        balls = [x if i in passive else as_float_ball(x) for i, x in enumerate(xs)]

        def of(part: Callable[[FloatBall], Any]) -> Any:
            given = (x if i in passive else part(x) for i, x in enumerate(balls))
            return np.asarray(row.raw(*given, **keywords))

        found = of(lambda x: x.value)
        terms = float(np.max(of(lambda x: np.ones(x.shape)), initial=0.0))
        exact = all(i in passive or x.radius is None for i, x in enumerate(balls))
        if terms <= 1 and exact:
            return FloatBall(found, None)
        radius = (
            of(lambda x: x.radii + summed(terms) * np.abs(x.value))
            if terms > 1
            else of(lambda x: x.radii)
        )
        return FloatBall(found, radius * (1 + 2 * summed(terms)) * GROWN)

    return value


def _moving(name: str) -> Callable[..., FloatBall]:
    """A row that moves the numbers of one array and leaves each as it is."""
    row = ROWS[name]

    def value(x: Value, **keywords: Any) -> FloatBall:
        x = as_float_ball(x)
        radius = None if x.radius is None else np.asarray(row.raw(x.radius, **keywords))
        return FloatBall(np.asarray(row.raw(x.value, **keywords)), radius, x.chosen)

    return value


def _joining(name: str) -> Callable[..., FloatBall]:
    row = ROWS[name]

    def value(*xs: Value, **keywords: Any) -> FloatBall:
        balls = [as_float_ball(x) for x in xs]
        found = np.asarray(row.raw(*(x.value for x in balls), **keywords))
        if all(x.radius is None for x in balls):
            return FloatBall(found, None)
        return FloatBall(found, np.asarray(row.raw(*(x.radii for x in balls), **keywords)))

    return value


def _getitem(x: Value, *, index: Any) -> FloatBall:
    x = as_float_ball(x)
    radius = None if x.radius is None else np.asarray(x.radius[index])
    return FloatBall(np.asarray(x.value[index]), radius)


def _taking(name: str) -> Callable[..., FloatBall]:
    """A row that takes elements at places, which are its second array."""
    row = ROWS[name]

    def value(x: Value, places: Any, **keywords: Any) -> FloatBall:
        x = as_float_ball(x)
        radius = None if x.radius is None else np.asarray(row.raw(x.radius, places, **keywords))
        return FloatBall(np.asarray(row.raw(x.value, places, **keywords)), radius)

    return value


def _pad(x: Value, *, pad_width: Any, value: float = 0.0) -> FloatBall:
    x, row = as_float_ball(x), ROWS["pad"]
    found = np.asarray(row.raw(x.value, pad_width=pad_width, value=value))
    return FloatBall(found, np.asarray(row.raw(x.radii, pad_width=pad_width)))


def _scatter(g: Value, *, shape: tuple[int, ...], index: Any) -> FloatBall:
    g = as_float_ball(g)

    def of(part: Any) -> Any:
        x = np.zeros(shape)
        ROWS["getitem"].add_to(x, part if part.ndim else part.item(), index=index)
        return x

    terms = float(np.max(of(np.ones(g.shape)), initial=0.0))
    if terms <= 1:
        return FloatBall(of(g.value), None if g.radius is None else of(g.radius))
    radius = of(g.radii + summed(terms) * np.abs(g.value)) * (1 + 2 * summed(terms)) * GROWN
    return FloatBall(of(g.value), radius)


MOVES: dict[str, Callable[..., Any]] = {
    "concatenate": _joining("concatenate"),
    "stack": _joining("stack"),
    "getitem": _getitem,
    "scatter": _scatter,
    "pad": _pad,
    "take": _taking("take"),
    "take_along_axis": _taking("take_along_axis"),
    "cumsum": linear("cumsum"),
    "unpatch": linear("unpatch"),
    "trace": linear("trace"),
    "scatter_add": linear("scatter_add", (1,)),
    "astype": lambda x, dtype: as_float_ball(x),
    "zeros_like": lambda x: exactly_floats(np.zeros(shape_of(x))),
    "ones_like": lambda x: exactly_floats(np.ones(shape_of(x))),
    "full_like": lambda x, fill_value: exactly_floats(np.full(shape_of(x), fill_value)),
    **{name: _moving(name) for name in MOVING},
}
