"""Forward mode of a large layer whose program is enclosed: J @ direction, output by output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

import numpy as np

from gradcheck_cli.checks.enclosed_rows import Compared, EnclosedRows, compared
from gradcheck_cli.checks.large_forward import Forward
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import FORMATS
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.domain.thresholds import ERROR_BITS, HIDDEN_ULPS
from gradcheck_cli.engines.layer.subject import Subject
from gradcheck_cli.truth.certified.enclosed_products import EnclosedArray
from gradcheck_cli.truth.numerics.differences import Float
from gradcheck_cli.truth.numerics.probes import LEAST
from gradcheck_cli.truth.of_layers import STIRRED, ulp_perturbed


@dataclass
class EnclosedForward(Forward):
    """`rows` has what is enclosed along each direction. `limits` (m,) are the largest errors of an
    output that would not have shown along one of them."""

    rows: EnclosedRows = field(kw_only=True)
    limits: Float | None = None

    def _along(self, number: int, along: Mapping[str, Float]) -> Iterator[Finding]:
        narrow, highest = self.layer.narrow, self.truth.subject
        pushed = self._pushed(narrow, along)
        if not np.all(np.isfinite(pushed)):
            yield from self._no_number(number, along, pushed)
            return
        wide = pushed if highest is narrow else self._pushed(highest, along)
        found = self._compared(along, wide, self.rows.pushes[number])
        told = list(self._off(number, along)) if found.worst.size else []
        if told:
            yield from told
            return
        self.limits = found.limits if self.limits is None else np.fmax(self.limits, found.limits)
        if highest is not narrow:
            yield from self._lost(number, pushed, wide)

    def _compared(self, along: Mapping[str, Float], mine: Float, right: EnclosedArray) -> Compared:
        """What a few roundings of the largest entry explain is invisible beside it; not so a
        zero."""
        fmt = FORMATS["float64"]
        used = np.any(self.truth.rows != 0, axis=0)
        largest = np.asarray(np.max(np.abs(right.value), initial=0.0))
        hidden = np.where(mine != 0, HIDDEN_ULPS * fmt.ulp(largest), 0.0)
        right = EnclosedArray(right.value, right.radius + hidden)
        return compared(mine, right, used, lambda: self._moved(along, mine), _half(right))

    def _moved(self, along: Mapping[str, Float], mine: Float) -> Float:
        """How far each output's tangent moves when all numbers move by a few ulps."""
        largest = np.zeros(mine.shape)
        for draw in range(STIRRED):
            there = self._elsewhere(along, draw)
            if there is not None:
                largest = np.fmax(largest, np.nan_to_num(np.abs(there - mine)))
        return largest

    def _elsewhere(self, along: Mapping[str, Float], draw: int) -> Float | None:
        highest = self.truth.subject
        there: Subject | None = self.layer.bind(highest.dtype, ulp_perturbed(highest, draw))
        if there is None:
            return None
        try:
            return self._pushed(there, along)
        finally:
            there.close()

    def _off(self, number: int, along: Mapping[str, Float]) -> Iterator[Finding]:
        """By the leaves along which it is off by itself; where there are none, all together."""
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
        mine, right = self._pushed(self.truth.subject, along), self.rows.pushed(along)
        found = self._compared(along, mine, right)
        if not found.worst.size:
            return None
        lost = (mine != 0) & (np.abs(mine - right.value) <= _half(right))
        wrong = found.worst[~lost[found.worst]]
        if not wrong.size and self.layer.narrow is not self.truth.subject:
            return None  # digits that the highest precision alone loses
        place = int(wrong[0] if wrong.size else found.worst[0])
        what = "is off" if wrong.size else "loses digits"
        message = (
            f"{self._product(number, name)} by forward mode {what} in "
            f"{np.count_nonzero(found.off)} of {mine.size} entries: entry {place} is "
            f"{mine[place]:.9g}, the exact one is {right.value[place]:.9g} ± "
            f"{right.radius[place]:.2g}"
        )
        code = Codes.WRONG_GRADIENT if wrong.size else Codes.PRECISION_LOSS
        return self._finding(code, message, name)

    def caught(self) -> dict[str, float]:
        """By leaf, the error of a single entry that would have been found for certain: directions
        move each by LEAST of the least scale at least."""
        if self.limits is None:
            return {}
        shown = float(np.max(self.limits, initial=0.0)) / LEAST
        draws = self.truth.draws
        return {leaf.name: shown / draws.least_scale(leaf) for leaf in self.truth.leaves}


def _half(right: EnclosedArray) -> Float:
    """Half of the digits of the largest entry: what rounding may cost any of them."""
    largest = np.asarray(np.max(np.abs(right.value), initial=0.0))
    return np.asarray(2.0 ** -(ERROR_BITS * FORMATS["float64"].bits) * largest)
