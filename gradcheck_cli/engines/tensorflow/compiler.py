"""Formulas compiled by `tf.function`: a program and its derivative as one graph for XLA."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from typing import Any, TypeGuard

from gradcheck_cli.engines.derivatives import Arrays, Closure, Function, Movable, Moved, VJPFunction
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.kit.lowerings import Missing
from gradcheck_cli.engines.kit.lru import Recent
from gradcheck_cli.engines.kit.patience import NO_COMPILER, off_the_clock
from gradcheck_cli.engines.kit.program_vjp import ProgramVJP, Pulled
from gradcheck_cli.engines.kit.walker import Call
from gradcheck_cli.engines.temporarily import temporarily
from gradcheck_cli.engines.tensorflow.framework import TensorFlow

_MOST_COMPILED = 64
"""How many compiled functions are kept. A formula has two for each mode and dtype."""

GRAPH = "tf.function"
UNSIMPLIFIED, SIMPLIFIER = "XLA without its algebraic simplifier", "the algebraic simplifier"
STAGES = (NO_COMPILER, GRAPH, UNSIMPLIFIED, SIMPLIFIER)
OWN_FUNCTION = "its tf.function"
"""The last stage if the layer's author chose it."""


_NOT_COMPILED = re.compile(r"(\w+) \(No registered '\w+' OpKernel for XLA")
"""The operations that XLA lacks for the device or the dtype, as TensorFlow lists them."""
_REQUIRED = re.compile(r"XLA compilation requires .+")


class CompiledTensorFlow(TensorFlow):
    """TensorFlow, compiled once for every program and shape: `tf.GradientTape` and
    `tf.autodiff.ForwardAccumulator` record inside a `tf.function`. Without `xla`, the result is
    only a graph. Traced programs run uncompiled, because operations of compiled code cannot be
    seen."""

    compiles = True

    def __init__(self, table: Mapping[str, Call | Missing], dtype: str, xla: bool = True) -> None:
        super().__init__(table, dtype)
        self._xla = xla
        self._compiled = Recent[tuple[str, Any], Callable[..., Any]](_MOST_COMPILED)

    def vjp(self, function: Function, sources: Sequence[Any]) -> tuple[list[Any], Any, VJPFunction]:
        if not self._is_compiled(function):
            return super().vjp(function, sources)

        def targets_of(arrays: dict[str, Any], sources: list[Any]) -> list[Any]:
            return code(arrays, sources, lambda _, array: array)[0]

        def pulled(
            arrays: dict[str, Any], sources: list[Any], cotangents: list[Any]
        ) -> tuple[list[Any], Any, list[Any]]:
            targets, rest, vjp = super(CompiledTensorFlow, self).vjp(Closure(code, arrays), sources)
            return targets, rest, vjp(cotangents)

        code, arguments = function.code, (function.arrays, list(sources))
        traced: Any = self._compiled.get(
            ("targets", code), lambda: self._tf.function(targets_of, autograph=False)
        )
        targets = traced.get_concrete_function(*arguments).structured_outputs
        run = _AmongZeros(self._tf, targets, partial(self._of("pulled", code, pulled), *arguments))
        made = ProgramVJP(
            run, [None if y is None else self._tf.ones(y.shape, y.dtype) for y in targets]
        )
        return *made.values, made

    def jvp(self, function: Movable, primals: Arrays, tangents: Arrays) -> Moved:
        if not self._is_compiled(function):
            return super().jvp(function, primals, tangents)

        def pushed(arrays: dict[str, Any], *pairs: list[Any]) -> Any:
            return super(CompiledTensorFlow, self).jvp(Closure(code, arrays), *pairs)

        code = function.code
        return self._of("tangents", code, pushed)(function.arrays, list(primals), list(tangents))

    def _is_compiled(self, function: Callable[..., Any]) -> TypeGuard[Closure]:
        """Whether to compile the function. Nothing is compiled separately while an outer function
        is being compiled."""
        if not isinstance(function, Closure) or getattr(function.code, "traced", False):
            return False
        return bool(self._tf.executing_eagerly())

    def _of(self, what: str, code: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        """Compile the function, which runs `code`."""

        made = partial(Compiled, self._tf, function, self._xla)
        return self._compiled.get((what, code), made)


class _AmongZeros:
    """A compiled program that differentiates `targets`. Unused targets have zero cotangents, so
    that one compilation serves all. If a gradient is not finite, zero times infinity may be the
    reason, and the unused targets are left out."""

    def __init__(
        self,
        tf: Any,
        targets: Sequence[Any],
        program: Callable[[list[Any]], tuple[list[Any], Any, list[Any]]],
    ) -> None:
        self._tf = tf
        self._targets = targets
        self._program = program

    def __call__(self, cotangents: list[Any]) -> Pulled:
        pairs = zip(self._targets, cotangents, strict=True)
        whole = [
            self._tf.zeros(y.shape, y.dtype) if bar is None and y is not None else bar
            for y, bar in pairs
        ]
        results = self._program(whole)
        added = len(_arrays(whole)) > len(_arrays(cotangents))
        if added and not all(map(self._is_finite, _arrays(results[2]))):
            results = self._program(cotangents)
        return *results, {}  # compiled code marks nothing

    def _is_finite(self, array: Any) -> bool:
        return bool(self._tf.reduce_all(self._tf.math.is_finite(array)))


RETRACED = "tf.function traces `{}` again in each call, as for each value of a Python number"


@contextmanager
def tracings(tf: Any) -> Iterator[dict[str, None]]:
    """Collects the names of functions that `tf.function` traces inside the block. TensorFlow counts
    tracings to warn of too many; there are no names in a version that does not."""
    names: dict[str, None] = {}
    module = sys.modules.get(type(tf.function(tf.identity)).__module__)
    counter = type(getattr(module, "_frequent_tracing_detector_manager", None))
    count = getattr(counter, "called_with_tracing", None)
    if count is None:
        yield names
        return

    def counted(self: Any, key: Any, function: Any, *args: Any) -> None:
        names[getattr(function, "__name__", "a function")] = None
        count(self, key, function, *args)

    with temporarily(counter, called_with_tracing=counted):
        yield names


def _arrays(parts: Sequence[Any]) -> list[Any]:
    return [part for part in parts if part is not None]


_GRAPHS = Recent[tuple[Any, ...], Any](_MOST_COMPILED)
_INFERENCE = "_inference_function"  # a ConcreteFunction runs it if nothing is recorded
_READS = ("ReadVariableOp",)  # stateful operations that give the same result again


class Compiled:
    """A function that its first call compiles, with XLA or as a graph. If a function with the same
    graph was compiled before, such as the same layer at another point, the earlier one runs
    instead. Raises Unsupported if XLA lacks one of the operations, or requires something that the
    function does not state, such as the largest number of turns of a loop."""

    def __init__(self, tf: Any, function: Callable[..., Any], xla: bool) -> None:
        self._refused = tf.errors.InvalidArgumentError
        self._xla = xla
        self._function = tf.function(function, jit_compile=xla, autograph=False)
        self._is_compiled = False

    def __call__(self, *args: Any) -> Any:
        if self._is_compiled:
            return self._function(*args)
        self._is_compiled = True
        with off_the_clock():
            try:
                _share(self._function.get_concrete_function(*args), self._xla)
                return self._function(*args)
            except self._refused as error:
                lacks = sorted(set(_NOT_COMPILED.findall(str(error))))
                required = _REQUIRED.findall(str(error))
                if not lacks and not required:
                    raise
                self._is_compiled = False
                names = f"XLA has no {' and '.join(lacks)} for this device and dtype"
                raise Unsupported(names if lacks else required[0]) from error


def _share(concrete: Any, xla: bool) -> None:
    """Let a traced function run the first compiled function with the same graph, with its own
    variables and constants, which are inputs of the graph."""
    operations = concrete.graph.get_operations()
    has_state = any(one.op_def.is_stateful and one.type not in _READS for one in operations)
    if has_state or not hasattr(concrete, _INFERENCE):
        return
    text = concrete.graph.as_graph_def().SerializeToString(deterministic=True)
    key = xla, sha256(text).digest(), repr(concrete.function_type.output)
    setattr(concrete, _INFERENCE, _GRAPHS.get(key, lambda: getattr(concrete, _INFERENCE)))
