"""Rows that move the numbers of float balls, and rows that also add some of them up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    """The relative error of a sum of this many terms, with respect to the sum of their sizes."""
    return 1.01 * terms * UNIT  # for fewer than 2^45 terms


def _on_parts(
    name: str, xs: Sequence[Any], passive: Sequence[int], keywords: Mapping[str, Any]
) -> tuple[Callable[[Callable[[FloatBall], Any]], Any], bool]:
    """The row as a function of one part of the balls, such as their radii, and whether all balls
    are exact. Arguments at the places `passive` are not balls."""
    balls = [x if i in passive else as_float_ball(x) for i, x in enumerate(xs)]

    def of(part: Callable[[FloatBall], Any]) -> Any:
        given = (x if i in passive else part(x) for i, x in enumerate(balls))
        return np.asarray(ROWS[name].raw(*given, **keywords))

    return of, all(i in passive or x.radius is None for i, x in enumerate(balls))


def linear(name: str, passive: tuple[int, ...] = ()) -> Callable[..., FloatBall]:
    """A row that moves numbers and adds some of them up."""

    def value(*xs: Any, **keywords: Any) -> FloatBall:
        of, exact = _on_parts(name, xs, passive, keywords)
        found = of(lambda x: x.value)
        terms = float(np.max(of(lambda x: np.ones(x.shape)), initial=0.0))
        if terms <= 1 and exact:
            return FloatBall(found, None)
        radius = (
            of(lambda x: x.radii + summed(terms) * np.abs(x.value))
            if terms > 1
            else of(lambda x: x.radii)
        )
        return FloatBall(found, radius * (1 + 2 * summed(terms)) * GROWN)

    return value


def _row_of_moves(name: str, passive: tuple[int, ...] = ()) -> Callable[..., FloatBall]:
    """A row that moves numbers without changing them."""

    def value(*xs: Any, **keywords: Any) -> FloatBall:
        of, exact = _on_parts(name, xs, passive, keywords)
        chosen = name in MOVING and isinstance(xs[0], FloatBall) and xs[0].chosen
        return FloatBall(of(lambda x: x.value), None if exact else of(lambda x: x.radii), chosen)

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
    "concatenate": _row_of_moves("concatenate"),
    "stack": _row_of_moves("stack"),
    "getitem": _row_of_moves("getitem"),
    "scatter": _scatter,
    "pad": _pad,
    "take": _row_of_moves("take", (1,)),
    "take_along_axis": _row_of_moves("take_along_axis", (1,)),
    "cumsum": linear("cumsum"),
    "unpatch": linear("unpatch"),
    "trace": linear("trace"),
    "scatter_add": linear("scatter_add", (1,)),
    "astype": lambda x, dtype: as_float_ball(x),
    "zeros_like": lambda x: exactly_floats(np.zeros(shape_of(x))),
    "ones_like": lambda x: exactly_floats(np.ones(shape_of(x))),
    "full_like": lambda x, fill_value: exactly_floats(np.full(shape_of(x), fill_value)),
    **{name: _row_of_moves(name) for name in MOVING},
}
