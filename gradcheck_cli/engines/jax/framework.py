"""JAX in one dtype: arrays, and derivatives of functions of them, traced or compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from operator import call
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.engines.kit.framework import Closed, Pull, Results, Watch
from gradcheck_cli.engines.kit.lowerings import Missing
from gradcheck_cli.engines.kit.walker import Call, Rule

if TYPE_CHECKING:
    from gradcheck_cli.engines.execution import Recorder
    from gradcheck_cli.engines.jax.equations import Equations


Function = Callable[[list[Any], Watch], Results]


class Pullback:
    """The pullback of each target of a function by itself: where `jax.vjp` is asked for one target,
    nothing of the others runs, whose zeros would become nan beside an infinity."""

    def __init__(self, fw: Jax, function: Function, sources: Sequence[Any]) -> None:
        self._fw = fw
        self._function = function
        self._sources = list(sources)
        self._backs: dict[int, tuple[Any, Any]] = {}  # JAX's pullback and the target's dtype
        self._seen: dict[int, Any] = {}

    def run(self, index: int) -> Results:
        """The targets and the rest; the pullback of target `index` is kept."""
        targets, rest, back = self.linearized(index)
        self._backs[index] = back, targets[index].dtype
        return targets, rest

    def linearized(self, index: int) -> tuple[list[Any], Any, Any]:
        """The targets, the rest and JAX's pullback of target `index`."""

        def target(*arrays: Any) -> tuple[Any, Results]:
            with self._fw.running("reverse"):
                targets, rest = self._function(list(arrays), self._watch)
            return targets[index], (targets, rest)

        _, back, (targets, rest) = self._fw.jax.vjp(target, *self._sources, has_aux=True)
        return targets, rest, back

    def __call__(self, index: int, cotangent: Any, again: bool = False) -> list[Any]:
        if index not in self._backs:
            self.run(index)
        back, dtype = self._backs[index]
        if not self._fw.floating(dtype):
            return [None] * len(self._sources)
        return list(self._pulled(back, cotangent.astype(dtype)))

    def _pulled(self, back: Any, cotangent: Any) -> Any:
        return back(cotangent)

    def watched(self, index: int, cotangent: Any) -> tuple[list[Any], dict[int, Any]]:
        self._seen.clear()
        found = self(index, cotangent)
        return found, dict(self._seen)

    def _watch(self, number: int, array: Any) -> Any:
        """The array through an identity that is told its cotangent."""

        def told(_: None, cotangent: Any) -> tuple[Any]:
            self._seen[number] = cotangent
            return (cotangent,)

        identity = self._fw.jax.custom_vjp(lambda x: x)
        identity.defvjp(lambda x: (x, None), told)
        return identity(array)


class EquationsPullback(Pullback):
    """The same numbers, by equations that are traced once for all arrays of the same shapes."""

    def __init__(
        self, fw: Jax, function: Closed, sources: Sequence[Any], equations: Equations
    ) -> None:
        super().__init__(fw, function, sources)
        self._closed = function
        self._equations = equations

    def linearized(self, index: int) -> tuple[list[Any], Any, Any]:
        code = self._closed.code

        def plain(arrays: dict[str, Any], sources: list[Any]) -> tuple[list[Any], Any, Any]:
            return Pullback(self._fw, Closed(code, arrays), sources).linearized(index)

        found: tuple[list[Any], Any, Any]
        found = self._equations(code, index, plain, self._closed.arrays, self._sources)
        return found

    def _pulled(self, back: Any, cotangent: Any) -> Any:
        return self._equations(self._closed.code, "pull", call, back, cotangent)


class Jax:
    """JAX in one dtype (`framework.Framework`)."""

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
        return self.jax.device_put(values.astype(wanted))  # a copy, and nothing is compiled

    def leaf(self, values: Array) -> Any:
        return self.array(values)

    def numpy(self, array: Any) -> Array:
        plain: Array = np.asarray(array)
        return plain if plain.dtype.kind in "biu" else plain.astype(np.float64)

    def dtype_of(self, array: Any) -> str:
        return str(array.dtype.name)

    def vjp(self, function: Function, sources: Sequence[Any]) -> tuple[list[Any], Any, Pull]:
        pull = Pullback(self, function, sources)
        if self._known(function, sources):
            pull = EquationsPullback(self, function, sources, self._equations)
        targets, rest = pull.run(0)
        return targets, rest, pull

    def jvp(
        self, function: Callable[[Any], Results], primal: Any, tangent: Any
    ) -> tuple[list[Any], list[Any], Any]:
        if not self._known(function, [primal]):
            return self._pushed(function, primal, tangent)
        code = function.code

        def pushed(arrays: dict[str, Any], *duals: Any) -> tuple[list[Any], list[Any], Any]:
            return self._pushed(Closed(code, arrays), *duals)

        found: tuple[list[Any], list[Any], Any]
        found = self._equations(code, "jvp", pushed, function.arrays, primal, tangent)
        return found

    def _known(self, function: Callable[..., Any], sources: Sequence[Any]) -> TypeGuard[Closed]:
        """Whether its derivatives can be traced: the code is known, gives all its results as such
        and none to a `Watch`, and all arrays are there."""
        if not isinstance(function, Closed) or function.marks:
            return False
        arrays = (*sources, *function.arrays.values())
        return not any(isinstance(array, self.jax.core.Tracer) for array in arrays)

    def _pushed(
        self, function: Callable[[Any], Results], primal: Any, tangent: Any
    ) -> tuple[list[Any], list[Any], Any]:
        def moved(dual: Any) -> Results:
            with self.running("forward"):
                return function(dual)

        targets, tangents, rest = self.jax.jvp(moved, (primal,), (tangent,), has_aux=True)
        # none of what is no array; those of integers and booleans are arrays of nothing
        found = [t if t is not None and self.floating(t.dtype) else None for t in tangents]
        return targets, found, rest

    def floating(self, dtype: Any) -> bool:
        return bool(self.jax.numpy.issubdtype(dtype, self.jax.numpy.floating))

    @contextmanager
    def running(self, mode: Mode) -> Iterator[None]:
        """Custom gradients are called for this mode."""
        before, self._mode = self._mode, mode
        try:
            yield
        finally:
            self._mode = before

    def descend(self, parameter: Any, gradient: Any, rate: float) -> Any:
        return parameter - rate * gradient

    def recorder(self) -> Recorder:
        from gradcheck_cli.engines.jax.recorder import JaxRecorder

        return JaxRecorder()

    def custom(self, rule: Rule) -> Call:
        """A function of JAX has one stated rule: where there are two, the one of the mode."""
        reverse = _custom_vjp(self.jax, rule)
        if rule.jvp is None:
            return reverse
        forward = _custom_jvp(self.jax, rule)
        return lambda *args: (forward if self._mode == "forward" else reverse)(*args)


@cache
def _known_to_jax() -> None:
    """What a function reads is handed to what is compiled; its code alone is compiled in."""
    from jax.tree_util import register_pytree_node

    register_pytree_node(
        Closed, lambda one: ((one.arrays,), one.code), lambda code, parts: Closed(code, *parts)
    )


class CompiledJax(Jax):
    """The same, compiled, once for every program and shape. What runs inside a function that is
    being compiled is a part of it."""

    def __init__(self, table: Mapping[str, Call | Missing], dtype: str) -> None:
        super().__init__(table, dtype)
        _known_to_jax()
        jit = self.jax.jit
        self._values = jit(
            lambda function, sources: super(CompiledJax, self).vjp(function, sources)[:2]
        )
        self.gradients = jit(self._gradients, static_argnums=1)
        self.cotangents = jit(self._cotangents, static_argnums=1)
        self._tangents = jit(super().jvp)

    def vjp(self, function: Function, sources: Sequence[Any]) -> tuple[list[Any], Any, Pull]:
        if any(isinstance(source, self.jax.core.Tracer) for source in sources):
            return super().vjp(function, sources)
        targets, rest = self._values(function, list(sources))
        return targets, rest, _CompiledPull(self, function, sources)

    def jvp(
        self, function: Callable[[Any], Results], primal: Any, tangent: Any
    ) -> tuple[list[Any], list[Any], Any]:
        if isinstance(primal, self.jax.core.Tracer):
            return super().jvp(function, primal, tangent)
        found: tuple[list[Any], list[Any], Any] = self._tangents(function, primal, tangent)
        return found

    def _gradients(
        self, function: Function, index: int, sources: list[Any], y_bar: Any
    ) -> list[Any]:
        return Pullback(self, function, sources)(index, y_bar)

    def _cotangents(
        self, function: Function, index: int, sources: list[Any], y_bar: Any
    ) -> tuple[list[Any], dict[int, Any]]:
        return Pullback(self, function, sources).watched(index, y_bar)


class _CompiledPull:
    """The pullback of each target of a function, compiled when it is first asked for."""

    def __init__(self, fw: CompiledJax, function: Function, sources: Sequence[Any]) -> None:
        self._fw = fw
        self._function = function
        self._sources = list(sources)

    def __call__(self, index: int, cotangent: Any, again: bool = False) -> list[Any]:
        found: list[Any] = self._fw.gradients(self._function, index, self._sources, cotangent)
        return found

    def watched(self, index: int, cotangent: Any) -> tuple[list[Any], dict[int, Any]]:
        found: tuple[list[Any], dict[int, Any]]
        found = self._fw.cotangents(self._function, index, self._sources, cotangent)
        return found


def _custom_vjp(jax: Any, rule: Rule) -> Call:
    """A `jax.custom_vjp` whose backward pass is the stated rule."""

    def forward(*args: Any) -> tuple[Any, tuple[Any, ...]]:
        return rule.value(*args), args

    def backward(args: tuple[Any, ...], upstream: Any) -> tuple[Any, ...]:
        return tuple(rule.pull(upstream, args))

    stated = jax.custom_vjp(rule.value)
    stated.defvjp(forward, backward)
    made: Call = stated
    return made


def _custom_jvp(jax: Any, rule: Rule) -> Call:
    """A `jax.custom_jvp` whose tangents are those of the stated rule."""

    def push(args: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        return rule.value(*args), rule.push(tangents, args)

    stated = jax.custom_jvp(rule.value)
    stated.defjvp(push)
    made: Call = stated
    return made
