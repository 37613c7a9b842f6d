"""A small program at several points, in one evaluation where its operations allow that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.kept import kept
from gradcheck_cli.domain.program import Program
from gradcheck_cli.truth.plain import plain_function
from gradcheck_cli.truth.side_by_side import SideBySide, side_by_side

FEW = 512
"""Numbers that a node may have on average where points are evaluated together: with more, arrays of
all points would be felt, and little time is saved."""

Points = Sequence[Mapping[str, Array]]


class SeveralPoints:
    """`program` in float64, its constants rounded to `rounding`, at several points, which are the
    first axis of every result."""

    def __init__(self, program: Program, rounding: str) -> None:
        self._program = program
        self._function = plain_function(program, rounding)
        beside = side_by_side(program)
        self._beside = beside if beside is not None and beside.each <= FEW else None

    def values(self, points: Points) -> Array:
        """The values, (k, *shape)."""
        if self._beside is None:
            return np.stack([self._function(point) for point in points])
        return self._at_once(points, self._beside, lambda index, numbers: numbers)

    def rounded_anew(self, points: Points, wrt: Iterable[str], rng: np.random.Generator) -> Array:
        """`PlainFunction.rounded_anew` at every point, (k, *shape)."""
        wrt, beside = tuple(wrt), self._beside
        if beside is None:
            return np.stack([self._function.rounded_anew(point, wrt, rng) for point in points])
        roundings = [self._function.roundings(wrt, rng) for _ in points]
        factors = np.stack([one.factors for one in roundings])
        places, nodes = roundings[0].places, self._program.nodes

        def moved(index: int, numbers: Any) -> Any:
            if index not in places:
                return numbers
            shape = beside.shape(len(factors), nodes[index].shape)
            return numbers * factors[:, places[index]].reshape(shape)

        return self._at_once(points, beside, moved)

    def _at_once(
        self, points: Points, beside: SideBySide, altered: Callable[[int, Any], Any]
    ) -> Array:
        slots, nodes = self._function.start(), self._program.nodes
        for name, index in self._program.inputs.items():
            own = [point[name] for point in points]
            if len(set(map(id, own))) > 1:
                own = [np.stack(own).reshape(beside.shape(len(points), nodes[index].shape))]
            slots[index] = altered(index, own[0])
        with np.errstate(all="ignore"):
            for index, function, args, keywords in self._function.steps:
                named = beside.keywords.get(index, keywords)
                found = np.asarray(function(*[slots[i] for i in args], **named))
                slots[index] = altered(index, found)
        output = np.asarray(slots[self._program.output], np.float64)
        if output.ndim <= beside.axes:  # the same at all points
            return np.repeat(output[None], len(points), axis=0)
        return output.reshape(len(points), *nodes[self._program.output].shape)


several_points = kept(SeveralPoints)
