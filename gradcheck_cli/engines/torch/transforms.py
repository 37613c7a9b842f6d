"""`torch.func` transforms: derivatives inside the region that `torch.compile` compiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from gradcheck_cli.engines.derivatives import Arrays, Function, Movable, Moved
from gradcheck_cli.engines.torch.framework import Parts, Torch


class Transforms(Torch):
    """PyTorch whose vjp and jvp are `torch.func` transforms while Dynamo traces them."""

    @property
    def is_inside(self) -> bool:
        """Whether the compiler is tracing the caller."""
        return bool(self._torch.compiler.is_compiling())

    def vjp(self, function: Function, sources: Sequence[Any]) -> tuple[list[Any], Any, Any]:
        if not self.is_inside:
            return super().vjp(function, sources)
        parts = Parts()

        def moved(*arrays: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
            return parts.arrays_of(function(list(arrays), unmarked))

        targets, back, rest = self._torch.func.vjp(moved, *sources, has_aux=True)
        found = parts.targets(targets)
        return found, parts.rest(rest), _FunctionalVJP(self._torch, found, back)

    def jvp(self, function: Movable, primals: Arrays, tangents: Arrays) -> Moved:
        if not self.is_inside:
            return super().jvp(function, primals, tangents)
        return self.pushed(function, primals, tangents)

    def nested(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.is_inside else super().nested()


class _FunctionalVJP:
    """The vjp by `torch.func` inside the compiled region."""

    def __init__(self, torch: Any, targets: Sequence[Any], back: Callable[..., Any]) -> None:
        self._torch = torch
        self._targets = targets
        self._back = back

    def __call__(self, cotangents: Sequence[Any], again: bool = False) -> list[Any]:
        bars = tuple(
            self._torch.zeros_like(y) if y_bar is None else y_bar
            for y, y_bar in zip(self._targets, cotangents, strict=True)
            if y is not None
        )
        return list(self._back(bars))


def unmarked(_: int, array: Any) -> Any:
    return array
