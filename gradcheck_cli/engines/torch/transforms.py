"""`torch.func` transforms: derivatives inside the region that `torch.compile` compiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from gradcheck_cli.engines.derivatives import Arrays, Function, Movable, Moved, Targets
from gradcheck_cli.engines.torch.framework import Torch, of_moving


class Transforms(Torch):
    """PyTorch, whose vjp and jvp are `torch.func` transforms while Dynamo traces them."""

    @property
    def is_inside(self) -> bool:
        """Whether this is being compiled."""
        return bool(self._torch.compiler.is_compiling())

    def vjp(self, function: Function, sources: Sequence[Any]) -> tuple[list[Any], Any, Any]:
        if not self.is_inside:
            return super().vjp(function, sources)
        parts = _Parts()

        def moved(*arrays: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
            return parts.taken(function(list(arrays), unmarked))

        targets, back, rest = self._torch.func.vjp(moved, *sources, has_aux=True)
        found = parts.targets(targets)
        return found, parts.rest(rest), _FunctionalVJP(self._torch, found, back)

    def jvp(self, function: Movable, primals: Arrays, tangents: Arrays) -> Moved:
        if not self.is_inside:
            return super().jvp(function, primals, tangents)
        return self.pushed(function, primals, tangents)

    def nested(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.is_inside else super().nested()

    def pushed(self, function: Movable, primals: Arrays, tangents: Arrays) -> Moved:
        """The jvp by `torch.func.jvp`."""
        parts = _Parts()
        moved, own, along = of_moving(function, primals, tangents)
        targets, pushed, rest = self._torch.func.jvp(
            lambda *duals: parts.taken(moved(*duals)), own, along, has_aux=True
        )
        return parts.targets(targets), parts.targets(pushed), parts.rest(rest)


class _Parts:
    """What a function returned, as `torch.func` takes it: arrays alone, None left out. Those of the
    function belong to an inner level of the transforms; the transform gives others back."""

    def __init__(self) -> None:
        self._targets: list[bool] = []  # whether each is an array
        self._rest: list[bool] | None = None

    def taken(self, found: Targets) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        targets, rest = found
        self._targets = [part is not None for part in targets]
        self._rest = None if rest is None else [part is not None for part in rest]
        return _arrays_in(targets), _arrays_in(rest or ())

    def targets(self, arrays: Sequence[Any]) -> list[Any]:
        return _in_places(self._targets, arrays)

    def rest(self, arrays: Sequence[Any]) -> tuple[Any, ...] | None:
        return None if self._rest is None else tuple(_in_places(self._rest, arrays))


def _arrays_in(parts: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(part for part in parts if part is not None)


def _in_places(is_array: Sequence[bool], arrays: Sequence[Any]) -> list[Any]:
    remaining = iter(arrays)
    return [next(remaining) if one else None for one in is_array]


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
            if y is not None
        )
        return list(self._back(bars))


def unmarked(_: int, array: Any) -> Any:
    return array
