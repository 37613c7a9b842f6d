"""What fails: numbers that are 0 or off by half of their digits."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.judge.failing import half, inaccuracy, lost_to_zero, top_of

FLOAT32 = FORMATS["float32"]


def test_what_fails_is_measured_by_the_largest_entry() -> None:
    truth = np.array([[1.0, 1e-5, 1e-9]])
    top = top_of(truth)
    assert top.shape == (1, 1)
    off = inaccuracy(truth + 2 * half(FLOAT32), truth, top, FLOAT32)
    assert np.allclose(off, 2.0)
    assert np.all(inaccuracy(truth + 0.5 * half(FLOAT32), truth, top, FLOAT32) == 0)
    lost = lost_to_zero(np.zeros((1, 3)), truth, top, FLOAT32) > 0
    assert lost.tolist() == [[True, True, False]]  # 1e-9 was rounded away beside 1
