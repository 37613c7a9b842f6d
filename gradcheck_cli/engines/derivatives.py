"""First derivatives of functions of a framework's arrays, vjp and jvp, for formulas and layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Protocol

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.records import traceable_dataclass

Targets = tuple[list[Any], Any]
"""The targets (arrays that are differentiated, or None), and whatever else is wanted of the run."""

Mark = Callable[[int, Any], Any]
"""Marks an array on the way by a number, so that its cotangent can be requested; gives the array to
go on with."""

Function = Callable[[list[Any], Mark], Targets]
"""A function of sources that can be differentiated in reverse mode."""

Arrays = Sequence[Any]
"""An array of the framework for each source or target; None for one that has none."""

Movable = Callable[[list[Any]], Targets]
"""A function of primals that can be differentiated in forward mode."""

Moved = tuple[list[Any], list[Any], Any]
"""The targets, their tangents, and the rest of what a function gives."""

Composed = Callable[..., Targets]
"""A function that can be differentiated in both modes."""

TangentOf = Callable[[Any], Any]
"""Gives the tangent of a result, or None where none has reached it."""


@traceable_dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A function together with the arrays that it reads, which are the first arguments of `code`.
    Equal `code` computes the same, so a framework that compiles functions does so once for arrays
    of the same shapes. `marks`: it calls its `Mark`."""

    code: Callable[..., Any]
    arrays: dict[str, Any]
    marks: bool = False

    def __call__(self, *args: Any) -> Any:
        return self.code(self.arrays, *args)


class VJPFunction(Protocol):
    """The vjp of a function at a point. May be called many times."""

    def __call__(self, cotangents: Sequence[Any], again: bool = False) -> list[Any]:
        """One gradient for each source, None if there is none. `cotangents` has one for each
        target, None for a target that is not used. With `again` the gradients can be
        differentiated."""

    def with_marked(self, cotangents: Sequence[Any]) -> tuple[list[Any], dict[int, Any]]:
        """The gradients, and the cotangents of the marked arrays by number, from the same pass. A
        mark without a cotangent is None or missing."""


class Derivatives(Protocol):
    """The functions of a framework, in one dtype, that derivatives need."""

    def array(self, values: Array) -> Any:
        """Floats in the dtype, integers as int64, booleans unchanged."""

    def numpy(self, array: Any) -> Array:
        """Floats exactly, in float64; integers and booleans unchanged."""

    def dtype_of(self, array: Any) -> str: ...

    def vjp(self, function: Function, sources: Sequence[Any]) -> tuple[list[Any], Any, VJPFunction]:
        """The targets of the function at the sources, the rest of its results, and its vjp."""

    def jvp(self, function: Movable, primals: Arrays, tangents: Arrays) -> Moved:
        """The targets of the function, their tangents (None if there is none), and the rest. A
        primal with tangent None is constant."""

    def nested(self) -> AbstractContextManager[Any]:
        """Inside the block, a jvp can be differentiated by a vjp or another jvp. Results of
        functions other than their targets must be arrays."""


class Tape(Protocol):
    def gradient(
        self, targets: Arrays, sources: Arrays, cotangents: Arrays, again: bool
    ) -> list[Any]:
        """As `VJPFunction`, but every target has a cotangent. May be called many times."""


class TapeFramework:
    """A framework that records computations: vjp and jvp come from two context managers. A
    framework with a single mode only needs one."""

    compiles = False

    def tape(self, sources: Sequence[Any]) -> AbstractContextManager[tuple[Tape, list[Any]]]:
        """Records computations with the arrays that it returns in place of the sources."""
        raise NotImplementedError

    def tangent(
        self, primals: Sequence[Any], tangents: Sequence[Any]
    ) -> AbstractContextManager[tuple[list[Any], TangentOf]]:
        """Inside the block, computations with the first result carry tangents."""
        raise NotImplementedError

    def nested(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def vjp(self, function: Function, sources: Sequence[Any]) -> tuple[list[Any], Any, VJPFunction]:
        marked: dict[int, Any] = {}

        def mark(number: int, array: Any) -> Any:
            marked[number] = array
            return array

        with self.tape(sources) as (tape, watched):
            targets, rest = function(watched, mark)
        return targets, rest, TapeVJP(tape, targets, watched, marked)

    def jvp(self, function: Movable, primals: Arrays, tangents: Arrays) -> Moved:
        with self.tangent(primals, tangents) as (duals, tangent_of):
            targets, rest = function(duals)
            return targets, [None if y is None else tangent_of(y) for y in targets], rest


class TapeVJP:
    """The vjp of a tape."""

    def __init__(
        self, tape: Tape, targets: list[Any], sources: list[Any], marked: dict[int, Any]
    ) -> None:
        self._tape = tape
        self._targets = targets
        self._sources = sources
        self._marked = marked

    def __call__(self, cotangents: Sequence[Any], again: bool = False) -> list[Any]:
        return self._gradient(self._sources, cotangents, again)

    def with_marked(self, cotangents: Sequence[Any]) -> tuple[list[Any], dict[int, Any]]:
        found = self._gradient([*self._sources, *self._marked.values()], cotangents, False)
        count = len(self._sources)
        return found[:count], dict(zip(self._marked, found[count:], strict=True))

    def reaches(self, arrays: Sequence[Any]) -> list[bool]:
        """Whether some of these intermediate arrays depend on each source."""
        return [g is not None for g in self._tape.gradient(arrays, self._sources, arrays, False)]

    def _gradient(self, arrays: Sequence[Any], cotangents: Sequence[Any], again: bool) -> list[Any]:
        pairs = zip(self._targets, cotangents, strict=True)
        used = [(y, y_bar) for y, y_bar in pairs if y is not None and y_bar is not None]
        if not used:
            return [None] * len(arrays)
        targets, bars = zip(*used, strict=True)
        return self._tape.gradient(targets, arrays, bars, again)


def gradient_of(fw: Derivatives, function: Composed, cotangents: Arrays) -> Composed:
    """vjp(cotangents) as a function of the primals, which can be differentiated. Its rest is the
    rest of the function, or else the targets of the function; with marks, it is a pair of that and
    the cotangents of the marked arrays."""
    return _derivative(_gradients, fw, function, cotangents)


def tangent_of(fw: Derivatives, function: Composed, tangents: Arrays) -> Composed:
    """jvp(tangents) as a function of the primals, which can be differentiated inside of
    `Derivatives.nested`. Its rest is as in `gradient_of`."""
    return _derivative(_tangents, fw, function, tangents)


def _gradients(
    fw: Derivatives, function: Composed, cotangents: Arrays, moved: Arrays, _: Any = None
) -> Targets:
    targets, rest, vjp = fw.vjp(function, list(moved))
    found = vjp(cotangents, again=True)
    rest = tuple(targets) if rest is None else rest
    return found, (rest, vjp.with_marked(cotangents)[1]) if _marks(function) else rest


def _tangents(
    fw: Derivatives, function: Composed, tangents: Arrays, moved: Arrays, _: Any = None
) -> Targets:
    targets, found, rest = fw.jvp(function, list(moved), tangents)
    return found, tuple(targets) if rest is None else rest


def _derivative(
    derived: Callable[..., Targets], fw: Derivatives, function: Composed, given: Arrays
) -> Composed:
    """The derivative of a function; for a closure it is a closure, too."""
    if not isinstance(function, Closure):
        return partial(derived, fw, function, given)
    count = len(function.arrays)
    named = {f".{count}.{i}": one for i, one in enumerate(given) if one is not None}
    names = tuple(None if one is None else f".{count}.{i}" for i, one in enumerate(given))
    code = _DerivativeCode(derived, fw, function.code, names, function.marks)
    return Closure(code, {**function.arrays, **named}, function.marks)


@traceable_dataclass(frozen=True, slots=True)
class _DerivativeCode:
    """The code of the derivative of some code. `given` are the names of its cotangents or tangents
    among the arrays, None for missing ones."""

    derived: Callable[..., Targets]
    fw: Derivatives
    code: Callable[..., Any]
    given: tuple[str | None, ...]
    traced: bool

    def __call__(self, arrays: dict[str, Any], moved: Arrays, _: Any = None) -> Targets:
        own = {name: array for name, array in arrays.items() if name not in self.given}
        given = [None if name is None else arrays[name] for name in self.given]
        return self.derived(self.fw, Closure(self.code, own, self.traced), given, moved)


def _marks(function: Composed) -> bool:
    return isinstance(function, Closure) and function.marks


def double_vjp(
    fw: Derivatives, function: Composed, primals: Arrays, cotangents: Arrays, tangents: Arrays
) -> list[Any]:
    """d <vjp(cotangents), tangents> / d cotangent, which is the jvp of the tangents: one array for
    each target, None if there is none."""

    def gradients(bars: Sequence[Any], _: Any = None) -> Targets:
        _, _, vjp = fw.vjp(function, primals)
        return vjp(bars, again=True), None

    _, _, again = fw.vjp(gradients, cotangents)
    return again(tangents)


def reverse_over_reverse(
    fw: Derivatives, function: Composed, primals: Arrays, cotangents: Arrays, tangents: Arrays
) -> list[Any]:
    """d <vjp(cotangents), tangents> / d primal: one array for each primal, None if there is
    none."""
    gradients = gradient_of(fw, function, cotangents)

    def used(moved: Arrays, mark: Any) -> Targets:
        found, rest = gradients(moved, mark)
        pairs = zip(found, tangents, strict=True)
        return [None if x_dot is None else grad for grad, x_dot in pairs], rest

    _, _, vjp = fw.vjp(used, primals)
    return vjp(tangents)


def forward_over_reverse(
    fw: Derivatives, function: Composed, primals: Arrays, cotangents: Arrays, tangents: Arrays
) -> list[Any]:
    """The tangents of vjp(cotangents) along `tangents`: the same products by another route."""
    return fw.jvp(gradient_of(fw, function, cotangents), primals, tangents)[1]


def reverse_over_forward(
    fw: Derivatives, function: Composed, primals: Arrays, cotangents: Arrays, tangents: Arrays
) -> list[Any]:
    """d <cotangents, jvp(tangents)> / d primal: the same products by a third route."""
    with fw.nested():
        y_dots, _, vjp = fw.vjp(tangent_of(fw, function, tangents), primals)
    pairs = zip(y_dots, cotangents, strict=True)
    return vjp([None if y_dot is None else y_bar for y_dot, y_bar in pairs])


def forward_over_forward(
    fw: Derivatives, function: Composed, primals: Arrays, firsts: Arrays, tangents: Arrays
) -> list[Any]:
    """The derivative of jvp(tangents) along `firsts`: one array for each target, None if there is
    none."""
    with fw.nested():
        return fw.jvp(tangent_of(fw, function, tangents), primals, firsts)[1]
