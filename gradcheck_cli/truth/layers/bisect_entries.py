"""Which entries of a large gradient are wrong: a few are examined, then the support of the
direction that shows the error is bisected, then that of the cotangent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np

from gradcheck_cli.domain.draws import generator
from gradcheck_cli.domain.layer import Leaf
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.truth.layers.projections import Projections
from gradcheck_cli.truth.numerics.classify import Sides
from gradcheck_cli.truth.numerics.differences import Estimate, Float
from gradcheck_cli.truth.numerics.directions import Slope

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
        self._along = self._whole = self.projections.direction(self.number)
        self._rng = generator(self.projections.seed, 17)
        self._sampled: set[str] = set()

    def run(self) -> None:
        """Fills `columns`, `dense` and `complete`."""
        apart = self.apart
        while len(self.columns) < COLUMNS and self._left():
            leaf, apart = self._leaf(apart)
            if leaf is None:
                return
            if not self._sample(leaf):
                flat = self._halved(leaf, apart)
                if flat is None:
                    return
                self._take(self._column(leaf, flat))
            self._along = self.projections.direction(self.number)
            if not any(np.any(weights) for weights in self._along.values()):
                self.complete = True
                return
            apart, bar = self._difference(self._along)
            if abs(apart) <= bar:
                self.complete = True
                return

    def whole(self, leaf: Leaf) -> tuple[float, float] | None:
        """What the gradient gives along the part of the direction that belongs to the leaf, and
        what differences do; None where they tell nothing."""
        along = {leaf.name: self._whole[leaf.name]}
        apart, bar = self._difference(along)
        given = self.projections.product(self.gradient, along)
        return (given, given + apart) if np.isfinite(bar) else None

    def _left(self) -> bool:
        return self.projections.forward - self._start < FORWARDS

    def _difference(self, along: Mapping[str, Float]) -> tuple[float, float]:
        expected = self.projections.product(self.gradient, along)
        wanted = abs(self.apart)
        return self.projections.glance(along, self.row, expected, self.level, wanted)

    def _leaf(self, apart: float) -> tuple[Leaf | None, float]:
        """The leaf that is left when, again and again, the half of them without a difference is let
        go, and the difference it shows; what one half shows tells what the other one does."""
        leaves = [leaf for leaf in self.projections.leaves if np.any(self._along[leaf.name])]
        while len(leaves) > 1:
            if not self._left():
                return None, apart
            half = leaves[: len(leaves) // 2]
            here, bar = self._difference({leaf.name: self._along[leaf.name] for leaf in half})
            if abs(here) > bar:
                leaves, apart = half, here
            else:
                leaves, apart = leaves[len(half) :], apart - here
        return (leaves[0] if leaves else None), apart

    def _halved(self, leaf: Leaf, apart: float) -> int | None:
        """The entry of the leaf that is left in the same way."""
        low, high = 0, leaf.size
        weights = self._along[leaf.name]
        while high - low > 1:
            middle = (low + high) // 2
            here, bar = 0.0, 0.0
            if np.any(weights[low:middle]):
                if not self._left():
                    return None
                part = np.zeros(leaf.size)
                part[low:middle] = weights[low:middle]
                here, bar = self._difference({leaf.name: part})
            if abs(here) > bar:
                high, apart = middle, here
            else:
                low, apart = middle, apart - here
        return low

    def _take(self, column: Column) -> None:
        """Keeps the column; it does not move any more."""
        leaf = column.leaf
        mask = self.projections.mask(leaf)
        self.columns.append(column)
        mask[column.flat] = True
        if column.rough:
            # where one entry stands on a kink, those that hold the same number do, too
            flat = leaf.kept.reshape(-1)
            alike = ~mask & (flat == flat[column.flat])
            column.alike = int(np.count_nonzero(alike))
            mask |= alike
        self.projections.exclude(leaf.name, mask)

    def _column(self, leaf: Leaf, flat: int) -> Column:
        rows = self.row[None] if self.row.size > OUTPUTS else None
        return Column(leaf, flat, self.projections.column(leaf, flat, rows, self.level))

    def _sample(self, leaf: Leaf) -> bool:
        """Whether some of a few entries of the leaf are wrong. Where most are, none of the leaf
        moves any more."""
        if leaf.size <= SAMPLES or leaf.name in self._sampled:
            return False
        self._sampled.add(leaf.name)
        moving = np.flatnonzero(self._along[leaf.name])
        places = self._rng.choice(moving, min(SAMPLES, moving.size), replace=False)
        wrong = [int(flat) for flat in places if self._is_wrong(leaf, int(flat))]
        columns = [self._column(leaf, flat) for flat in wrong]
        for column in columns:
            if not self.projections.mask(leaf)[column.flat]:  # another one may be alike
                self._take(column)
        if sum(not column.rough for column in columns) >= MOST:
            self.dense[leaf.name] = len(wrong), len(places)
            self.projections.exclude(leaf.name, np.ones(leaf.size, dtype=bool))
        return bool(wrong)

    def _is_wrong(self, leaf: Leaf, flat: int) -> bool:
        along = np.zeros(leaf.size)
        along[flat] = self.projections.draws.scale(leaf, flat)
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
            row, apart = self._steepest_row(number), True
            if row is None:
                row, apart = self._wrong_row(number, known)
            if row is None:
                more = True
                continue
            found[row] = None
            more |= apart
        return list(found), more

    def _steepest_row(self, number: int) -> int | None:
        """The output that the column moves most, where it is wrong in that one: then it mostly is
        in others, too."""
        slope = self.columns[number].slope.estimate
        row = int(np.nanargmax(np.where(np.isfinite(slope.error), np.abs(slope.value), -1.0)))
        unit = np.zeros(self.row.size)
        unit[row] = 1.0
        apart = slope.value[row] - float(self._entries(self.projections.pulled(unit))[number])
        return row if abs(apart) > slope.error[row] else None

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
