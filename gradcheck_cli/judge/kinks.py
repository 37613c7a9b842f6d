"""Decide whether a gradient at a kink is a generalised derivative.

Each entry must lie between the one-sided derivatives. Along a direction d that moves several tied
entries at once, <g, d> must lie between the one-sided derivatives along d. The second rule
distinguishes the shares (1/2, 1/2) of a tie of max from (1, 1), which is not a subgradient.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Evaluation
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import FEW_ULPS
from gradcheck_cli.domain.truth import Hull, PointKind, Truth

MISFIT = "the entries contradict each other: "


@dataclass(frozen=True, slots=True)
class Miss:
    """A hull that does not contain the gradient: a mask `rows` (rows,) of the rows outside, and
    `along`, <g, d> for every row."""

    hull: Hull
    rows: Array
    along: Array

    def words(self) -> str:
        """Describe the row that is farthest outside."""
        off = np.fmax(self.hull.lower - self.along, self.along - self.hull.upper)
        row = int(np.argmax(np.where(self.rows, off, -np.inf)))
        low, high = float(self.hull.lower[row]), float(self.hull.upper[row])
        slope = f"{high:.6g}" if high - low <= self.hull.error[row] else f"{low:.6g} to {high:.6g}"
        signs = np.concatenate([np.ravel(weights) for weights in self.hull.direction.values()])
        how = "all grow together" if np.all(signs >= 0) else "grow and shrink together"
        return (
            f"{MISFIT}where the tied inputs {how}, the slope is {slope}, "
            f"but the gradient gives {self.along[row]:.6g}"
        )


def misses(case: Case, evaluation: Evaluation) -> Iterator[Miss]:
    """Yield the hulls that do not contain the gradient."""
    if case.truth is None or evaluation.failure is not None:
        return
    for hull in case.truth.hulls.get(evaluation.mode, ()):
        miss = _miss(case, case.truth, evaluation, hull)
        if miss is not None and np.any(miss.rows):
            yield miss


def outside_hull(case: Case, evaluation: Evaluation) -> dict[str, Array]:
    """By input, a mask (rows, columns) of the entries at kinks that cannot all be right
    together."""
    result: dict[str, Array] = {}
    for miss in misses(case, evaluation):
        for name, weights in miss.hull.direction.items():
            block = case.truth.blocks[evaluation.mode, name]  # type: ignore[union-attr]
            mask = miss.rows[:, None] & (np.asarray(weights) != 0)[None]
            mask = mask & (block.kind == PointKind.KINK)
            result[name] = result.get(name, np.zeros_like(mask)) | mask
    return result


def _miss(case: Case, truth: Truth, evaluation: Evaluation, hull: Hull) -> Miss | None:
    fmt = FORMATS[case.dtype]
    total: Array = np.zeros(hull.lower.shape)
    size: Array = np.zeros(hull.lower.shape)
    for name, weights in hull.direction.items():
        gradient = evaluation.gradients.get(name)
        if gradient is None or gradient.values is None:
            return None
        total = total + gradient.values @ weights
        steepest = truth.blocks[evaluation.mode, name].steepest
        size = size + np.fmax(np.abs(gradient.values), steepest) @ np.abs(weights)
    slack = hull.error + FEW_ULPS * fmt.ulp(size)
    outside = (total < hull.lower - slack) | (total > hull.upper + slack)
    return Miss(hull, outside & np.isfinite(total), total)
