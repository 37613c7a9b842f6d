"""Limits of differences that do not contradict a gradient: the gradient may be too small to show in
the value, hold only very near the point, or be zero because nothing moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.thresholds import BUBBLE, Residue
from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.engines.layer.subject import Output
from gradcheck_cli.truth.blocks import Differences

HALF: Residue = 2.0**-26  # half of the digits of float64
NO_EFFECT = "the output does not depend on `{}`: {}, so its gradient is zero"


def unseen_rows(gradients: Mapping[str, Array], found: Mapping[str, Differences]) -> Array:
    """The error (m,) in the largest derivative of each output that differences would not show, if
    it is larger than the derivative itself; 0 otherwise. `gradients` are (m, n) a leaf. A
    derivative of 0 is seen if the value never changes, or if the error bar is below half of the
    digits of slopes nearby."""
    if not gradients:
        return np.zeros(0)
    own = np.concatenate([np.abs(g) for g in gradients.values()], axis=1)
    error = np.concatenate([found[name].error for name in gradients], axis=1)
    steepest = np.concatenate([found[name].steepest for name in gradients], axis=1)
    kind = np.concatenate([found[name].kind for name in gradients], axis=1)
    if not own.size or not np.all(np.isfinite(own)):
        return np.zeros(len(own))
    at = np.argmax(own, axis=1)[:, None]

    def largest(block: Array) -> Array:
        return np.asarray(np.take_along_axis(block, at, axis=1)[:, 0])

    bar, slope = largest(error), largest(own)
    seen = (bar <= slope) | ((slope == 0) & (bar <= HALF * largest(steepest)))
    seen |= (slope == 0) & (largest(steepest) == 0)
    known = np.isfinite(bar) & np.all(kind == PointKind.SMOOTH, axis=1)
    return np.where(known & ~seen, bar, 0.0)


def words_of_unused(name: str, gradient: Array, found: Differences) -> Iterator[str]:
    """Yield a sentence about a leaf along which the value never changes and whose `gradient` (m, n)
    is zero: a derivative that is not zero may be too small to show."""
    still = (found.value == 0) & (found.steepest == 0) & (found.kind == PointKind.SMOOTH)
    still &= gradient == 0
    if still.size and np.all(still):
        yield NO_EFFECT.format(name, "no difference along it changes the value")


def words_of_unseen(unseen: Array, outputs: Sequence[Output]) -> Iterator[str]:
    """Yield a sentence about the outputs with an error bar in `unseen` (m,)."""
    names = {o.name: None for o in outputs if np.any(unseen[o.start : o.start + o.size])}
    if names:
        listed = ", ".join(f"`{name}`" for name in names)
        missed = 10.0 ** np.ceil(np.log10(np.max(unseen)))
        yield (
            f"the derivatives of {listed} are too small, compared with its value, to show in "
            f"differences: an error of {missed:.0e} in one of them would not have been found"
        )


def words_of_bubbles(name: str, value: Array, gradient: Array, found: Differences) -> Iterator[str]:
    """Yield a sentence about derivatives (m, n) by the leaf `name` that hold only very near the
    point."""
    bubble = bubbles(value, gradient, found)
    if np.any(bubble):
        count, reach = int(np.sum(bubble)), float(np.max(found.reach[bubble]))
        many = f"{count} derivatives" if count > 1 else "1 derivative"
        yield (
            f"{many} by `{name}` hold{'s' * (count == 1)} only within {reach:.1g} of the point: "
            "longer steps show different ones"
        )


def bubbles(value: Array, gradient: Array, found: Differences) -> Array:
    """Mark the derivatives (m, n) by the numbers `value` (n,) that hold only very near these."""
    sizes = np.abs(value.reshape(-1))
    scale = np.where(sizes == 0, 1.0, sizes)
    agrees = np.abs(gradient - found.value) <= found.error
    near = found.reach <= BUBBLE * scale
    return np.asarray(agrees & (found.kind == PointKind.SMOOTH) & near)
