"""Casts to narrower dtypes in a JAX layer: where they are, and the layer without them.

A jaxpr gives the dtype of every number. Custom rules are already applied in the jaxpr of a
derivative, so it can be evaluated in float64 from end to end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
from jax.extend import core

from gradcheck_cli.domain.dtypes import FORMATS, parts_of
from gradcheck_cli.domain.place import Place
from gradcheck_cli.engines.jax.wide import LOOPS, Pure, inner_of, widened
from gradcheck_cli.engines.layer.casts import History, Watch, is_narrower, narrowest
from gradcheck_cli.engines.layer.source_lines import Places

_ROUNDING = "reduce_precision"  # to any format, in the same dtype


class Uncast:
    """A function of float64 arrays, evaluated without its casts to narrower dtypes. It is traced
    once, so all calls must have arrays of the same shapes."""

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


def watch(layer: Pure, casts: Watch, uncast: bool) -> None:
    """Record in `casts` the casts of a forward and a backward pass. With `uncast`, the layer runs
    without its casts."""

    def gradients(*arrays: Any) -> Any:
        return layer.at(arrays).vjp()[1](layer.bars)

    none: History = frozenset()
    followed = [none if name in layer.wrt else None for name in layer.leaves]
    watching = _Watching(casts)
    for function in (layer.call, gradients):
        traced = jax.make_jaxpr(function)(*layer.arrays)
        found = watching.follow(widened(traced) if uncast else traced, followed, None)
        if function is layer.call:
            casts.end_forward(found)


class _Watching:
    """Follows the numbers that depend on differentiated leaves. These numbers have a history."""

    def __init__(self, casts: Watch) -> None:
        self._casts = casts
        self._places = Places(__name__)

    def follow(
        self, closed: Any, followed: Sequence[History | None], around: Place | None
    ) -> list[History | None]:
        """The histories of the results, for arguments with the histories `followed`."""
        jaxpr = closed.jaxpr
        known = dict(zip(jaxpr.invars, followed, strict=True))

        def history(atom: Any) -> History | None:
            return None if isinstance(atom, core.Literal) else known.get(atom)

        for equation in jaxpr.eqns:
            traceback = equation.source_info.traceback
            place = self._places.of_stack(*traceback.raw_frames()) if traceback else None
            floats = [x for x in equation.invars if history(x) is not None and _is_floating(x)]
            if not floats:
                continue
            made = self._results(equation, [history(x) for x in equation.invars], place or around)
            before = narrowest(_name(x) for x in floats)
            for y, passed in zip(equation.outvars, made, strict=True):
                if not _is_floating(y):
                    continue
                known[y] = passed
                dtype = _rounded_to(equation) or _name(y)
                if is_narrower(dtype, before):
                    name = equation.primitive.name
                    known[y] = passed | self._casts.narrowed(dtype, name, place or around)
        return [history(x) for x in jaxpr.outvars]

    def _results(
        self, equation: Any, followed: Sequence[History | None], place: Place | None
    ) -> list[History]:
        """The histories of the results of an equation. In a loop, every number may depend on every
        other."""
        history = _joined(followed)
        parts = LOOPS.get(equation.primitive.name)
        if parts is None:
            inner = inner_of(equation)
            if inner is not None:
                return [one or history for one in self.follow(inner, followed, place)]
        for part in parts or ():
            found = equation.params[part]
            for one in found if isinstance(found, tuple) else (found,):
                history |= _joined(self.follow(one, [history] * len(one.in_avals), place))
        return [history] * len(equation.outvars)


def _rounded_to(equation: Any) -> str | None:
    """The dtype to which an explicit rounding corresponds: the narrowest that keeps all its bits.
    None for other equations."""
    if equation.primitive.name != _ROUNDING:
        return None
    bits = 1 + equation.params["mantissa_bits"]
    enough = [name for name in FORMATS if FORMATS[name].bits >= bits]
    return narrowest(enough) if enough else None


def _joined(histories: Iterable[History | None]) -> History:
    return frozenset().union(*(history or () for history in histories))


def _is_floating(atom: Any) -> bool:
    return bool(jax.numpy.issubdtype(atom.aval.dtype, jax.numpy.inexact))


def _name(atom: Any) -> str:
    """The dtype of an array; for complex numbers, the dtype of their parts."""
    return parts_of(str(atom.aval.dtype.name))
