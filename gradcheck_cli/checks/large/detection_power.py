"""What a check along random directions was certain to find."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from gradcheck_cli.domain.scale import scale_of
from gradcheck_cli.domain.thresholds import SHOWS, Cost
from gradcheck_cli.truth.layers.projections import Projections
from gradcheck_cli.truth.numerics.differences import Float
from gradcheck_cli.truth.numerics.probes import (
    CLOSE,
    COTANGENTS,
    LEAST,
    SQUARE,
    smallest,
    smallest_single,
)
from gradcheck_cli.truth.numerics.verify_first import Probe

# Of a direction, whose differences and tangents take more passes than a cotangent's gradient.
DIRECTION: Cost = 4.0
# Times the widest bar so far: bars of other cotangents, which may be a little wider.
WIDER: Cost = 1.25
SHOWN = 4  # names of inputs and parameters in a sentence


class Promise:
    """Of the `looks` by number of their direction. `squares` (2,) are the mean squares of the
    norms of cotangent @ J, scaled by leaf and by entry. `why`: entries are not looked at one by
    one."""

    def __init__(self, truth: Projections, looks: Mapping[int, Probe | None]) -> None:
        self._truth = truth
        self._looks = looks
        self.why = "too many to check one by one"
        self.squares: Float = np.zeros(2)

    def needed(self, directions: int, power: float) -> float:
        """The bar, as a part of the gradient, with which so many directions keep the promise."""
        return self._truth.target / (SHOWS * smallest(directions, self._truth.drawn, power))

    def more(self, power: float) -> tuple[int, int]:
        """How many cotangents and directions keep the promise with bars as wide as those so far,
        in the least time; one direction more than there are, where none of a few do."""
        directions, drawn = len(self._looks), self._truth.drawn
        bar = WIDER * self._part(power) / smallest(directions, drawn, power)
        counts = range(drawn, COTANGENTS + 1) if drawn else [0]
        pairs = [
            (k, d)
            for d in range(directions, max(COTANGENTS, directions) + 1)
            for k in counts
            if bar * smallest(d, k, power) <= self._truth.target
        ]
        last = counts[-1], max(COTANGENTS if drawn == 1 else 1, directions + 1)
        return min(pairs, key=lambda pair: pair[0] + DIRECTION * pair[1], default=last)

    def kept(self, power: float) -> bool:
        """Whether an error of the `target` of the gradient, whatever its pattern, would have been
        found with this probability."""
        return self._part(power) <= self._truth.target

    def says_nothing(self, power: float) -> bool:
        """Whether values have so few digits that a gradient which has nothing in common with the
        right one might not be found."""
        return self.norm() > 0 and self._part(power) > 1

    def caught(self, power: float) -> dict[str, float]:
        """By leaf, the error of a single entry that would have been found with this
        probability."""
        single = self._single(power) * self._output()
        draws, moving = self._truth.draws, self._moving()
        leaves = (leaf for leaf in self._truth.leaves if leaf.name in moving)
        return {leaf.name: single / draws.least_scale(leaf) for leaf in leaves}

    def words(self, name: str, dtype: str, power: float) -> Iterator[str]:
        """The promise as a sentence about the layer in `dtype`."""
        count = len(self._truth.rows)
        if self.norm() == 0:
            return
        single = f"{max(self.caught(power).values()):.1g} in any single entry"
        if self._truth.draws.by_entry:
            single = f"{self._single(power):.1g} in the product of any single entry with its input"
        along = f"{len(self._looks)} random direction{'s' * (len(self._looks) > 1)}"
        many = f"{count} cotangent{'s' * (count > 1)}"
        yield (
            f"{name} {dtype}: {self._size()} are {self.why}, so they were checked "
            f"along {along} and {many}; {self._found(single, power)}"
        )

    def _found(self, single: str, power: float) -> str:
        return (
            f"an error above {single}, or above {self._part(power):.1g} of the gradient's norm in "
            f"any pattern, would have been found with probability {power:g}"
        )

    def _size(self) -> str:
        """`1,010,000 entries of `x`, `weight` and 3 more`, of those that move."""
        moving = self._moving()
        names = [f"`{name}`" for name in moving]
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        return f"{sum(moving.values()):,} entries of {', '.join(names[:SHOWN])}{more}"

    def _moving(self) -> dict[str, int]:
        """How many entries of each leaf move."""
        counts = {
            leaf.name: int(np.count_nonzero(~self._truth.mask(leaf))) for leaf in self._truth.leaves
        }
        return {name: count for name, count in counts.items() if count}

    def _part(self, power: float) -> float:
        """The error in any pattern that would have been found, as a part of the gradient."""
        norm = self.norm()
        if norm == 0:
            return 0.0
        widest = float(np.max(self._limits()))
        return widest * smallest(len(self._looks), self._truth.drawn, power) / norm

    def _single(self, power: float) -> float:
        return smallest_single(self._limits(), self._truth.drawn, power)

    def _limits(self) -> Float:
        """What shows in each product, (cotangents, directions)."""
        bars = [look.estimate.error for look in self._looks.values() if look is not None]
        return SHOWS * np.stack(bars, axis=1)

    def norm(self) -> float:
        """The norm of all of J. Its squared products with cotangents are SQUARE times as large in
        the mean, but for the only cotangent of a single number."""
        found = float(self.squares[int(self._truth.draws.by_entry)])
        return math.sqrt(found / SQUARE if self._truth.drawn else found)

    def _output(self) -> float:
        """The largest of several outputs, whose cotangents are that much smaller."""
        outputs, values = self._truth.subject.outputs, self._truth.output
        if len(outputs) == 1:
            return 1.0
        return max(scale_of(values[o.start : o.start + o.size]) for o in outputs)


class EntryPromise(Promise):
    """Of every entry of the products of cotangents with J, beside what is enclosed of it. `limits`
    by leaf (n,) are the largest errors of an entry that would not have shown in one of them."""

    def __init__(self, truth: Projections, limits: Mapping[str, Float], squares: Float) -> None:
        super().__init__(truth, {})
        self._of_entries = limits
        self.squares = squares

    def says_nothing(self, power: float) -> bool:
        """Bars are narrow, or nothing is compared entry by entry."""
        return False

    def caught(self, power: float) -> dict[str, float]:
        """By leaf, the error of a single entry that would have been found for certain: cotangents
        are no smaller than LEAST."""
        shown = self._output() / (LEAST if self._truth.drawn else 1.0)
        return {
            name: float(np.max(self._of_entries[name], initial=0.0)) * shown
            for name in self._moving()
        }

    def words(self, name: str, dtype: str, power: float) -> Iterator[str]:
        if self.norm() == 0:
            return
        count = len(self._truth.rows)
        many = f"{count} cotangent{'s' * (count > 1)}"
        single = f"{max(self.caught(power).values()):.1g} in any single entry"
        yield (
            f"{name} {dtype}: {self._size()} were compared with certified products with {many}, "
            f"entry by entry; {self._found(single, power)}"
        )

    def _part(self, power: float) -> float:
        """An error whose columns e_j have a norm e shows, if |e_j| > f limit_j for some j: the
        product of a cotangent with e_j is within t of 0 with a chance of CLOSE t / |e_j| at most,
        and that of each cotangent must be. No j is such if e > f |limits| cannot hold."""
        norm = self.norm()
        if norm == 0:
            return 0.0
        count = self._truth.drawn
        factor = CLOSE * (1 - power) ** (-1 / count) if count else 1.0
        return factor * math.sqrt(self._truth.square(self._of_entries)) / norm
