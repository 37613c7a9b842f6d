"""A layer whose Jacobian is too large to be computed whole: random products of it against
differences, the wrong entries behind a product that is off, and what was certain to be found."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from functools import partial

import numpy as np

from gradcheck_cli.checks.bound_layer import BoundLayer
from gradcheck_cli.checks.detection_power import EntryPromise, Promise
from gradcheck_cli.checks.enclosed_forward import EnclosedForward
from gradcheck_cli.checks.enclosed_rows import EnclosedRows
from gradcheck_cli.checks.entry_block import JudgedPart, Part, judged_part, output_findings_of
from gradcheck_cli.checks.large_forward import Forward
from gradcheck_cli.checks.lifted import CONTRADICTED, LiftedTruth, by_differences
from gradcheck_cli.checks.protocol import Steps
from gradcheck_cli.checks.rounding import Rounding
from gradcheck_cli.checks.traced_entry import TracedEntry
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import FIRST_ORDER, Mode
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Check, Finding, Pass, Rule, Status
from gradcheck_cli.domain.thresholds import (
    ERROR_BITS,
    FIRST_ORDER_SLACK,
    ROUNDINGS,
    Enough,
    Step,
)
from gradcheck_cli.judge.gate import merged
from gradcheck_cli.truth.bisect_entries import Search
from gradcheck_cli.truth.certified.enclosed_products import TooManyNumbers
from gradcheck_cli.truth.numerics.differences import Float
from gradcheck_cli.truth.numerics.probes import MOST_DIRECTIONS, dot
from gradcheck_cli.truth.numerics.verify_first import FIRST_LEVEL, Probe
from gradcheck_cli.truth.of_large_layers import Moving, Projections
from gradcheck_cli.truth.of_layers import ulp_perturbed

USUAL: Enough = 2.0**-33  # of a product: what bars are where nothing is in the way of long steps
PART: Step = 0.37  # of a cotangent: no power of two, so that everything is rounded anew
WIDE = "its bars in float64 are wider than those of differences should be"
SEARCHES = 4  # that end with nothing but kinks
STRANGE = 4  # entries without a number that get a difference each


@dataclass
class Projected:
    """The layer of one problem, looked at along random directions."""

    layer: BoundLayer
    lifted: LiftedTruth | None = None
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        layer = self.layer
        self._truth = Projections(layer.highest, layer.bounds, layer.problem.seed)
        self._leaves = {leaf.name: leaf for leaf in self._truth.leaves}
        self._truth.rows[:, ~np.isfinite(self._truth.output)] = 0.0
        self._value = self._truth.output
        self._truth.output = np.where(np.isfinite(self._truth.output), self._truth.output, 0.0)
        self._rounding = Rounding(self.layer.problem, self.layer.narrow, self._truth)
        self._sound = False  # whether differences agree with every product
        self._passed: dict[str, list[Pass]] = {name: [] for name in self._leaves}
        self._missing: set[str] = set()
        self._strange: dict[str, Array] = {}
        self._findings: list[Finding] = []
        self.traced: dict[Finding, TracedEntry] = {}  # the entries that findings are about
        self._looks: dict[int, Probe | None] = {}
        self._moved: dict[int, Moving] = {}  # what did at each look
        self._expected: dict[int, Float] = {}
        self._promise = Promise(self._truth, self._looks)
        self._enclosed = self._enclosing()
        self._caught: dict[str, float] = {}
        self._searches = 0
        self._source = "confirmed"
        self._forward: Forward | None = None  # where its products were looked at

    def judged(self) -> Steps[tuple[tuple[Check, ...], tuple[Finding, ...]]]:
        """Checks and findings."""
        started = time.perf_counter()
        layer, problem = self.layer, self.layer.problem
        value = self._value if layer.narrow is layer.highest else layer.narrow.value({})
        if value is not self._value or not np.all(np.isfinite(value)):
            self._findings += output_findings_of(layer, value, self._value)
        self._sound = yield from self._confirm()
        if self._sound:
            self._caught = self._promise.caught(problem.power)
            self.notes += self._promise.words(layer.name, layer.narrow.dtype, problem.power)
            self._findings += self._of_rounding()
            if self._promise.says_nothing(problem.power):
                reason = "values are too noisy for differences along random directions to tell"
                self._findings.append(self._undecided(reason))
        self._findings += self._of_missing()
        self._findings += self._of_strange()
        if "forward" in problem.modes and layer.narrow.mode != "forward":
            forward = self._forward_mode()
            self._findings += forward.findings(self._moved)
            self.notes += forward.notes
            self._forward = forward
        requested = (None, *problem.modes)
        self._findings = [finding for finding in self._findings if finding.mode in requested]
        if self._findings or self._truth.unsure:
            yield from layer.doubt()
        checks = tuple(self._checks(time.perf_counter() - started))
        return checks, tuple(self._findings)

    def _forward_mode(self) -> Forward:
        if self._enclosed is None:
            return Forward(self.layer, self._truth, self._looks)
        forward = EnclosedForward(self.layer, self._truth, {}, rows=self._enclosed)
        forward.source = self._source
        return forward

    # Products

    def _confirm(self) -> Steps[bool]:
        """Whether differences agree with every product; what does not is located and reported."""
        if not self._leaves:
            return False
        count = self._directions()
        self._sweep(range(count), compare=True)
        if self._enclosed is not None:
            sound = yield from self._entry_by_entry(self._enclosed, range(count))
            if sound is not None:
                return sound
        first, contradicted = self._truth.at_once(0, self._of(0))
        if first is None and not contradicted:
            # kinks or poles are near some entries: do steps in proportion to each stay clear of
            # them?
            draws = self._truth.draws
            draws.by_entry = True
            first, _ = self._truth.at_once(0, self._of(0))
            draws.by_entry = first is not None
        if first is not None:
            self._keep(0, first)
        done = 0
        while done < count:
            for number in range(done, count):
                if number not in self._looks and not (yield from self._look(number)):
                    return False
            done = count
            if not self._promise.kept(self.layer.problem.power) and count < MOST_DIRECTIONS:
                count += 1
                self._sweep(range(done, count), compare=False)
        return True

    # Entries

    def _enclosing(self) -> EnclosedRows | None:
        if self.lifted is None:
            return None
        try:
            return EnclosedRows(self.lifted, self._truth)
        except TooManyNumbers as refusal:
            self.notes.append(by_differences(self.layer, str(refusal)))
        return None

    def _entry_by_entry(self, rows: EnclosedRows, numbers: range) -> Steps[bool | None]:
        """Whether every entry of the products is what is enclosed of it; None where differences
        must decide."""
        if "forward" in self.layer.problem.modes:
            rows.push(numbers)
        if rows.off:
            yield from self.layer.doubt()
        if any(rows.contradicted(off) for off in rows.off):
            rows.reason = CONTRADICTED
        promise = EntryPromise(self._truth, rows.limits, self._promise.squares)
        if not rows.off and not promise.kept(self.layer.problem.power):
            rows.reason = WIDE
        if rows.reason:
            self.notes.append(by_differences(self.layer, rows.reason))
            self._enclosed = None
            return None
        self._promise = promise
        self._source = f"certified, {rows.origin}"
        self._moved = dict.fromkeys(numbers, self._truth.moving())
        return not self._of_entries(rows)

    def _of_entries(self, rows: EnclosedRows) -> bool:
        """Whether something was found."""
        before = len(self._findings)
        for off in rows.off:
            gradient = self._truth.pulled(self._truth.rows[off.row])
            search = rows.search(off, gradient)
            outputs, more = search.rows()
            part = Part.of_search(search, outputs, rows.origin)
            columns = part.columns[off.leaf.name]
            columns.whole, columns.cost = rows.whole(off, gradient), off.cost
            judged = self._kept(judged_part(self.layer, part, more, off.count))
            # what is too small for its bar was seen beside others: the promise says so
            self._findings += [one for one in judged if one.code != Codes.UNDECIDED]
        return len(self._findings) > before

    def _keep(self, number: int, found: Probe | None) -> None:
        self._looks[number] = found
        self._moved[number] = self._truth.moving()

    def _of(self, number: int) -> Float:
        """The products of the gradient with a direction, (k,)."""
        return np.asarray(self._expected[number][int(self._truth.draws.by_entry)])

    def _directions(self) -> int:
        """As many as the power that was requested takes, if the bars are as usual."""
        needed = partial(self._promise.needed, power=self.layer.problem.power)
        counts = range(1, MOST_DIRECTIONS)
        count = next((n for n in counts if needed(n) >= USUAL), MOST_DIRECTIONS)
        self._truth.wanted = needed(count)
        return count

    def _sweep(self, numbers: range, compare: bool) -> None:
        """All products of the gradient with these directions."""
        truth = self._truth
        before = -1
        while before != self._odd():  # what is no number must not move in any product
            before = self._odd()
            found = {number: np.zeros((2, len(truth.rows))) for number in numbers}
            squares = np.zeros(2)
            if compare:
                self._rounding.off.clear()
            if compare and self._enclosed is not None:
                self._enclosed.begin()
            gradients = truth.products_of_rows()
            for k in range(len(truth.rows)):
                gradient = next(gradients)
                self._set_aside(gradient)
                for number in numbers:
                    found[number][:, k] = truth.products(gradient, number)
                squares += truth.squares(gradient)
                if compare and self._enclosed is not None:
                    self._enclosed.compare(k, gradient)
                if compare and self.layer.narrow is not self.layer.highest:
                    self._rounding.compare(k, truth.rows[k], gradient)
                del gradient  # the next one needs its memory
            self._expected.update(found)
            self._promise.squares = squares / len(truth.rows)

    def _odd(self) -> int:
        return sum(int(np.count_nonzero(mask)) for mask in self._truth.excluded.values())

    def _set_aside(self, gradient: Mapping[str, Float | None]) -> None:
        """Leaves without a gradient and entries that are no numbers are looked at by themselves."""
        for name, values in gradient.items():
            if values is None:
                self._missing.add(name)
                self._truth.exclude(name, np.ones(self._leaves[name].size, dtype=bool))
            elif not np.isfinite(dot(values, values)):
                odd = ~np.isfinite(values)
                if np.any(odd):
                    self._strange[name] = self._strange.get(name, False) | odd
                    self._truth.exclude(name, self._strange[name].copy())

    def _look(self, number: int) -> Steps[bool]:
        expected = self._of(number)
        found = self._truth.confirmed(number, expected)
        if found is None and not self._truth.draws.by_entry:  # every step left the domain
            self._truth.draws.by_entry = True
            expected = self._of(number)
            found = self._truth.confirmed(number, expected)
        if self._truth.unsure:
            yield from self.layer.doubt()
        if found is not None:
            self._allow_for_rounding(number, found, expected)
        self._keep(number, found)
        if found is not None and found.confirmed:
            return True
        if found is None:
            self._findings.append(
                self._undecided("no step could be taken along a random direction")
            )
            return False
        return (yield from self._locate(number, found, expected))

    def _allow_for_rounding(self, number: int, found: Probe, expected: Float) -> None:
        """Widens the bars of what is off by less than half of its digits by what rounding leaves
        open of the gradient: how far it moves when all numbers move by a few ulps and the
        cotangent, of which it is linear, is another part of itself."""
        truth, fmt = self._truth, FORMATS[self.layer.highest.dtype]
        apart = np.abs(found.estimate.value - expected)
        off = ~found.agrees & (apart <= 2.0 ** -(ERROR_BITS * fmt.bits) * np.abs(expected))
        for k in np.flatnonzero(off):
            moved = truth.pulled(PART * truth.rows[k], ulp_perturbed(self.layer.highest))
            there = float(truth.products(moved, number)[int(truth.draws.by_entry)]) / PART
            found.estimate.error[k] += FIRST_ORDER_SLACK * ROUNDINGS * abs(there - expected[k])
        found.agrees = apart <= found.estimate.error

    # What is wrong

    def _locate(self, number: int, found: Probe, expected: Float) -> Steps[bool]:
        """Names the entries; whether nothing but kinks was in the way."""
        yield from self.layer.doubt()
        apart = found.estimate.value - expected
        with np.errstate(all="ignore"):
            k = int(np.argmax(np.abs(apart) / found.estimate.error))
        if found.agrees[k]:  # kinks alone, at which all is well along this direction
            k = int(np.argmax(found.sides.kind))
        row = self._truth.rows[k]
        gradient = self._truth.pulled(row)
        search = Search(self._truth, row, gradient, number, found.level, float(apart[k]))
        search.run()
        rows, more = search.rows()
        part = Part.of_search(search, rows)
        judged = judged_part(self.layer, part, more)
        told, only_kinks = judged.findings, judged.harmless
        self._findings += self._kept(judged)
        if not told and self._only_in_float64(found, part):
            return False
        if not told or (only_kinks and not search.complete):
            if only_kinks or found.agrees[k]:
                self._findings.append(self._undecided("too many entries stand on kinks"))
            else:
                self._findings += self._unlocated(number, k, found, expected)
            return False
        if not only_kinks:
            return False
        self._searches += 1
        if self._searches == SEARCHES:
            self._findings.append(self._undecided("too many entries stand on kinks"))
            return False
        # what stands on kinks is right, and has been set aside: once more without it
        self._sweep(range(max(self._expected) + 1), compare=False)
        for again in list(self._looks):
            if not (yield from self._look(again)):
                return False
        return True

    def _kept(self, judged: JudgedPart) -> list[Finding]:
        """The findings about a part; which entries they are about, and by which rules others
        passed, is kept."""
        self.traced |= judged.traced
        for name, passes in judged.passed.items():
            self._passed[name] += passes
        return judged.findings

    def _only_in_float64(self, found: Probe, part: Part) -> bool:
        """Whether the gradient is wrong in the highest precision alone: differences decide then."""
        if self.layer.narrow is self.layer.highest or not part.columns:
            return False
        self._source = "finite-difference"
        reason = (
            f"the gradient in {self.layer.highest.dtype} is wrong, so only a few entries of that "
            f"in {self.layer.narrow.dtype} were compared with differences"
        )
        self._findings.append(self._undecided(reason))
        return True

    def _unlocated(self, number: int, k: int, found: Probe, expected: Float) -> Iterator[Finding]:
        """By leaf, as far as one is wrong by itself."""
        truth, row = self._truth, self._truth.rows[k]
        gradient = truth.pulled(row)
        told = False
        with truth.as_at(self._moved[number]):  # what was looked at since moves again
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
            f"{self.layer.problem.seed}) is {mine:.9g}, differences give {right:.9g} ± {bar:.2g}: "
            "wrong, and no single entry stands out"
        )
        return self._finding(Codes.WRONG_GRADIENT, message, engine=True, name=name)

    def _undecided(self, reason: str) -> Finding:
        return self._finding(Codes.UNDECIDED, f"undecided: {reason}", engine=False)

    def _finding(
        self, code: str, message: str, *, engine: bool, name: str | None = None
    ) -> Finding:
        found = self.layer.finding(code, message, self.layer.narrow.mode)
        found = replace(found, input=name, truth_source="finite-difference")
        return found if engine else replace(found, engine=None, mode=None)

    def _of_missing(self) -> Iterator[Finding]:
        """No gradient at all is right only where nothing changes along the whole leaf."""
        truth = self._truth
        for name in sorted(self._missing):
            mask = truth.excluded[name]
            truth.exclude(name, None)
            drawn = {name: truth.direction(0)[name]}
            truth.exclude(name, mask)
            apart, bar = truth.glance(drawn, truth.rows[0], 0.0, FIRST_LEVEL)
            if abs(apart) > bar:
                message = f"no gradient for `{name}`, but its derivative is not zero"
                yield self._finding(Codes.MISSING_GRADIENT, message, engine=True, name=name)

    def _of_strange(self) -> Iterator[Finding]:
        """Entries that are nan or infinite, against careful differences along some of them."""
        for name, mask in self._strange.items():
            leaf = self._leaves[name]
            part = Part.of_entries(self._truth, leaf, np.flatnonzero(mask)[:STRANGE])
            many = int(np.count_nonzero(mask))
            yield from self._kept(judged_part(self.layer, part, False, many))

    def _of_rounding(self) -> Iterator[Finding]:
        """The first product that is off in a leaf speaks for it."""
        told: set[str] = set()
        for off in self._rounding.off:
            if off.leaf.name in told:
                continue
            part = Part.of_rounding(
                off.leaf, off.flat, off.narrow, off.wide, off.cost, self._truth.rows[off.row]
            )
            found = self._kept(judged_part(self.layer, part, False, off.count))
            told.update({off.leaf.name} if found else ())
            yield from found

    def _passed_by(self, name: str, mode: Mode) -> Iterator[Pass]:
        """By which rules the entries of a leaf pass, each rule once."""
        if self._sound:
            rule: Rule = "products" if self._enclosed is None else "enclosed"
            yield Pass(rule, self._leaves[name].size)
        if mode == self.layer.narrow.mode:
            yield from merged([*self._rounding.explained[name], *self._passed[name]])

    def _checks(self, seconds: float) -> Iterator[Check]:
        problem, own = self.layer.problem, self.layer.narrow.mode
        failed = {f.input for f in self._findings if f.severity == "error" and f.mode == own}
        if any(f.code == Codes.UNDECIDED for f in self._findings):
            self._source = "undecided"
        for mode in FIRST_ORDER:
            forward = self._forward if mode == "forward" else None
            if mode not in problem.modes or (forward and forward.state == "left out"):
                continue
            wrong = {f.input for f in self._findings if f.severity == "error" and f.mode == mode}
            worse: Status = "error" if forward and forward.state == "failed" else "failed"
            caught = self._caught
            if forward and caught:
                caught = forward.caught()
            for name in self._leaves:
                bad = name in wrong or None in wrong
                yield Check(
                    engine=self.layer.name,
                    dtype=problem.dtype,
                    mode=mode,
                    input=name,
                    status=worse if bad else "passed",
                    point=self.layer.point,
                    max_ulps=self._rounding.ulps[name] if mode == own and not bad else None,
                    passed_by=() if bad else tuple(self._passed_by(name, mode)),
                    truth="finite-difference"
                    if name in failed and self._enclosed is None
                    else self._source,
                    caught=caught.get(name),
                    power=problem.power if caught else None,
                    forward=self._truth.forward,
                    backward=self._truth.backward + self._rounding.backward,
                    duration_s=seconds,
                )
