"""A symmetric matrix of which a layer reads one triangle, as Cholesky and `eigh` do.

Its derivative is shared out between both triangles by convention: PyTorch and JAX give each half.
That is the derivative of the same function of symmetric matrices, so a note says it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.report import Check, Finding, Pass
from gradcheck_cli.domain.thresholds import FEW_ULPS
from gradcheck_cli.explain.blame.patterns import SYMMETRIC


def without_conventions(
    case: Case, checks: Sequence[Check], findings: Sequence[Finding]
) -> tuple[tuple[Check, ...], tuple[Finding, ...], tuple[str, ...]]:
    """Checks and findings, without what is wrong only where such a matrix loses its symmetry, and
    a note about each of these inputs."""
    shared = [one for one in findings if _is_shared_out(case, one)]
    where = {(one.mode, one.input) for one in shared}
    rest = tuple(one for one in findings if one not in shared)
    still_wrong = {(one.mode, one.input) for one in rest if one.severity == "error"}
    passed = where - still_wrong
    return (
        tuple(
            _passed(case, check) if (check.mode, check.input) in passed else check
            for check in checks
        ),
        rest,
        tuple(dict.fromkeys(map(_says, shared))),
    )


def _passed(case: Case, check: Check) -> Check:
    """The check, with how many of its entries are shared out."""
    assert case.truth is not None
    (mine,) = (one for one in case.evaluations if one.mode == check.mode)
    values, block = mine.gradients[check.input].values, case.truth.blocks[mine.mode, check.input]
    assert values is not None
    bar = FEW_ULPS * FORMATS[case.dtype].ulp(block.value) + block.error
    off = np.abs(values - block.value) > bar
    shared = Pass("one triangle", int(np.count_nonzero(off)), check.max_ulps)
    return replace(check, status="passed", passed_by=(*check.passed_by, shared))


def _is_shared_out(case: Case, finding: Finding) -> bool:
    if finding.code != Codes.WRONG_GRADIENT or finding.pattern != SYMMETRIC or case.truth is None:
        return False
    matrix = np.asarray(case.values[finding.input or ""])
    derivative = case.truth.blocks["reverse", finding.input or ""].value
    lower = np.tri(len(matrix), k=-1, dtype=bool).ravel()
    upper = np.tri(len(matrix), k=-1, dtype=bool).T.ravel()
    unread = any(not np.any(derivative[:, triangle]) for triangle in (lower, upper))
    return unread and np.array_equal(matrix, matrix.T)


def _says(finding: Finding) -> str:
    return (
        f"{finding.engine}: the layer reads one triangle of `{finding.input}`, and its gradient is "
        f"shared out between both: it is right as long as `{finding.input}` stays symmetric "
        "(`kind: symmetric` checks no other moves)"
    )
