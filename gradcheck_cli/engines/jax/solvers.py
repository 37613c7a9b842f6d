"""Finds the functions of a JAX layer that solve by iterating: they have a custom derivative, and a
loop that ends by a comparison of floating numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax

from gradcheck_cli.engines.jax.custom_functions import is_floating
from gradcheck_cli.engines.jax.walk import CUSTOM_JVP, CUSTOM_VJP
from gradcheck_cli.engines.jax.wide import equations, inner_equations

_STATED = (CUSTOM_JVP, CUSTOM_VJP, "custom_linear_solve")
_COMPARISONS = ("lt", "le", "gt", "ge")


def solvers(call: Callable[..., list[Any]], arrays: Iterable[Any]) -> frozenset[str]:
    """The names of the functions that solve by iterating."""
    return frozenset(
        _name_of(equation)
        for equation in equations(jax.make_jaxpr(call)(*arrays))
        if equation.primitive.name in _STATED and any(map(_iterates, inner_equations(equation)))
    )


def _iterates(equation: Any) -> bool:
    if equation.primitive.name != "while":
        return False
    return any(
        one.primitive.name in _COMPARISONS and is_floating(one.invars[0].aval)
        for one in equations(equation.params["cond_jaxpr"])
    )


def _name_of(equation: Any) -> str:
    stated = equation.params.get("call_jaxpr")
    return equation.primitive.name if stated is None else str(stated.jaxpr.debug_info.func_name)
