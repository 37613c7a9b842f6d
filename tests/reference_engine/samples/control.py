"""Samples of ops/control.py."""

import numpy as np

from tests.reference_engine.samples.drawing import REAL, Sample, one, unary

ROWS: dict[str, list[Sample]] = {
    "stop_gradient": unary(REAL),
    "astype": [one(REAL, 3, dtype=np.dtype(np.float64)), one(REAL, dtype=np.dtype(np.float64))],
}
