"""Every row on numbers that were computed, so that no ball is exact."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

import reference_engine as re
from reference_engine.arithmetic.arbs import NotInBalls, Undecided, precision
from reference_engine.arithmetic.balls import exactly
from reference_engine.enclosing import ball_hvp, ball_jvp, ball_vjp
from reference_engine.op import TABLE
from reference_engine.traced import Value
from tests.every import by_family
from tests.reference_engine.samples import SAMPLES

TENTH = exactly(np.array(0.1))


@by_family(TABLE)
def test_derivatives_of_a_row_are_enclosed_or_refused(name: str) -> None:
    for sample in SAMPLES[name]:
        arrays = [np.asarray(a) for a in sample.arrays(3)]
        moving = [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]
        if not moving:
            continue

        def of_computed(*xs: Value, sample=sample, arrays=arrays, moving=moving) -> Value:  # type: ignore[no-untyped-def]
            args = list(arrays)
            for i, x in zip(moving, xs, strict=True):
                args[i] = re.divide(re.multiply(x, TENTH), TENTH)
            return TABLE[name](*args, **sample.keywords)

        xs = [arrays[i].astype(np.float64) for i in moving]
        x_dots = [np.ones(x.shape) for x in xs]
        with precision(200), np.errstate(all="ignore"), suppress(NotInBalls, Undecided):
            y, pull = ball_vjp(of_computed, xs)
            pull(np.ones(y.shape))
            ball_jvp(of_computed, xs, x_dots)
            ball_hvp(of_computed, xs, x_dots, np.ones(y.shape))
