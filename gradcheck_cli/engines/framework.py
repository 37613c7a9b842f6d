"""What a framework contributes to an engine: arrays, a tape, tangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.execution import Recorder
from gradcheck_cli.engines.walker import Arrays


class Tape(Protocol):
    def gradient(
        self, target: Any, sources: Sequence[Any], cotangent: Any, again: bool
    ) -> list[Any]:
        """One gradient a source, None where there is none. With `again` the gradients can be
        differentiated themselves. May be called many times."""
        ...


Pushed = Callable[[Any], Any]
"""Gives the tangent of a result, or None where none has reached it."""


class Framework(Arrays, Protocol):
    """One framework in one dtype."""

    def array(self, values: Array) -> Any:
        """Floats in the dtype, integers as int64, booleans as they are."""
        ...

    def leaf(self, values: Array) -> Any:
        """A floating array whose derivatives are wanted."""
        ...

    def numpy(self, array: Any) -> Array:
        """Floats exactly, in float64; integers and booleans as they are."""
        ...

    def dtype_of(self, array: Any) -> str: ...

    def tape(self, sources: Sequence[Any]) -> AbstractContextManager[tuple[Tape, list[Any]]]:
        """Records what is computed from the arrays that it gives in place of the sources."""
        ...

    def tangent(self, primal: Any, tangent: Any) -> AbstractContextManager[tuple[Any, Pushed]]:
        """Within the context, what is computed from the first result carries tangents."""
        ...

    def inner(self, a: Any, b: Any) -> Any:
        """<a, b> as a scalar array that can be differentiated."""
        ...

    def descend(self, parameter: Any, gradient: Any, rate: float) -> Any:
        """parameter - rate * gradient outside the graph, ready for the next step."""
        ...

    def recorder(self) -> Recorder:
        """Writes down the operations of one run. Raises Unsupported where it cannot: then blame
        rests on the program's nodes and is not proven."""
        ...
