"""Floating arrays that a layer captured and that are not leaves. They are constants of its calls,
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
    """A captured object, its rounded numbers, and the array that replaces it. Each call gets its
    own copy of a NumPy array, which a layer may write to."""

    capture: Capture
    value: Array
    array: Any


class Constants:
    """The captured objects of `functions` that `is_constant` accepts; `made` makes an array from
    numbers. Two functions may reach the same object by the same name."""

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
        """Puts these arrays in place of the captured objects."""
        for one in self.found:
            one.capture.put(arrays[one.capture.name])

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside the block the replacements are in place, with their original numbers."""
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
