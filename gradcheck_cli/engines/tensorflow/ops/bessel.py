"""Modified Bessel functions of the first kind."""

from __future__ import annotations

from gradcheck_cli.engines.kit.lowerings import Lowering

ROWS: dict[str, Lowering] = {
    "i0": "math.bessel_i0",
    "i0e": "math.bessel_i0e",
    "i1": "math.bessel_i1",
    "i1e": "math.bessel_i1e",
}
