"""Modified Bessel functions of the first kind."""

from __future__ import annotations

from gradcheck_cli.engines.kit.lowerings import Lowering

ROWS: dict[str, Lowering] = {
    "i0": "scipy.special.i0",
    "i0e": "scipy.special.i0e",
    "i1": "scipy.special.i1",
    "i1e": "scipy.special.i1e",
}
