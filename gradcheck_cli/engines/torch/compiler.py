"""PyTorch's compiler for formulas: a program and its derivative as `torch.compile` takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from types import FunctionType
from typing import Any

from gradcheck_cli.domain.placement import HOST
from gradcheck_cli.engines.derivatives import (
    Closure,
    Function,
    TapeVJP,
    Targets,
    VJPFunction,
)
from gradcheck_cli.engines.kit.lowerings import Missing
from gradcheck_cli.engines.kit.lru import Recent
from gradcheck_cli.engines.kit.patience import off_the_clock
from gradcheck_cli.engines.kit.walker import Call
from gradcheck_cli.engines.torch.framework import Torch

_MOST_COMPILED = 64
"""Functions that are kept compiled; a formula has one for each mode and dtype."""


def set_up() -> None:
    """In the process of a worker: one backward pass may follow another through what was compiled,
    no processes are started to compile in, which costs more than small functions do, and the time
    limit of a spec stands still while the compiler works."""
    from torch._dynamo.callback import callback_handler
    from torch._functorch import config as differentiation
    from torch._inductor import config as inductor

    differentiation.donated_buffer = False
    inductor.compile_threads = 1
    standing = ExitStack()

    def begin(_: Any) -> None:
        standing.enter_context(off_the_clock())

    def end(_: Any) -> None:
        standing.close()

    callback_handler.register_start_callback(begin)
    callback_handler.register_end_callback(end)


class CompiledTorch(Torch):
    """PyTorch, compiled once for every program and shape. Reverse mode differentiates what was
    compiled, as a training step does: AOTAutograd makes the backward pass. Forward mode, and
    derivatives inside other derivatives, are `torch.func` transforms inside the compiled region.
    What is traced runs uncompiled: its operations could not be seen."""

    def __init__(
        self, table: Mapping[str, Call | Missing], dtype: str, device: str = HOST.device
    ) -> None:
        super().__init__(table, dtype, device)
        self._compiled = Recent[tuple[str, Any], Callable[..., Any]](_MOST_COMPILED)

    def vjp(self, function: Function, sources: Sequence[Any]) -> tuple[list[Any], Any, VJPFunction]:
        if self._torch.compiler.is_compiling():
            return self._pulled(function, sources)
        if not isinstance(function, Closure) or _is_traced(function):
            return super().vjp(function, sources)
        targets, rest = self._of("values", function.code, _values)(function.arrays, list(sources))
        with self.tape(sources) as (tape, watched):
            return targets, rest, TapeVJP(tape, targets, watched, {})

    def jvp(
        self,
        function: Callable[[list[Any]], Targets],
        primals: Sequence[Any],
        tangents: Sequence[Any],
    ) -> tuple[list[Any], list[Any], Any]:
        if self._torch.compiler.is_compiling():
            return self._pushed(function, primals, tangents)
        if not isinstance(function, Closure) or _is_traced(function):
            return super().jvp(function, primals, tangents)
        plain = {name: array.detach() for name, array in function.arrays.items()}
        pushed = self._of("tangents", function.code, self._tangents)
        found: tuple[list[Any], list[Any], Any]
        found = pushed(plain, [primal.detach() for primal in primals], list(tangents))
        return found

    def nested(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def _of(self, what: str, code: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with `code` as its first argument, compiled."""

        def compiled() -> Callable[..., Any]:
            def whole(*args: Any) -> Any:
                return function(code, *args)

            # Dynamo keeps what it compiled, and counts how often, by the code object of Python.
            own = FunctionType(
                whole.__code__.replace(), whole.__globals__, closure=whole.__closure__
            )
            made: Callable[..., Any] = self._torch.compile(own, fullgraph=True)
            return made

        return self._compiled.one((what, code), compiled)

    def _tangents(
        self, code: Any, arrays: dict[str, Any], primals: list[Any], tangents: list[Any]
    ) -> tuple[list[Any], list[Any], Any]:
        return self._pushed(Closure(code, arrays), primals, tangents)

    # What runs inside the compiled region

    def _pulled(self, function: Function, sources: Sequence[Any]) -> tuple[list[Any], Any, Any]:
        rests: list[Any] = []

        def moved(*arrays: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
            targets, rest = function(list(arrays), _unmarked)
            rests.append(rest)
            return tuple(targets), _arrays_in(rest)

        targets, back, arrays = self._torch.func.vjp(moved, *sources, has_aux=True)
        rest = _with_arrays(rests[-1], arrays)
        return list(targets), rest, _FunctionalVJP(self._torch, targets, back)

    def _pushed(
        self,
        function: Callable[[list[Any]], Targets],
        primals: Sequence[Any],
        tangents: Sequence[Any],
    ) -> tuple[list[Any], list[Any], Any]:
        rests: list[Any] = []
        moving = [i for i, x_dot in enumerate(tangents) if x_dot is not None]

        def moved(*some: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
            duals = list(primals)
            for i, dual in zip(moving, some, strict=True):
                duals[i] = dual
            targets, rest = function(duals)
            rests.append(rest)
            return tuple(targets), _arrays_in(rest)

        own, along = (tuple(arrays[i] for i in moving) for arrays in (primals, tangents))
        targets, pushed, arrays = self._torch.func.jvp(moved, own, along, has_aux=True)
        return list(targets), list(pushed), _with_arrays(rests[-1], arrays)


def _arrays_in(rest: tuple[Any, ...] | None) -> tuple[Any, ...]:
    """What else a function gives, without the places that are None: `torch.func` takes arrays
    alone."""
    return tuple(part for part in rest or () if part is not None)


def _with_arrays(rest: tuple[Any, ...] | None, arrays: Sequence[Any]) -> tuple[Any, ...] | None:
    """The same with these arrays in place of its own, which belong to an inner level."""
    if rest is None:
        return None
    remaining = iter(arrays)
    return tuple(None if part is None else next(remaining) for part in rest)


class _FunctionalVJP:
    """The vjp by `torch.func`, inside the compiled region."""

    def __init__(self, torch: Any, targets: Sequence[Any], back: Callable[..., Any]) -> None:
        self._torch = torch
        self._targets = targets
        self._back = back

    def __call__(self, cotangents: Sequence[Any], again: bool = False) -> list[Any]:
        bars = tuple(
            self._torch.zeros_like(y) if y_bar is None else y_bar
            for y, y_bar in zip(self._targets, cotangents, strict=True)
        )
        return list(self._back(bars))


def _values(code: Any, arrays: dict[str, Any], sources: list[Any]) -> Targets:
    found: Targets = code(arrays, sources, _unmarked)
    return found


def _unmarked(_: int, array: Any) -> Any:
    return array


def _is_traced(function: Closure) -> bool:
    """Whether the value of every operation is wanted with the targets."""
    return bool(getattr(function.code, "traced", False))
