"""Candidate fixes for an unstable gradient, and the results of trying them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.dtypes import Array, FloatFormat
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.truth import Truth


@dataclass(frozen=True, slots=True)
class Candidate:
    """A program that may replace the original.

    `before` and `after` are the formulas of the part that differs, `model` the whole new formula,
    `rules` the rewrites in order ("1 / exp(x) -> exp(-x)"). `condition` is a formula: the two
    programs are equal where it is true (empty: wherever the old one has a value); `holds` is the
    same as a program. `kink` is the new derivative where the old program has none. `custom`: the
    new program defines a custom gradient. `part` computes only the part that differs. `place`:
    `before` and `after` are code of the user's framework at this place, not formulas.
    """

    program: Program
    before: str
    after: str
    model: str
    rules: tuple[str, ...]
    part: Program
    condition: str = ""
    holds: Program | None = None
    kink: str = ""
    custom: bool = False
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class FixRequest:
    """Requests that the reference worker screens candidates for the program of `truth`.

    `known` is the truth at the failing point; `bounds` in `truth` say where inputs may vary.
    """

    truth: TruthRequest
    known: Truth
    candidates: tuple[Candidate, ...]
    modes: tuple[Mode, ...]

    @property
    def dtype(self) -> str:
        return self.truth.dtype


@dataclass(frozen=True, slots=True)
class Target:
    """What an array of numbers must be: between `lower` and `upper`, with `value` in the middle. If
    these are -inf and inf, any finite number is accepted."""

    value: Array
    lower: Array
    upper: Array


@dataclass(frozen=True, slots=True)
class TrialPoint:
    """Inputs at which the original has a truth: its output, and its gradients by mode and block.

    Points that are `near` lie in the neighbourhood of the failing one, others elsewhere in its
    domain.
    """

    values: Mapping[str, Array]
    output: Target
    gradients: Mapping[tuple[Mode, str], Target]
    near: bool


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate and the points at which to try it, the failing one first. `worst` is its largest
    error in the reference engine, in ulps."""

    candidate: Candidate
    points: tuple[TrialPoint, ...]
    worst: float = 0.0


@dataclass(frozen=True, slots=True)
class Screened:
    """The answer to a FixRequest: candidates that are worth an engine's time, best first.
    `untried`: too few points had a truth to try any. `late`: none was found within the time
    limit."""

    trials: tuple[Trial, ...]
    untried: bool = False
    late: bool = False


def meets_target(target: Target, numbers: Array, fmt: FloatFormat) -> Array:
    """Mark the numbers that meet the target. A truth below the smallest normal number may be
    flushed, and one beyond the largest number is an infinity."""
    with np.errstate(all="ignore"):
        right = (numbers >= target.lower) & (numbers <= target.upper)
        tiny = fmt.smallest_normal
        right |= (np.abs(target.value) < tiny) & (np.abs(numbers) <= tiny)
        if np.any(infinite := np.isinf(numbers)):
            right |= infinite & (fmt.round(target.value) == numbers)
    return np.asarray(right)


def errors_in_ulps(target: Target, numbers: Array, fmt: FloatFormat) -> Array:
    """The errors of the numbers in ulps of the target: 0 where flushing is allowed or nothing is
    known, inf for a nan."""
    with np.errstate(all="ignore"):
        error = np.abs(numbers - target.value) / fmt.ulp(target.value)
    known = np.isfinite(target.value)
    if np.any(tiny := np.abs(target.value) < fmt.smallest_normal):
        known &= ~(tiny & meets_target(target, numbers, fmt))
    return np.where(known, np.where(np.isnan(error), np.inf, error), 0.0)


def ulps_off(target: Target, numbers: Array, fmt: FloatFormat) -> float:
    """The largest error in ulps."""
    return float(np.max(errors_in_ulps(target, numbers, fmt), initial=0.0))
