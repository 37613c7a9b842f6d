"""Test points of an elementwise row of one array, derived from the row itself: its domain is where
its value is finite, and its special points are avoided. The exact value is the lowering of the
symbolic engine, which shares no code with the row."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from reference_engine.op import REQUIRED, Op
from tests.reference_engine.samples.drawing import SPECIAL, Array, Draw, Exact, single

AWAY = 0.3
"""How far numbers stay from the end of the domain and from points: the differences of
test_rows.py, with steps of 0.002, are right to 1e-8 there."""

ORDINARY = (1e-9, 0.5, -1.5, 5.0, -8.0, 40.0)


def follows(row: Op) -> bool:
    """Whether everything that a test needs can be derived from the row."""
    alone = len(row.arrays) == 1 and row.elementwise and row.differentiable and not row.kinds
    return alone and row.name != "astype" and REQUIRED not in row.keywords.values()


def special_points(row: Op) -> list[float]:
    """The points at which the row says that something other than a loss of digits happens."""
    return [float(point.at[0]) for point in row.points if point.kind != "limit"]


def draw_of(row: Op) -> Draw:
    """Numbers between -2 and 2 in the domain of the row."""

    def usable(x: Array) -> Array:
        with np.errstate(all="ignore"):
            found = np.isfinite(row.value(x - AWAY)) & np.isfinite(row.value(x + AWAY))
        for point in special_points(row):
            found &= np.abs(x - point) >= AWAY
        return found

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        x = rng.uniform(-2, 2, shape)
        for _ in range(1000):
            bad = ~usable(x)
            if not np.any(bad):
                return x
            x = np.where(bad, rng.uniform(-2, 2, shape), x)
        raise AssertionError(f"{row.name} needs samples of its own: none lie between -2 and 2")

    return draw


def exact_of(row: Op) -> Exact:
    """The row in mpmath, at special and ordinary points of its domain."""
    avoided = special_points(row)

    def domain(x: float) -> bool:
        with np.errstate(all="ignore"):
            return x not in avoided and bool(np.isfinite(row.value(np.float64(x))))

    points = [x for x in (*SPECIAL, *ORDINARY) if domain(x)]
    return Exact(lambda x: _symbolic(row.name)(x), single(*points), domain=domain)


@cache
def _symbolic(name: str) -> Callable[[Any], Any]:
    import sympy

    from gradcheck_cli.engines.kit.lowerings import Missing, bound
    from gradcheck_cli.engines.symbolic.functions import NUMERIC
    from gradcheck_cli.engines.symbolic.ops import TABLE

    x = sympy.Symbol("x", real=True)
    lowering = bound(TABLE, sympy)[name]
    assert not isinstance(lowering, Missing)
    function: Callable[[Any], Any] = sympy.lambdify(x, lowering(x), [NUMERIC, "mpmath"])
    return function
