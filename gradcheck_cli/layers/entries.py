"""From an entry as people know it to its row and column, and back to a number."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import FIRST_ORDER
from gradcheck_cli.domain.report import Finding


def worst_entry(case: Case, finding: Finding) -> tuple[int, int] | None:
    """Row and column of the worst entry; None for a finding that is not about an entry of a first
    derivative."""
    if not finding.entries or finding.input is None or finding.mode not in FIRST_ORDER:
        return None
    projection = case.projections[finding.mode]
    index = finding.entries[0].index
    shape = np.shape(case.values[finding.input])
    if projection.columns is not None and finding.input in projection.columns:
        left, column = index[:-1], index[-1]
    else:
        left = index[: len(index) - len(shape)]
        column = _flat(index[len(left) :], shape)
    if projection.rows is not None:
        return left[0], column
    return _flat(left, case.spec.program.nodes[case.spec.program.output].shape), column


def cotangent(case: Case, finding: Finding, row: int, size: int) -> Array:
    """The cotangent (size,) of the row."""
    rows = case.projections[finding.mode].rows  # type: ignore[index]
    if rows is not None:
        return np.asarray(rows[row], dtype=np.float64).reshape(size)
    unit = np.zeros(size)
    unit[row] = 1.0
    return unit


def entry_of(case: Case, finding: Finding, gradient: Array, column: int) -> float:
    """What the entry is where its row is `gradient` (n,)."""
    columns = case.projections[finding.mode].columns  # type: ignore[index]
    if columns is not None and finding.input is not None and finding.input in columns:
        return float(gradient @ np.reshape(columns[finding.input][column], -1))
    return float(gradient[column])


def _flat(index: tuple[int, ...], shape: tuple[int, ...]) -> int:
    return int(np.ravel_multi_index(index, shape)) if shape else 0
