"""Operations that move entries about: the rows of the table, on arrays of expressions."""

from __future__ import annotations

from gradcheck_cli.engines.kit.lowerings import Lowering
from gradcheck_cli.engines.symbolic.arrays import the_row

_NAMES = (
    "broadcast_to diag expand_dims flip moveaxis pad repeat reshape roll squeeze tile trace "
    "transpose tril triu"
)

ROWS: dict[str, Lowering] = {name: the_row(name) for name in _NAMES.split()}
