"""Pullbacks of JAX: as `jax.vjp` gives them, and by equations that are traced once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import call
from typing import TYPE_CHECKING, Any

from gradcheck_cli.engines.kit.framework import Closed, Results, Watch

if TYPE_CHECKING:
    from gradcheck_cli.engines.jax.engine import Jax
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
