"""Modified Bessel functions of the first kind."""

from __future__ import annotations

from gradcheck_cli.engines.kit.lowerings import Lowering

ROWS: dict[str, Lowering] = {
    "i0": "special.i0",
    "i0e": "special.i0e",
    "i1": "special.i1",
    "i1e": "special.i1e",
}
