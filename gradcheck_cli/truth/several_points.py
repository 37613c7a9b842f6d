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
        if self._beside is not None:
            self._start = [
                None if x is None else self._beside.same(x) for x in self._function.start()
            ]

    def values(self, points: Points) -> Array:
        """The values, (k, *shape)."""
        if self._beside is None:
            return np.stack([self._function(point) for point in points])
        return self._at_once(points, self._beside, lambda index, numbers: numbers)

    def values_and_rounded_anew(
        self, points: Points, near: Points, wrt: Iterable[str], rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """The values at all points, and `PlainFunction.rounded_anew` at those that are `near`."""
        wrt, beside, count = tuple(wrt), self._beside, len(points)
        if beside is None:
            anew = [self._function.rounded_anew(point, wrt, rng) for point in near]
            return self.values(points), np.stack(anew)
        drawn = self._function.roundings(wrt, rng, len(near))
        factors = np.concatenate([np.ones((count, drawn.factors.shape[1])), drawn.factors])
        places, nodes = drawn.places, self._program.nodes

        def moved(index: int, numbers: Any) -> Any:
            if index not in places:
                return numbers
            shape = beside.shape(len(factors), nodes[index].shape)
            return numbers * factors[:, places[index]].reshape(shape)

        found = self._at_once([*points, *near], beside, moved)
        return found[:count], found[count:]

    def _at_once(
        self, points: Points, beside: SideBySide, altered: Callable[[int, Any], Any]
    ) -> Array:
        slots, nodes = self._start.copy(), self._program.nodes
        for name, index in self._program.inputs.items():
            own = [point[name] for point in points]
            if len(set(map(id, own))) == 1:
                given = beside.same(own[0], is_input=True)
            else:
                given = np.stack(own).reshape(beside.shape(len(points), nodes[index].shape))
            slots[index] = altered(index, given)
        with np.errstate(all="ignore"):
            for index, function, args, keywords in self._function.steps:
                found = beside.call(index, function, [slots[i] for i in args], keywords, _row)
                slots[index] = altered(index, np.asarray(found))
        output = np.asarray(slots[self._program.output], np.float64)
        if not output.ndim or len(output) < len(points):  # the same at all points
            output = np.repeat(output.reshape(1, -1), len(points), axis=0)
        return output.reshape(len(points), *nodes[self._program.output].shape)


def _row(op: str) -> Callable[..., Any]:
    from reference_engine.traced import ROWS

    raw: Callable[..., Any] = ROWS[op].raw
    return raw


several_points = kept(SeveralPoints)
