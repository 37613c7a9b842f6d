"""What a framework contributes to an engine: arrays, and derivatives of functions of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Problem
from gradcheck_cli.domain.program import Program
from gradcheck_cli.engines.kit.walker import Arrays

if TYPE_CHECKING:
    from gradcheck_cli.engines.execution import Recorder

Results = tuple[list[Any], Any]
"""The arrays that are differentiated, and whatever else is wanted of the run (lists and
dictionaries of arrays)."""

Watch = Callable[[int, Any], Any]
"""Marks an array on the way by a number, so that its cotangent can be asked for; gives the array to
go on with."""


@dataclass(frozen=True, slots=True, eq=False)
class Closed:
    """A function with the arrays that it reads. `code` is called with them first; it equals all
    code that does the same, so that a framework which compiles functions does so once for arrays
    of the same shapes. `marks`: it marks arrays by its `Watch`."""

    code: Callable[..., Any]
    arrays: dict[str, Any]
    marks: bool = False

    def __call__(self, *args: Any) -> Any:
        return self.code(self.arrays, *args)


class Pull(Protocol):
    """The pullback of a function at a point. May be called many times."""

    def __call__(self, index: int, cotangent: Any, again: bool = False) -> list[Any]:
        """The gradients of target `index`, one a source, None where there is none. With `again`
        they can be differentiated themselves."""
        ...

    def watched(self, index: int, cotangent: Any) -> tuple[list[Any], dict[int, Any]]:
        """The same gradients, and in the same pass the cotangents that arrive at the arrays that
        were marked, by their numbers; None, or nothing at all, where none does."""
        ...


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

    def vjp(
        self, function: Callable[[list[Any], Watch], Results], sources: Sequence[Any]
    ) -> tuple[list[Any], Any, Pull]:
        """What the function gives at the sources, and the pullback of its targets."""
        ...

    def jvp(
        self, function: Callable[[Any], Results], primal: Any, tangent: Any
    ) -> tuple[list[Any], list[Any], Any]:
        """The function's targets, their tangents (None where none arrives), and the rest."""
        ...

    def descend(self, parameter: Any, gradient: Any, rate: float) -> Any:
        """parameter - rate * gradient outside the graph, ready for the next step."""
        ...

    def recorder(self) -> Recorder:
        """Writes down the operations of one run. Raises Unsupported where it cannot: then blame
        rests on the program's nodes and is not proven."""
        ...


class Tape(Protocol):
    def gradient(
        self, target: Any, sources: Sequence[Any], cotangent: Any, again: bool
    ) -> list[Any]:
        """One gradient a source, None where there is none. With `again` the gradients can be
        differentiated themselves. May be called many times."""
        ...


Pushed = Callable[[Any], Any]
"""Gives the tangent of a result, or None where none has reached it."""


class Taped:
    """A framework that records what it computes: `vjp` and `jvp` from two contexts. One with a
    single mode needs one of them."""

    def tape(self, sources: Sequence[Any]) -> AbstractContextManager[tuple[Tape, list[Any]]]:
        """Records what is computed from the arrays that it gives in place of the sources."""
        raise NotImplementedError

    def tangent(self, primal: Any, tangent: Any) -> AbstractContextManager[tuple[Any, Pushed]]:
        """Within the context, what is computed from the first result carries tangents."""
        raise NotImplementedError

    def vjp(
        self, function: Callable[[list[Any], Watch], Results], sources: Sequence[Any]
    ) -> tuple[list[Any], Any, Pull]:
        marked: dict[int, Any] = {}

        def watch(number: int, array: Any) -> Any:
            marked[number] = array
            return array

        with self.tape(sources) as (tape, watched):
            targets, rest = function(watched, watch)
        return targets, rest, _TapePull(tape, targets, watched, marked)

    def jvp(
        self, function: Callable[[Any], Results], primal: Any, tangent: Any
    ) -> tuple[list[Any], list[Any], Any]:
        with self.tangent(primal, tangent) as (dual, pushed):
            targets, rest = function(dual)
            return targets, [None if y is None else pushed(y) for y in targets], rest


class _TapePull:
    """The pullback that a tape gives."""

    def __init__(
        self, tape: Tape, targets: list[Any], sources: list[Any], marked: dict[int, Any]
    ) -> None:
        self._tape = tape
        self._targets = targets
        self._sources = sources
        self._marked = marked

    def __call__(self, index: int, cotangent: Any, again: bool = False) -> list[Any]:
        target = self._targets[index]
        if target is None:  # no first gradient, so nothing to differentiate
            return [None] * len(self._sources)
        return self._tape.gradient(target, self._sources, cotangent, again)

    def watched(self, index: int, cotangent: Any) -> tuple[list[Any], dict[int, Any]]:
        arrays = [*self._sources, *self._marked.values()]
        found = self._tape.gradient(self._targets[index], arrays, cotangent, False)
        count = len(self._sources)
        return found[:count], dict(zip(self._marked, found[count:], strict=True))


def scalar(fw: Framework, program: Program, problem: Problem) -> Any:
    """The cotangent that makes a scalar of the output."""
    if problem.projection.rows is not None:
        return fw.array(problem.projection.rows[0])
    shape = program.nodes[program.output].shape
    if int(np.prod(shape)) != 1:
        raise ValueError("second derivatives of an output with several entries need a cotangent")
    return fw.array(np.ones(shape))
