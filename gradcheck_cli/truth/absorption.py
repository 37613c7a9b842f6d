"""What numbers on the way to a value absorb: (x + 1e16) - 1e16 has lost x, and differences of such
values are those of another function."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.thresholds import FIRST_ORDER_SLACK
from gradcheck_cli.engines.errors import EngineFault
from gradcheck_cli.engines.layer.subject import Subject
from gradcheck_cli.engines.tracebacks import is_internal
from gradcheck_cli.truth.numerics.differences import FIRST_STEP

ABSORBED = (
    "a number on the way is so large that its last digit hides what the differences of the value "
    "are about; they contradict the gradient"
)


UNEXPLAINED = 4  # rows; what is simply wrong is not written down for every one of its outputs


def absorbed(
    subject: Subject,
    rows: Array,
    sizes: Array,
    gradient: Array,
    difference: Array,
    contradicted: Array,
) -> Array:
    """Which of the `contradicted` entries (m, n) of a `gradient`, rows (m, k) @ J, are explained by
    the roundings of the numbers on the way: over the longest step of a difference, from inputs of
    these `sizes` (n,), they change the value by as much as the `difference` is off.

    One run of the layer is written down for each row that holds a contradicted entry.
    """
    found = np.zeros(contradicted.shape, dtype=np.bool_)
    left = UNEXPLAINED
    for row in np.flatnonzero(np.any(contradicted, axis=1)):
        noise = rounding_on_the_way(subject, rows[row])
        if noise is None or left == 0:
            break
        with np.errstate(all="ignore"):
            apart = np.abs(gradient[row] - difference[row]) * FIRST_STEP * sizes
        found[row] = contradicted[row] & (apart <= noise)
        left -= not np.any(found[row])
    return found


def rounding_on_the_way(subject: Subject, row: Array) -> float | None:
    """What rounding each number on the way once changes row @ y by: the root of the sum of squares,
    to first order. None where the run cannot be written down."""
    try:
        recording = subject.record(row)
    except EngineFault:
        return None
    except Exception as error:  # a layer may not run while it is watched
        if is_internal(error):
            raise
        return None
    values = recording.execution.values
    total = 0.0
    with np.errstate(all="ignore"):
        for slot, bar in recording.bars.items():
            terms = (values(slot) * values(bar)) ** 2
            total += float(np.sum(terms, where=np.isfinite(terms)))
    return FIRST_ORDER_SLACK * FORMATS[subject.dtype].unit_roundoff * float(np.sqrt(total))
