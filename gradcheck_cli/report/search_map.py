"""The state of each cell of a domain: the data of its pictures.

An `Axis` shows one searched element by its numbers, or by their count (`ordinals`) if all have one
sign and span more than four octaves. A cell fails everywhere, fails somewhere, is open, or is free
of failures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.search import Box, Search, SearchResult

Cell = Literal["fails", "may fail", "open", "free"]
Place = tuple[str, str]
"""An engine, and a dtype."""

_OCTAVES = 4


@dataclass(frozen=True, slots=True)
class Axis:
    """One element of an input, `index` of the flattened one, from `low` to `high`."""

    name: str
    input: str
    index: int
    low: float
    high: float
    ordinals: bool

    def place(self, number: float) -> float:
        """The position of a number, from 0 to 1."""
        low, high, here = (self._scaled(one) for one in (self.low, self.high, number))
        return 0.0 if high == low else min(max((here - low) / (high - low), 0.0), 1.0)

    def number(self, values: Mapping[str, Array]) -> float:
        """The element among the values of all inputs."""
        return float(np.ravel(values[self.input])[self.index])

    def ends(self, box: Box) -> tuple[float, float]:
        """The least and the largest number of the element in a box."""
        low, high = (float(np.ravel(part)[self.index]) for part in box[self.input])
        return low, high

    def _scaled(self, number: float) -> float:
        """The number, or its logarithm in place of the count of numbers, which is nearly linear in
        it."""
        if not self.ordinals:
            return number
        return math.log2(number) if self.low > 0 else -math.log2(-number)

    def edges(self, box: Box) -> tuple[float, float]:
        """The positions of both ends of the box along the axis."""
        low, high = self.ends(box)
        return self.place(low), self.place(high)


def axes_of(result: SearchResult, dtype: str) -> list[Axis]:
    """An axis for each searched element of a result."""
    shapes: dict[str, tuple[int, ...]] = {}
    for search in result.searches:
        if search.witness is not None:
            shapes = {name: np.shape(array) for name, array in search.witness.values.items()}
        for box in search.region.whole or ():
            shapes = {name: np.shape(low) for name, (low, _) in box.items()}
    most = FORMATS[dtype].largest
    axes = []
    for name, shape in shapes.items():
        low, high = (min(max(bound, -most), most) for bound in result.domain[name])
        one_sign = low > 0 or high < 0
        wide = one_sign and abs(math.log2(high / low)) > _OCTAVES
        for number, index in enumerate(np.ndindex(shape)):
            label = f"{name}[{','.join(map(str, index))}]" if index else name
            axes.append(Axis(label, name, number, low, high, wide))
    return axes


def searches_at(result: SearchResult, place: Place) -> list[Search]:
    """The searches of one engine and dtype."""
    return [one for one in result.searches if (one.engine, one.dtype) == place]


def cells(searches: Sequence[Search], axes: Sequence[Axis], counts: Sequence[int]) -> Array:
    """The cells of a picture with one or two axes: an array of `Cell` with the shape `counts`."""
    states = np.full(tuple(counts), "free", object)
    for search in searches:
        if search.verdict != "proven-absent" and search.region.boxes is None:
            states[states == "free"] = "open"
    for search in searches:
        region = search.region
        for kind, boxes in (("may fail", region.boxes or ()), ("open", region.open)):
            for box in boxes:
                part = states[_covered(box, axes, counts, touched=True)]
                part[(part == "free") | (kind == "may fail")] = kind
    for search in searches:
        for box in search.region.inner:
            states[_covered(box, axes, counts, touched=False)] = "fails"
    for search in searches:
        if search.witness is not None:
            at = [axis.place(axis.number(search.witness.values)) for axis in axes]
            cell = tuple(min(int(p * n), n - 1) for p, n in zip(at, counts, strict=True))
            states[cell] = "fails" if states[cell] == "fails" else "may fail"
    return states


def _covered(
    box: Box, axes: Sequence[Axis], counts: Sequence[int], *, touched: bool
) -> tuple[slice, ...]:
    """The cells that a box touches, or the cells inside of it."""
    slices = []
    for axis, count in zip(axes, counts, strict=True):
        first, last = (edge * count for edge in axis.edges(box))
        if touched:
            begin = min(math.floor(first), count - 1)
            slices.append(slice(begin, max(math.ceil(last), begin + 1)))
        else:
            slices.append(slice(math.ceil(first), math.floor(last)))
    return tuple(slices)


def thin(
    searches: Sequence[Search], axis: Axis, count: int
) -> Iterator[tuple[Search, float, float]]:
    """The intervals of found failures that are thinner than a cell."""
    for search in searches:
        for box in search.region.boxes or () if search.verdict == "found" else ():
            first, last = axis.edges(box)
            if (last - first) * count < 1:
                yield search, *axis.ends(box)
