"""JAX: `jax.vjp` for reverse mode, `jax.jvp` for forward mode; uncompiled, or compiled."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.placement import HOST
from gradcheck_cli.domain.program import Program
from gradcheck_cli.engines.base import Capabilities
from gradcheck_cli.engines.jax.ops import TABLE
from gradcheck_cli.engines.jax.pullbacks import EquationsPullback, Function, Pullback
from gradcheck_cli.engines.kit.adapter import LoweredEngine
from gradcheck_cli.engines.kit.device_setup import jax_placed
from gradcheck_cli.engines.kit.framework import Closed, Pull, Results
from gradcheck_cli.engines.kit.lowerings import Missing, bound
from gradcheck_cli.engines.kit.walker import OPERATORS, Call, Rule, custom_gradients

if TYPE_CHECKING:
    from gradcheck_cli.engines.execution import Recorder
    from gradcheck_cli.engines.layer.subject import Subject, SubjectRequest

_INSTALL = "pip install 'gradcheck-cli[jax]'"
_DEVICES = ("cpu", "cuda")
_LACKS = (  # how JAX says that an op has no kernel for a dtype
    "Unsupported dtype",
    "unsupported dtype",
    "must have dtype",
    "dtype=float16 is not supported",
    "dtype=bfloat16 is not supported",
)


class JaxEngine(LoweredEngine):
    """JAX, on the CPU or on a GPU, one operation after the other, as it runs outside `jax.jit`."""

    capabilities = Capabilities(
        name="jax", distributions=("jax",), install=_INSTALL, layers=True, devices=_DEVICES
    )
    table = TABLE

    def __init__(self) -> None:
        super().__init__()
        self._settings = ExitStack()

    def load(self) -> str:
        # looking for other devices takes time, and JAX computes on the first that it is told of
        kind = self.placement.kind
        os.environ["JAX_PLATFORMS"] = kind if kind == "cpu" else f"{kind},cpu"
        import jax

        # Without it JAX makes float32 of every float64, silently. This process is the worker's.
        jax.config.update("jax_enable_x64", True)
        _keep_compiled(jax)
        _share_contexts()
        if self.placement != HOST:
            self._settings.enter_context(jax_placed(jax, self.placement))
        self._calls = {**OPERATORS, **bound(self.table, jax)}
        return str(jax.__version__)

    def close(self) -> None:
        self._settings.close()
        super().close()

    def framework(self, dtype: str) -> Jax:
        return Jax(self._calls, dtype)

    def subject(self, request: SubjectRequest) -> Subject:
        from gradcheck_cli.engines.jax.layer import JaxSubject

        return JaxSubject(request, compiled=False)

    def plainly(self) -> AbstractContextManager[None]:
        import jax

        return nullcontext() if self.placement == HOST else jax_placed(jax, self.placement)

    def refuses(self, program: Program, mode: Mode) -> str | None:
        """Forward mode through a `jax.custom_vjp` is an error in JAX; through its derivative it is
        not."""
        if mode != "forward":
            return None
        for custom in custom_gradients(program):
            if custom.jvp is None:
                return (
                    "JAX's forward mode needs a stated jvp for the custom gradient of "
                    f"`{custom.name}`"
                )
        return None

    def lacks(self, error: BaseException) -> bool:
        words = str(error)
        return isinstance(error, NotImplementedError) or any(phrase in words for phrase in _LACKS)


def _keep_compiled(jax: Any) -> None:
    """What was compiled once is found again by the next run: every operation takes XLA about 50
    milliseconds for every shape, and a tenth of that to read. Whoever has named a folder for that
    by JAX_COMPILATION_CACHE_DIR keeps it; JAX_ENABLE_COMPILATION_CACHE=0 turns it off."""
    if jax.config.jax_compilation_cache_dir is None:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        # what was compiled for one processor does not run on every other
        folder = Path(home) / "gradcheck" / f"jax-{jax.__version__}-{platform.node()}"
        jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


# A context keeps every constant of its modules: a layer's own arrays are among them.
_MODULES_A_CONTEXT = 100


class _Kept(threading.local):
    """A thread's own context, and for how many more modules it is good."""

    context: Any = None
    left: int = 0


@cache
def _share_contexts() -> None:
    """JAX makes a context of MLIR for every function that it compiles, with all its dialects: that
    takes a third of the time until one operation has run, for nothing that differs. What is
    compiled while something else is being lowered gets a context of its own."""
    from jax._src.interpreters import mlir

    if not hasattr(mlir, "make_ir_context"):  # not there in this version: it is only slower
        return
    make, kept = mlir.make_ir_context, _Kept()

    def shared() -> Any:
        if mlir.ir.Context.current is not None:  # a module amid another one would become its part
            return make()
        if kept.left == 0:
            kept.context, kept.left = make(), _MODULES_A_CONTEXT
        kept.left -= 1
        return kept.context

    mlir.make_ir_context = shared


class JaxJitEngine(JaxEngine):
    """The same, but every derivative is compiled as a whole by `jax.jit`."""

    capabilities = Capabilities(
        name="jax-jit",
        distributions=("jax",),
        install=_INSTALL,
        layers=True,
        by_default=False,
        devices=_DEVICES,
    )

    def subject(self, request: SubjectRequest) -> Subject:
        from gradcheck_cli.engines.jax.layer import JaxSubject

        return JaxSubject(request, compiled=True)

    def framework(self, dtype: str) -> Jax:
        return _Compiled(self._calls, dtype)


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


class _Compiled(Jax):
    """The same, compiled, once for every program and shape. What runs inside a function that is
    being compiled is a part of it."""

    def __init__(self, table: Mapping[str, Call | Missing], dtype: str) -> None:
        super().__init__(table, dtype)
        _known_to_jax()
        jit = self.jax.jit
        self._values = jit(
            lambda function, sources: super(_Compiled, self).vjp(function, sources)[:2]
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

    def __init__(self, fw: _Compiled, function: Function, sources: Sequence[Any]) -> None:
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
