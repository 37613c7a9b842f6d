"""Find the wrong entries of a large gradient: look at a few, then bisect the support of the
direction that shows the error, then the support of the cotangent."""

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
COLUMNS = 8  # entries to name; a finding shows ten
SAMPLES = 3  # entries of a leaf with a wrong entry, to see whether most of its entries are wrong
MOST = 2  # wrong samples from which on most entries of the leaf count as wrong
OUTPUTS = 2**17  # with more outputs, columns are known along the cotangents only


@dataclass
class Column:
    """An entry of a leaf along which careful differences were taken. `alike` counts the entries of
    the leaf that hold the same number and were therefore not looked at."""

    leaf: Leaf
    flat: int
    slope: Slope
    alike: int = 0

    @property
    def rough(self) -> bool:
        return bool(np.any(self.slope.sides.kind != PointKind.SMOOTH))


@dataclass
class Search:
    """A search for the entries that make the product `row` @ J @ direction `number` differ by
    `apart` from the difference. Differences were good from `level` on. `gradient` is row @ J."""

    projections: Projections
    row: Float
    gradient: Mapping[str, Float | None]
    number: int
    level: int
    apart: float
    columns: list[Column] = field(default_factory=list)
    dense: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By leaf with mostly wrong entries: the number of wrong samples, and of all samples."""
    complete: bool = False
    """Whether all entries that are not named are right along the direction."""

    def __post_init__(self) -> None:
        self._start = self.projections.forward
        self._along = self._whole = self.projections.direction(self.number)
        self._rng = generator(self.projections.seed, 17)
        self._sampled: set[str] = set()

    def run(self) -> None:
        """Fill `columns`, `dense` and `complete`."""
        apart = self.apart
        while len(self.columns) < COLUMNS and self._has_budget():
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

    def whole_difference(self, leaf: Leaf) -> tuple[float, float] | None:
        """The gradient's product with the leaf's part of the direction, and the difference along
        it; None if no difference could be taken."""
        along = {leaf.name: self._whole[leaf.name]}
        apart, bar = self._difference(along)
        given = self.projections.product(self.gradient, along)
        return (given, given + apart) if np.isfinite(bar) else None

    def _has_budget(self) -> bool:
        return self.projections.forward - self._start < FORWARDS

    def _difference(self, along: Mapping[str, Float]) -> tuple[float, float]:
        expected = self.projections.product(self.gradient, along)
        wanted = abs(self.apart)
        return self.projections.glance(along, self.row, expected, self.level, wanted)

    def _leaf(self, apart: float) -> tuple[Leaf | None, float]:
        """The leaf with the wrong entry, found by bisection (None if the budget is spent), and the
        error along it. The error of one half of the leaves gives the error of the other half."""
        leaves = [leaf for leaf in self.projections.leaves if np.any(self._along[leaf.name])]
        while len(leaves) > 1:
            if not self._has_budget():
                return None, apart
            half = leaves[: len(leaves) // 2]
            here, bar = self._difference({leaf.name: self._along[leaf.name] for leaf in half})
            if abs(here) > bar:
                leaves, apart = half, here
            else:
                leaves, apart = leaves[len(half) :], apart - here
        return (leaves[0] if leaves else None), apart

    def _halved(self, leaf: Leaf, apart: float) -> int | None:
        """The wrong entry of the leaf, found in the same way; None if the budget is spent."""
        low, high = 0, leaf.size
        weights = self._along[leaf.name]
        while high - low > 1:
            middle = (low + high) // 2
            here, bar = 0.0, 0.0
            if np.any(weights[low:middle]):
                if not self._has_budget():
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
        """Keep the column and exclude its entry from all further directions."""
        leaf = column.leaf
        mask = self.projections.mask(leaf)
        self.columns.append(column)
        mask[column.flat] = True
        if column.rough:
            # if one entry is on a kink, entries that hold the same number are, too
            flat = leaf.kept.reshape(-1)
            alike = ~mask & (flat == flat[column.flat])
            column.alike = int(np.count_nonzero(alike))
            mask |= alike
        self.projections.exclude(leaf.name, mask)

    def _column(self, leaf: Leaf, flat: int) -> Column:
        rows = self.row[None] if self.row.size > OUTPUTS else None
        return Column(leaf, flat, self.projections.column(leaf, flat, rows, self.level))

    def _sample(self, leaf: Leaf) -> bool:
        """Check whether some of a few entries of the leaf are wrong. If most are, exclude the whole
        leaf from further directions."""
        if leaf.size <= SAMPLES or leaf.name in self._sampled:
            return False
        self._sampled.add(leaf.name)
        moving = np.flatnonzero(self._along[leaf.name])
        places = self._rng.choice(moving, min(SAMPLES, moving.size), replace=False)
        wrong = [int(flat) for flat in places if self._is_wrong(leaf, int(flat))]
        columns = [self._column(leaf, flat) for flat in wrong]
        for column in columns:
            if not self.projections.mask(leaf)[column.flat]:  # unless a taken one is alike
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
        rows_found: dict[int, None] = {}
        known: dict[tuple[int, int], Float] = {}
        more = False
        for number, column in enumerate(self.columns):
            if column.rough:
                sides = column.slope.sides
                rows_found[int(np.argmax(sides.kind != PointKind.SMOOTH))] = None
                continue
            row, apart = self._steepest_row(number), True
            if row is None:
                row, apart = self._wrong_row(number, known)
            if row is None:
                more = True
                continue
            rows_found[row] = None
            more |= apart
        return list(rows_found), more

    def _steepest_row(self, number: int) -> int | None:
        """The output that the column moves most, if its derivative is wrong; others mostly are
        then, too."""
        slope = self.columns[number].slope.estimate
        row = int(np.nanargmax(np.where(np.isfinite(slope.error), np.abs(slope.value), -1.0)))
        unit = np.zeros(self.row.size)
        unit[row] = 1.0
        apart = slope.value[row] - float(self._entries(self.projections.pulled(unit))[number])
        return row if abs(apart) > slope.error[row] else None

    def _wrong_row(
        self, number: int, known: dict[tuple[int, int], Float]
    ) -> tuple[int | None, bool]:
        """An output with a wrong derivative along the column, and whether there are others."""
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
        entries = []
        for column in self.columns:
            values = gradient[column.leaf.name]
            entries.append(0.0 if values is None else float(values[column.flat]))
        return np.array(entries)


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
