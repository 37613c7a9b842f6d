"""Entries by their places: the rows of the table themselves, on arrays of expressions."""

from __future__ import annotations

from gradcheck_cli.engines.kit.lowerings import Lowering
from gradcheck_cli.engines.symbolic.arrays import the_row

_NAMES = "concatenate getitem one_hot stack take take_along_axis"

ROWS: dict[str, Lowering] = {name: the_row(name) for name in _NAMES.split()}
