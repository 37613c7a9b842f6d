"""Comparisons, logic, and the functions that choose between their arguments."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Lowering


def maximum(sympy: Any, *xs: Any) -> Any:
    from gradcheck_cli.engines.symbolic.functions import Largest

    return Largest(*xs) if len(xs) > 1 else xs[0]


def minimum(sympy: Any, *xs: Any) -> Any:
    return -maximum(sympy, *(-x for x in xs))


def clip(sympy: Any, x: Any, min: Any = None, max: Any = None) -> Any:
    """What lies beyond a bound is the bound; at a bound the derivative is the inner one."""
    bounds = ([] if min is None else [(min, x < min)]) + ([] if max is None else [(max, x > max)])
    return sympy.Piecewise(*bounds, (x, True))


def _stepwise(name: str) -> Lowering:
    def step(sympy: Any, x: Any) -> Any:
        from gradcheck_cli.engines.symbolic import functions

        return getattr(functions, name)(x)

    return step


ROWS: dict[str, Lowering] = {
    "ceil": _stepwise("Ceil"),
    "clip": clip,
    "equal": "Eq",
    "floor": _stepwise("Floor"),
    "greater": "Gt",
    "greater_equal": "Ge",
    "less": "Lt",
    "less_equal": "Le",
    "logical_and": "And",
    "logical_not": "Not",
    "logical_or": "Or",
    "maximum": maximum,
    "minimum": minimum,
    "not_equal": "Ne",
    "relu": lambda sympy, x: sympy.Piecewise((x, x > 0), (0, True)),
    "round": _stepwise("Round"),
    "sign": lambda sympy, x: sympy.Piecewise((1, x > 0), (-1, x < 0), (0, True)),
    "where": lambda sympy, condition, x, y: sympy.Piecewise((x, condition), (y, True)),
}
