"""Functions that no difference resolves: the value changes as much from one float to the next as
anywhere around the point, because its period is shorter than an ulp of the input."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array, Values
from gradcheck_cli.domain.thresholds import OPERATIONS, SHORT_PERIOD, Step
from gradcheck_cli.truth.numerics.differences import Float, moved_entry
from gradcheck_cli.truth.numerics.noise import from_size

UNRESOLVED = (
    "the value changes as much from one float to the next as anywhere around the point, and its "
    "differences contradict the gradient"
)

NEXT = (1, 2, 3, 5)  # ulps of the input: at least one meets a short period at another phase
AWAY: tuple[Step, ...] = (0.125, 2.0**-10, 2.0**-20, 2.0**-30)  # of the size of the input


def unresolved(
    several: Callable[[Sequence[Values]], Float],
    values: Values,
    name: str,
    gradient: Array,
    zero: Float,
    contradicted: Array,
) -> Array:
    """Mark the `contradicted` entries (m, n) of a float64 `gradient` by the input `name` that
    belong to an unresolved function, which is `zero` (m,) at `values`. The gradient must be steep
    enough to change the value from one float to the next. A value that changes only in its last
    digits is not meant: this is rounding, and differences allow for it.

    Costs 16 evaluations for each column with a contradicted entry.
    """
    found = np.zeros(contradicted.shape, dtype=np.bool_)
    at = np.asarray(values[name], np.float64)
    rounding = from_size(zero, OPERATIONS)
    for k in np.flatnonzero(np.any(contradicted, axis=0)):
        x = at.reshape(-1)[k]
        size = abs(x) or 1.0
        ulp = float(FORMATS["float64"].ulp(np.asarray(size)))
        near = _range(several, values, name, int(k), [j * ulp for j in NEXT], zero)
        far = _range(several, values, name, int(k), [part * size for part in AWAY], zero)
        noisy = (near > rounding) & (near >= SHORT_PERIOD * far)
        found[:, k] = noisy & (np.abs(gradient[:, k]) * ulp >= SHORT_PERIOD * near)
    return found & contradicted


def _range(
    several: Callable[[Sequence[Values]], Float],
    values: Values,
    name: str,
    k: int,
    steps: Sequence[float],
    zero: Float,
) -> Float:
    """The largest change (m,) of the value over these steps, in both directions."""
    both = (*steps, *(-step for step in steps))
    moved = [{**values, name: moved_entry(values[name], k, step)} for step in both]
    changes = np.abs(np.asarray(several(moved)) - zero)
    return np.asarray(np.max(np.where(np.isfinite(changes), changes, 0.0), axis=0))
