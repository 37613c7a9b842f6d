"""The error of a finite difference (GC304): reported once, and not blamed on any operation."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.evaluation import Evaluation
from gradcheck_cli.domain.report import Check, Finding, Pass
from gradcheck_cli.domain.truth import PointKind, TruthBlock
from gradcheck_cli.judge.findings import entries_of, finding, source_of
from gradcheck_cli.judge.measures import Mask, accepted, error_in_ulps


def judge_approximation(case: Case, evaluation: Evaluation) -> tuple[list[Check], list[Finding]]:
    """A check an input, and GC304 for those with entries that are off."""
    assert case.truth is not None
    checks, findings = [], []
    for name, gradient in evaluation.gradients.items():
        block = case.truth.blocks.get((evaluation.mode, name))
        if block is None or gradient.values is None:
            continue
        g = gradient.values
        ulps = error_in_ulps(g, block.value, FORMATS[case.dtype])
        known = block.kind == PointKind.SMOOTH
        worst = float(np.max(ulps[known])) if np.any(known) else None
        off = ~accepted(g, block, FORMATS[case.dtype], case.spec.tolerance)
        checks.append(_check(case, evaluation, name, worst, source_of(case, block), off))
        if not np.any(off):
            continue
        entries, more = entries_of(case, evaluation.mode, name, block, np.argwhere(off), g, ulps)
        findings.append(
            finding(
                case,
                Codes.DIFFERENCE_ERROR,
                f"{evaluation.approximation}: {_size(g, block)}",
                evaluation=evaluation,
                input=name,
                entries=entries,
                more=more,
                truth_source=source_of(case, block),
            )
        )
    return checks, findings


def _size(g: np.ndarray, block: TruthBlock) -> str:
    """The largest error, and beside the largest entry of the truth."""
    known = (block.kind == PointKind.SMOOTH) & np.isfinite(block.value)
    with np.errstate(all="ignore"):
        largest = float(np.max(np.abs(block.value), initial=0.0, where=known))
        error = float(np.max(np.abs(g - block.value), initial=0.0, where=known))
    if not np.any(known):
        return "at a point without a derivative"
    if largest == 0 or not np.isfinite(error):
        return f"off by {error:.2g}"
    return f"off by {error:.2g}, {error / largest:.1g} of the gradient"


def _check(
    case: Case,
    evaluation: Evaluation,
    name: str,
    worst: float | None,
    truth: str,
    off: Mask,
) -> Check:
    passed_by = (Pass("approximation", int(np.count_nonzero(off))),) if np.any(off) else ()
    return Check(
        engine=evaluation.engine,
        dtype=case.dtype,
        mode=evaluation.mode,
        input=name,
        status="passed",
        point=case.point,
        max_ulps=worst if worst is not None and np.isfinite(worst) else None,
        passed_by=passed_by,
        truth=truth,
        forward=evaluation.forward,
        duration_s=evaluation.duration_s,
    )
