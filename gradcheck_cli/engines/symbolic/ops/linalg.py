"""Products of arrays."""

from __future__ import annotations

from gradcheck_cli.engines.kit.lowerings import Lowering
from gradcheck_cli.engines.symbolic.arrays import the_row

_NAMES = "cross dot einsum kron matmul outer tensordot"

ROWS: dict[str, Lowering] = {name: the_row(name) for name in _NAMES.split()}
