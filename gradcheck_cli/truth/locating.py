"""Which entries of a large gradient are wrong: halving the support of the direction that shows it,
then that of the cotangent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.layer import Leaf
from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.truth.classify import Sides
from gradcheck_cli.truth.differences import Estimate, Float
from gradcheck_cli.truth.directions import Slope
from gradcheck_cli.truth.projections import Projections, flat_places

FORWARDS = 400  # for the whole search: one entry of a million takes 200
BACKWARDS = 12  # for the rows of all columns together: one row of a million outputs takes 20
COLUMNS = 8  # that are named; a finding shows ten entries
SAMPLES = 3  # of a leaf with a wrong entry: are most of its entries wrong?
MOST = 2  # of these are wrong, where most of the leaf's are
OUTPUTS = 2**17  # above that many, columns are known along the cotangents only


@dataclass
class Column:
    """An entry of a leaf along which differences were taken carefully. `alike` is how many entries
    of the leaf hold the same number and were not looked at for that."""

    leaf: Leaf
    flat: int
    slope: Slope
    alike: int = 0

    @property
    def rough(self) -> bool:
        return bool(np.any(self.slope.sides.kind != PointKind.SMOOTH))


@dataclass
class Search:
    """Looks for the entries that make product `row` @ J @ direction `number` differ from what
    differences say by `apart`; they were good from `level` on. `gradient` is row @ J."""

    projections: Projections
    row: Float
    gradient: Mapping[str, Float | None]
    number: int
    level: int
    apart: float
    columns: list[Column] = field(default_factory=list)
    dense: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Leaves of which most entries are wrong: how many of how many that were looked at."""
    complete: bool = False
    """Whether everything that was not named is right along the direction."""

    def __post_init__(self) -> None:
        self._start = self.projections.forward
        self._along = self.projections.direction(self.number)
        self._rng = np.random.default_rng([self.projections.seed, 17])

    def run(self) -> None:
        """Fills `columns`, `dense` and `complete`."""
        apart = self.apart
        while len(self.columns) < COLUMNS and self._left():
            place = self._halved(apart)
            if place is None:
                return
            self._take(*place)
            self._along = self.projections.direction(self.number)
            if not any(np.any(weights) for weights in self._along.values()):
                self.complete = True
                return
            apart, bar = self._difference(self._along)
            if abs(apart) <= bar:
                self.complete = True
                return

    def _left(self) -> bool:
        return self.projections.forward - self._start < FORWARDS

    def _difference(self, along: Mapping[str, Float]) -> tuple[float, float]:
        expected = self.projections.product(self.gradient, along)
        wanted = abs(self.apart)
        return self.projections.glance(along, self.row, expected, self.level, wanted)

    def _between(self, low: int, high: int) -> dict[str, Float]:
        """The part of the direction that belongs to a range of all entries."""
        found = {}
        for leaf, start in flat_places(self.projections.leaves):
            first, last = max(low - start, 0), min(high - start, leaf.size)
            if first < last:
                part = np.zeros(leaf.size)
                part[first:last] = self._along[leaf.name][first:last]
                found[leaf.name] = part
        return found

    def _halved(self, apart: float) -> tuple[Leaf, int] | None:
        """The entry that is left when, again and again, the half without a difference is let go;
        what one half shows tells what the other one does."""
        low, high = 0, sum(leaf.size for leaf in self.projections.leaves)
        while high - low > 1:
            middle = (low + high) // 2
            left = self._between(low, middle)
            here, bar = 0.0, 0.0
            if any(np.any(weights) for weights in left.values()):
                if not self._left():
                    return None
                here, bar = self._difference(left)
            if abs(here) > bar:
                high, apart = middle, here
            else:
                low, apart = middle, apart - here
        for leaf, start in flat_places(self.projections.leaves):
            if start <= low < start + leaf.size:
                return leaf, low - start
        return None

    def _take(self, leaf: Leaf, flat: int) -> None:
        """Keeps the column, and lets nothing move that is wrong for the same reason."""
        excluded = self.projections.excluded
        mask = excluded.setdefault(leaf.name, np.zeros(leaf.size, dtype=bool))
        column = self._column(leaf, flat)
        self.columns.append(column)
        mask[flat] = True
        if column.rough:
            # where one entry stands on a kink, those that hold the same number do, too
            alike = ~mask & (leaf.value.reshape(-1) == leaf.value.reshape(-1)[flat])
            column.alike = int(np.count_nonzero(alike))
            mask |= alike
        elif leaf.size > SAMPLES:
            self._sample(leaf, mask)

    def _column(self, leaf: Leaf, flat: int) -> Column:
        rows = self.row[None] if self.row.size > OUTPUTS else None
        return Column(leaf, flat, self.projections.column(leaf.name, flat, rows))

    def _sample(self, leaf: Leaf, mask: Array) -> None:
        """Whether most entries of the leaf are wrong; then none of them moves any more."""
        places = self._rng.choice(np.flatnonzero(~mask), SAMPLES, replace=False)
        wrong = [int(flat) for flat in places if self._is_wrong(leaf, int(flat))]
        if len(wrong) >= MOST:
            self.columns += [self._column(leaf, flat) for flat in wrong]
            self.dense[leaf.name] = len(wrong) + 1, SAMPLES + 1
            mask[:] = True

    def _is_wrong(self, leaf: Leaf, flat: int) -> bool:
        along = np.zeros(leaf.size)
        scales = self.projections.draws.scales(leaf)
        along[flat] = scales[flat] if scales.size > 1 else scales[0]
        apart, bar = self._difference({leaf.name: along})
        return abs(apart) > bar

    # Rows

    def rows(self) -> tuple[list[int], bool]:
        """The outputs whose derivative along one of the columns is wrong, and whether there may be
        more."""
        if self.row.size > OUTPUTS:
            return [], True
        found: dict[int, None] = {}
        known: dict[tuple[int, int], Float] = {}
        more = False
        for number, column in enumerate(self.columns):
            if column.rough:
                sides = column.slope.sides
                found[int(np.argmax(sides.kind != PointKind.SMOOTH))] = None
                continue
            row, apart = self._wrong_row(number, known)
            if row is None:
                more = True
                continue
            found[row] = None
            more |= apart
        return list(found), more

    def _wrong_row(
        self, number: int, known: dict[tuple[int, int], Float]
    ) -> tuple[int | None, bool]:
        """An output, and whether the column is wrong in others, too."""
        column = self.columns[number]
        value, error = column.slope.estimate.value, column.slope.estimate.error
        entry = self._entries(self.gradient)[number]
        terms, bars = self.row * value, np.abs(self.row) * error
        apart = float(np.sum(terms)) - entry
        low, high = 0, self.row.size
        others = False
        while high - low > 1:
            middle = (low + high) // 2
            if (low, middle) not in known:
                if len(known) >= BACKWARDS + int(np.log2(self.row.size)):
                    return None, True
                part = np.zeros(self.row.size)
                part[low:middle] = self.row[low:middle]
                known[low, middle] = self._entries(self.projections.pulled(part))
            here = float(np.sum(terms[low:middle])) - float(known[low, middle][number])
            rest = apart - here
            if abs(here) > float(np.sum(bars[low:middle])):
                others |= abs(rest) > float(np.sum(bars[middle:high]))
                high, apart = middle, here
            else:
                low, apart = middle, rest
        return low, others

    def _entries(self, gradient: Mapping[str, Float | None]) -> Float:
        """The gradient's entries at the columns."""
        found = []
        for column in self.columns:
            values = gradient[column.leaf.name]
            found.append(0.0 if values is None else float(values[column.flat]))
        return np.array(found)


def at_rows(slope: Slope, rows: list[int]) -> Slope:
    """The slope of some of the outputs."""

    def some(estimate: Estimate) -> Estimate:
        return Estimate(estimate.value[rows], estimate.error[rows])

    sides = slope.sides
    return Slope(
        some(slope.estimate),
        Sides(sides.kind[rows], some(sides.above), some(sides.below), sides.isolated[rows]),
        slope.steepest[rows],
    )
