"""Traced JAX functions for repeated calls, evaluated one equation after the other.

Python takes many times as long to build a derivative in JAX as the arithmetic takes, and builds the
same one for every training step, column and point. The traced equations are what JAX runs outside
`jax.jit`, each dispatched separately, so the numbers are equal to the last bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

import jax
import numpy as np
from jax.extend import core

from gradcheck_cli.engines.jax.startup import EQUATIONS, whole_calls
from gradcheck_cli.engines.kit.startup import replaces

# If a function with a custom derivative is not differentiated, tracing would expand the compiled
# functions that it calls.
_OTHERWISE = {"custom_jvp_call", "custom_vjp_call"}

# Tracing takes as long as two runs of a small `jax.vjp`, or eight of a `jax.jvp`. A function is
# traced only after twice as many runs: a fix, which is tried at nine points, would otherwise be
# traced for the last of them. The total is then at most about twice the best possible.
_RUNS = 16

_Evaluated = tuple[Callable[..., list[Any]], Any]
"""The equations, and the tree structure of their results."""


class Equations:
    """Traced functions, by the shapes and dtypes of their arrays."""

    def __init__(self) -> None:
        self._met: Counter[Hashable] = Counter()
        self._traced: dict[Hashable, _Evaluated] = {}
        self._plain: set[Hashable] = set()  # code that is never traced
        self._used = replaces(EQUATIONS)

    def __call__(
        self, code: Hashable, what: Hashable, function: Callable[..., Any], *args: Any
    ) -> Any:
        """Evaluate `function` at its arguments, which contain only arrays. Calls with equal `code`
        and `what` must do the same.

        Raises what the function raises. If tracing fails, or an operation has no kernel, the
        function itself is called, and its error shows where.
        """
        if self._used and code not in self._plain:
            try:
                return self._evaluate((code, what), function, args)
            except Exception:
                self._plain.add(code)
        return function(*args)

    def _evaluate(self, name: Hashable, function: Callable[..., Any], args: Any) -> Any:
        arrays, arrangement = jax.tree.flatten(args)
        key = (name, arrangement, *map(jax.typeof, arrays))
        if self._met[key] < _RUNS:
            self._met[key] += 1
            return function(*args)
        if key not in self._traced:
            self._traced[key] = _trace(function, args)
        run, arranged = self._traced[key]
        return jax.tree.unflatten(arranged, [_array(y) for y in run(*arrays)])


def _array(result: Any) -> Any:
    """A result as an array of JAX; constants are plain numbers."""
    return result if isinstance(result, jax.Array) else jax.device_put(np.asarray(result))


def _trace(function: Callable[..., Any], args: Any) -> _Evaluated:
    """The equations of a function. Raises what the function raises, and ValueError if its equations
    would compute something else."""
    with whole_calls() as outermost:

        def traced(*tracers: Any) -> Any:
            outermost.append(jax.tree.leaves(tracers)[0]._trace)
            return function(*tracers)

        jaxpr, shape = jax.make_jaxpr(traced, return_shape=True)(*args)
    if not _OTHERWISE.isdisjoint(equation.primitive.name for equation in jaxpr.eqns):
        raise ValueError("it calls a function with a custom derivative")
    return core.jaxpr_as_fun(jaxpr), jax.tree.structure(shape)
