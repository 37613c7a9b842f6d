"""Compare a layer with itself in another precision, to see whether its differences show rounding. A
layer that loses digits in intermediate numbers, like (1 - cos(x)) / x near 0, is another function
on short steps, and a smooth one. Only a run in another precision shows that the steps, dead zones
and straight lines of its values are rounding and do not belong to the function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array, Values
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import NOISE_GROWS, OPERATIONS
from gradcheck_cli.domain.truth import PointKind
from gradcheck_cli.engines.layer.subject import Subject
from gradcheck_cli.truth.blocks import Differences, Merged
from gradcheck_cli.truth.layers.safe_values import values_of
from gradcheck_cli.truth.layers.visibility import bubbles
from gradcheck_cli.truth.layers.weighing import contradicted, left_open
from gradcheck_cli.truth.numerics.differences import (
    FIRST_STEP,
    Float,
    Ladder,
    central_of_levels,
    exact_steps,
    moved_entry,
)
from gradcheck_cli.truth.numerics.noise import from_size

LOST = (
    "the layer loses digits on the way, as its value in another precision shows, and its slopes "
    "over long and over short steps differ"
)
ROUGH = (PointKind.KINK, PointKind.JUMP, PointKind.UNDEFINED)

LEVELS = 20  # from steps near 1 down to 4e-7
SPARSE = 4  # one step of so many is evaluated in both precisions
UNEXPLAINED = 2  # columns after which no more are examined: the gradient is simply wrong


def without_rounded(
    merged: Merged,
    at: tuple[str, Sequence[int]],
    gradient: Array,
    found: Differences,
    subject: Subject,
    coarser: Callable[[], AbstractContextManager[Subject | None]],
    rows: Array,
) -> Merged:
    """The block (r, n) of rows (r, m) @ J `at` a leaf and flat places (n,) in it, with entries
    undecided whose difference is spoilt by rounding.

    These are entries of the `gradient` that differences contradict, find rough or confirm on short
    steps alone. Two conditions must hold. First, differences over longer steps have an error bar
    below half of the discrepancy and agree with the gradient; at a rough point they show a single
    slope instead, and for an entry confirmed on short steps alone they contradict the gradient.
    Second, `coarser`, the layer in a narrower dtype, differs from the layer somewhere around the
    point by much more than rounding the results and the inputs explains.

    Costs LEVELS evaluations for each column with an entry in question, and 2 LEVELS more if the
    precisions differ.
    """
    rough = np.isin(merged.kind, ROUGH)
    bubble = bubbles(_value_of(subject, at), gradient, found)
    off = (contradicted(merged, gradient, found) | rough | bubble) & np.isfinite(gradient)
    if subject.digits != "float64" or not np.any(off):
        return merged
    with coarser() as other:
        if other is None:
            return merged
        lost = _Precisions(subject, other, rows).rounded_away(
            at, gradient, found, off, rough, bubble
        )
    return left_open(merged, lost, LOST)


@dataclass(frozen=True, slots=True)
class _Precisions:
    """A layer in two precisions, seen through `rows` (r, m) of its outputs (m,)."""

    fine: Subject
    coarse: Subject
    rows: Array

    def rounded_away(
        self,
        at: tuple[str, Sequence[int]],
        gradient: Array,
        found: Differences,
        off: Array,
        rough: Array,
        bubble: Array,
    ) -> Array:
        """Mark the entries among `off` (r, n) that rounding explains."""
        name, places = at
        leaf = next(one.value for one in self.fine.leaves if one.name == name)
        flat = leaf.reshape(-1)
        sides = np.abs(found.above - found.below)
        sides = np.where(np.isfinite(sides), sides, found.steepest)
        apart = np.fmax(np.abs(gradient - found.value), rough * sides)
        apart = np.where(bubble, np.abs(gradient), apart)
        terms = gradient * flat[list(places)]
        terms = np.sum(np.where(np.isfinite(terms), terms, 0.0) ** 2, axis=1) ** 0.5
        hidden, left = np.zeros_like(off), UNEXPLAINED
        for k in np.flatnonzero(np.any(off, axis=0)).tolist():
            base = float(flat[places[k]])
            longest = FIRST_STEP * max(1.0, abs(base))
            steps = exact_steps(longest * np.ldexp(1.0, -np.arange(LEVELS)), base)
            moved = [{name: moved_entry(leaf, places[k], h)} for h in (*steps, *-steps)]
            lossy = off[:, k] & self._differ(moved[::SPARSE], terms)
            if np.any(lossy):
                ladder = self._ladder(moved, steps)
                shown = central_of_levels(ladder)
                agrees = np.abs(shown.value - gradient[:, k]) <= shown.error
                sharp = shown.error <= apart[:, k] / 2
                bend = np.abs(ladder.plus + ladder.minus - 2 * ladder.zero) / steps[:, None]
                straight = bend <= apart[:, k] / 2  # a kink bends as much on every step
                fits = np.where(rough[:, k], straight, agrees ^ bubble[:, k])
                hidden[:, k] = lossy & np.any(fits & sharp, axis=0)
            left -= not np.any(hidden[:, k])
            if left == 0:
                break
        return hidden

    def _differ(self, many: Sequence[Values], terms: Float) -> Array:
        """Mark the rows (r,) in which the precisions differ at the same numbers by more than
        rounding the results, and the inputs whose terms in the row have the size `terms` (r,)."""
        dtype = self.coarse.digits
        fmt = FORMATS[dtype]
        own = {leaf.name: leaf.value for leaf in self.fine.leaves if leaf.differentiable}
        points = [{n: fmt.round(v) for n, v in {**own, **moved}.items()} for moved in many]
        fine, coarse = self._values(self.fine, points), self._values(self.coarse, points)
        off = np.abs(fine - coarse) @ np.abs(self.rows.T)
        size = np.abs(fine) @ np.abs(self.rows.T)
        granted = NOISE_GROWS * (from_size(size, OPERATIONS, dtype) + from_size(terms, 1, dtype))
        return np.asarray(np.any(np.isfinite(off) & (off > granted), axis=0))

    def _ladder(self, moved: Sequence[Values], steps: Float) -> Ladder:
        rows = self._values(self.fine, [{}, *moved]) @ self.rows.T
        plus, minus = rows[1 : 1 + len(steps)], rows[1 + len(steps) :]
        noise = from_size(np.fmax(np.abs(plus), np.abs(minus)), OPERATIONS)
        return Ladder(steps, plus, minus, noise, rows[0])

    def _values(self, subject: Subject, many: Sequence[Values]) -> Float:
        return values_of(subject, many, self.rows.shape[1])


def _value_of(subject: Subject, at: tuple[str, Sequence[int]]) -> Array:
    """The numbers (n,) at flat places in a leaf."""
    name, places = at
    leaf = next(one.value for one in subject.leaves if one.name == name)
    return leaf.reshape(-1)[list(places)]
