"""Casts to narrower dtypes in a layer of JAX: where they are, and the layer without them.

A jaxpr says of every number which dtype it has. That of a derivative has the stated rules applied
already, so that it can be evaluated in float64 from end to end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.extend import core

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.place import Place
from gradcheck_cli.engines.callables.casts import Watch, is_narrower, narrowest
from gradcheck_cli.engines.callables.places import Places
from gradcheck_cli.engines.jax_recorder import inner_of

_LOOPS = {"cond": ("branches",), "while": ("cond_jaxpr", "body_jaxpr"), "scan": ("jaxpr",)}
_AS_BITS = "bitcast_convert_type"
_ROUNDING = "reduce_precision"  # to any format, in the same dtype
_PRODUCTS = "precision"  # what a product may round its factors to


class Uncast:
    """A function of arrays of float64, evaluated without what it casts to narrower dtypes. Traced
    once: arrays of later calls are like those of the first."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._traced: tuple[Callable[..., list[Any]], Any] | None = None

    def __call__(self, *args: Any) -> Any:
        if self._traced is None:
            closed, shape = jax.make_jaxpr(self._function, return_shape=True)(*args)
            wide = core.jaxpr_as_fun(_widened(closed))
            self._traced = wide, jax.tree.structure(shape)
        run, structure = self._traced
        return jax.tree.unflatten(structure, run(*jax.tree.leaves(args)))


def _widened(closed: Any) -> Any:
    """The same program in float64."""
    arrays = [
        jax.ShapeDtypeStruct(x.shape, _wide(x.dtype), weak_type=getattr(x, "weak_type", False))
        for x in closed.in_avals
    ]
    return jax.make_jaxpr(partial(_run, closed))(*arrays)


def _run(closed: Any, *arrays: Any) -> list[Any]:
    """The results of a jaxpr. All floating numbers in it are float64."""
    jaxpr = closed.jaxpr
    known = dict(zip(jaxpr.invars, arrays, strict=True))
    known.update((x, _in_float64(y)) for x, y in zip(jaxpr.constvars, closed.consts, strict=True))

    def value(atom: Any) -> Any:
        if isinstance(atom, core.Literal):
            return _in_float64(jax.numpy.asarray(atom.val, atom.aval.dtype))
        return known[atom]

    for equation in jaxpr.eqns:
        args = [value(x) for x in equation.invars]
        with equation.ctx.manager:
            results = [_in_float64(y) for y in _equation(equation, args)]
        known.update(zip(equation.outvars, results, strict=True))
    return [value(x) for x in jaxpr.outvars]


def _equation(equation: Any, args: list[Any]) -> Sequence[Any]:
    name, params = equation.primitive.name, equation.params
    if name == _ROUNDING:
        return args
    if name == "custom_linear_solve":
        lengths = params["const_lengths"]
        before = lengths.matvec + lengths.vecmat
        consts = args[before : before + lengths.solve]
        return _run(params["jaxprs"].solve, *consts, *args[sum(lengths) :])
    inner = _called(equation)
    if inner is not None:
        return _run(inner, *args)
    if name == _AS_BITS:  # of the dtype that they were
        args = [x.astype(y.aval.dtype) for x, y in zip(args, equation.invars, strict=True)]
        wide = dict(params)
    else:
        wide = {key: _parameter(name, key, one) for key, one in params.items()}
    found = equation.primitive.bind(*args, **equation.primitive.get_bind_params(wide))
    return found if equation.primitive.multiple_results else [found]


def _called(equation: Any) -> Any:
    """What an equation does nothing but call, or None."""
    name = equation.primitive.name
    return None if name in _LOOPS else inner_of(equation)


def _parameter(name: str, key: str, value: Any) -> Any:
    if key == _PRODUCTS:
        return None
    if key in _LOOPS.get(name, ()) and isinstance(value, tuple):
        return tuple(map(_widened, value))
    if isinstance(value, core.ClosedJaxpr):
        return _widened(value)
    if isinstance(value, core.Jaxpr):
        return _widened(core.ClosedJaxpr(value, ())).jaxpr
    return _wide(value) if isinstance(value, np.dtype) else value


def _wide(dtype: Any) -> Any:
    if jax.numpy.issubdtype(dtype, jax.numpy.floating):
        return np.dtype(np.float64)
    complex_ = jax.numpy.issubdtype(dtype, jax.numpy.complexfloating)
    return np.dtype(np.complex128) if complex_ else dtype


def _in_float64(array: Any) -> Any:
    wide = _wide(array.dtype)
    return array if wide == array.dtype else array.astype(wide)


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
        watching.follow(_widened(traced) if uncast else traced, followed, None)
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
        parts = _LOOPS.get(equation.primitive.name)
        if parts is None:
            inner = _called(equation)
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
