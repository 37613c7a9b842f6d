"""What a number must be to be right."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.fixes import Target, meets_target, ulps_off

FMT = FORMATS["float32"]


def target(value: float, slack: float) -> Target:
    return Target(np.array(value), np.array(value - slack), np.array(value + slack))


def test_inside_the_bar_is_right_and_nan_never_is() -> None:
    assert meets_target(target(1.0, 1e-6), np.array(1.0000005), FMT)
    assert not meets_target(target(1.0, 1e-6), np.array(1.00001), FMT)
    assert not meets_target(target(1.0, np.inf), np.array(np.nan), FMT)


def test_a_subnormal_may_be_flushed_and_an_overflow_is_infinite() -> None:
    assert meets_target(target(1e-40, 0.0), np.array(0.0), FMT)
    assert not meets_target(target(1e-30, 0.0), np.array(0.0), FMT)
    assert meets_target(target(1e39, 0.0), np.array(np.inf), FMT)
    assert not meets_target(target(-1e39, 0.0), np.array(np.inf), FMT)


def test_errors_are_in_ulps_of_the_truth() -> None:
    assert ulps_off(target(1.0, 0.0), np.array(1 + 2.0**-22), FMT) == 2
    assert ulps_off(target(1e-40, 0.0), np.array(0.0), FMT) == 0
    assert ulps_off(target(1.0, 0.0), np.array(np.nan), FMT) == np.inf
