"""Suspects: the entries of a case that are not simply right, before the cost of rounding is
known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from gradcheck_cli.domain.blocks import HessianBlock
from gradcheck_cli.domain.case import Case, Suspect
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import SECOND, Evaluation, Mode, TraceRequest
from gradcheck_cli.domain.indices import index_of
from gradcheck_cli.domain.records import replace
from gradcheck_cli.domain.truth import PointKind, Truth, TruthBlock
from gradcheck_cli.judge.agreement import mode_disagreements
from gradcheck_cli.judge.decision import Evidence, Verdict, judge_block
from gradcheck_cli.judge.measures import Again, accepted, error_in_ulps, loses_little, too_wide
from gradcheck_cli.judge.outputs import is_far_off, lost_rows, worst_output


def is_suspect(case: Case) -> bool:
    """Check whether there are any `suspects`, without computing all of them."""
    return next(_suspects(case), None) is not None


def suspects(case: Case) -> tuple[Suspect, ...]:
    """The evaluations with an output or entry that is not simply right, each with its worst entry
    to be traced. Once the cost of rounding is known, it excuses the entries that it explains."""
    return tuple(_suspects(case))


def _suspects(case: Case) -> Iterator[Suspect]:
    if case.truth is None:
        return
    known: set[tuple[str, Mode]] = set()
    for evaluation in case.evaluations:
        if evaluation.approximation:
            continue  # the error of a difference quotient comes from its formula
        if evaluation.failure is None and (trace := _suspicious(case, evaluation, case.truth)):
            yield Suspect(evaluation.engine, evaluation.mode, trace)
            known.add((evaluation.engine, evaluation.mode))
    for one, name, row, column in mode_disagreements(case):
        if (one.engine, one.mode) not in known:
            request = _traced(case, one.mode, name, row, column)
            yield Suspect(one.engine, one.mode, request)
            known.add((one.engine, one.mode))


def _traced(case: Case, mode: Mode, name: str, row: int, column: int) -> TraceRequest:
    """The request to trace one entry of a block, without a target."""
    if mode not in SECOND:
        return TraceRequest(row=row, input=name, column=column)
    block = HessianBlock.named(name, case.spec.wrt)
    return TraceRequest(row=row, first=block.rows, input=block.columns, column=column)


def _suspicious(case: Case, evaluation: Evaluation, truth: Truth) -> TraceRequest | None:
    """The request to trace the worst entry, and the output if it is off; None if all is right."""
    worst: tuple[float, TraceRequest] | None = None
    for name, gradient in evaluation.gradients.items():
        block = truth.blocks.get((evaluation.mode, name))
        if block is None or gradient.values is None:
            continue
        place = _worst(gradient.values, block, case)
        if place is not None and (worst is None or place[0] > worst[0]):
            size, row, column = place
            target = float(block.value[row, column])
            known = np.isfinite(target) and block.kind[row, column] == PointKind.SMOOTH
            request = _traced(case, evaluation.mode, name, row, column)
            worst = size, replace(request, target=target if known else None)
    off = worst_output(case, evaluation)
    if off is None:
        return None if worst is None else worst[1]
    request = TraceRequest(input=case.spec.wrt[0]) if worst is None else worst[1]
    rows = lost_rows(case, evaluation)
    if rows[min(request.row, len(rows) - 1), 0]:
        # entries of a lost output are not judged, so only the output needs an explanation
        request = replace(request, target=None)
    return replace(request, output=off[0], output_target=off[1])


def lose_little(case: Case, suspected: Mapping[tuple[str, str], Array]) -> bool:
    """Whether the `suspected` entries (`suspect_entries`) need no second look, because no cost of
    rounding could turn them into findings: each lost less than a quarter of its digits, and no
    error recurs in another precision, as far as `case.wide` shows it."""
    assert case.truth is not None
    fmt, tolerance = FORMATS[case.dtype], case.spec.tolerance
    for evaluation in case.evaluations:
        for name, gradient in evaluation.gradients.items():
            off = suspected.get((evaluation.mode, name))
            if off is None or gradient.values is None or not np.any(off):
                continue
            block = case.truth.blocks[evaluation.mode, name]
            wide = wide_of(case, evaluation, name)
            if np.any(off & ~loses_little(gradient.values, block, wide, fmt, tolerance)):
                return False
    return True


def suspect_entries(case: Case) -> dict[tuple[str, str], Array] | None:
    """The entries that are not simply right, before the cost of rounding is known: masks by mode
    and block. None if modes disagree, which may concern any entry, or if an output is lost or has
    lost half of its digits."""
    if case.truth is None or any(True for _ in mode_disagreements(case)):
        return None
    if any(is_far_off(case, evaluation) for evaluation in case.evaluations):
        return None
    suspected: dict[tuple[str, str], Array] = {}
    for evaluation in case.evaluations:
        for name, gradient in evaluation.gradients.items():
            key = evaluation.mode, name
            if gradient.values is not None and key in case.truth.blocks:
                off = _suspects_before_cost(gradient.values, case.truth.blocks[key], case)
                suspected[key] = suspected[key] | off if key in suspected else off
    return suspected


def _suspects_before_cost(g: Array, block: TruthBlock, case: Case) -> Array:
    """Mark the entries that are not simply right before the cost of rounding is known."""
    fmt = FORMATS[case.dtype]
    off = ~accepted(g, block, fmt, case.spec.tolerance)
    off |= too_wide(block, fmt)  # the cost of rounding may settle these
    off |= np.isinf(g)  # even a right infinity needs a trace to name the operation that overflows
    return off


def _worst(g: Array, block: TruthBlock, case: Case) -> tuple[float, int, int] | None:
    fmt = FORMATS[case.dtype]
    off = _suspects_before_cost(g, block, case)
    if not off.any():
        return None
    if case.truth is not None and case.truth.output_cost is not None:
        nothing_lost = np.zeros((1, 1), dtype=bool)
        judged = judge_block(Evidence(g, block, None, nothing_lost, fmt, case.spec.tolerance))
        off &= judged.verdict != Verdict.CORRECT
        if not np.any(off):
            return None
        ulps = judged.ulps
    else:
        ulps = error_in_ulps(g, block.value, fmt)
    size = np.where(off, np.where(np.isnan(ulps), np.inf, ulps), -1.0)
    row, column = index_of(int(np.argmax(size)), size.shape)
    return float(size[row, column]), row, column


def wide_of(case: Case, evaluation: Evaluation, name: str) -> Again | None:
    """The block in the other precision, if the engine was run in it."""
    other = case.wide.get((evaluation.engine, evaluation.mode))
    if other is None or other.failure is not None or name not in other.gradients:
        return None
    values = other.gradients[name].values
    return None if values is None else Again(values, FORMATS[other.dtype])
