"""Where each row of the op table is tested, one file a family, like the table itself."""

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from hypothesis.strategies import SearchStrategy

from tests.reference_engine.samples.drawing import Draw, Exact, Sample

__all__ = ["EXACT", "RANDOM", "SAMPLES", "VALUES", "Draw", "Exact", "Sample"]

SAMPLES: dict[str, list[Sample]] = {}
"""Row -> fixed calls. A row that is missing here, or below, fails test_table_consistency.py."""

RANDOM: dict[str, SearchStrategy[Sample]] = {}
"""Row -> calls of random shapes and keywords."""

VALUES: dict[str, Callable[..., Any]] = {}
"""Row -> its value from elsewhere (NumPy, SciPy, mpmath), called like the row."""

EXACT: dict[str, Exact] = {}
"""Elementwise row -> the same in mpmath, with the points that are hard."""

_ALL: dict[str, dict[str, Any]] = {
    "ROWS": SAMPLES,
    "RANDOM": RANDOM,
    "VALUES": VALUES,
    "EXACT": EXACT,
}
for module in iter_modules(__path__):
    for name, collected in _ALL.items():
        rows = getattr(import_module(f"{__name__}.{module.name}"), name, {})
        assert not collected.keys() & rows.keys()
        collected.update(rows)
