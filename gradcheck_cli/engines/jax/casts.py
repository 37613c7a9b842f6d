"""Casts to narrower dtypes in a layer of JAX: where they are, and the layer without them.

A jaxpr says of every number which dtype it has. That of a derivative has the stated rules applied
already, so that it can be evaluated in float64 from end to end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.extend import core

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.place import Place
from gradcheck_cli.engines.jax.wide import LOOPS, inner_of, widened
from gradcheck_cli.engines.layer.casts import Watch, is_narrower, narrowest
from gradcheck_cli.engines.layer.source_lines import Places

_ROUNDING = "reduce_precision"  # to any format, in the same dtype


class Uncast:
    """A function of arrays of float64, evaluated without what it casts to narrower dtypes. Traced
    once: arrays of later calls are like those of the first."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._traced: tuple[Callable[..., list[Any]], Any] | None = None

    def __call__(self, *args: Any) -> Any:
        if self._traced is None:
            closed, shape = jax.make_jaxpr(self._function, return_shape=True)(*args)
            wide = core.jaxpr_as_fun(widened(closed))
            self._traced = wide, jax.tree.structure(shape)
        run, structure = self._traced
        return jax.tree.unflatten(structure, run(*jax.tree.leaves(args)))


# Where they are


def watch(
    call: Callable[..., list[Any]],
    leaves: Mapping[str, Any],
    wrt: Sequence[str],
    cotangents: Sequence[Any],
    casts: Watch,
    uncast: bool,
) -> None:
    """The casts of a forward and a backward pass. `call` takes the `leaves` in order; `uncast`: it
    is evaluated without them."""

    def gradients(*arrays: Any) -> Any:
        given = dict(zip(leaves, arrays, strict=True))

        def moved(*some: Any) -> list[Any]:
            return call(*{**given, **dict(zip(wrt, some, strict=True))}.values())

        _, pull = jax.vjp(moved, *[given[name] for name in wrt])
        return pull(list(cotangents))

    arrays, followed = list(leaves.values()), [name in wrt for name in leaves]
    watching = _Watching(casts)
    for function in (call, gradients):
        traced = jax.make_jaxpr(function)(*arrays)
        watching.follow(widened(traced) if uncast else traced, followed, None)
        casts.backward = True


class _Watching:
    """Follows the numbers that depend on what is differentiated."""

    def __init__(self, casts: Watch) -> None:
        self._casts = casts
        self._places = Places(__name__)

    def follow(self, closed: Any, followed: Sequence[bool], around: Place | None) -> list[bool]:
        """Which results depend on the arguments that are `followed`."""
        jaxpr = closed.jaxpr
        known = dict(zip(jaxpr.invars, followed, strict=True))

        def depends(atom: Any) -> bool:
            return not isinstance(atom, core.Literal) and known.get(atom, False)

        for equation in jaxpr.eqns:
            traceback = equation.source_info.traceback
            place = self._places.kept(*traceback.raw_frames()) if traceback else None
            given = [x for x in equation.invars if depends(x) and _is_floating(x)]
            if not given:
                continue
            self._inside(equation, [depends(x) for x in equation.invars], place or around)
            before = narrowest(_name(x) for x in given)
            for y in equation.outvars:
                known[y] = _is_floating(y)
                dtype = _rounded_to(equation) or _name(y)
                if known[y] and is_narrower(dtype, before):
                    self._casts.add(dtype, equation.primitive.name, place or around)
        return [depends(x) for x in jaxpr.outvars]

    def _inside(self, equation: Any, followed: list[bool], place: Place | None) -> None:
        """Loops may hand on what depends to any of their numbers."""
        parts = LOOPS.get(equation.primitive.name)
        if parts is None:
            inner = inner_of(equation)
            if inner is not None:
                self.follow(inner, followed, place)
            return
        for part in parts:
            found = equation.params[part]
            for one in found if isinstance(found, tuple) else (found,):
                self.follow(one, [True] * len(one.in_avals), place)


def _rounded_to(equation: Any) -> str | None:
    """The dtype whose digits are left by an explicit rounding: the next one that has no fewer."""
    if equation.primitive.name != _ROUNDING:
        return None
    bits = 1 + equation.params["mantissa_bits"]
    enough = [name for name in FORMATS if FORMATS[name].bits >= bits]
    return narrowest(enough) if enough else None


def _is_floating(atom: Any) -> bool:
    return bool(jax.numpy.issubdtype(atom.aval.dtype, jax.numpy.inexact))


def _name(atom: Any) -> str:
    """Complex numbers have the digits of their parts."""
    name = str(atom.aval.dtype.name)
    return {"complex64": "float32", "complex128": "float64"}.get(name, name)
