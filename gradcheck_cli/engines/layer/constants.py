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
    """An object that was captured, its numbers, rounded, and the array that stands in for it: of
    one of NumPy's, which a layer may write to, each call has a copy."""

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
                    array, is_numpy = made(value), isinstance(capture.value, np.ndarray)
                    array = np.asanyarray(array) if is_numpy else array
                    self.found.append(Constant(capture, value, array))
        self.arrays = {one.capture.name: one.array for one in self.found}  # that stand there now
        self._inside = False

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(f"`{name}`, which the layer captured, is not checked" for name in self.arrays)

    def leaves(self) -> Iterator[Leaf]:
        for name, value in {one.capture.name: one.value for one in self.found}.items():
            yield Leaf(name, "captured", value, False)

    def put(self, arrays: Mapping[str, Any]) -> None:
        """These arrays in their places."""
        for one in self.found:
            one.capture.put(arrays[one.capture.name])

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Meanwhile what stands in for them is there, with the numbers that it had at first."""
        before, inside = self.arrays, self._inside
        copies: dict[int, Any] = {}  # of an object that was reached in two ways there is one
        for one in self.found:
            array = one.array.copy() if isinstance(one.array, np.ndarray) else one.array
            copies.setdefault(id(one.capture.value), array)
        self.arrays = {one.capture.name: copies[id(one.capture.value)] for one in self.found}
        self._inside = True
        self.put(self.arrays)
        try:
            yield
        finally:
            self.arrays, self._inside = before, inside
            for one in self.found:
                own = one.capture.value
                one.capture.put(before[one.capture.name] if inside else own)
