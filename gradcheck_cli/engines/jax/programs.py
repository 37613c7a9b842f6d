"""Functions of JAX, known by what they compute.

JAX knows a function, and the body of a loop, by the object: what it has compiled it compiles again
for another object that does the same. A layer is bound anew at every point, and makes the bodies of
its loops anew at every call. Here two are one where their equations are.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial
from hashlib import sha256
from typing import Any

import jax
import numpy as np
from jax.extend import core
from jax.extend.core import primitives

from gradcheck_cli.engines.kit.lru import Recent
from gradcheck_cli.engines.kit.patience import off_the_clock
from gradcheck_cli.engines.temporarily import temporarily

MOST_PROGRAMS = 256
"""Kept at a time, with what is compiled in; a layer has about ten for every dtype and shape, and
the solvers of libraries some dozens."""
_PROGRAMS = Recent[Hashable, Any](MOST_PROGRAMS)  # of this process, as what JAX has compiled is

_LOOPS = (primitives.scan_p, primitives.while_p, primitives.cond_p, primitives.linear_solve_p)
_JITTED = "_pjit_call_impl_python"  # runs what no call of the same function object has compiled
_STATED = ("custom_jvp_call", "custom_vjp_call")  # whose derivative is no part of the value


class Compiled:
    """A function as `jax.jit` compiles it, with the arrays that it captured compiled in: traced
    once for every shape and dtype of its arguments, compiled where none like it has been. JAX's
    errors speak of it by the name of the `layer` that it calls."""

    def __init__(
        self,
        function: Callable[..., Any],
        layer: Callable[..., Any],
        compiler_options: Mapping[str, bool | str] | None = None,
    ) -> None:
        def called(*args: Any) -> Any:
            return function(*args)

        named: Any = called
        named.__wrapped__, named.__signature__ = layer, inspect.signature(function)
        self._function = function
        self._jit = jax.jit(named, compiler_options=compiler_options)
        self._options = tuple((compiler_options or {}).items())
        self._known: dict[Hashable, Callable[..., Any]] = {}

    def __call__(self, *args: Any) -> Any:
        if jax.config.jax_disable_jit:  # what was compiled before does not run then
            return self._function(*args)
        leaves, structure = jax.tree.flatten(args)
        shapes = structure, tuple((x.aval, x.sharding) for x in leaves)
        if shapes not in self._known:
            traced = self._jit.trace(*args)
            key = self._options, shapes, jax.tree.structure(traced.out_info), known(traced.jaxpr)
            self._known[shapes] = _PROGRAMS.one(key, partial(_built, traced))
        return self._known[shapes](*args)


def _built(traced: Any) -> Callable[..., Any]:
    """What was traced, compiled ahead of time: what `jax.clear_caches` forgets is kept."""
    with off_the_clock():
        built: Callable[..., Any] = traced.lower().compile()
        return built


_EXECUTABLES = Recent[Hashable, Any](MOST_PROGRAMS)
_COMPILES = "compile_or_get_cached"  # where XLA is called, with these first
_GIVEN = ["backend", "computation", "devices", "compile_options", "host_callbacks"]


@contextmanager
def programs_known() -> Iterator[None]:
    """Loops, branches and what a layer compiles by `jax.jit` are compiled meanwhile where none
    like them have been; so is every operation, which is in no cache of JAX's after
    `jax.clear_caches`."""
    places = [(loop, "impl", loop) for loop in _LOOPS]
    # where another version of JAX has no such name, what is jitted anew is compiled anew
    pjit = sys.modules.get("jax._src.pjit")
    if hasattr(pjit, _JITTED):
        places.append((pjit, _JITTED, primitives.jit_p))
    with ExitStack() as stack:
        for owner, name, program in places:
            run = partial(_run, program, getattr(owner, name))
            stack.enter_context(temporarily(owner, **{name: run}))
        compiler = sys.modules.get("jax._src.compiler")
        own = getattr(compiler, _COMPILES, None)
        if own is not None and _takes_what_is_given(own):
            compile_once = partial(_compiled_once, own)
            stack.enter_context(temporarily(compiler, **{_COMPILES: compile_once}))
        yield


@lru_cache(maxsize=8)
def _takes_what_is_given(compile: Any) -> bool:
    """Looked up once: every call of a small layer asks."""
    return list(inspect.signature(compile).parameters)[: len(_GIVEN)] == _GIVEN


def _compiled_once(compile: Any, backend: Any, module: Any, *args: Any, **more: Any) -> Any:
    """What XLA made of the same code. What calls back into Python is made anew: it calls an object
    of its own."""
    devices, options, callbacks = args[:3]
    code = module.operation.get_asm(enable_debug_info=False)
    make = partial(compile, backend, module, *args, **more)
    if callbacks or "callback" in code:
        return make()
    placed = str(devices), str((args[3:], more)), options.SerializeAsString()
    return _EXECUTABLES.one((id(backend), sha256(code.encode()).digest(), *placed), make)


def _run(program: Any, run: Callable[..., Any], *args: Any, **params: Any) -> Any:
    first: Mapping[str, Any] = _PROGRAMS.one((program, _parameters(params)), lambda: params)
    return run(*args, **first)


def _known_by(jaxpr: Any) -> Hashable:
    """Equal for two programs that compute the same from the same arguments in the same way."""
    numbers: dict[Any, int] = {}

    def atom(x: Any) -> Hashable:
        if isinstance(x, core.Literal):
            return x.aval, known(x.val)
        return x.aval, numbers.setdefault(x, len(numbers))

    def atoms(several: Sequence[Any]) -> Hashable:
        return tuple(map(atom, several))

    given = atoms(jaxpr.constvars), atoms(jaxpr.invars)
    equations = tuple(
        (e.primitive, atoms(e.invars), _computed(e), atoms(e.outvars)) for e in jaxpr.eqns
    )
    return given, equations, atoms(jaxpr.outvars)


def _computed(equation: Any) -> Hashable:
    if equation.primitive.name in _STATED:
        return known(equation.params["call_jaxpr"])
    return _parameters(equation.params)


def _parameters(params: Mapping[str, Any]) -> Hashable:
    return tuple((key, known(value)) for key, value in sorted(params.items()))


def known(value: Any, inside: tuple[Any, ...] = ()) -> Hashable:
    """Equal where two parameters or constants are; what cannot be compared is itself alone.
    `inside`: the objects that it is an attribute of."""
    if isinstance(value, core.ClosedJaxpr):
        return _known_by(value.jaxpr), tuple(map(known, value.consts))
    if isinstance(value, core.Jaxpr):
        return _known_by(value)
    leaves, structure = jax.tree.flatten(value)
    if len(leaves) != 1 or leaves[0] is not value:
        return _arrangement(structure, inside), tuple(known(one, inside) for one in leaves)
    if isinstance(value, jax.tree_util.PyTreeDef):
        return _arrangement(value, inside)
    if isinstance(value, partial):
        return partial, known((value.func, value.args, value.keywords), inside)
    if isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        return str(value.dtype), known(jax.random.key_data(value))
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        plain = np.asarray(value)
        return type(value), plain.shape, str(plain.dtype), sha256(plain.tobytes()).digest()
    if isinstance(value, float):  # nan is itself, and -0 is not 0
        return float, np.float64(value).tobytes()
    state = None if any(value is one for one in inside) else _state(value)
    if state is not None:
        return type(value), known(state, (*inside, value))
    return type(value), _Same(value)


def _arrangement(structure: Any, inside: tuple[Any, ...]) -> Hashable:
    """Of a `PyTreeDef`: what a library's own node says of itself may hold objects, too."""
    kind, about = structure.node_data() or (None, None)
    parts = tuple(_arrangement(part, inside) for part in structure.children())
    return kind, known(about, inside) if about is not None else None, parts


def _state(value: Any) -> Any:
    """The attributes of an object of a Python class that does not say when two are equal: libraries
    make such an object at every call and hand it to their primitives. None where there are none: a
    sentinel is known by its identity."""
    kind: Any = type(value)
    plain = kind.__eq__ is object.__eq__ and kind.__new__ is object.__new__
    return value.__getstate__() if plain and kind.__getstate__ is object.__getstate__ else None


class _Same:
    """Compared by value where that is defined, else by identity. It holds the value, whose place in
    memory nothing else takes meanwhile."""

    def __init__(self, value: Any) -> None:
        self._value = value
        try:
            self._hash = hash(value)
        except TypeError:
            self._hash = id(value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Same):
            return False
        return self._value is other._value or (
            self._hash == other._hash and bool(self._value == other._value)
        )
