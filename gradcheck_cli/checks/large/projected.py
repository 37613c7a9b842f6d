"""Examine a layer whose Jacobian is too large to compute whole: compare random products with
differences, find the wrong entries, and state which errors were certain to be found."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace

import numpy as np

from gradcheck_cli.checks.bound_layer import BoundLayer
from gradcheck_cli.checks.bounds import StillEntries
from gradcheck_cli.checks.causes.traced_entry import TracedEntry
from gradcheck_cli.checks.certified.enclosed_rows import EnclosedRows
from gradcheck_cli.checks.certified.lifted import (
    CONTRADICTED,
    LiftedTruth,
    by_differences,
    by_tangents,
)
from gradcheck_cli.checks.certified.rounding import Rounding
from gradcheck_cli.checks.large.detection_power import EntryPromise, Promise
from gradcheck_cli.checks.large.enclosed_forward import EnclosedForward
from gradcheck_cli.checks.large.entry_block import JudgedPart, Part, judged_part, output_findings_of
from gradcheck_cli.checks.large.forward_mode import Forward
from gradcheck_cli.checks.large.free_memory import return_free_memory
from gradcheck_cli.checks.large.lifted_tangents import lifted_tangents
from gradcheck_cli.checks.large.progress import tell
from gradcheck_cli.checks.large.random_directions import (
    RandomDirections,
    by_a_difference,
    undecided,
)
from gradcheck_cli.checks.protocol import Steps
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.evaluation import FIRST_ORDER, Mode
from gradcheck_cli.domain.layer import LARGE
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Check, Finding, Pass, Status
from gradcheck_cli.judge.gate import merged
from gradcheck_cli.truth.certified.enclosed_products import TooManyNumbers
from gradcheck_cli.truth.layers.projections import Projections
from gradcheck_cli.truth.numerics.verify_first import FIRST_LEVEL

WIDE = "its float64 enclosures are wider than finite-difference error bars should be"
DIFFERENCES = 12  # usual forward passes along one direction, including those at the point itself
TANGENT = 2  # if a tangent of the layer's operations decides
SLIGHT = "an entry of usual size would keep half of them"
STRANGE = 4  # the most nonfinite entries that are compared with differences


@dataclass
class Projected:
    """The examination of one problem's layer along random directions. `too_many` says that the
    layer is too large for enclosures of its program."""

    layer: BoundLayer
    lifted: LiftedTruth | None = None
    too_many: TooManyNumbers | None = None
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        layer = self.layer
        self._value = layer.value(layer.highest)
        self._truth = Projections(layer.highest, self._value, layer.bounds, layer.problem.seed)
        self._leaves = {leaf.name: leaf for leaf in self._truth.leaves}
        self._rounding = Rounding(self.layer.problem, self.layer.narrow, self._truth)
        self._sound = False  # whether differences agree with every product
        self._passed: dict[str, list[Pass]] = {name: [] for name in self._leaves}
        self._findings: list[Finding] = []
        self.traced: dict[Finding, TracedEntry] = {}  # the entries that findings are about
        self._along = RandomDirections(layer, self._truth, self._record)
        self._enclosed = self._enclosed_rows()
        self._still = StillEntries()
        self._caught: dict[str, float] = {}
        self._promised: list[str] = []
        self._forward: list[Forward] = []  # its finished comparisons
        self._asked = "reverse mode"
        if sum(leaf.size for leaf in self._truth.leaves) >= LARGE:
            self._truth.ran = self._after_a_run

    def examine(self) -> Steps[tuple[tuple[Check, ...], tuple[Finding, ...]]]:
        """Examine the layer. Return its checks and findings."""
        started = time.perf_counter()
        layer, problem = self.layer, self.layer.problem
        value = layer.value(layer.narrow)
        if layer.narrow is not layer.highest or not np.all(np.isfinite(value)):
            self._findings += output_findings_of(layer, value, self._value)
        self._sound = yield from self._confirm()
        self._rounding.settle()  # tangents decide what is beside the point, if they decided here
        if self._sound:
            self.notes += self._promised
            self._findings += self._of_rounding()
            self._findings += self._still.findings(layer, self._truth.rows[0])
        else:
            self._caught.clear()
        self._findings += self._of_missing()
        self._findings += self._of_strange()
        if "forward" in problem.modes and layer.narrow.mode != "forward":
            self._forward_mode()
        requested = (None, *problem.modes)
        self._findings = [finding for finding in self._findings if finding.mode in requested]
        if self._truth.unsure or any(one.severity != "note" for one in self._findings):
            yield from layer.doubt()
        checks = tuple(self._checks(time.perf_counter() - started))
        return checks, tuple(self._findings)

    def _after_a_run(self) -> None:
        """Return memory to the system, and report the progress."""
        return_free_memory()
        truth, rows = self._truth, len(self._truth.rows)
        done = truth.forward + 2 * (truth.backward + self._rounding.backward)
        modes = 2 if "forward" in self.layer.problem.modes else 1
        dtypes = 1 if self.layer.narrow is self.layer.highest else 2
        along = DIFFERENCES if truth.tangents is None else TANGENT
        tell(self._asked, done, 3 * rows * dtypes + along + 3 * (modes - 1) * dtypes)

    def _forward_mode(self) -> None:
        """Check forward mode: first against enclosures, then along random directions."""
        self._asked = "forward mode"
        self._truth.ran()
        every: list[Forward] = []
        if self._enclosed is not None:
            rows = self._enclosed
            every.append(EnclosedForward(self.layer, self._truth, rows.moved, {}, rows=rows))
        if self._along.moved:
            passed = all(finding.severity == "note" for finding in self._findings)
            moved, looks = self._along.moved, self._along.looks
            every.append(Forward(self.layer, self._truth, moved, looks, reverse_passed=passed))
        for forward in every:
            self._findings += forward.findings()
            self.notes += forward.notes
            self._forward.append(forward)
            if forward.state != "checked":
                return

    @property
    def is_enclosed(self) -> bool:
        """Whether enclosures of the lifted layer decided, and its gradient agrees with them."""
        return self._enclosed is not None and self._sound

    # Products

    def _confirm(self) -> Steps[bool]:
        """Whether every product is right; wrong entries are located and reported."""
        if not self._leaves:
            return False
        along, rows = self._along, self._enclosed
        count = along.count()
        narrow = [self._rounding] if self.layer.narrow is not self.layer.highest else []
        along.sweep(range(count), [*narrow, *([rows] if rows else []), self._still])
        if rows is None or not (yield from self._is_enclosed(rows, count)):
            self._enclosed = None
            return (yield from self._along_directions(count))
        sound = not self._of_entries(rows)
        if rows.leave_open():
            along.promise.why = "too close to a kink, or lose too many digits, to be enclosed"
            along.sweep(range(count))
            sound &= yield from self._along_directions(count)
        return sound

    def _along_directions(self, count: int) -> Steps[bool]:
        """Whether derivatives along random directions agree with the gradient of moving entries."""
        if self.too_many is not None:
            self._asked = "its operations"
            self._truth.tangents = lifted_tangents(self.layer, self._truth)
        if self._truth.tangents is None:
            self._asked = "differences"
        agree = yield from self._along.agree(count)
        self._findings += self._along.findings
        if self.too_many is not None:
            decides = by_differences if self._truth.tangents is None else by_tangents
            self.notes.append(decides(self.layer, str(self.too_many)))
        if agree:
            self._promise_kept(self._along.promise)
        return agree

    def _promise_kept(self, promise: Promise) -> None:
        """Record the errors that were certain to be found in the entries that move now."""
        layer, power = self.layer, self.layer.problem.power
        self._caught = _larger_of([self._caught, promise.caught(power)])
        self._promised += promise.words(layer.name, layer.narrow.dtype, power)
        if promise.is_vacuous(power):
            reason = "values are too noisy for differences along random directions"
            self._findings.append(undecided(layer, reason))

    # Entries

    def _enclosed_rows(self) -> EnclosedRows | None:
        if self.lifted is None:
            return None
        try:
            return EnclosedRows(self.lifted, self._truth)
        except TooManyNumbers as refusal:
            self.too_many = refusal
        return None

    def _is_enclosed(self, rows: EnclosedRows, count: int) -> Steps[bool]:
        """Whether the enclosures of products, and along `count` directions, can decide about
        entries; a note says why if not."""
        with rows.aside():
            if "forward" in self.layer.problem.modes:
                rows.push(range(count))
            if rows.off:
                yield from self.layer.doubt()
            if any(rows.contradicted(off) for off in rows.off):
                rows.reason = CONTRADICTED
            promise = EntryPromise(self._truth, rows.limits, self._along.promise.squares)
            if not rows.off and not promise.holds(self.layer.problem.power):
                rows.reason = WIDE
            if rows.reason:
                self.notes.append(by_differences(self.layer, rows.reason))
                return False
            self._promise_kept(promise)
        return True

    def _of_entries(self, rows: EnclosedRows) -> bool:
        """Whether entries beyond their enclosures gave findings."""
        before = len(self._findings)
        self._asked = "single entries"
        for off in rows.off:
            gradient = self._truth.pulled(self._truth.rows[off.row])
            search = rows.search(off, gradient)
            outputs, more = search.rows()
            part = Part.of_search(search, outputs, rows.origin)
            columns = part.columns[off.leaf.name]
            columns.whole, columns.cost = rows.whole_product(off, gradient), off.cost
            judged = judged_part(self.layer, part, more, off.count)
            # the promise covers entries that are too small for their error bars
            self._findings += self._record(judged.decided())
        return len(self._findings) > before

    def _record(self, judged: JudgedPart) -> list[Finding]:
        """The findings about a part. Its entries and the rules by which others passed are
        recorded."""
        self.traced |= judged.traced
        for name, passes in judged.passed.items():
            self._passed[name] += passes
        return judged.findings

    def _of_missing(self) -> Iterator[Finding]:
        """GC102 for leaves without a gradient, unless differences along the whole leaf are zero."""
        truth = self._truth
        for name in sorted(self._along.missing):
            mask = truth.excluded[name]
            truth.exclude(name, None)
            drawn = {name: truth.direction(0)[name]}
            truth.exclude(name, mask)
            apart, bar = truth.glance(drawn, truth.rows[0], 0.0, FIRST_LEVEL)
            if abs(apart) > bar:
                message = f"no gradient for `{name}`, but its derivative is not zero"
                yield by_a_difference(self.layer, Codes.MISSING_GRADIENT, message, name)

    def _of_strange(self) -> Iterator[Finding]:
        """Findings about nan and infinite entries, with careful differences for some of them."""
        for name, mask in self._along.strange.items():
            leaf = self._leaves[name]
            part = Part.of_entries(self._truth, leaf, np.flatnonzero(mask)[:STRANGE])
            many = int(np.count_nonzero(mask))
            yield from self._record(judged_part(self.layer, part, False, many))

    def _of_rounding(self) -> Iterator[Finding]:
        """Findings about rounding, from the first product that is off in each leaf; errors before
        entries that are right beside a kink, and those before slight ones, which are notes: among
        so many entries, some are always so small that the rounding of a kernel costs them all."""
        told: set[str] = set()
        for off in sorted(
            self._rounding.off, key=lambda off: (off.slight, bool(np.any(off.moved)))
        ):
            if off.leaf.name in told:
                continue
            part = Part.of_rounding(off, self._truth.rows[off.row])
            found = self._record(judged_part(self.layer, part, False, off.count))
            told.update({off.leaf.name} if found else ())
            yield from map(self._as_note, found) if off.slight else found

    def _as_note(self, finding: Finding) -> Finding:
        """The finding as a note, which traces the same entry."""
        if finding.severity != "error":
            return finding
        told = replace(finding, severity="note", message=f"{finding.message}; {SLIGHT}")
        if finding in self.traced:
            self.traced[told] = self.traced[finding]
        return told

    def _passed_by(self, name: str, mode: Mode) -> Iterator[Pass]:
        """The rules by which the entries of a leaf pass, each once."""
        compared = self._sound or (mode != self.layer.narrow.mode and bool(self._forward))
        certified = self._certified(name)
        if certified:
            yield Pass("enclosed", certified)
        if compared and certified < self._leaves[name].size:
            yield Pass("products", self._leaves[name].size - certified)
        if mode == self.layer.narrow.mode:
            yield from merged([*self._rounding.explained[name], *self._passed[name]])

    def _certified(self, name: str) -> int:
        """The number of entries of the leaf that were compared with enclosures."""
        open_ = None if self._enclosed is None else self._enclosed.open[name]
        return 0 if open_ is None else int(np.count_nonzero(~open_))

    def _source_of(self, name: str, failed: bool) -> str:
        """The source of the truth about a leaf."""
        if self._enclosed is not None and self._certified(name):
            return self._enclosed.source
        if any(f.code == Codes.UNDECIDED for f in self._findings):
            return "undecided"
        return "finite-difference" if failed or self._along.only_wide else "confirmed"

    def _checks(self, seconds: float) -> Iterator[Check]:
        problem, own = self.layer.problem, self.layer.narrow.mode
        failed = {f.input for f in self._findings if f.severity == "error" and f.mode == own}
        for mode in FIRST_ORDER:
            forward = self._forward if mode == "forward" else []
            states = {one.state for one in forward}
            if mode not in problem.modes or "left out" in states:
                continue
            wrong = {f.input for f in self._findings if f.severity == "error" and f.mode == mode}
            worse: Status = "error" if "failed" in states else "failed"
            caught = self._caught
            if forward and caught:
                caught = _larger_of(one.caught() for one in forward)
            for name in self._leaves:
                bad = name in wrong or None in wrong
                yield Check(
                    engine=self.layer.name,
                    dtype=problem.dtype,
                    mode=mode,
                    input=name,
                    status=worse if bad else "passed",
                    point=problem.point_number,
                    max_ulps=self._rounding.ulps[name] if mode == own and not bad else None,
                    passed_by=() if bad else tuple(self._passed_by(name, mode)),
                    truth=self._source_of(name, name in failed),
                    caught=caught.get(name),
                    power=problem.power if caught else None,
                    forward=self._truth.forward,
                    backward=self._truth.backward + self._rounding.backward,
                    duration_s=seconds,
                )


def _larger_of(every: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """For each name, the largest of its numbers."""
    found: dict[str, float] = {}
    for one in every:
        for name, number in one.items():
            found[name] = max(number, found.get(name, 0.0))
    return found
