"""A small program at several points, in one evaluation if its operations allow that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.program_cache import cached_by_program
from gradcheck_cli.truth.batching import Batch, batch_of_few
from gradcheck_cli.truth.plain import plain_function

FEW = 512
"""The average size of a node up to which points are evaluated together. For larger nodes the arrays
of all points take too much memory, and little time is saved."""

Points = Sequence[Mapping[str, Array]]


class SeveralPoints:
    """`program` in float64, its constants rounded to `rounding`, at several points, which are the
    first axis of every result. The points differ in floating inputs alone."""

    def __init__(self, program: Program, rounding: str) -> None:
        self._program = program
        self._rounding = rounding
        self._function = plain_function(program, rounding)

    def values(self, points: Points) -> Array:
        """The values, (k, *shape)."""
        batch = batch_of_few(self._program, len(points), FEW)
        if batch is None:
            return np.stack([self._function(point) for point in points])
        return self._at_once(points, batch)

    def values_and_randomly_rounded(
        self, points: Points, near: Points, wrt: Iterable[str], rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """The values at all points, and `PlainFunction.randomly_rounded` at the points `near`."""
        wrt, count = tuple(wrt), len(points)
        batch = batch_of_few(self._program, count + len(near), FEW)
        if batch is None:
            anew = [self._function.randomly_rounded(point, wrt, rng) for point in near]
            return self.values(points), np.stack(anew)
        drawn = self._function.roundings(wrt, rng, len(near))
        factors = np.concatenate([np.ones((count, drawn.factors.shape[1])), drawn.factors])
        places = {batch.places[index]: place for index, place in drawn.places.items()}

        def moved(index: int, numbers: Any) -> Any:
            if index not in places:
                return numbers
            return numbers * factors[:, places[index]].reshape(numbers.shape)

        found = self._at_once([*points, *near], batch, moved)
        return found[:count], found[count:]

    def _at_once(
        self, points: Points, batch: Batch, altered: Callable[[int, Any], Any] | None = None
    ) -> Array:
        given: dict[str, Array] = {}
        for name, index in self._program.inputs.items():
            own = [point[name] for point in points]
            if self._program.nodes[index].kind != "float":
                given[name] = own[0]
            elif len(set(map(id, own))) == 1:
                given[name] = np.broadcast_to(own[0], (len(points), *np.shape(own[0])))
            else:
                given[name] = np.stack(own)
        function = plain_function(batch.program, self._rounding)
        found = function.nodes(given, altered)[batch.program.output]
        return np.asarray(found, np.float64)


several_points = cached_by_program(SeveralPoints)
