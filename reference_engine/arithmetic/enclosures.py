"""The enclosure of every row of the op table, or the reason why there is none.

Rows that are written in other rows have theirs. Derivatives need nothing: a rule is written in
rows, and run on balls it encloses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reference_engine.arithmetic.arbs import NotInBalls
from reference_engine.arithmetic.ball_arrays import ADDING, ARRAYS, MOVING, by_own_value
from reference_engine.arithmetic.ball_choices import CHOICES
from reference_engine.arithmetic.ball_functions import FUNCTIONS
from reference_engine.arithmetic.ball_matrices import MATRICES

EIGEN = "eigenvalues are not enclosed, nor are vectors whose signs depend on rounding"
SINGULAR = "singular values are not enclosed, nor are vectors whose signs depend on rounding"
WITHOUT_ARRAYS = "it takes no array of numbers that could be balls"

REFUSED: dict[str, str] = {
    "eigvalsh": EIGEN,
    "eigh_vectors": EIGEN,
    "svdvals": SINGULAR,
    "svd_u": SINGULAR,
    "svd_vh": SINGULAR,
    "pinv": "which singular values count as 0 is unknown without them",
    **dict.fromkeys(("arange", "zeros", "ones", "full", "eye", "one_hot"), WITHOUT_ARRAYS),
}
"""Row -> why it has no enclosure."""

_FOUND: dict[str, Callable[..., Any]] = {**FUNCTIONS, **CHOICES, **ARRAYS, **MATRICES}
_BY_OWN_VALUE = frozenset((*MOVING, *ADDING))


def enclosure(name: str) -> Callable[..., Any]:
    """The row's value on arrays of `arb`: called with the arrays and the row's keywords.

    Raises NotInBalls where there is none.
    """
    found = _FOUND.get(name)
    if found is None:
        if name not in _BY_OWN_VALUE:
            raise NotInBalls(name, REFUSED.get(name, "the table of enclosures lacks it"))
        found = _FOUND[name] = by_own_value(name)
    return found
