"""Compare a large gradient with finite differences along random directions, and find the wrong
entries behind a product that is off."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Protocol

import numpy as np

from gradcheck_cli.checks.bound_layer import BoundLayer
from gradcheck_cli.checks.large.detection_power import Promise
from gradcheck_cli.checks.large.entry_block import (
    JudgedPart,
    Part,
    contradicts,
    judged_part,
    products_at,
)
from gradcheck_cli.checks.protocol import Steps
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.large_arrays import dot
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.domain.thresholds import FIRST_ORDER_SLACK, ROUNDINGS, Step
from gradcheck_cli.truth.layers.bisect_entries import Search
from gradcheck_cli.truth.layers.callables import ulp_perturbed
from gradcheck_cli.truth.layers.corners import is_corner_along
from gradcheck_cli.truth.layers.projections import USUAL, Moving, Projections
from gradcheck_cli.truth.numerics.differences import Float
from gradcheck_cli.truth.numerics.probes import MOST_DIRECTIONS
from gradcheck_cli.truth.numerics.verify_first import FEWER, FIRST_LEVEL, LEVELS, Probe

PART: Step = 0.37  # scales a cotangent; not a power of two, so that everything rounds differently
SEARCHES = 4  # the most searches that end with nothing but kinks


class Comparison(Protocol):
    """A comparison of the gradient in the highest precision, cotangent by cotangent."""

    def begin(self) -> None:
        """Discard the results of all comparisons."""

    def compare(self, k: int, gradient: Mapping[str, Float | None]) -> None:
        """Compare `gradient`, row k of the cotangents times J."""


@dataclass
class RandomDirections:
    """Compares the gradient in the highest precision with differences along the directions of
    `truth`. `keep` receives the results about single entries. `missing` are the leaves without a
    gradient, `strange` masks (n,) of entries that are not finite; neither moves. `looks` are the
    differences by the number of their direction, `moved` the entries that moved along each.
    `only_wide`: the gradient is wrong in the highest precision alone."""

    layer: BoundLayer
    truth: Projections
    keep: Callable[[JudgedPart], list[Finding]]
    missing: set[str] = field(default_factory=set)
    strange: dict[str, Array] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    looks: dict[int, Probe | None] = field(default_factory=dict)
    moved: dict[int, Moving] = field(default_factory=dict)
    only_wide: bool = False

    def __post_init__(self) -> None:
        self.promise = Promise(self.truth, self.looks)
        self._expected: dict[tuple[int, bool], Float] = {}  # by number, and whether scaled by entry
        self._squares = 0.0  # squared norm of all rows of the last sweep
        self._searches = 0

    def agree(self, count: int) -> Steps[bool]:
        """Whether differences along random directions, `count` of them at first, agree with all
        products of the entries that move."""
        first, contradicted = self.truth.at_once(0, self._of(0))
        if first is None and not contradicted:
            # some entries are near kinks or poles: try steps in proportion to each entry
            draws = self.truth.draws
            draws.by_entry = True
            first, _ = self.truth.at_once(0, self._of(0))
            draws.by_entry = first is not None
        if first is not None:
            self._keep(0, first)
        power, done = self.layer.problem.power, False
        while not done:
            for number in range(count):
                if number not in self.looks and not (yield from self._look(number)):
                    return False
            done = self.promise.holds(power) or count == MOST_DIRECTIONS
            if not done:
                cotangents, count = self.promise.more(power)
                self._draw_more(cotangents, count)
        return True

    def _draw_more(self, cotangents: int, count: int) -> None:
        """Draw more cotangents and directions. An error that hides from one cotangent does so along
        all directions, so new cotangents repeat all differences and keep only the step level."""
        before = len(self.truth.rows)
        if cotangents <= before:
            self.sweep(range(len(self.looks), count))
            return
        self.truth.draw_more(cotangents)
        scaled = self.truth.draws.by_entry
        self._expected = {key: of for key, of in self._expected.items() if key[1] == scaled}
        first = before if count == len(self.looks) else 0
        self.looks.clear()
        self.sweep(range(count), first=first)

    def _keep(self, number: int, found: Probe | None) -> None:
        if number == 0 and found is not None:
            self.truth.level = max(FIRST_LEVEL, found.level - (LEVELS - FEWER))
        self.looks[number] = found
        self.moved[number] = self.truth.moving()

    def _of(self, number: int) -> Float:
        """The products (k,) of the gradient with a direction."""
        scaled = self.truth.draws.by_entry
        if (number, scaled) not in self._expected:
            self._sweep_again()
        return self._expected[number, scaled]

    def _sweep_again(self) -> None:
        """Compute all products again, with the entries that move now."""
        count = 1 + max(number for number, _ in self._expected)
        self._expected.clear()
        self.sweep(range(count))

    def count(self) -> int:
        """The number of directions that the requested power takes, if error bars are as usual."""
        needed = partial(self.promise.needed, power=self.layer.problem.power)
        counts = range(1, MOST_DIRECTIONS)
        count = next((n for n in counts if needed(n) >= USUAL), MOST_DIRECTIONS)
        self.truth.wanted = needed(count)
        return count

    def sweep(self, numbers: range, comparisons: Sequence[Comparison] = (), first: int = 0) -> None:
        """Compute all products of the gradient with these directions; `comparisons` see each row of
        the gradient. Products of the rows before `first` are known."""
        truth = self.truth
        before = -1
        while before != self._odd():  # nonfinite entries must not move in any product
            first = first if before < 0 else 0
            if before >= 0:
                self._expected.clear()
            before = self._odd()
            found = {number: np.zeros(len(truth.rows)) for number in numbers}
            for number in numbers if first else ():
                found[number][:first] = self._expected[number, truth.draws.by_entry]
            squares = self._squares if first else 0.0
            for one in comparisons:
                one.begin()
            gradients = truth.products_of_rows(first)
            for k in range(first, len(truth.rows)):
                truth.let_go()  # frees its memory for the gradients
                gradient = next(gradients)
                self._exclude(gradient)
                for one in comparisons:
                    one.compare(k, gradient)
                for number in reversed(numbers):  # the first is needed next
                    found[number][k] = truth.product_along(gradient, number)
                squares += truth.square(gradient)
                del gradient  # frees its memory for the next one
            scaled = truth.draws.by_entry
            self._expected.update({(number, scaled): of for number, of in found.items()})
            self._squares = squares
            self.promise.squares[int(scaled)] = squares / len(truth.rows)
            truth.norm = self.promise.norm()

    def _odd(self) -> int:
        return sum(int(np.count_nonzero(mask)) for mask in self.truth.excluded.values())

    def _exclude(self, gradient: Mapping[str, Float | None]) -> None:
        """Exclude leaves without a gradient and nonfinite entries, which are examined
        separately."""
        for leaf in self.truth.leaves:
            name, values = leaf.name, gradient[leaf.name]
            if values is None:
                self.missing.add(name)
                self.truth.exclude(name, np.ones(leaf.size, dtype=bool))
            elif not np.isfinite(dot(values, values)):
                odd = ~np.isfinite(values)
                if np.any(odd):
                    self.strange[name] = self.strange.get(name, False) | odd
                    self.truth.exclude(name, self.truth.mask(leaf) | odd)

    def _look(self, number: int) -> Steps[bool]:
        expected = self._of(number)
        found = self.truth.confirmed(number, expected)
        if found is None and not self.truth.draws.by_entry:  # every step left the domain
            self.truth.draws.by_entry = True
            expected = self._of(number)
            found = self.truth.confirmed(number, expected)
        if self.truth.unsure:
            yield from self.layer.doubt()
        if found is not None:
            self._allow_for_rounding(number, found, expected)
        self._keep(number, found)
        if found is not None and found.confirmed:
            return True
        if found is None:
            self.findings.append(
                undecided(self.layer, "no step could be taken along a random direction")
            )
            return False
        return (yield from self._locate(number, found, expected))

    def _allow_for_rounding(self, number: int, found: Probe, expected: Float) -> None:
        """Widen the error bars of products that are off by less than half of their digits, by the
        rounding of the gradient: its change when all numbers move by a few ulps and the cotangent,
        in which the gradient is linear, is scaled."""
        truth, fmt = self.truth, FORMATS[self.layer.highest.dtype]
        apart = np.abs(found.estimate.value - expected)
        off = ~found.agrees & (apart <= fmt.half * np.abs(expected))
        for k in np.flatnonzero(off):
            moved = truth.pulled(PART * truth.rows[k], ulp_perturbed(self.layer.highest))
            there = truth.product_along(moved, number) / PART
            found.estimate.error[k] += FIRST_ORDER_SLACK * ROUNDINGS * abs(there - expected[k])
        found.agrees = apart <= found.estimate.error

    # What is wrong

    def _locate(self, number: int, found: Probe, expected: Float) -> Steps[bool]:
        """Find the wrong entries. Return whether only kinks were in the way."""
        yield from self.layer.doubt()
        apart = found.estimate.value - expected
        k = int(np.argmax(np.abs(apart) / found.estimate.error))
        if found.agrees[k]:  # only kinks, and the product agrees
            k = int(np.argmax(found.sides.kind))
        row = self.truth.rows[k]
        gradient = self.truth.pulled(row)
        search = Search(self.truth, row, gradient, number, found.level, float(apart[k]))
        search.run()
        rows, more = search.rows()
        part = Part.of_search(search, rows)
        judged = judged_part(self.layer, part, more)
        told, only_kinks = judged.findings, judged.harmless
        self.findings += self.keep(judged)
        if not told and self._only_in_float64(part):
            return False
        if not told or (only_kinks and not search.complete):
            if only_kinks or found.agrees[k] or self._is_cornered(number, k, found):
                self.findings.append(undecided(self.layer, "too many entries are at kinks"))
            else:
                self.findings += self._unlocated(number, k, found, expected)
            return False
        if not only_kinks:
            return False
        self._searches += 1
        if self._searches == SEARCHES:
            self.findings.append(undecided(self.layer, "too many entries are at kinks"))
            return False
        # entries on kinks are right and set aside: compare again without them
        self._sweep_again()
        for again in list(self.looks):
            if not (yield from self._look(again)):
                return False
        return True

    def _is_cornered(self, number: int, k: int, found: Probe) -> bool:
        """Whether the slope along a direction is that of a tie, and not the limit of slopes nearby.
        Then it is no product with a gradient."""
        highest, row = self.layer.highest, self.truth.rows[k][None]
        with self.truth.as_at(self.moved[number]):
            along = self.truth.direction(number)
        here = {leaf.name: np.asarray(leaf.value) for leaf in highest.leaves}
        return highest.digits == "float64" and is_corner_along(
            partial(products_at, highest, row),
            here,
            {name: part.reshape(here[name].shape) for name, part in along.items()},
            found.estimate.value[k : k + 1],
            self.layer.problem.seed,
        )

    def _only_in_float64(self, part: Part) -> bool:
        """Whether only the highest precision is wrong, at an entry that was found; then differences
        check the narrow dtype."""
        if self.layer.narrow is self.layer.highest or not contradicts(self.layer.highest, part):
            return False
        self.only_wide = True
        reason = (
            f"the gradient in {self.layer.highest.dtype} is wrong, so only a few "
            f"{self.layer.narrow.dtype} entries were compared with differences"
        )
        self.findings.append(undecided(self.layer, reason))
        return True

    def _unlocated(self, number: int, k: int, found: Probe, expected: Float) -> Iterator[Finding]:
        """Findings about each leaf that is wrong on its own, or about all together if none is."""
        truth, row = self.truth, self.truth.rows[k]
        gradient = truth.pulled(row)
        told = False
        with truth.as_at(self.moved[number]):  # entries examined since then move again
            for name, part in truth.direction(number).items():
                mine = truth.product(gradient, {name: part})
                apart, bar = truth.glance({name: part}, row, mine, found.level)
                if abs(apart) > bar:
                    told = True
                    yield self._along_a_direction(number, name, mine, mine + apart, bar)
        if not told:
            value, error = found.estimate.value[k], found.estimate.error[k]
            yield self._along_a_direction(number, None, expected[k], value, error)

    def _along_a_direction(
        self, number: int, name: str | None, mine: float, right: float, bar: float
    ) -> Finding:
        whose = f" of `{name}`" if name else ""
        message = (
            f"the gradient{whose} along a random direction (number {number}, seed "
            f"{self.layer.problem.seed}) is {mine:.9g}, but finite differences give {right:.9g} "
            f"± {bar:.2g}: wrong, but no single entry stands out"
        )
        return by_a_difference(self.layer, Codes.WRONG_GRADIENT, message, name)


def by_a_difference(layer: BoundLayer, code: str, message: str, name: str | None = None) -> Finding:
    """A finding about a leaf of a large layer, decided by differences."""
    found = layer.finding(code, message, layer.narrow.mode)
    return replace(found, input=name, truth_source="finite-difference")


def undecided(layer: BoundLayer, reason: str) -> Finding:
    """A finding that differences could not decide."""
    found = by_a_difference(layer, Codes.UNDECIDED, f"undecided: {reason}")
    return replace(found, engine=None, mode=None)
