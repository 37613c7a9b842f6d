"""Where each row of the op table is tested, one file a family, like the table itself."""

from importlib import import_module
from pkgutil import iter_modules

from tests.reference_engine.samples.drawing import Draw, Sample

__all__ = ["SAMPLES", "Draw", "Sample"]

SAMPLES: dict[str, list[Sample]] = {}
"""Row -> samples. A row that is missing here fails test_table_consistency.py."""

for module in iter_modules(__path__):
    rows = getattr(import_module(f"{__name__}.{module.name}"), "ROWS", {})
    assert not SAMPLES.keys() & rows.keys()
    SAMPLES.update(rows)
