"""Floating arrays that a layer captured and that are no leaves of its own: constants of its calls,
in the dtype that the layer runs in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.layer import Leaf
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.layer.capture import Capture, captures


@dataclass(frozen=True, slots=True)
class Constant:
    """An object that was captured, its numbers, rounded, and the array that stands in for it."""

    capture: Capture
    value: Array
    array: Any


class Constants:
    """What `functions` reach and `is_constant` says; `made` gives the array of some numbers. Two
    functions may reach one object, by one name."""

    def __init__(
        self,
        functions: tuple[Any, ...],
        is_constant: Callable[[Any], bool],
        rounding: str,
        made: Callable[[Array], Any],
    ) -> None:
        self.found: list[Constant] = []
        for function in functions:
            for capture in captures(function):
                if capture.puts and is_constant(capture.value):
                    plain = np.asarray(capture.value).astype(np.float64)
                    value = FORMATS[rounding].round(plain)
                    self.found.append(Constant(capture, value, made(value)))

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(f"`{name}`, which the layer captured, is not checked" for name in self.arrays)

    @property
    def arrays(self) -> dict[str, Any]:
        return {one.capture.name: one.array for one in self.found}

    def leaves(self) -> Iterator[Leaf]:
        for name, value in {one.capture.name: one.value for one in self.found}.items():
            yield Leaf(name, "captured", value, False)

    def put(self, arrays: Mapping[str, Any]) -> None:
        """These arrays in their places."""
        for one in self.found:
            one.capture.put(arrays[one.capture.name])

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Meanwhile what stands in for them is there."""
        self.put(self.arrays)
        try:
            yield
        finally:
            for one in self.found:
                one.capture.put(one.capture.value)
