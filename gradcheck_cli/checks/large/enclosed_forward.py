"""Compare forward mode of a large layer with enclosures of J @ direction, output by output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace

import numpy as np

from gradcheck_cli.checks.certified.enclosed_rows import Compared, EnclosedRows, compared, slack_of
from gradcheck_cli.checks.large.forward_mode import Forward
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.domain.thresholds import A_DIGIT
from gradcheck_cli.truth.certified.enclosed_products import EnclosedArray
from gradcheck_cli.truth.numerics.differences import Float
from gradcheck_cli.truth.numerics.probes import LEAST


@dataclass
class EnclosedForward(Forward):
    """Forward mode compared with the enclosures in `rows` along each direction. `limits` (m,) are
    the largest errors of an output that would not have shown along one of them."""

    rows: EnclosedRows = field(kw_only=True)
    limits: Float | None = None

    def __post_init__(self) -> None:
        self.source = self.rows.source

    def _findings_along(self, number: int, along: dict[str, Float]) -> Iterator[Finding]:
        narrow, highest = self.layer.narrow, self.truth.subject
        pushed = self._jvp_along(narrow, along)
        if not np.all(np.isfinite(pushed)):
            yield from self._no_number(number, along, pushed)
            return
        wide = pushed if highest is narrow else self._jvp_along(highest, along)
        found = self._compared(wide, self.rows.pushes[number])
        if found.worst.size:
            yield from self._wrong_leaves(number, along)
            return
        self.limits = found.limits if self.limits is None else np.fmax(self.limits, found.limits)
        self._note_lost(wide, self.rows.pushes[number])
        if highest is not narrow:
            yield from self._precision_loss(number, pushed, wide)

    def _compared(self, mine: Float, right: EnclosedArray) -> Compared:
        """Compare with the enclosure. Errors below half of the digits of the largest entry may be
        rounding: next to a saturated 1 - tanh(x)^2, nothing tells it from a mistake."""
        used = np.any(self.truth.rows != 0, axis=0)
        found = compared(mine, right, used, lambda: np.zeros(mine.shape), np.asarray(0.0))
        apart = np.abs(mine - right.value)
        off = found.off & ~(apart <= _half(right))
        places = np.flatnonzero(off)
        return replace(found, off=off, worst=places[np.argsort(-apart[places], kind="stable")])

    def _note_lost(self, mine: Float, right: EnclosedArray) -> None:
        """Note entries without a right digit that rounding at the size of the largest entry
        excuses; once, along the first direction that shows any."""
        used = np.any(self.truth.rows != 0, axis=0)
        part = np.abs(right.value) / np.max(np.abs(right.value), initial=0.0)
        lost = used & (np.abs(mine - right.value) > slack_of(right))
        lost &= np.abs(mine - right.value) > A_DIGIT * np.abs(right.value)
        if np.any(lost) and not self.notes:
            count = np.count_nonzero(lost)
            self.notes.append(
                f"{self.layer.name}: forward mode has no right digit in {count} of {mine.size} "
                f"entries of a product; they are at most {np.max(part[lost]):.1g} of the largest "
                "entry, and rounding may cost that much"
            )

    def _wrong_leaves(self, number: int, along: Mapping[str, Float]) -> Iterator[Finding]:
        """Findings about the leaves that are off on their own, or about all together if none is."""
        told = False
        for name, part in along.items():
            found = self._of_leaves(number, {name: part}, name)
            if found is not None:
                told = True
                yield found
        found = None if told else self._of_leaves(number, along, None)
        if found is not None:
            yield found

    def _of_leaves(
        self, number: int, along: Mapping[str, Float], name: str | None
    ) -> Finding | None:
        mine, right = self._jvp_along(self.truth.subject, along), self.rows.pushed(along)
        found = self._compared(mine, right)
        if not found.worst.size:
            return None
        place = int(found.worst[0])
        message = (
            f"{self._product(number, name)} by forward mode is off in "
            f"{np.count_nonzero(found.off)} of {mine.size} entries: entry {place} is "
            f"{mine[place]:.9g}, the exact one is {right.value[place]:.9g} ± "
            f"{right.radius[place]:.2g}"
        )
        return self._finding(Codes.WRONG_GRADIENT, message, name)

    def caught(self) -> dict[str, float]:
        """For each leaf, the error of a single entry that would certainly have been found:
        directions move each entry by at least LEAST times the least scale."""
        if self.limits is None:
            return {}
        shown = float(np.max(self.limits, initial=0.0)) / LEAST
        draws = self.truth.draws
        return {leaf.name: shown / draws.least_scale(leaf) for leaf in self.truth.leaves}


def _half(right: EnclosedArray) -> Float:
    """Half of the digits of the largest entry, which rounding may cost any entry."""
    largest = np.asarray(np.max(np.abs(right.value), initial=0.0))
    return np.asarray(FORMATS["float64"].half * largest)
