"""The error of a finite difference as a function of its step."""

from __future__ import annotations

from gradcheck_cli.domain.evaluation import Scheme
from gradcheck_cli.domain.records import dataclass

MOST_DRAWN = 32
"""Entries of all inputs up to which a curve takes no longer than a check."""


@dataclass(frozen=True, slots=True)
class Line:
    """The errors of one scheme: `errors[i]` is the error at `steps[i]` (ascending) relative to the
    largest entry of the gradient; None if the quotient is not finite. `usual` is the step that
    theory recommends, and the error there."""

    scheme: Scheme
    steps: tuple[float, ...]
    errors: tuple[float | None, ...]
    usual: tuple[float, float | None]

    @property
    def best(self) -> tuple[float, float] | None:
        """The step with the smallest error, and that error."""
        pairs = [*zip(self.steps, self.errors, strict=True), self.usual]
        known = [(error, h) for h, error in pairs if error is not None]
        if not known:
            return None
        error, step = min(known)
        return step, error


@dataclass(frozen=True, slots=True)
class Curve:
    """The lines of one spec in one dtype; without lines, `note` says why."""

    name: str
    dtype: str
    lines: tuple[Line, ...]
    note: str = ""
