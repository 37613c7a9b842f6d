"""Running sums and products."""

from __future__ import annotations

from gradcheck_cli.engines.kit.lowerings import Lowering
from gradcheck_cli.engines.symbolic.arrays import the_row

ROWS: dict[str, Lowering] = {name: the_row(name) for name in ("cumprod", "cumsum")}
