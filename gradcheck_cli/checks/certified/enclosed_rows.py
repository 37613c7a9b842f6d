"""Compare the gradient of a large layer, entry by entry, with cotangent @ J of its lifted program.
J is enclosed, so its error bars are those of rounding, not of finite differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial

import numpy as np

from gradcheck_cli.checks.certified.lifted import LiftedTruth
from gradcheck_cli.checks.certified.rounding import changes_of_row, few_ulps
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.large_arrays import parts
from gradcheck_cli.domain.layer import Leaf
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import (
    ERROR_BITS,
    FIRST_ORDER_SLACK,
    NOTE_BITS,
    ROUNDINGS,
    SHOWS,
)
from gradcheck_cli.truth.certified.enclosed_products import EnclosedArray
from gradcheck_cli.truth.layers.bisect_entries import COLUMNS, Column, Search
from gradcheck_cli.truth.layers.callables import STIRRED, natural_size
from gradcheck_cli.truth.layers.projections import Moving, Projections
from gradcheck_cli.truth.numerics.differences import Estimate, Float
from gradcheck_cli.truth.numerics.directions import Slope
from gradcheck_cli.truth.numerics.probes import LEAST
from gradcheck_cli.truth.numerics.verify_first import FIRST_LEVEL, even

OPEN = "an operation is too close to a kink, or loses too many digits, for float64 balls"


@dataclass(frozen=True, slots=True)
class OffEntries:
    """Wrong entries of row @ J for one leaf, the worst first: their places (`flat`), the number of
    all wrong entries (`count`), the enclosure of the whole leaf's gradient (`right`), and the cost
    of rounding for each of these entries of J."""

    row: int
    leaf: Leaf
    flat: Array
    count: int
    right: EnclosedArray
    cost: Float


class EnclosedRows:
    """Compares the gradient in the highest precision. `off` has the entries that are wrong by more
    than rounding, of each leaf in the first row that shows any. `limits` has for each leaf (n,) the
    largest errors that would not have shown in a product with a cotangent. `open` masks the entries
    of each leaf (n,) whose enclosures are too wide to judge. `reason` says in a sentence why
    nothing is enclosed."""

    def __init__(self, program: LiftedTruth, truth: Projections) -> None:
        self._truth = truth
        self._program = program
        self._products = program.products()
        self._words = program.words
        self.origin = program.origin
        self.source = f"certified, {program.origin}"
        self.begin()

    def begin(self) -> None:
        """Discard the results of all comparisons."""
        self.reason = ""
        self.off: list[OffEntries] = []
        self.pushes: dict[int, EnclosedArray] = {}
        self.moved: dict[int, Moving] = {}  # by the number of a direction
        self.limits: dict[str, Float] = {
            leaf.name: np.zeros(leaf.size) for leaf in self._truth.leaves
        }
        self.open: dict[str, Array] = {
            leaf.name: np.zeros(leaf.size, dtype=bool) for leaf in self._truth.leaves
        }

    def compare(self, k: int, gradient: Mapping[str, Float | None]) -> None:
        """Compare `gradient`, row k of the cotangents times J, with its enclosure."""
        from reference_engine.arithmetic.arbs import NotInBalls, Undecided

        if self.reason:
            return
        truth = self._truth
        try:
            found = self._products.pulled(truth.rows[k])
        except (NotInBalls, Undecided) as refusal:
            self.reason = str(refusal)
            return
        right = {leaf.name: found[self._words[leaf.name]] for leaf in truth.leaves}
        row = _Row(truth, k, gradient)
        for leaf in truth.leaves:
            self._compare_leaf(row, leaf, right[leaf.name])
        if self._is_open() and all(
            np.all(truth.mask(leaf) | self.open[leaf.name]) for leaf in truth.leaves
        ):
            self.reason = OPEN

    def _compare_leaf(self, row: _Row, leaf: Leaf, right: EnclosedArray) -> None:
        mine = row.gradient[leaf.name]
        if mine is None:
            return
        still, open_, limits = self._truth.mask(leaf), self.open[leaf.name], self.limits[leaf.name]
        known = any(off.leaf.name == leaf.name for off in self.off)
        fmt, numbers = FORMATS["float64"], leaf.kept.reshape(-1)
        count, worst, beyond = 0, [np.zeros(0, dtype=int)], [np.zeros(0)]
        for inside in parts(leaf.size):  # whole arrays would take too much memory
            part = EnclosedArray(right.value[inside], right.radius[inside])
            natural = natural_size(row.size, numbers[inside])
            looked_at = np.isfinite(mine[inside]) & ~still[inside]
            open_[inside] |= looked_at & ~part.is_narrow(natural)
            looked_at &= ~open_[inside]
            half = fmt.lost(ERROR_BITS) * fmt.ulp(part.value)
            moved = partial(row.moves, None if known else leaf.name, inside)
            part_compared = compared(mine[inside], part, looked_at, moved, half)
            limits[inside] = np.fmax(limits[inside], part_compared.limits)
            limits[inside][open_[inside]] = 0.0
            count += int(np.count_nonzero(part_compared.off))
            worst.append(part_compared.worst + inside.start)
            beyond.append(part_compared.beyond)
        if count and not known:
            order = np.argsort(-np.concatenate(beyond), kind="stable")[:COLUMNS]
            flat = np.concatenate(worst)[order]
            cost = ROUNDINGS * row.moved[leaf.name][flat] / LEAST
            self.off.append(OffEntries(row.k, leaf, flat, count, right, cost))

    # What is open

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Use directions that do not move open entries, inside this context."""
        truth = self._truth
        still = {leaf.name: truth.mask(leaf) | self.open[leaf.name] for leaf in truth.leaves}
        with truth.as_at((still, truth.draws.by_entry)):
            yield

    def leave_open(self) -> bool:
        """Let directions move open entries alone from now on. Return whether there are any."""
        for leaf in self._truth.leaves:
            self._truth.exclude(leaf.name, self._truth.mask(leaf) | ~self.open[leaf.name])
        return self._is_open()

    def _is_open(self) -> bool:
        return any(map(np.any, self.open.values()))

    # What is off

    def contradicted(self, off: OffEntries) -> bool:
        """Whether finite differences contradict the enclosure of the worst entry, and the layer
        departs from its program there. Both are needed, because rounding misleads differences,
        too."""
        truth, flat = self._truth, int(off.flat[0])
        slope = truth.column(off.leaf, flat, truth.rows[off.row][None]).estimate
        apart = abs(float(slope.value[0]) - float(off.right.value[flat]))
        seen = apart > SHOWS * float(slope.error[0]) + float(off.right.radius[flat])
        return seen and self._program.departs(off.leaf.name, flat)

    def whole_product(
        self, off: OffEntries, gradient: Mapping[str, Float | None]
    ) -> tuple[float, float]:
        """The product of the gradient with a direction of all entries of the leaf, and the exact
        one."""
        along = {off.leaf.name: self._truth.direction(0)[off.leaf.name]}
        mine, right = (
            self._truth.product({off.leaf.name: values}, along)
            for values in (gradient[off.leaf.name], off.right.value)
        )
        return mine, right

    def search(self, off: OffEntries, gradient: Mapping[str, Float | None]) -> Search:
        """A finished search whose columns are these entries, with enclosed derivatives."""
        row = self._truth.rows[off.row]
        search = Search(self._truth, row, gradient, 0, FIRST_LEVEL, 0.0)
        search.columns += [Column(off.leaf, int(flat), self._slope(off, flat)) for flat in off.flat]
        return search

    def _slope(self, off: OffEntries, flat: int) -> Slope:
        along = np.zeros(off.leaf.size)
        along[flat] = 1.0
        product = self.pushed({off.leaf.name: along})
        estimate = Estimate(product.value, slack_of(product))
        steepest = np.full(product.value.shape, np.max(np.abs(product.value), initial=0.0))
        return Slope(estimate, even(estimate), steepest)

    # Forward mode

    def push(self, numbers: Iterable[int]) -> None:
        """Enclose J @ direction for these directions by number, as `pushes`."""
        self.moved = dict.fromkeys(numbers, self._truth.moving())
        from reference_engine.arithmetic.arbs import NotInBalls, Undecided

        usual = np.asarray(np.max(np.abs(self._truth.output), initial=0.0))
        try:
            self.pushes = {number: self.pushed(self._truth.direction(number)) for number in numbers}
        except (NotInBalls, Undecided) as refusal:
            self.reason = str(refusal)
            return
        if not all(np.all(pushed.is_narrow(usual)) for pushed in self.pushes.values()):
            self.reason = OPEN

    def pushed(self, along: Mapping[str, Float]) -> EnclosedArray:
        """J @ direction, (m,). Raises Undecided and NotInBalls."""
        return self._products.pushed({self._words[name]: part for name, part in along.items()})


@dataclass(frozen=True, slots=True)
class Compared:
    """Numbers compared with their enclosures: a mask of those `off` by more than rounding, the
    places of the `worst` of them, the ratio of each one's error to its limit (`beyond`), and for
    each number the largest error that would not have shown (`limits`)."""

    off: Array
    worst: Array
    beyond: Float
    limits: Float


def slack_of(right: EnclosedArray) -> Float:
    """The error that is accepted without a closer look: other orders of rounding in the enclosed
    operations, and a quarter of the digits, which the judge accepts silently."""
    fmt = FORMATS["float64"]
    lost = fmt.lost(NOTE_BITS) * fmt.ulp(right.value)
    return np.asarray(FIRST_ORDER_SLACK * right.radius + lost)


def compared(
    mine: Float, right: EnclosedArray, looked_at: Array, moved: Callable[[], Float], most: Float
) -> Compared:
    """Compare float64 numbers with their enclosures, where `looked_at`. If needed, `moved` says how
    far a few ulps move each number. If they move it by its error, and that is at most `most`, the
    layer rounds more than the enclosed operations do, and the number is not off."""
    limits = slack_of(right)
    apart = np.abs(mine - right.value)
    off = looked_at & ~(apart <= limits)
    if np.any(off):
        cost = FIRST_ORDER_SLACK * ROUNDINGS * moved()
        off &= ~((apart <= cost) & (apart <= most))
    places = np.flatnonzero(off)
    beyond = (apart / limits)[places]
    order = np.argsort(-beyond, kind="stable")[:COLUMNS]
    shown = np.where(looked_at, np.fmax(limits, apart), 0.0)
    return Compared(off, places[order], beyond[order], shown)


class _Row:
    """Row k of the cotangents, times J."""

    def __init__(self, truth: Projections, k: int, gradient: Mapping[str, Float | None]) -> None:
        self._truth = truth
        self.k = k
        self.gradient = gradient
        self.size = np.asarray(np.linalg.norm(truth.rows[k] * truth.output))

    @cached_property
    def moved(self) -> dict[str, Float]:
        """How far rounding moves each entry: the largest change over a few runs in which every
        number moves by a few ulps."""
        truth, row = self._truth, self._truth.rows[self.k]
        move = few_ulps(truth.subject.dtype)
        most: dict[str, Float] = {}
        for draw in range(STIRRED):
            changes = changes_of_row(
                truth, row, self.gradient, move, [truth.seed, 43, self.k, draw]
            )
            for name, change in changes.items():
                most[name] = np.maximum(most[name], change) if draw else change
        return most

    def moves(self, name: str | None, inside: slice) -> Float:
        """The part of `moved` for a slice of a leaf; zeros if `name` is None."""
        return np.zeros(inside.stop - inside.start) if name is None else self.moved[name][inside]
