"""The `jax.custom_vjp`s and `jax.custom_jvp`s that a JAX layer calls, with the arguments of each
call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import field
from functools import partial
from typing import Any

import jax
import numpy as np
from jax._src.custom_derivatives import linear_call_p
from jax.extend.core.primitives import linear_solve_p

from gradcheck_cli.domain.dtypes import Array, as_numbers
from gradcheck_cli.domain.evaluation import FIRST_ORDER, Mode
from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.records import dataclass, replace
from gradcheck_cli.engines.jax.implicit import LINEAR, ROOT, TRANSPOSED, Broken, broken_promise
from gradcheck_cli.engines.jax.trees import is_complex, key_of_entry
from gradcheck_cli.engines.jax.walk import CUSTOM_JVP, CUSTOM_VJP
from gradcheck_cli.engines.jax.wide import Pure, Unrolled, equations
from gradcheck_cli.engines.layer.capture import of_a_library
from gradcheck_cli.engines.layer.custom import CustomCall, IsolatedCall, Path
from gradcheck_cli.engines.layer.source_lines import Places, calling
from gradcheck_cli.engines.temporarily import temporarily

# The calls that are examined. A function in a long loop is called more often; in a scan, JAX
# compiles a slice for every turn.
MOST_CALLS = 64

_CUT = "stop_gradient"

_OF_CUSTOM_GRADIENT = "custom_gradient.<locals>.wrapped_fun"
_KINDS = (jax.custom_vjp, jax.custom_jvp)
_PRIMITIVES = {LINEAR: linear_solve_p, TRANSPOSED: linear_call_p}
_RULES = (CUSTOM_JVP, CUSTOM_VJP, *_PRIMITIVES)


class _Enough(Exception):
    """Raised after the largest number of calls that are examined."""


@dataclass(slots=True)
class _Call:
    """A call of a custom function. `values` are its flattened arguments, `names` their names, and
    `paths` lead to them in the argument with the number in `indices`; `through` has the leaves of
    the layer that each depends on. `broken`: a call that breaks the promise
    of an `implicit` function, by the name of the function."""

    function: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    place: Place | None
    values: list[Any] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    through: list[set[str]] = field(default_factory=list)
    broken: Broken | None = None

    def arguments(self, *values: Any) -> Any:
        return jax.tree.unflatten(jax.tree.structure((self.args, self.kwargs)), values)

    def call_at(self, *values: Any) -> Any:
        args, kwargs = self.arguments(*values)
        return self.function(*args, **kwargs)


def custom_calls(layer: Pure) -> list[CustomCall]:
    """The calls of users' functions that the outputs may depend on, in order. Each leaf is followed
    in a run of its own without compilation, so that every call has its numbers. If the layer calls
    no custom function, it does not run."""
    calls: list[_Call] = []
    program = jax.make_jaxpr(layer.call)(*layer.arrays)
    if not any(one.primitive.name in _RULES for one in equations(program)):
        return []
    for leaf in layer.wrt:
        seen: list[_Call] = []
        with jax.disable_jit(), _recording_calls(seen), suppress(_Enough):
            replace(layer, wrt=(leaf,)).vjp()
        for one in seen:
            _add_arguments(one, leaf)
        if not calls:
            calls = seen
            continue
        for known, again in zip(calls, seen, strict=False):
            for through, more in zip(known.through, again.through, strict=False):
                through |= more
    found = [_described(one) for one in _with_numbers(calls, program, layer.arrays)]
    return [one for one in found if one is not None]


class _Numbers(Unrolled):
    """Evaluates a layer, and keeps the arguments of all calls of custom functions, by `_key_of`."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], list[list[Any]]] = {}

    def equation(self, equation: Any, args: list[Any]) -> list[Any]:
        if equation.primitive.name not in (CUSTOM_JVP, CUSTOM_VJP):
            return super().equation(equation, args)
        params = equation.params
        about = params["call_jaxpr"].jaxpr.debug_info
        key = about.func_name, str(about.func_src_info).rpartition(":")[2]
        self.seen.setdefault(key, []).append(args[params["num_consts"] :])
        return self(params["call_jaxpr"], *args)


def _with_numbers(calls: list[_Call], program: Any, arrays: Sequence[Any]) -> list[_Call]:
    """The calls. Those inside of code that JAX only traces, as under `jax.checkpoint`, are there
    once for each of their runs, with the numbers of this run."""
    if not any(_is_unknown(one) for one in calls):
        return calls
    run = _Numbers()
    run(program, *arrays)
    found: list[_Call] = []
    for one in calls:
        if not _is_unknown(one):
            found.append(one)
            continue
        code = getattr(one.function.fun, "__code__", None)
        key = _name_of(one.function), str(getattr(code, "co_firstlineno", ""))
        for args in run.seen.pop(key, [])[: MOST_CALLS - len(found)]:
            places = [p for p, i in enumerate(one.indices) if i not in one.function.nondiff_argnums]
            if len(places) == len(args):
                values = list(one.values)
                for place, value in zip(places, args, strict=True):
                    values[place] = value if values[place] is None else values[place]
                found.append(replace(one, values=values))
    return found


def _is_unknown(call: _Call) -> bool:
    return any(value is None for value in call.values)


@contextmanager
def _recording_calls(calls: list[_Call]) -> Iterator[None]:
    """Record every call inside the block, except calls by libraries and calls inside another call,
    whose derivative comes from the rule of the outer one."""
    places = Places(__name__)
    before = {kind: kind.__call__ for kind in _KINDS}
    depth = 0

    def watched(kind: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal depth
        theirs = not of_a_library(getattr(_users(function), "__module__", None))
        if theirs and not depth:
            if len(calls) >= MOST_CALLS:
                raise _Enough
            calls.append(_Call(function, args, kwargs, places.running()))
        depth += 1
        try:
            found = before[kind](function, *args, **kwargs)
            if function.fun.__name__ == f"_{ROOT}":
                look_at(ROOT, found, args[2:])
            return found
        finally:
            depth -= 1

    def look_at(name: str, found: Any, args: Sequence[Any]) -> None:
        broken = broken_promise(name, found, _numbers)
        if broken is not None and len(calls) < MOST_CALLS:
            calls.append(_Call(name, tuple(args), {}, places.running(), broken=broken))

    def looked_at(name: str, bind: Callable[..., Any], *args: Any, **params: Any) -> Any:
        found = bind(*args, **params)
        if not depth:
            look_at(name, found, args)
        return found

    with ExitStack() as stack:
        for name, primitive in _PRIMITIVES.items():
            bind = partial(looked_at, name, primitive.bind)
            stack.enter_context(temporarily(primitive, bind=bind))
        for kind in _KINDS:
            call = _method(partial(watched, kind))
            stack.enter_context(temporarily(kind, __call__=call))
        yield


def _method(watched: Callable[..., Any]) -> Callable[..., Any]:
    return lambda function, *args, **kwargs: watched(function, *args, **kwargs)


def _add_arguments(call: _Call, leaf: str) -> None:
    """Add the arguments with their numbers, from a run that follows `leaf`."""
    if call.broken is not None:
        call.through = [{leaf} if any(map(_depends, call.args)) else set()]
        return
    parameters = list(inspect.signature(_users(call.function)).parameters)
    flat, _ = jax.tree_util.tree_flatten_with_path((call.args, call.kwargs))
    for (_, which, *rest), value in flat:
        if isinstance(which, jax.tree_util.DictKey):
            index, name = parameters.index(which.key), which.key
        else:
            index = which.idx
            name = parameters[index] if index < len(parameters) else f"argument {index}"
        call.indices.append(index)
        call.paths.append(tuple(map(key_of_entry, rest)))
        parts = jax.tree_util.keystr(tuple(rest), simple=True, separator=".")
        call.names.append(f"{name}.{parts}" if rest else name)
        call.values.append(_numbers(value))
        call.through.append({leaf} if _depends(value) else set())


def _depends(value: Any) -> bool:
    """Whether the value is being differentiated."""
    if hasattr(value, "batch_dim"):
        return _depends(value.val)
    return isinstance(value, jax.core.Tracer)


def _numbers(value: Any) -> Any:
    """The numbers of a value that is being differentiated; under `jax.vmap`, those of the first
    entry. None if the value has no numbers."""
    if hasattr(value, "batch_dim"):  # a tracer of jax.vmap
        numbers, axis = _numbers(value.val), value.batch_dim
        return numbers if numbers is None or axis is None else numbers[(slice(None),) * axis + (0,)]
    if isinstance(value, jax.core.Tracer):
        return _numbers(getattr(value, "primal", None))
    return value


def _described(call: _Call) -> CustomCall | None:
    """The call, or None if some of its numbers are unknown."""
    if _is_unknown(call):
        return None
    if call.broken is not None:
        (reached,) = call.through
        return CustomCall(
            name=call.function,
            live=call.function,
            values={},
            moving=tuple(reached),
            reaches=frozenset(reached),
            positions={},
            backward=call.broken.rule,
            place=call.place,
            broken=call.broken.reason,
        )
    apart = call.function.nondiff_argnums
    places = [
        place
        for place, (index, value) in enumerate(zip(call.indices, call.values, strict=True))
        if index not in apart and is_floating(value)
    ]
    reverse = isinstance(call.function, jax.custom_vjp)
    stated = call.function.bwd if reverse else call.function.jvp
    rank = {index: index - sum(other < index for other in apart) for index in call.indices}
    names = call.names
    terms = _terms(stated)
    if _users(call.function) is not call.function.fun:
        args, kwargs = call.arguments(*call.values)
        _, stated = _users(call.function)(*args, **kwargs)
    stated = None if of_a_library(getattr(stated, "__module__", None)) else stated
    return CustomCall(
        name=_name_of(call.function),
        live=IsolatedCall(_name_of(call.function), call.call_at, call.values, places),
        values={names[place]: in_parts(call.values[place]) for place in places},
        complex_values=frozenset(names[p] for p in places if is_complex(call.values[p])),
        moving=tuple(names[place] for place in places if call.through[place]),
        reaches=frozenset[str]().union(*(call.through[place] for place in places)),
        through={names[place]: frozenset(call.through[place]) for place in places},
        # a jvp rule returns the value and then the tangent
        positions={
            names[p]: (rank[call.indices[p]], *call.paths[p]) if reverse else (1,) for p in places
        },
        backward=stated,
        jvp=None if reverse else stated,
        tangent=(1,),
        terms={names[p]: terms[rank[call.indices[p]]] for p in places} if terms else {},
        place=call.place,
        stops=_stops(call.function),
    )


def _terms(jvp: Any) -> Sequence[Any]:
    """The functions that the user gave to `defjvps`, which made this rule of them; empty if the
    user wrote the rule. None in place of a function: a derivative of 0."""
    if getattr(jvp, "__module__", None) != jax.custom_jvp.__module__:
        return ()
    return inspect.getclosurevars(jvp).nonlocals.get("jvps", ())


def _stops(function: Any) -> dict[Mode, Place | None]:
    """Where a `jax.custom_vjp` stops a gradient, in its forward rule or its backward. A
    `jax.custom_jvp` has one rule for both modes."""
    if isinstance(function, jax.custom_vjp):
        return {"reverse": calling(function.fwd, _CUT) or calling(function.bwd, _CUT)}
    return dict.fromkeys(FIRST_ORDER, calling(function.jvp, _CUT))


def _name_of(function: Any) -> str:
    fun = _users(function)
    return str(getattr(fun, "__name__", type(fun).__name__))


def _users(function: Any) -> Any:
    """The user's function inside of a custom one. `jax.custom_gradient` makes a `jax.custom_vjp` of
    a function that returns its value and the function of its gradient."""
    if getattr(function.fun, "__qualname__", "") != _OF_CUSTOM_GRADIENT:
        return function.fun
    return inspect.getclosurevars(function.fun).nonlocals["fun"]


def is_floating(value: Any) -> bool:
    """Whether the value is an array of floating or complex numbers."""
    dtype = getattr(value, "dtype", None)
    return dtype is not None and bool(jax.numpy.issubdtype(dtype, jax.numpy.inexact))


def in_parts(value: Any) -> Array:
    """The numbers of an array, complex ones as pairs along a last axis."""
    return as_numbers(np.asarray(value))
