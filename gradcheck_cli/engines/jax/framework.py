"""JAX in one dtype: arrays, and derivatives of functions of arrays, traced or compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from operator import call
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from gradcheck_cli.domain.dtypes import Array, aligned, as_numbers
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.engines.derivatives import (
    Arrays,
    Closure,
    Function,
    Movable,
    Moved,
    Targets,
    VJPFunction,
)
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.jax.stages import JIT_DISABLED
from gradcheck_cli.engines.kit.lowerings import Missing
from gradcheck_cli.engines.kit.patience import off_the_clock
from gradcheck_cli.engines.kit.program_vjp import ProgramVJP, Pulled
from gradcheck_cli.engines.kit.walker import Call, Rule
from gradcheck_cli.engines.temporarily import temporarily

if TYPE_CHECKING:
    from gradcheck_cli.engines.execution import Recorder
    from gradcheck_cli.engines.jax.equations import Equations


Used = tuple[int, ...]
"""The indices of the targets that have a cotangent."""


class JaxVJP:
    """The vjp of some targets of a function. The other targets do not run: their zero cotangents
    would become nan next to an infinity."""

    def __init__(self, fw: Jax, function: Function, sources: Sequence[Any]) -> None:
        self._fw = fw
        self._function = function
        self._sources = list(sources)
        self._backs: dict[Used, tuple[Any, list[Any]]] = {}  # JAX's vjp, and the targets' dtypes
        self._seen: dict[int, Any] = {}

    def run(self, used: Used | None) -> Targets:
        """The targets and the rest. Keeps JAX's vjp of the used targets (None: all)."""
        targets, rest, back = self.linearized(used)
        used = _all_of(targets) if used is None else used
        self._backs[used] = back, [targets[i].dtype for i in used]
        return targets, rest

    def linearized(self, used: Used | None) -> tuple[list[Any], Any, Any]:
        """The targets, the rest and JAX's vjp of the used targets (None: all)."""

        def of_used(*arrays: Any) -> tuple[Any, Targets]:
            with self._fw.running("reverse"):
                targets, rest = self._function(list(arrays), self._mark)
            return [targets[i] for i in used or _all_of(targets)], (targets, rest)

        _, back, (targets, rest) = self._fw.jax.vjp(of_used, *self._sources, has_aux=True)
        return targets, rest, back

    def __call__(self, cotangents: Sequence[Any], again: bool = False) -> list[Any]:
        used = tuple(i for i, y_bar in enumerate(cotangents) if y_bar is not None)
        if used not in self._backs:
            self.run(used)
        back, dtypes = self._backs[used]
        if not any(self._fw.floating(dtype) for dtype in dtypes):
            return [None] * len(self._sources)
        given = zip((cotangents[i] for i in used), dtypes, strict=True)
        bars = [bar if bar.dtype == dtype else bar.astype(dtype) for bar, dtype in given]
        return list(self._applied(back, bars))

    def _applied(self, back: Any, bars: list[Any]) -> Any:
        return back(bars)

    def with_marked(self, cotangents: Sequence[Any]) -> tuple[list[Any], dict[int, Any]]:
        self._seen.clear()
        found = self(cotangents)
        return found, dict(self._seen)

    def _mark(self, number: int, array: Any) -> Any:
        """The array through an identity that records its cotangent."""

        def seen(_: None, cotangent: Any) -> tuple[Any]:
            self._seen[number] = cotangent
            return (cotangent,)

        identity = self._fw.jax.custom_vjp(lambda x: x)
        identity.defvjp(lambda x: (x, None), seen)
        return identity(array)


def _all_of(targets: Sequence[Any]) -> Used:
    return tuple(i for i, target in enumerate(targets) if target is not None)


class EquationsVJP(JaxVJP):
    """The vjp by equations that are traced once for all arrays of the same shapes."""

    def __init__(
        self, fw: Jax, function: Closure, sources: Sequence[Any], equations: Equations
    ) -> None:
        super().__init__(fw, function, sources)
        self._closure = function
        self._equations = equations

    def linearized(self, used: Used | None) -> tuple[list[Any], Any, Any]:
        code = self._closure.code

        def plain(arrays: dict[str, Any], sources: list[Any]) -> tuple[list[Any], Any, Any]:
            return JaxVJP(self._fw, Closure(code, arrays), sources).linearized(used)

        return self._equations(code, used, plain, self._closure.arrays, self._sources)

    def _applied(self, back: Any, bars: list[Any]) -> Any:
        return self._equations(self._closure.code, "vjp", call, back, bars)


class Jax:
    """JAX in one dtype (`framework.Framework`)."""

    compiles = False

    def __init__(self, table: Mapping[str, Call | Missing], dtype: str) -> None:
        import jax

        from gradcheck_cli.engines.jax.equations import Equations

        self.jax = jax
        self._equations = Equations()
        self._calls = table
        self._mode: Mode = "reverse"
        self.kinds = {
            "float": jax.numpy.dtype(dtype),
            "int": jax.numpy.dtype("int64"),
            "bool": jax.numpy.dtype("bool"),
        }

    def lowering(self, op: str) -> Call | Missing | None:
        return self._calls.get(op)

    def constant(self, value: bool | int | float, kind: str) -> Any:
        return self.jax.device_put(np.array(value, dtype=self.kinds[kind]))

    def cast(self, array: Any, kind: str) -> Any:
        return array.astype(self.kinds[kind])

    def array(self, values: Array) -> Any:
        values = np.asarray(values)
        wanted = self.kinds["float"] if values.dtype.kind == "f" else values.dtype
        made = aligned(values.shape, wanted)
        made[...] = values  # a copy
        return self.jax.device_put(made)  # nothing is compiled

    def leaf(self, values: Array) -> Any:
        return self.array(values)

    def numpy(self, array: Any) -> Array:
        return as_numbers(np.asarray(array))

    def dtype_of(self, array: Any) -> str:
        return str(array.dtype.name)

    def vjp(self, function: Function, sources: Sequence[Any]) -> tuple[list[Any], Any, VJPFunction]:
        made = JaxVJP(self, function, sources)
        if self._is_traceable(function, sources):
            made = EquationsVJP(self, function, sources, self._equations)
        targets, rest = made.run((0,))
        return targets, rest, made

    def jvp(self, function: Movable, primals: Arrays, tangents: Arrays) -> Moved:
        if not self._is_traceable(function, primals):
            return self._jvp(function, primals, tangents)
        code = function.code

        def plain(arrays: dict[str, Any], *pairs: Any) -> tuple[list[Any], list[Any], Any]:
            return self._jvp(Closure(code, arrays), *pairs)

        return self._equations(code, "jvp", plain, function.arrays, list(primals), list(tangents))

    def nested(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def _is_traceable(
        self, function: Callable[..., Any], sources: Sequence[Any]
    ) -> TypeGuard[Closure]:
        """Whether derivatives of the function can be traced: its code is known, it marks no
        intermediate results, and its arrays have values."""
        if not isinstance(function, Closure) or function.marks:
            return False
        arrays = (*sources, *function.arrays.values())
        return not any(isinstance(array, self.jax.core.Tracer) for array in arrays)

    def _jvp(self, function: Movable, primals: Arrays, tangents: Arrays) -> Moved:
        moving = [i for i, x_dot in enumerate(tangents) if x_dot is not None]

        def moved(*some: Any) -> Targets:
            duals = list(primals)
            for i, dual in zip(moving, some, strict=True):
                duals[i] = dual
            with self.running("forward"):
                return function(duals)

        targets, pushed, rest = self.jax.jvp(
            moved, [primals[i] for i in moving], [tangents[i] for i in moving], has_aux=True
        )
        # drop tangents of integers and booleans, which are empty arrays
        found = [t if t is not None and self.floating(t.dtype) else None for t in pushed]
        return targets, found, rest

    def floating(self, dtype: Any) -> bool:
        return bool(self.jax.numpy.issubdtype(dtype, self.jax.numpy.floating))

    def running(self, mode: Mode) -> AbstractContextManager[None]:
        """Call custom gradients for this mode inside the block."""
        return temporarily(self, _mode=mode)

    def descend(self, parameter: Any, gradient: Any, rate: float) -> Any:
        return parameter - rate * gradient

    def recorder(self) -> Recorder:
        from gradcheck_cli.engines.jax.recorder import JaxRecorder

        return JaxRecorder()

    def custom(self, rule: Rule) -> Call:
        """A function with the custom rule. A JAX function has one rule, so if there are two, the
        mode selects one."""
        reverse = _custom_vjp(self.jax, rule)
        if rule.jvp is None:
            return reverse
        forward = _custom_jvp(self.jax, rule)
        return lambda *args: (forward if self._mode == "forward" else reverse)(*args)


@cache
def _known_to_jax() -> None:
    """Register `Closure` with JAX: compiled code takes the arrays of a closure as arguments and
    contains only its code."""
    from jax.tree_util import register_pytree_node

    register_pytree_node(
        Closure, lambda one: ((one.arrays,), one.code), lambda code, parts: Closure(code, *parts)
    )


class CompiledJax(Jax):
    """JAX, compiled once for every program and shape. A call inside a function that is being
    compiled becomes a part of it."""

    compiles = True

    def __init__(
        self,
        table: Mapping[str, Call | Missing],
        dtype: str,
        compiler_options: Mapping[str, bool | str] | None = None,
    ) -> None:
        super().__init__(table, dtype)
        _known_to_jax()
        jit = partial(_Compiled, self.jax, compiler_options)
        self._pulled = jit(self._pull)
        self._tangents = jit(super().jvp)
        self._shapes = self.jax.jit(self._targets).eval_shape

    def vjp(self, function: Function, sources: Sequence[Any]) -> tuple[list[Any], Any, VJPFunction]:
        if any(isinstance(source, self.jax.core.Tracer) for source in sources):
            return super().vjp(function, sources)
        made = ProgramVJP(
            partial(self._pulled, function, list(sources)), self._ones(function, list(sources))
        )
        return *made.values, made

    def jvp(self, function: Movable, primals: Arrays, tangents: Arrays) -> Moved:
        if any(isinstance(primal, self.jax.core.Tracer) for primal in primals):
            return super().jvp(function, primals, tangents)
        return self._tangents(function, list(primals), list(tangents))

    def _pull(self, function: Function, sources: list[Any], cotangents: list[Any]) -> Pulled:
        made = JaxVJP(self, function, sources)
        targets, rest = made.run(tuple(i for i, bar in enumerate(cotangents) if bar is not None))
        return targets, rest, *made.with_marked(cotangents)

    def _targets(self, function: Function, sources: list[Any]) -> list[Any]:
        with self.running("reverse"):
            return function(sources, lambda _, array: array)[0]

    def _ones(self, function: Function, sources: list[Any]) -> list[Any]:
        """Cotangents of ones for the first target alone, as `Jax.vjp` has them."""
        first, *others = self._shapes(function, sources)
        return [
            None if first is None else self.array(np.ones(first.shape)),
            *(None for _ in others),
        ]


class _Compiled:
    """A function that `jax.jit` compiles at the first call with arguments of new shapes. Raises
    Unsupported if it would run uncompiled."""

    def __init__(
        self,
        jax: Any,
        compiler_options: Mapping[str, bool | str] | None,
        function: Callable[..., Any],
    ) -> None:
        self._config, self._tree = jax.config, jax.tree_util
        self._function = jax.jit(function, compiler_options=compiler_options)
        self._is_traceable: set[Any] = set()

    def __call__(self, *args: Any) -> Any:
        if self._config.jax_disable_jit:
            raise Unsupported(JIT_DISABLED)
        arrays, structure = self._tree.tree_flatten(args)
        shapes = structure, tuple((array.shape, array.dtype) for array in arrays)
        if shapes in self._is_traceable:
            return self._function(*args)
        self._is_traceable.add(shapes)
        with off_the_clock():
            return self._function(*args)


def _custom_vjp(jax: Any, rule: Rule) -> Call:
    """A `jax.custom_vjp` whose backward pass is the custom rule."""

    def forward(*args: Any) -> tuple[Any, tuple[Any, ...]]:
        return rule.value(*args), args

    def backward(args: tuple[Any, ...], upstream: Any) -> tuple[Any, ...]:
        return tuple(rule.pull(upstream, args))

    stated = jax.custom_vjp(rule.value)
    stated.defvjp(forward, backward)
    return stated


def _custom_jvp(jax: Any, rule: Rule) -> Call:
    """A `jax.custom_jvp` whose tangents come from the custom rule."""

    def push(args: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        return rule.value(*args), rule.push(tangents, args)

    stated = jax.custom_jvp(rule.value)
    stated.defjvp(push)
    return stated
