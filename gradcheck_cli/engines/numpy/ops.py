"""The op table in NumPy's own functions, as a user would write them. Rows for which NumPy has no
function, such as SciPy's, are missing.

NumPy itself is not called here: each function receives it as its first argument.
"""

from __future__ import annotations

from typing import Any

from gradcheck_cli.engines.kit.lowerings import Table, same_names

_ARCUS = ("cos", "cosh", "sin", "sinh", "tan", "tanh")


def log1mexp(np: Any, x: Any) -> Any:
    """log(1 - exp(-x)) for x > 0."""
    return np.where(x < 0.693, np.log(-np.expm1(-x)), np.log1p(-np.exp(-x)))


TABLE: Table = {
    **same_names(
        "",
        """
        abs cbrt exp exp2 expm1 hypot log log10 log1p log2 logaddexp maximum minimum reciprocal
        remainder sign sqrt square cos cosh sin sinc sinh tan tanh where
        all any argmax argmin max mean min prod sum diff
        """,
    ),
    **same_names("linalg", "solve inv det"),
    **{f"a{name}": f"arc{name}" for name in _ARCUS},
    "atan2": "arctan2",
    "log1mexp": log1mexp,
}
