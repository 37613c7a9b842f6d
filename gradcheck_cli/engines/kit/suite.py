"""The operations of a suite, for a run in another process; and suites that are tables of calls."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any
from zlib import crc32

import numpy as np

from gradcheck_cli.domain.dtypes import Array, Values
from gradcheck_cli.domain.suite import Sample, SuiteListing, SuiteRequest
from gradcheck_cli.engines.errors import Unsupported
from gradcheck_cli.engines.tracebacks import one_line

_ARGUMENTS = "abcd"
_RANGES = {
    "real": ((3, 2), -2.0, 2.0),
    "positive": ((3, 2), 0.5, 3.0),
    "above_one": ((3, 2), 1.2, 3.0),
    "unit": ((3, 2), -0.9, 0.9),
    "probability": ((3, 2), 0.1, 0.9),
    "scalar": ((), 0.5, 1.5),
    "vector": ((4,), -2.0, 2.0),
    "square": ((3, 3), -2.0, 2.0),
    "definite": ((3, 3), -1.0, 1.0),
    "wide": ((2, 3), -2.0, 2.0),
    "stack": ((2, 3, 3), -2.0, 2.0),
    "signal": ((1, 7, 2), -2.0, 2.0),
    "kernel1": ((3, 2, 2), -1.0, 1.0),
    "image": ((1, 5, 5, 2), -2.0, 2.0),
    "kernel2": ((3, 3, 2, 2), -1.0, 1.0),
    "depthwise": ((3, 3, 2, 1), -1.0, 1.0),
    "pointwise": ((1, 1, 2, 2), -1.0, 1.0),
    "volume": ((1, 4, 4, 4, 2), -2.0, 2.0),
    "kernel3": ((2, 2, 2, 2, 2), -1.0, 1.0),
}
"""Kinds of arrays that a table draws: their shape, and between which numbers."""


def listing(request: SuiteRequest) -> SuiteListing:
    """The names of the operations of a suite, or samples of some."""
    suite = importlib.import_module(request.module)
    if not request.ops:
        return SuiteListing(names=tuple(suite.names()))
    samples, refused = [], {}
    for op in request.ops:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what a sample uses that is deprecated
                samples += suite.samples(op, request.most, request.is_complex)
        except Unsupported as why:
            refused[op] = str(why)
        except Exception as error:
            refused[op] = f"its samples cannot be made: {one_line(error)}"
    return SuiteListing(samples=tuple(samples), refused=refused)


class Table:
    """Calls of public functions, by the kinds of their arguments: "real positive". Below each stand
    calls, one a line, with the arguments a, b, c, or several names of functions that take nothing
    else. The calls of one function are its samples. `modules` are what the calls name."""

    def __init__(self, rows: Mapping[str, str], modules: Mapping[str, Any]) -> None:
        self._rows = rows
        self._modules = modules

    def names(self) -> list[str]:
        return list(self._calls)

    def samples(self, op: str, most: int, is_complex: bool) -> list[Sample]:
        if is_complex:
            raise Unsupported("it has no sample with complex inputs")
        calls = self._calls[op][:most]
        return [Sample(op, i, self._draw_inputs(op, kinds)) for i, (kinds, _) in enumerate(calls)]

    def function(self, op: str, number: int) -> Callable[..., Any]:
        kinds, call = self._calls[op][number]
        given = ", ".join(_ARGUMENTS[: len(kinds)])
        return eval(f"lambda {given}: {call}", dict(self._modules))

    @cached_property
    def _calls(self) -> Mapping[str, list[tuple[list[str], str]]]:
        """For each function: the kinds of its arguments, and the call."""
        by_name: dict[str, list[tuple[list[str], str]]] = {}
        for kinds, text in self._rows.items():
            given = ", ".join(_ARGUMENTS[: len(kinds.split())])
            for name, call in _names_and_calls(text, given):
                by_name.setdefault(name, []).append((kinds.split(), call))
        return by_name

    def _draw_inputs(self, op: str, kinds: list[str]) -> Values:
        """The inputs of a call, the same in every process."""
        rng = np.random.default_rng(crc32(op.encode()))
        return {
            name: _drawn_argument(kind, rng) for name, kind in zip(_ARGUMENTS, kinds, strict=False)
        }


def _names_and_calls(text: str, given: str) -> Iterator[tuple[str, str]]:
    for line in filter(None, map(str.strip, text.splitlines())):
        if "(" in line:
            yield line.partition("(")[0], line
        else:
            yield from ((name, f"{name}({given})") for name in line.split())


def _drawn_argument(kind: str, rng: np.random.Generator) -> Array:
    shape, low, high = _RANGES[kind]
    values = rng.uniform(low, high, shape)
    return values @ values.T + 2 * np.eye(3) if kind == "definite" else values


class TableOperation:
    """The operation of a `table`, called with a sample."""

    table: Table

    def __init__(self, op: str, number: int, is_complex: bool) -> None:
        self._function = self.table.function(op, number)

    def __call__(self, *given: Any) -> Any:
        return self._function(*given)
