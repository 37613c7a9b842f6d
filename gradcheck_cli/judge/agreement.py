"""Findings where two modes of one engine, or two engines, disagree and no truth decides (GC105,
GC107)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

import numpy as np

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat
from gradcheck_cli.domain.evaluation import Evaluation, Mode, order_of
from gradcheck_cli.domain.report import SHOWN_ENTRIES, Entry, Finding
from gradcheck_cli.domain.thresholds import (
    ERROR_BITS,
    FEW_ULPS,
    FIRST_ORDER_SLACK,
    GROWS,
    HIDDEN_ULPS,
)
from gradcheck_cli.domain.truth import PointKind, TruthBlock
from gradcheck_cli.judge.decision import Verdict
from gradcheck_cli.judge.findings import entry_index, finding
from gradcheck_cli.truth.certified.enclose import DOUBT

Verdicts = Mapping[tuple[Mode, str], Array]
PAIRS: tuple[tuple[Mode, Mode], ...] = (
    ("reverse", "forward"),
    ("reverse-over-reverse", "forward-over-reverse"),
    ("reverse-over-reverse", "reverse-over-forward"),
    ("reverse-over-reverse", "forward-over-forward"),
)


def _differ(a: Array, b: Array, allowed: Array, fmt: FloatFormat) -> Array:
    """Mark the finite entries that differ by more than rounding explains, shape (rows, columns). A
    difference that is negligible compared with a larger entry of the same row or column does not
    count."""
    larger = np.maximum(np.abs(a), np.abs(b))
    apart = np.abs(a - b) > 2 * FEW_ULPS * fmt.ulp(larger) + allowed
    known = np.where(np.isfinite(larger), larger, 0.0)
    row, column = (np.max(known, axis=axis, keepdims=True, initial=0.0) for axis in (1, 0))
    largest = np.maximum(row, column)
    apart &= (larger == largest) | (np.abs(a - b) > HIDDEN_ULPS * fmt.ulp(largest))
    return np.asarray(apart & np.isfinite(a) & np.isfinite(b))


def modes_disagree(case: Case, verdicts: Verdicts) -> Iterable[Finding]:
    """Report GC105 where reverse and forward mode of one engine differ at a kink or an undecided
    entry.

    At all other entries the truth says which mode is wrong. Entries where rounding decides which
    function is computed are left out, because each mode may round to another function.
    """
    for one, other in _both_modes(case):
        yield from _compare_modes(case, one, other, verdicts)


def mode_disagreements(case: Case) -> Iterable[tuple[Evaluation, str, int, int]]:
    """Yield, for each evaluation and block, the first entry (row, column) at a kink or without a
    truth where the two modes of an engine differ. The cost of rounding must be computed for these
    entries before the modes count as contradictory."""
    for one, other in _both_modes(case):
        for name, a, b in _pairs(one, other):
            block = None if case.truth is None else case.truth.blocks.get((one.mode, name))
            if block is None or a.shape != b.shape or not np.any(block.kind):
                continue
            open_ = np.isin(block.kind, (PointKind.KINK, PointKind.UNDECIDED))
            fmt = FORMATS[case.dtype]
            places = np.argwhere(_differ(a, b, _rounding(block, fmt), fmt) & open_)
            if len(places):
                yield one, name, int(places[0, 0]), int(places[0, 1])


def _both_modes(case: Case) -> Iterable[tuple[Evaluation, Evaluation]]:
    """Yield the pairs of an engine's evaluations that compute the same derivatives in two modes."""
    by_key = {(e.engine, e.mode): e for e in case.evaluations}
    for (engine, mode), one in by_key.items():
        for first, second in PAIRS:
            other = by_key.get((engine, second))
            if mode == first and other is not None and _same_part(case, first, second):
                yield one, other


def _same_part(case: Case, first: Mode, second: Mode) -> bool:
    """Check whether both modes compute every entry, not products with directions of their own."""
    parts = (case.projections[first], case.projections[second])
    return all(part.rows is None and part.columns is None for part in parts)  # then no firsts


def _compare_modes(
    case: Case, one: Evaluation, other: Evaluation, verdicts: Verdicts
) -> Iterable[Finding]:
    open_kinds = (Verdict.KINK, Verdict.UNDECIDED)
    for name, a, b in _pairs(one, other):
        if case.truth is None or a.shape != b.shape:
            continue
        mine, theirs = verdicts.get((one.mode, name)), verdicts.get((other.mode, name))
        if mine is None or theirs is None or not (np.any(mine) and np.any(theirs)):
            continue
        if case.truth.reasons.get((one.mode, name)) == DOUBT:
            continue
        undecided = np.isin(mine, open_kinds) & np.isin(theirs, open_kinds)
        fmt = FORMATS[case.dtype]
        allowed = _rounding(case.truth.blocks[one.mode, name], fmt)
        apart = _differ(a, b, allowed, fmt) & undecided
        if np.any(apart):
            apart &= ~_shrinks(case, one, other, name)
        places = np.argwhere(apart)
        if len(places):
            yield _disagreement(
                case, Codes.MODES_DISAGREE, one, name, places, a, b, f"{one.mode}", f"{other.mode}"
            )


def _shrinks(case: Case, one: Evaluation, other: Evaluation, name: str) -> Array:
    """Mark the entries whose difference between the modes comes from rounding. At these entries the
    modes agree in half of the digits, and the difference is smaller in the finer of two precisions.
    A different convention at a kink gives the same difference in both precisions."""
    there = [case.wide.get((one.engine, mode)) for mode in (one.mode, other.mode)]
    runs = [*there, one, other]
    found = [None if run is None else run.gradients.get(name) for run in runs]
    arrays = [None if gradient is None else gradient.values for gradient in found]
    dtypes = {run.dtype for run in there if run is not None}
    again, again_other, a, b = arrays
    if again is None or again_other is None or a is None or b is None or len(dtypes) != 1:
        return np.zeros((), dtype=np.bool_)
    gaps = np.abs(again - again_other), np.abs(a - b)
    unit = {dtype: FORMATS[dtype].unit_roundoff for dtype in (*dtypes, one.dtype)}
    (wide,) = dtypes
    small, large = gaps if unit[wide] < unit[one.dtype] else gaps[::-1]
    fmt = FORMATS[one.dtype]
    alike = gaps[1] <= fmt.lost(ERROR_BITS) * fmt.ulp(np.fmax(np.abs(a), np.abs(b)))
    return np.asarray(alike & (unit[wide] != unit[one.dtype]) & (GROWS * small <= large))


def _rounding(block: TruthBlock, fmt: FloatFormat) -> Array:
    """Return how far rounding may separate two ways to compute the same entries: twice the costs C
    and R, and twice a few ulps of the steepest one-sided slope."""
    cost = block.condition + block.floor
    ulps = FEW_ULPS * fmt.ulp(np.where(np.isfinite(block.steepest), block.steepest, 0.0))
    return np.asarray(2 * (FIRST_ORDER_SLACK * np.where(np.isfinite(cost), cost, 0.0) + ulps))


def _pairs(one: Evaluation, other: Evaluation) -> Iterable[tuple[str, Array, Array]]:
    for name, gradient in one.gradients.items():
        partner = other.gradients.get(name)
        if gradient.values is not None and partner is not None and partner.values is not None:
            yield name, gradient.values, partner.values


def engines_disagree(case: Case, verdicts: Verdicts) -> Iterable[Finding]:
    """Report GC107 where two engines differ and the truth is undecided. Third derivatives are not
    compared: the cost of rounding is known only for certified ones."""
    done = [e for e in case.evaluations if e.failure is None and order_of(e.mode) < 3]
    for one, other in combinations(done, 2):
        if one.mode != other.mode or one.engine == other.engine or case.truth is None:
            continue
        for name, a, b in _pairs(one, other):
            decided = verdicts.get((one.mode, name))
            if decided is None or a.shape != b.shape or not np.any(decided):
                continue
            undecided = decided == Verdict.UNDECIDED
            fmt = FORMATS[case.dtype]
            apart = _differ(a, b, _rounding(case.truth.blocks[one.mode, name], fmt), fmt)
            places = np.argwhere(apart & undecided)
            if len(places):
                yield _disagreement(
                    case, Codes.ENGINES_DISAGREE, one, name, places, a, b, one.engine, other.engine
                )


def _disagreement(
    case: Case,
    code: str,
    evaluation: Evaluation,
    name: str,
    places: Array,
    a: Array,
    b: Array,
    first: str,
    second: str,
) -> Finding:
    row, column = (int(i) for i in places[0])
    x, y = float(a[row, column]), float(b[row, column])
    entries = tuple(
        Entry(
            index=entry_index(case, evaluation.mode, name, int(i), int(j)),
            computed=float(a[i, j]),
        )
        for i, j in places[:SHOWN_ENTRIES]
    )
    digits = 9 if f"{x:.9g}" != f"{y:.9g}" else 17
    message = (
        f"the gradient of `{name}` is {x:.{digits}g} in {first} and {y:.{digits}g} in {second}"
    )
    return finding(
        case,
        code,
        message,
        evaluation=evaluation,
        input=name,
        entries=entries,
        more=len(places) - len(entries),
        truth_source="undecided",
    )
