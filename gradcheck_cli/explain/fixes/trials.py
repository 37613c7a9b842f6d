"""Try fixes for the findings of a case: the questions to ask, and what the answers mean.

A fix is found in three steps. `request` proposes candidates for the reference worker to screen. The
engines with findings try the remaining ones (`Trials.rounds`), and `with_fixes` takes the best that
was right. Nothing is run here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.case import Case, TruthRequest
from gradcheck_cli.domain.codes import NOT_FINITE, UNSTABLE, Codes
from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat
from gradcheck_cli.domain.evaluation import FIRST_ORDER, Evaluation, Mode, Problem
from gradcheck_cli.domain.fixes import (
    FixRequest,
    Screened,
    Target,
    Trial,
    TrialPoint,
    errors_in_ulps,
    meets_target,
)
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Finding, Fix
from gradcheck_cli.domain.thresholds import ERROR_BITS, NOTE_BITS
from gradcheck_cli.explain.fixes.candidates import propose

NONE_HELPS = "neither a rewrite of the catalogue nor a custom gradient helps here"
NO_DERIVATIVE = "there is no derivative here, so no fix can be proven"
PARTLY_NONE = "one of these entries has no derivative, so no fix can be proven"
NOT_TRIED = "no candidate could be tested: too few points around this one have a truth"
NO_TIME = "none was found in the time that a search may take"
DOES_NOT_FIT = "the exact result does not fit {}: no other formula helps"
DROPPED = "without the cast, the digits are there: no rewrite gives back what it drops"
NOT_TAKEN = "a custom gradient would help, but {} supports none in {} mode"
TOO_LARGE = "not searched for: the formula has too many operations"
# Parts of the bits that a candidate may lose in an engine. In the reference engine, where rounding
# alone counts, it had to be right to a few ulps; a framework's own kernels may cost more. A loss of
# less than a quarter is never reported. If no candidate reaches that, one that keeps half of the
# digits is better than the original, and the fix says how far off it is.
LOSSES = (NOTE_BITS, ERROR_BITS)
LARGEST = 20_000  # the most nodes of a program; the search takes about 0.1 ms for each
OWN_RULE = "inaccurate kernel"  # a rewrite may avoid an engine's inaccurate operation
HOPELESS = {"genuine overflow": DOES_NOT_FIT, "narrowing cast": DROPPED}
"""Causes that no rewrite removes, and why."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One evaluation of a trial: the engine, the mode, the candidate (None: the original), and its
    point."""

    engine: str
    mode: Mode
    trial: int | None
    point: int


def request(case: Case, truth: TruthRequest, findings: Sequence[Finding]) -> FixRequest | None:
    """The request to screen candidates for the findings of a case, or None."""
    wanted = [finding for finding in findings if _wants_fix(finding)]
    if not wanted or case.truth is None or len(case.spec.program.nodes) > LARGEST:
        return None
    blamed = [f.cause.node for f in wanted if f.cause is not None and f.cause.node is not None]
    candidates = propose(case.spec.program, case.dtype, case.values, tuple(dict.fromkeys(blamed)))
    modes = tuple(mode for mode in FIRST_ORDER if any(f.mode == mode for f in wanted))
    if not candidates or not modes:
        return None
    return FixRequest(truth, case.truth, candidates, modes)


def _wants_fix(finding: Finding) -> bool:
    if finding.engine is None or finding.mode not in FIRST_ORDER:
        return False
    if finding.allowed or finding.severity == "note":
        return False
    if _has_no_derivative(finding):
        return False
    kind = finding.cause.kind if finding.cause is not None else None
    if finding.code == Codes.WRONG_GRADIENT:
        return kind == OWN_RULE
    return finding.code in UNSTABLE and kind not in HOPELESS


def _has_no_derivative(finding: Finding) -> bool:
    """Whether an entry of the gradient has no truth, so that no fix could be proven."""
    return finding.input is not None and any(one.truth is None for one in finding.entries)


class Trials:
    """The trials of the candidates that were `screened` for the findings of a case (None: there was
    nothing to screen). `answers` are the evaluations by engines."""

    def __init__(self, case: Case, findings: Sequence[Finding], screened: Screened | None) -> None:
        self.case = case
        self.candidates = () if screened is None else screened.trials
        self.answers: dict[Tried, Evaluation] = {}
        self._findings = findings
        self._none = NONE_HELPS
        if screened is not None and (screened.untried or screened.late):
            self._none = NOT_TRIED if screened.untried else NO_TIME
        wanted = [finding for finding in findings if _wants_fix(finding)]
        self._results = {
            who: _Results(self, *who) for who in dict.fromkeys((f.engine, f.mode) for f in wanted)
        }

    def rounds(self) -> Iterator[dict[Tried, Problem]]:
        """The questions to engines with findings, in rounds; `answers` must have the answers before
        the next round. First the best candidate at all of its points; then the others, unless it
        fixes every finding; then the original formula, where a candidate is not right."""
        yield dict(self._problems(range(1)))
        if not self._serves():
            yield dict(self._problems(range(1, len(self.candidates))))
        yield dict(self._originals())

    def _problems(self, numbers: Iterable[int]) -> Iterator[tuple[Tried, Problem]]:
        tried = [(number, self.candidates[number]) for number in numbers if self.candidates]
        for result in self._results.values():
            for number, trial in tried:
                for i, point in enumerate(trial.points):
                    yield result.key(number, i), result.problem(trial.candidate.program, point)

    def _serves(self) -> bool:
        """Whether the best candidate is right everywhere and fixes every finding, so that others do
        not matter."""
        wanted = [finding for finding in self._findings if _wants_fix(finding)]
        return bool(self.candidates) and all(
            result.serves([f for f in wanted if (f.engine, f.mode) == who])
            for who, result in self._results.items()
        )

    def _originals(self) -> Iterator[tuple[Tried, Problem]]:
        fresh = self.fresh()
        for result in self._results.values():
            doubtful = result.doubtful()
            for i, point in enumerate(fresh):
                if id(point.values) in doubtful:
                    yield result.key(None, i), result.problem(self.case.spec.program, point)

    def fresh(self) -> list[TrialPoint]:
        """The fresh points of all trials, each once."""
        points = {id(p.values): p for trial in self.candidates for p in trial.points[1:]}
        return list(points.values())

    def with_fixes(self) -> tuple[Finding, ...]:
        """The findings, each with the best candidate that was right in its engine, or the reason
        why there is none."""
        for result in self._results.values():
            result.count()
        best = _order(self._results.values())
        return tuple(self._with_fix(finding, best) for finding in self._findings)

    def _with_fix(self, finding: Finding, best: Sequence[int]) -> Finding:
        if not _wants_fix(finding):
            why = HOPELESS.get(finding.cause.kind) if finding.cause else None
            if why is not None:
                return replace(finding, no_fix=why.format(self.case.dtype))
            grave = finding.code in UNSTABLE and finding.severity != "note"
            if grave and finding.engine is not None and _has_no_derivative(finding):
                partly = any(one.truth is not None for one in finding.entries)
                return replace(finding, no_fix=PARTLY_NONE if partly else NO_DERIVATIVE)
            return finding
        mine = self._results[finding.engine, finding.mode]
        for number in best:
            if number in mine.right and mine.mends(number, finding):
                return replace(finding, fix=mine.fix(number, finding))
        if mine.refused.intersection(best):
            return replace(finding, no_fix=NOT_TAKEN.format(finding.engine, finding.mode))
        too_large = len(self.case.spec.program.nodes) > LARGEST
        return replace(finding, no_fix=TOO_LARGE if too_large else self._none)


def _order(results: Iterable[_Results]) -> list[int]:
    """Candidates that were right in some engine: those right in most engines first, then as
    screened."""
    counts: dict[int, int] = {}
    for result in results:
        for number in result.right:
            counts[number] = counts.get(number, 0) + 1
    return sorted(counts, key=lambda number: (-counts[number], number))


class _Results:
    """The results of the candidates in one engine and mode. `right`: by candidate, the number of
    fresh points where it was right, and of all fresh points. `refused`: candidates with custom
    gradients that the engine does not accept."""

    def __init__(self, trials: Trials, engine: str | None, mode: str | None) -> None:
        self._case = trials.case
        self._trials = trials
        self._who: tuple[str, Mode] = (engine, mode)  # type: ignore[assignment]
        self._worst: dict[Tried, float] = {}
        self.right: dict[int, tuple[int, int]] = {}
        self.refused: set[int] = set()

    def key(self, number: int | None, point: int) -> Tried:
        """A candidate at one of its points, or the original at a fresh one."""
        return Tried(*self._who, number, point)

    def problem(self, program: Program, point: TrialPoint) -> Problem:
        """The question to the engine in a trial."""
        return self._case.problem(self._who[1], program=program, values=point.values)

    def count(self) -> None:
        """Fill in `right` and `refused`."""
        places = {id(point.values): i for i, point in enumerate(self._trials.fresh())}
        for loss in LOSSES:
            for number, trial in enumerate(self._trials.candidates):
                counted = self._count(number, trial, places, loss)
                if counted is not None:
                    self.right[number] = counted
                elif trial.candidate.custom and self._refuses(number):
                    self.refused.add(number)
            if self.right:
                break

    def _count(
        self, number: int, trial: Trial, places: Mapping[int, int], loss: float
    ) -> tuple[int, int] | None:
        """(right, fresh points), or None if the candidate failed the trial. It must be right at the
        failing point and at half of the points near it, and wrong only where the original is wrong,
        too."""
        right, near, near_wrong = 0, 0, 0
        for i, point in enumerate(trial.points):
            good = self._good(self.key(number, i), point, loss)
            if i == 0:
                if not (good and self._helps(self.key(number, 0), point)):
                    return None
                continue
            right += good
            near += point.near
            near_wrong += point.near and not good
            original = self.key(None, places[id(point.values)])
            if not good and self._good(original, point, loss):
                return None
        return (right, len(trial.points) - 1) if 2 * near_wrong <= near else None

    def doubtful(self) -> set[int]:
        """The points, by the identity of their values, where a candidate is wrong that is right at
        the failing one: there the original must be evaluated, too."""
        points: set[int] = set()
        for number, trial in enumerate(self._trials.candidates):
            tried = [self.key(number, i) for i in range(len(trial.points))]
            for loss in LOSSES:
                if not self._good(tried[0], trial.points[0], loss):
                    continue
                for one, point in zip(tried, trial.points, strict=True):
                    if not self._good(one, point, loss):
                        points.add(id(point.values))
        return points

    def _refuses(self, number: int) -> bool:
        answer = self._trials.answers.get(self.key(number, 0))
        failure = None if answer is None else answer.failure
        return failure is not None and failure.kind == "unsupported"

    def _good(self, tried: Tried, point: TrialPoint, loss: float) -> bool:
        """Whether all numbers are right, or have lost no more than this part of their bits."""
        if tried not in self._worst:
            self._worst[tried] = self._worst_error(tried, point)
        allowed: float = 2.0 ** (loss * FORMATS[self._case.dtype].bits)
        return self._worst[tried] <= allowed

    def _worst_error(self, tried: Tried, point: TrialPoint) -> float:
        """The largest error of the value and gradients in ulps; inf if one of them is missing."""
        answer = self._trials.answers.get(tried)
        if answer is None or answer.failure is not None or answer.output is None:
            return np.inf
        fmt = FORMATS[self._case.dtype]
        worst = _worst(point.output, answer.output, fmt)
        for name in self._case.spec.wrt:
            gradient = answer.gradients.get(name)
            if gradient is None or gradient.values is None:
                return np.inf
            target = point.gradients[tried.mode, name]
            worst = max(worst, _worst(target, gradient.values, fmt))
        return worst

    def _helps(self, tried: Tried, point: TrialPoint) -> bool:
        """Whether every entry at the failing point keeps half of its digits, or as many as before.
        An entry that only rounding explains is right, but no repair: for ill-conditioned numbers,
        rounding may explain zero."""
        fmt = FORMATS[self._case.dtype]
        now = self._trials.answers[tried]
        before = self._own_evaluation()
        numbers = [(point.output, now.output, before.output)]
        for name in self._case.spec.wrt:
            then = before.gradients.get(name)
            target, values = point.gradients[tried.mode, name], now.gradients[name].values
            numbers.append((target, values, None if then is None else then.values))
        return all(_keeps(*three, fmt) for three in numbers)

    def serves(self, findings: Iterable[Finding]) -> bool:
        """Whether the first candidate is right at every point, by the stricter measure, and fixes
        all findings."""
        points = self._trials.candidates[0].points
        tried = [(self.key(0, i), point) for i, point in enumerate(points)]
        return (
            all(self._good(*one, LOSSES[0]) for one in tried)
            and self._helps(*tried[0])
            and all(self.mends(0, finding) for finding in findings)
        )

    def mends(self, number: int, finding: Finding) -> bool:
        """Whether the entry that is shown, or some of the output that was lost, is finite now. An
        infinity or nan is not repaired, even if the truth is not finite either."""
        if finding.code not in NOT_FINITE:
            return True
        answer = self._trials.answers[self.key(number, 0)]
        if finding.input is not None:
            value = self._at_entry(answer, finding)
            return value is None or bool(np.isfinite(value))
        now, then = answer.output, self._own_evaluation().output
        assert now is not None
        assert then is not None
        return bool(np.any(np.isfinite(now) & ~np.isfinite(then)))

    def _own_evaluation(self) -> Evaluation:
        return next(e for e in self._case.evaluations if (e.engine, e.mode) == self._who)

    def fix(self, number: int, finding: Finding) -> Fix:
        """The candidate as the fix of a finding."""
        # imported here: it loads the frameworks' tables of operations
        from gradcheck_cli.explain.fixes.code import code_of

        candidate = self._trials.candidates[number].candidate
        right, points = self.right[number]
        value = self._at_entry(self._trials.answers[self.key(number, 0)], finding)
        worst = finding.worst
        return Fix(
            before=candidate.before,
            after=candidate.after,
            model=candidate.model,
            rules=candidate.rules,
            condition=candidate.condition,
            kink=candidate.kink,
            custom=candidate.custom,
            value=value,
            ulps_before=worst.ulps if worst else None,
            ulps_after=self._error_in_ulps(value, worst.truth if worst else None),
            points=points,
            right=right,
            code=code_of(candidate.part),
            place=candidate.place,
        )

    def _error_in_ulps(self, value: float | None, truth: float | None) -> float | None:
        if value is None or truth is None or not np.isfinite(truth):
            return None
        return float(abs(value - truth) / FORMATS[self._case.dtype].ulp(truth))

    def _at_entry(self, answer: Evaluation, finding: Finding) -> float | None:
        """The candidate's number for the worst entry of the finding."""
        if not finding.entries:
            return None
        index = finding.entries[0].index
        if finding.input is None:
            return None if answer.output is None else _at(answer.output, index)
        values = answer.gradients[finding.input].values
        assert values is not None
        projection = self._case.projections[self._who[1]]
        output = self._case.spec.program.result.shape
        rows = output if projection.rows is None else (len(projection.rows),)
        given = (projection.columns or {}).get(finding.input)
        shape = np.shape(self._case.values[finding.input])
        columns = shape if given is None else (len(given),)
        return _at(values.reshape((*rows, *columns)), index)


def _worst(target: Target, numbers: Array, fmt: FloatFormat) -> float:
    """The largest error in ulps: 0 if every target is met, inf for a target that is not finite."""
    wrong = ~meets_target(target, numbers, fmt)
    if not np.any(wrong):
        return 0.0
    error = np.where(np.isfinite(target.value), errors_in_ulps(target, numbers, fmt), np.inf)
    return float(np.max(error, initial=0.0, where=wrong))


def _keeps(target: Target, now: Array | None, then: Array | None, fmt: FloatFormat) -> bool:
    assert now is not None
    left = errors_in_ulps(target, now, fmt)
    enough = left <= fmt.lost(ERROR_BITS)
    if then is not None:
        earlier = errors_in_ulps(target, then, fmt)
        enough |= np.isfinite(earlier) & (left <= earlier)
    return bool(np.all(enough))


def _at(values: Array, index: Sequence[int]) -> float | None:
    return float(values[tuple(index)]) if len(index) == values.ndim else None
