"""The promise of a check along random directions: the errors that it was certain to find."""

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

# Of a direction, in cotangents: its differences and tangents take more passes than a gradient.
DIRECTION: Cost = 4.0
# Other cotangents may have bars this much wider than the widest so far.
WIDER: Cost = 1.25
SHOWN = 4  # the most names of leaves in a message


class Promise:
    """The errors that random directions are certain to find. `looks` has comparisons by the number
    of their direction; `squares` (2,) are the mean squares of the norms of cotangent @ J, scaled by
    leaf and by entry; `why` says why entries are not checked one by one."""

    def __init__(self, truth: Projections, looks: Mapping[int, Probe | None]) -> None:
        self._truth = truth
        self._looks = looks
        self.why = "too many to check one by one"
        self.squares: Float = np.zeros(2)

    def needed(self, directions: int, power: float) -> float:
        """The error bar, relative to the gradient's norm, with which so many directions suffice."""
        return self._truth.target / (SHOWS * smallest(directions, self._truth.drawn, power))

    def more(self, power: float) -> tuple[int, int]:
        """The numbers of cotangents and directions that keep the promise in the least time, if
        error bars stay as wide as so far; one more direction if no small number does."""
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

    def holds(self, power: float) -> bool:
        """Whether an error of `target` times the gradient's norm, in any pattern, would have been
        found with this probability."""
        return self._part(power) <= self._truth.target

    def is_vacuous(self, power: float) -> bool:
        """Whether values have so few digits that a gradient unrelated to the right one might not be
        found."""
        return self.norm() > 0 and self._part(power) > 1

    def caught(self, power: float) -> dict[str, float]:
        """For each leaf, the error of a single entry that would have been found with this
        probability."""
        single = self._single(power) * self._output()
        draws, moving = self._truth.draws, self._moving_counts()
        leaves = (leaf for leaf in self._truth.leaves if leaf.name in moving)
        return {leaf.name: single / draws.least_scale(leaf) for leaf in leaves}

    def words(self, name: str, dtype: str, power: float) -> Iterator[str]:
        """The promise about the layer in `dtype`, as a sentence."""
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
            f"along {along} and {many}; {self._sentence(single, power)}"
        )

    def _sentence(self, single: str, power: float) -> str:
        return (
            f"an error above {single}, or above {self._part(power):.1g} of the gradient's norm in "
            f"any pattern, would have been found with probability {power:g}"
        )

    def _size(self) -> str:
        """The entries that move, such as `1,010,000 entries of `x`, `weight` and 3 more`; if these
        are few, the many outputs too: `72 outputs by 18 entries of `x``."""
        moving = self._moving_counts()
        names = [f"`{name}`" for name in moving]
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        entries, outputs = sum(moving.values()), self._truth.output.size
        each = f"{outputs:,} outputs by " if entries < outputs else ""
        return f"{each}{entries:,} entries of {', '.join(names[:SHOWN])}{more}"

    def _moving_counts(self) -> dict[str, int]:
        """The number of entries that move, for each leaf that has any."""
        counts = {
            leaf.name: int(np.count_nonzero(~self._truth.mask(leaf))) for leaf in self._truth.leaves
        }
        return {name: count for name, count in counts.items() if count}

    def _part(self, power: float) -> float:
        """The error in any pattern that would have been found, relative to the gradient's norm."""
        norm = self.norm()
        if norm == 0:
            return 0.0
        widest = float(np.max(self._limits()))
        return widest * smallest(len(self._looks), self._truth.drawn, power) / norm

    def _single(self, power: float) -> float:
        return smallest_single(self._limits(), self._truth.drawn, power)

    def _limits(self) -> Float:
        """The smallest error that shows in each product, (cotangents, directions)."""
        bars = [look.estimate.error for look in self._looks.values() if look is not None]
        return SHOWS * np.stack(bars, axis=1)

    def norm(self) -> float:
        """The Frobenius norm of J. The mean square of its products with cotangents is SQUARE times
        its square, except for a single output, whose only cotangent is 1."""
        found = float(self.squares[int(self._truth.draws.by_entry)])
        return math.sqrt(found / SQUARE if self._truth.drawn else found)

    def _output(self) -> float:
        """The largest of several outputs; their cotangents are smaller by this factor."""
        outputs, values = self._truth.subject.outputs, self._truth.output
        if len(outputs) == 1:
            return 1.0
        return max(scale_of(values[o.start : o.start + o.size]) for o in outputs)


class EntryPromise(Promise):
    """The promise if every entry of cotangents @ J is compared with its enclosure. `limits` (n,)
    are by leaf the largest errors of an entry that would not have shown in one product."""

    def __init__(self, truth: Projections, limits: Mapping[str, Float], squares: Float) -> None:
        super().__init__(truth, {})
        self._of_entries = limits
        self.squares = squares

    def is_vacuous(self, power: float) -> bool:
        """False: enclosures are narrow, or not compared."""
        return False

    def caught(self, power: float) -> dict[str, float]:
        """For each leaf, the error of a single entry that would certainly have been found: entries
        of cotangents are at least LEAST."""
        shown = self._output() / (LEAST if self._truth.drawn else 1.0)
        return {
            name: float(np.max(self._of_entries[name], initial=0.0)) * shown
            for name in self._moving_counts()
        }

    def words(self, name: str, dtype: str, power: float) -> Iterator[str]:
        if self.norm() == 0:
            return
        count = len(self._truth.rows)
        many = f"{count} cotangent{'s' * (count > 1)}"
        single = f"{max(self.caught(power).values()):.1g} in any single entry"
        yield (
            f"{name} {dtype}: {self._size()} were compared with certified products with {many}, "
            f"entry by entry; {self._sentence(single, power)}"
        )

    def _part(self, power: float) -> float:
        """The error e of J that would have been found, relative to the norm of J. Let the columns
        of the error be e_j. It shows if |e_j| > f limit_j for some j: the product of a random
        cotangent with e_j is within t of 0 with a chance of at most CLOSE t / |e_j|, and it would
        have to be so for every cotangent. If e > f |limits|, there is such a j."""
        norm = self.norm()
        if norm == 0:
            return 0.0
        count = self._truth.drawn
        factor = CLOSE * (1 - power) ** (-1 / count) if count else 1.0
        return factor * math.sqrt(self._truth.square(self._of_entries)) / norm
