"""Where each row of the op table is tested, one file a family, like the table itself.

What an elementwise row of one array does not state there follows from the row (`following`).
"""

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from hypothesis.strategies import SearchStrategy

from reference_engine.op import INTERNAL, TABLE
from tests.reference_engine.samples.drawing import Draw, Exact, Sample, any_shape, by_mpmath, unary
from tests.reference_engine.samples.following import draw_of, exact_of, follows

__all__ = ["EXACT", "RANDOM", "SAMPLES", "VALUES", "Draw", "Exact", "Sample"]

SAMPLES: dict[str, list[Sample]] = {}
"""Row -> fixed calls. A row that is missing here, or below, fails test_table_consistency.py."""

RANDOM: dict[str, SearchStrategy[Sample]] = {}
"""Row -> calls of random shapes and keywords."""

VALUES: dict[str, Callable[..., Any]] = {}
"""Row -> its value from elsewhere (NumPy, SciPy, mpmath), called like the row."""

DRAWS: dict[str, Draw] = {}
"""Row of one array -> what to draw, for calls of all shapes."""

EXACT: dict[str, Exact] = {}
"""Elementwise row -> the same in mpmath, with the points that are hard."""

_ALL: dict[str, dict[str, Any]] = {
    "ROWS": SAMPLES,
    "RANDOM": RANDOM,
    "VALUES": VALUES,
    "DRAWS": DRAWS,
    "EXACT": EXACT,
}
for module in iter_modules(__path__):
    for name, collected in _ALL.items():
        rows = getattr(import_module(f"{__name__}.{module.name}"), name, {})
        assert not collected.keys() & rows.keys()
        collected.update(rows)

for row in filter(follows, (*TABLE.values(), *INTERNAL.values())):
    DRAWS.setdefault(row.name, draw_of(row))
    if row.name not in EXACT:
        EXACT[row.name] = exact_of(row)
        VALUES[row.name] = by_mpmath(EXACT[row.name])

for name, draw in DRAWS.items():
    SAMPLES.setdefault(name, unary(draw))
    RANDOM.setdefault(name, any_shape(draw))
