"""The outputs in the result of a layer, or the reason why there are none."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gradcheck_cli.domain.evaluation import FailureKind
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.engines.layer.source_lines import FRAMEWORKS, ending

Parts = Callable[[Any], Iterator[tuple[str, Any]]]
"""The parts of a container, each with what follows the container's name: "[0]", ".loss"."""

WHOLE = "y"  # the name of a result, as messages have it
SHOWN = 3  # parts of a result that a message describes

_Shapes = list[tuple[str, tuple[Any, ...]]]


class MissingOutput(EngineFault):
    """A layer returned no floating array. The message says what it returned."""

    kind: FailureKind = "missing-output"


class OtherOutputs(EngineFault):
    """A call returned other arrays than the first call. The message names both."""


class Results:
    """How the results of one layer are read.

    `noun` names an array with a derivative ("floating torch.Tensor"). `is_array` and `is_floating`
    recognise the framework's arrays, and those with a derivative. `parts` opens the framework's
    containers. `layer` is the function with these results. If an input is `empty`, an output
    without entries is valid.
    """

    def __init__(
        self,
        noun: str,
        is_array: Callable[[Any], bool],
        is_floating: Callable[[Any], bool],
        layer: Any,
        parts: Parts | None = None,
        *,
        empty: bool = False,
    ) -> None:
        self._noun = noun
        self.is_array = is_array
        self._is_floating = is_floating
        self._layer = getattr(layer, "__func__", layer)  # without the copy of a module
        self._parts = parts or parts_of_container
        self._empty = empty
        self._first: _Shapes | None = None  # of the first result
        self.notes: tuple[str, ...] = ()  # of numbers beside its outputs, which have no derivative

    def read(self, result: Any) -> list[tuple[str, Any]]:
        """The floating arrays of a result with their names. Raises MissingOutput if there are none,
        and OtherOutputs if the first result had others."""
        if self.is_array(result):
            every = [(WHOLE, result)]
        else:
            every = list(flattened(result, self.is_array, parts=self._parts))
        outputs = [(name, array) for name, array in every if self._is_floating(array)]
        shapes = [(name, tuple(getattr(array, "shape", ()))) for name, array in outputs]
        if self._first is None:
            if not outputs or (not self._empty and all(0 in shape for _, shape in shapes)):
                raise self._missing_output(result, outputs)
            self._first = shapes
            self.notes = tuple(self._sentence_on_numbers(result))
        elif shapes != self._first and not _agree(self._first, shapes):
            raise OtherOutputs(
                f"the layer returned {_listed(shapes)} in one call, but {_listed(self._first)} "
                "in its first"
            )
        return outputs

    def _sentence_on_numbers(self, result: Any) -> Iterator[str]:
        """A sentence about numbers in a result that are not arrays of the framework."""
        if self.is_array(result):
            return
        parts = flattened(result, lambda part: not self._opens(part), parts=self._parts)
        cut = [(name, part) for name, part in parts if not self.is_array(part) and _is_cut(part)]
        if cut:
            names = ", ".join(f"`{name}`" for name, _ in cut[:SHOWN])
            more = ", ..." if len(cut) > SHOWN else ""
            kind = _a(_name(type(cut[0][1])))
            yield f"no derivatives of {names}{more}: {kind} is cut from the graph"

    def _missing_output(self, result: Any, empty: Sequence[tuple[str, Any]]) -> MissingOutput:
        if inspect.iscoroutine(result):
            result.close()  # else Python warns later that nobody awaited it
        fault = MissingOutput(f"the layer returned {self._words(result, empty)}")
        fault.place = ending(self._layer)
        return fault

    def _words(self, result: Any, empty: Sequence[tuple[str, Any]]) -> str:
        if empty:
            return f"an array of shape {tuple(empty[0][1].shape)}, without entries"
        if result is None:
            return "None: is a `return` missing?"
        if not self._opens(result):
            return self._described(result)
        whole = _a(_name(type(result)))
        parts = list(flattened(result, lambda part: not self._opens(part), parts=self._parts))
        if not parts:
            return f"{whole} with nothing in it"
        shown = [f"`{name}` is {self._described(part)}" for name, part in parts[:SHOWN]]
        more = ", ..." if len(parts) > SHOWN else ""
        return f"{whole} with no {self._noun} in it: {', '.join(shown)}{more}"

    def _described(self, value: Any) -> str:
        """A description of a value that is not an output, and of what may have been meant."""
        if value is None:
            return "None"
        if inspect.iscoroutine(value):
            return "a coroutine: an `async def` computes nothing before it is awaited"
        if inspect.isgenerator(value):
            return "a generator: a function with `yield` computes nothing before it is iterated"
        if inspect.isclass(value):
            return f"the class {value.__name__}, not the result of calling an instance"
        if self.is_array(value):
            dtype = str(value.dtype).removeprefix("torch.")
            dtype = dtype.removeprefix("<dtype: '").removesuffix("'>")
            return f"{_a(_name(type(value)))} of dtype {dtype}, which has no derivative"
        if inspect.isroutine(value):
            return f"the function {value.__name__}, not its result"
        if _is_cut(value):
            return f"{_a(_name(type(value)))}: cut from the graph"
        return f"{_a(_name(type(value)))}, not a {self._noun}"

    def _opens(self, value: Any) -> bool:
        """Whether the value is a container, possibly an empty one."""
        return isinstance(value, Mapping | tuple | list) or any(True for _ in self._parts(value))


def flattened(
    result: Any,
    is_array: Callable[[Any], bool],
    name: str = WHOLE,
    parts: Parts | None = None,
    above: tuple[int, ...] = (),
) -> Iterator[tuple[str, Any]]:
    """Every array of a result with its name: "y" for a single one, "y[0]", "y['mask']", "y.loss". A
    container inside itself (one of those `above`) is not opened again."""
    if is_array(result):
        yield name, result
    elif id(result) not in above:
        for suffix, part in (parts or parts_of_container)(result):
            yield from flattened(part, is_array, name + suffix, parts, (*above, id(result)))


def parts_of_container(container: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a mapping, a tuple, a list or a dataclass."""
    if isinstance(container, Mapping):
        yield from ((f"[{key!r}]", part) for key, part in container.items())
    elif isinstance(container, tuple) and hasattr(container, "_fields"):
        yield from ((f".{key}", getattr(container, key)) for key in container._fields)
    elif isinstance(container, tuple | list):
        yield from ((f"[{index}]", part) for index, part in enumerate(container))
    elif dataclasses.is_dataclass(container) and not isinstance(container, type):
        for field in dataclasses.fields(container):
            if hasattr(container, field.name):
                yield f".{field.name}", getattr(container, field.name)


def _agree(first: _Shapes, now: _Shapes) -> bool:
    """Whether names and shapes are the same. Inside a graph a size may be unknown (None)."""
    return len(first) == len(now) and all(
        name == other
        and len(shape) == len(sizes)
        and all(n == m or n is None or m is None for n, m in zip(shape, sizes, strict=True))
        for (name, shape), (other, sizes) in zip(first, now, strict=True)
    )


def _listed(shapes: _Shapes) -> str:
    shown = ", ".join(f"`{name}` {shape}" for name, shape in shapes[:SHOWN])
    return (f"{shown}, ..." if len(shapes) > SHOWN else shown) or "no floating-point array"


def _is_cut(value: Any) -> bool:
    """Whether it contains numbers that a derivative cannot reach."""
    dtype = getattr(value, "dtype", None)
    floating = getattr(dtype, "kind", "f") in "fc"
    return isinstance(value, float | complex) or (hasattr(value, "__array__") and floating)


def _name(kind: type) -> str:
    package = kind.__module__.partition(".")[0]
    return f"{package}.{kind.__qualname__}" if package in FRAMEWORKS else kind.__qualname__


def _a(noun: str) -> str:
    return f"an {noun}" if noun[:1].lower() in "aeiou" else f"a {noun}"
