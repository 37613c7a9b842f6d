"""Sine, cosine, tangent."""

from __future__ import annotations

import numpy as np

from reference_engine.op import Op, register
from reference_engine.rules import Elementwise

FAMILY = "trigonometric"

sin: Op = register(
    Op(
        "sin",
        np.sin,
        Elementwise(lambda g, y, x: g * cos(x)),
        family=FAMILY,
        formula="sin(x)",
        derivative="cos(x)",
        source="DLMF 4.20.1",
    )
)

cos: Op = register(
    Op(
        "cos",
        np.cos,
        Elementwise(lambda g, y, x: -(g * sin(x))),
        family=FAMILY,
        formula="cos(x)",
        derivative="-sin(x)",
        source="DLMF 4.20.2",
    )
)

tan: Op = register(
    Op(
        "tan",
        np.tan,
        Elementwise(lambda g, y, x: g * (1 + y * y)),
        family=FAMILY,
        formula="tan(x)",
        derivative="1 + tan(x)^2",
        domain="x != pi/2 + k pi, where no floating-point number lies",
        source="DLMF 4.20.3",
    )
)
