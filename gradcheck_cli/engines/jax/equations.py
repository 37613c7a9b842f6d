"""Functions of JAX that are requested often: traced, and evaluated one equation after the other.

Python takes many times as long to make a derivative of JAX as its numbers take, and makes the same
one for every step of a training, every column and every point. Its equations are what JAX runs
outside of `jax.jit`, each dispatched by itself, so that the numbers are the same to the last bit.
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

# A function with a custom derivative that is not differentiated is traced whole, and not as it is
# called: what it calls that is compiled as one would be taken apart.
_OTHERWISE = {"custom_jvp_call", "custom_vjp_call"}

# To trace takes as long as two runs of a small `jax.vjp`, and as eight of a `jax.jvp`. What is
# requested no more than twice as often is run as it is, or a fix, which is tried at nine points,
# would be traced for the last of them; nothing takes much more than twice what it might.
_RUNS = 16

_Evaluated = tuple[Callable[..., list[Any]], Any]
"""The equations, and how their results are arranged."""


class Equations:
    """What was traced, for arrays of some shapes and dtypes."""

    def __init__(self) -> None:
        self._met: Counter[Hashable] = Counter()
        self._traced: dict[Hashable, _Evaluated] = {}
        self._plain: set[Hashable] = set()  # code that is never traced
        self._used = replaces(EQUATIONS)

    def __call__(
        self, code: Hashable, what: Hashable, function: Callable[..., Any], *args: Any
    ) -> Any:
        """What `function` gives for its arguments, which hold arrays alone. It does the same
        wherever `code` and `what` are equal.

        Raises what the function raises: it is called itself where it cannot be traced, or where an
        operation has no kernel, and then says where.
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
    """A constant among the results is a number."""
    return result if isinstance(result, jax.Array) else jax.device_put(np.asarray(result))


def _trace(function: Callable[..., Any], args: Any) -> _Evaluated:
    """Raises what the function raises, and ValueError for what is not the same in equations."""
    with whole_calls() as outermost:

        def traced(*tracers: Any) -> Any:
            outermost.append(jax.tree.leaves(tracers)[0]._trace)
            return function(*tracers)

        jaxpr, shape = jax.make_jaxpr(traced, return_shape=True)(*args)
    if not _OTHERWISE.isdisjoint(equation.primitive.name for equation in jaxpr.eqns):
        raise ValueError("it calls a function with a custom derivative")
    return core.jaxpr_as_fun(jaxpr), jax.tree.structure(shape)
