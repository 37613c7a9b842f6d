"""Arrays that are made of nothing but their shape."""

from __future__ import annotations

from gradcheck_cli.engines.kit.lowerings import Lowering
from gradcheck_cli.engines.symbolic.arrays import the_row

_NAMES = "arange eye full full_like ones ones_like zeros zeros_like"

ROWS: dict[str, Lowering] = {name: the_row(name) for name in _NAMES.split()}
