"""At a kink: is the gradient one that a generalised derivative may be?

Entry by entry it must lie between the one-sided derivatives (`entries`). Along a direction that
moves several tied entries at once, <g, d> must lie between the one-sided derivatives along d: this
is what tells the shares (1/2, 1/2) of a tie of max from (1, 1), which no subgradient is.
"""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Evaluation
from gradcheck_cli.domain.thresholds import FEW_ULPS
from gradcheck_cli.domain.truth import Hull, PointKind


def outside_hull(case: Case, evaluation: Evaluation) -> dict[str, Array]:
    """By input, a mask (rows, columns) of the entries at kinks that cannot be right together."""
    result: dict[str, Array] = {}
    if case.truth is None or evaluation.failure is not None:
        return result
    for hull in case.truth.hulls.get(evaluation.mode, ()):
        rows = _bad_rows(case, evaluation, hull)
        if rows is None or not np.any(rows):
            continue
        for name, weights in hull.direction.items():
            block = case.truth.blocks[evaluation.mode, name]
            mask = rows[:, None] & (np.asarray(weights) != 0)[None] & (block.kind == PointKind.KINK)
            result[name] = result.get(name, np.zeros_like(mask)) | mask
    return result


def _bad_rows(case: Case, evaluation: Evaluation, hull: Hull) -> Array | None:
    fmt = FORMATS[case.dtype]
    total: Array = np.zeros(hull.lower.shape)
    size: Array = np.zeros(hull.lower.shape)
    for name, weights in hull.direction.items():
        gradient = evaluation.gradients.get(name)
        if gradient is None or gradient.values is None:
            return None
        with np.errstate(all="ignore"):
            total = total + gradient.values @ weights
            size = size + np.abs(gradient.values) @ np.abs(weights)
    slack = hull.error + FEW_ULPS * fmt.ulp(size)
    with np.errstate(all="ignore"):
        outside = (total < hull.lower - slack) | (total > hull.upper + slack)
    return np.asarray(outside & np.isfinite(total))
