"""The number that a finding is about, as an entry of row @ J, which a layer can compute."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import FIRST_ORDER
from gradcheck_cli.domain.indices import flat_of
from gradcheck_cli.domain.layer import Leaf
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Finding


@dataclass(frozen=True, slots=True, eq=False)
class TracedEntry:
    """An entry of row @ J: at place `flat` of a leaf, or summed along a `direction` (n,). `row`
    (m,) is the cotangent of the flattened outputs."""

    row: Array
    leaf: str
    flat: int
    direction: Array | None = None

    def of(self, gradient: Array) -> float:
        """The entry, if row @ J is `gradient` (n,) for this leaf."""
        if self.direction is not None:
            return float(gradient @ self.direction)
        return float(gradient[self.flat])

    def tangent(self, leaves: Sequence[Leaf]) -> dict[str, Array]:
        """The tangent that moves the leaf along this entry, in its shape, by name."""
        (leaf,) = (leaf for leaf in leaves if leaf.name == self.leaf)
        along = np.eye(1, leaf.size, self.flat) if self.direction is None else self.direction
        return {leaf.name: along.reshape(leaf.shape)}


def traced_entry_of(case: Case, finding: Finding) -> TracedEntry | None:
    """The worst entry of a finding of this case; None if the finding is not about an entry of a
    first derivative."""
    if not finding.entries or finding.input is None or finding.mode not in FIRST_ORDER:
        return None
    projection = case.projections[finding.mode]
    name, index = finding.input, finding.entries[0].index
    shape = np.shape(case.values[name])
    direction = None
    if projection.columns is not None and name in projection.columns:
        left, flat = index[:-1], index[-1]
        direction = np.reshape(projection.columns[name][flat], -1)
    else:
        left = index[: len(index) - len(shape)]
        flat = flat_of(index[len(left) :], shape)
    output = case.spec.program.result.shape
    if projection.rows is not None:
        row = np.asarray(projection.rows[left[0]], dtype=np.float64).reshape(-1)
    else:
        row = np.zeros(int(np.prod(output, dtype=np.int64)))
        row[flat_of(left, output)] = 1.0
    return TracedEntry(row, name, flat, direction)
