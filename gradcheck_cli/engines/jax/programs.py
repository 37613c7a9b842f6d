"""Functions of JAX, identified by what they compute.

JAX identifies a function, and the body of a loop, by the Python object, and compiles an equal
function again if it is another object. A layer is bound anew at each point, and makes the bodies of
its loops anew in each call. In this module, functions with equal equations are the same.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass
from functools import lru_cache, partial
from hashlib import sha256
from types import FunctionType
from typing import Any

import jax
import numpy as np
from jax.extend import core
from jax.extend.core import primitives
from jax.interpreters import partial_eval

from gradcheck_cli.engines.jax.stages import UNOPTIMISED
from gradcheck_cli.engines.jax.wide import equations, is_foreign
from gradcheck_cli.engines.kit.lru import Recent
from gradcheck_cli.engines.kit.patience import off_the_clock
from gradcheck_cli.engines.temporarily import temporarily

MOST_PROGRAMS = 256
"""How many programs are kept, with the arrays that are compiled in. A layer has about ten for each
dtype and shape, and the solvers of libraries some dozens."""
_PROGRAMS = Recent[Hashable, Any](MOST_PROGRAMS)  # of this process, like JAX's own cache

_LOOPS = (primitives.scan_p, primitives.while_p, primitives.cond_p, primitives.linear_solve_p)
_JITTED = "_pjit_call_impl_python"  # runs functions that are new to JAX
_NO_OPTION = "No such compile option"
_STATED = ("custom_jvp_call", "custom_vjp_call")  # their derivatives do not affect the value


# Values that nobody can modify, unlike a NumPy array or a list
_FIXED = (jax.Array, np.generic, float, FunctionType)


class Compiled:
    """A function compiled by `jax.jit`, with its captured arrays compiled in. It is traced once for
    each shape and dtype of its arguments, and compiled only if no equal program was. JAX's errors
    name it after the `layer` that it calls. If `known_by` returns a key for its arguments, this
    alone says which program it is, and a function with an equal key is not traced."""

    def __init__(
        self,
        function: Callable[..., Any],
        layer: Callable[..., Any],
        compiler_options: Mapping[str, bool | str] | None = None,
        known_by: Callable[..., Hashable | None] = lambda *args: None,
    ) -> None:
        def called(*args: Any) -> Any:
            return function(*args)

        named: Any = called
        named.__wrapped__, named.__signature__ = layer, inspect.signature(function)
        self._function = function
        self._jit = jax.jit(named)
        self._options = tuple((compiler_options or {}).items())
        self.known_by = known_by
        self._known: dict[Hashable, Callable[..., Any]] = {}
        self._traced: dict[Hashable, Any] = {}
        self._determining: dict[Hashable, Hashable | None] = {}

    def __call__(self, *args: Any) -> Any:
        if jax.config.jax_disable_jit:  # nothing compiled may run
            return self._function(*args)
        shapes = _shapes_of(args)
        if shapes not in self._known:
            known_by, build = self.known_by(*args), partial(self._built, shapes, args)
            known = known_by is not None
            self._known[shapes] = (
                _PROGRAMS.get((self._options, shapes, known_by), build) if known else build()
            )
        return self._known[shapes](*args)

    def _built(self, shapes: Hashable, args: Sequence[Any]) -> Callable[..., Any]:
        traced = self._traced_at(shapes, args)
        key = (self._options, shapes, jax.tree.structure(traced.out_info), key_of(traced.jaxpr))
        made: Callable[..., Any] = _PROGRAMS.get(
            key, partial(_compile_ahead, traced, self._options)
        )
        return made

    def _traced_at(self, shapes: Hashable, args: Sequence[Any]) -> Any:
        if shapes not in self._traced:
            self._traced[shapes] = self._jit.trace(*args)
        return self._traced[shapes]

    def shapes(self, *args: Any) -> Any:
        """The results with shapes and dtypes alone. Nothing is compiled."""
        return self._traced_at(_shapes_of(args), args).out_info

    def determines_derivatives(self, *args: Any) -> Hashable | None:
        """A key of the program that determines its derivatives, too: JAX derives them from the
        program. None if rules take part that are Python functions, because these may do something
        else in each call."""
        shapes = _shapes_of(args)
        if shapes not in self._determining:
            traced = self._traced_at(shapes, args)
            primitives = (equation.primitive for equation in equations(traced.jaxpr))
            stated = any(one.name in _STATED or is_foreign(one) for one in primitives)
            key = jax.tree.structure(traced.out_info), key_of(traced.jaxpr)
            self._determining[shapes] = None if stated else key
        return self._determining[shapes]

    def computes(self, part: Compiled, chosen: Callable[[Any], Any], *args: Any) -> bool:
        """Whether `chosen`, a function that leaves out some of this function's results, gives what
        `part` computes: without the operations that only the others need, both programs are equal.
        False in a version of JAX that does not leave operations out."""
        shapes = _shapes_of(args)
        mine, its = (one._traced_at(shapes, args) for one in (self, part))
        structure = jax.tree.structure(mine.out_info)
        count = structure.num_leaves
        places = jax.tree.leaves(chosen(jax.tree.unflatten(structure, range(count))))
        used = [place in places for place in range(count)]
        needed = _needed_by(mine.jaxpr, used)
        return needed is not None and needed == _needed_by(its.jaxpr, [True] * sum(used))


def _shapes_of(args: Sequence[Any]) -> Hashable:
    leaves, structure = jax.tree.flatten(args)
    return structure, tuple((x.aval, x.sharding) for x in leaves)


def _needed_by(program: core.ClosedJaxpr, used: Sequence[bool]) -> Hashable | None:
    """A key of the part of a program that computes the `used` results. None if JAX cannot tell."""
    leave_out = getattr(partial_eval, "dce_jaxpr", None)
    if leave_out is None or len(used) != len(program.jaxpr.outvars):
        return None
    return key_of(leave_out(program.jaxpr, used, instantiate=True)[0]), key_of(program.consts)


def _compile_ahead(traced: Any, options: tuple[tuple[str, bool | str], ...]) -> Callable[..., Any]:
    """A traced program, compiled ahead of time, so that it survives `jax.clear_caches`. A version
    of XLA without the options that save time compiles without them."""
    with off_the_clock():
        lowered = traced.lower()
        try:
            built: Callable[..., Any] = lowered.compile(dict(options) or None)
        except jax.errors.JaxRuntimeError as error:
            if dict(options) != UNOPTIMISED or _NO_OPTION not in str(error):
                raise
            built = lowered.compile()
        return built


_EXECUTABLES = Recent[Hashable, Any](MOST_PROGRAMS)
_COMPILES = "compile_or_get_cached"  # calls XLA, and begins with these arguments
_GIVEN = ["backend", "computation", "devices", "compile_options", "host_callbacks"]


@contextmanager
def programs_known() -> Iterator[None]:
    """Reuse equal programs inside the block, for loops, branches and what a layer compiles by
    `jax.jit`. This includes single operations, which JAX no longer caches after
    `jax.clear_caches`."""
    places = [(loop, "impl", loop) for loop in _LOOPS]
    # In a version of JAX without this name, new functions under `jax.jit` are compiled again.
    pjit = sys.modules.get("jax._src.pjit")
    if hasattr(pjit, _JITTED):
        places.append((pjit, _JITTED, primitives.jit_p))
    with ExitStack() as stack:
        for owner, name, program in places:
            run = partial(_run, program, getattr(owner, name))
            stack.enter_context(temporarily(owner, **{name: run}))
        compiler = sys.modules.get("jax._src.compiler")
        own = getattr(compiler, _COMPILES, None)
        if own is not None and _has_expected_arguments(own):
            compile_once = partial(_cached_executable, own)
            stack.enter_context(temporarily(compiler, **{_COMPILES: compile_once}))
        yield


@lru_cache(maxsize=8)
def _has_expected_arguments(compile: Any) -> bool:
    """Whether JAX's function has the expected arguments. Cached, because every call of a small
    layer asks."""
    return list(inspect.signature(compile).parameters)[: len(_GIVEN)] == _GIVEN


def _cached_executable(compile: Any, backend: Any, module: Any, *args: Any, **more: Any) -> Any:
    """XLA's executable for equal code. Code that calls back into Python is compiled anew, because
    it calls a particular object."""
    devices, options, callbacks = args[:3]
    code = module.operation.get_asm(enable_debug_info=False)
    make = partial(compile, backend, module, *args, **more)
    if callbacks or "callback" in code:
        return make()
    placed = str(devices), str((args[3:], more)), options.SerializeAsString()
    return _EXECUTABLES.get((id(backend), sha256(code.encode()).digest(), *placed), make)


def _run(program: Any, run: Callable[..., Any], *args: Any, **params: Any) -> Any:
    first: Mapping[str, Any] = _PROGRAMS.get((program, _parameters(params)), lambda: params)
    return run(*args, **first)


def _known_by(jaxpr: Any) -> Hashable:
    """A key that is equal for two programs that compute the same from the same arguments in the
    same way."""
    numbers: dict[Any, int] = {}

    def atom(x: Any) -> Hashable:
        if isinstance(x, core.Literal):
            return x.aval, key_of(x.val)
        return x.aval, numbers.setdefault(x, len(numbers))

    def atoms(several: Sequence[Any]) -> Hashable:
        return tuple(map(atom, several))

    given = atoms(jaxpr.constvars), atoms(jaxpr.invars)
    equations = tuple(
        (e.primitive, atoms(e.invars), _equation_key(e), atoms(e.outvars)) for e in jaxpr.eqns
    )
    return given, equations, atoms(jaxpr.outvars)


def _equation_key(equation: Any) -> Hashable:
    if equation.primitive.name in _STATED:
        return key_of(equation.params["call_jaxpr"])
    return _parameters(equation.params)


def _parameters(params: Mapping[str, Any]) -> Hashable:
    return tuple((key, key_of(value)) for key, value in sorted(params.items()))


def key_of(value: Any, inside: tuple[Any, ...] = ()) -> Hashable:
    """A key that is equal for equal parameters or constants. A value that cannot be compared equals
    only itself. `inside` has the objects that it is an attribute of."""
    if isinstance(value, core.ClosedJaxpr):
        return _known_by(value.jaxpr), tuple(map(key_of, value.consts))
    if isinstance(value, core.Jaxpr):
        return _known_by(value)
    leaves, structure = jax.tree.flatten(value)
    if len(leaves) != 1 or leaves[0] is not value:
        return _arrangement(structure, inside), tuple(key_of(one, inside) for one in leaves)
    if isinstance(value, jax.tree_util.PyTreeDef):
        return _arrangement(value, inside)
    if isinstance(value, partial):
        return partial, key_of((value.func, value.args, value.keywords), inside)
    if isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        return str(value.dtype), key_of(jax.random.key_data(value))
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        plain = np.asarray(value)
        return type(value), plain.shape, str(plain.dtype), sha256(plain.tobytes()).digest()
    if isinstance(value, float):  # nan equals nan, and -0 differs from 0
        return float, np.float64(value).tobytes()
    if isinstance(value, FunctionType) and not any(value is one for one in inside):
        return _function_key(value, (*inside, value))
    if is_dataclass(value) and not isinstance(value, type):  # as JAX wraps a callback
        parts = [getattr(value, one.name) for one in fields(value)]
        return type(value), tuple(key_of(part, inside) for part in parts)
    state = None if any(value is one for one in inside) else _state(value)
    if state is not None:
        return type(value), key_of(state, (*inside, value))
    return type(value), _Same(value)


def _function_key(function: FunctionType, inside: tuple[Any, ...]) -> Hashable:
    """A key that is equal for functions of the same code that captured equal values, as a callback
    has that a layer defines anew in each call. What can be modified is equal only to itself."""
    captured = map(_captured, function.__closure__ or ())
    more = function.__kwdefaults__ or {}
    held = [*captured, *(function.__defaults__ or ()), *more.values()]
    parts = (key_of(x, inside) if isinstance(x, _FIXED) else (type(x), _Same(x)) for x in held)
    return FunctionType, function.__code__, id(function.__globals__), tuple(more), tuple(parts)


def _captured(cell: Any) -> Any:
    """The value of a captured variable, or the cell if it has none yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return cell


def _arrangement(structure: Any, inside: tuple[Any, ...]) -> Hashable:
    """The key of a `PyTreeDef`. The metadata of a library's own node may hold objects too."""
    kind, about = structure.node_data() or (None, None)
    parts = tuple(_arrangement(part, inside) for part in structure.children())
    return kind, key_of(about, inside) if about is not None else None, parts


def _state(value: Any) -> Any:
    """The attributes of an object whose Python class does not define equality: libraries make new
    objects of this kind in each call and pass them to their primitives. None if there are no
    attributes: a sentinel is identified by the object."""
    kind: Any = type(value)
    plain = kind.__eq__ is object.__eq__ and kind.__new__ is object.__new__
    return value.__getstate__() if plain and kind.__getstate__ is object.__getstate__ else None


class _Same:
    """Compared by value if equality is defined, and otherwise by identity. Keeps the value alive,
    so that its address is not reused."""

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
