"""The verdict of each entry: the first row of a table that applies decides. Pure functions of
arrays of shape (rows, columns)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import Array, FloatFormat
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.spec import Tolerance
from gradcheck_cli.domain.thresholds import ERROR_BITS, EXCUSED_MOVES, NOTE_BITS
from gradcheck_cli.domain.truth import PointKind, TruthBlock
from gradcheck_cli.judge import measures, wording
from gradcheck_cli.judge.failing import inaccuracy, lost_to_zero, top_of
from gradcheck_cli.judge.measures import Accepted, Again, Mask


class Verdict(IntEnum):
    """The verdict on one entry, in the order in which findings are reported."""

    CORRECT = 0
    OUTPUT_LOST = 1  # its output is nan or inf already
    NAN = 2
    INFINITE = 3
    OVERFLOW = 4  # infinite, and the truth does not fit the dtype either
    WRONG = 5
    APART = 6  # at a tie, and together with its neighbours no generalised derivative
    UNDERFLOW = 7
    PRECISION = 8
    ILL_CONDITIONED = 9
    DOCUMENTED = 10  # off, but as the engine's documentation says
    KINK = 11
    UNDEFINED = 12
    JUMP = 13
    UNDECIDED = 14


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdicts on one block, with the error of every entry in ulps.

    `in_float32` marks the wrong entries that are right to the digits of float32. If some entries
    are off, `felt` marks the entries whose error is large compared with the derivatives of the
    function, `hidden` marks the entries whose error is negligible compared with the largest entry
    of their row and column, and `accepted` has the errors that rounding explains.
    """

    verdict: npt.NDArray[np.int64]
    ulps: Array
    in_float32: Mask | None = None
    felt: Mask | None = None
    hidden: Mask | None = None
    accepted: Accepted | None = None


@dataclass
class Evidence:
    """The evidence on which the rows of the table decide. Each property is computed when first
    needed.

    `g` and every array of `block` have shape (rows, columns); `wide` is None if the engine was not
    run in another precision. `lost` marks the rows whose output is not finite, shape (rows, 1) or
    (rows, columns). `repairable` says whether rounding may cause the error of the worst entry, from
    a trace of its operations; None if they were not traced. `rounds`: a proof that only roundings
    cause it. `documented` is the truth of the approximation that the engine documents, if any.
    `unweighed`: the cost of rounding in `block` is unknown. `apart` marks entries at kinks that
    cannot all be right together (`kinks.outside_hull`). `steepest` is the largest derivative of
    each output by any input, shape (rows, 1).
    """

    g: Array
    block: TruthBlock
    wide: Again | None
    lost: Mask
    format: FloatFormat
    tolerance: Tolerance | None
    repairable: bool | None = None
    rounds: bool = False
    documented: TruthBlock | None = None
    unweighed: bool = False
    apart: Mask | bool = False
    steepest: Array | float = 0.0

    @cached_property
    def ulps(self) -> Array:
        return measures.error_in_ulps(self.g, self.block.value, self.format)

    @cached_property
    def right(self) -> Mask:
        return measures.accepted(self.g, self.block, self.format, self.tolerance)

    @cached_property
    def too_wide(self) -> Mask:
        """Entries that count as right only because the error bar of the truth is wide."""
        wide = measures.too_wide(self.block, self.format)
        if not wide.any():
            return wide
        surely = measures.surely_tolerated(self.g, self.block, self.format, self.tolerance)
        return self.right & wide & ~surely

    @cached_property
    def overflows(self) -> Mask:
        return self.right & np.isinf(self.g) & self.of_kind(PointKind.SMOOTH)

    def of_kind(self, kind: PointKind) -> Mask:
        return np.asarray(self.block.kind == kind)

    @cached_property
    def off(self) -> Mask:
        """Finite entries that are not right although the function is smooth."""
        return ~self.right & self.of_kind(PointKind.SMOOTH) & np.isfinite(self.g)

    @property
    def all_right(self) -> bool:
        """Whether every entry is simply right, as in nearly every block."""
        return self.plain and bool(self.right.all())

    @cached_property
    def plain(self) -> bool:
        """Whether all entries are finite and smooth and have a sharp truth. If so, no row of the
        table above `Verdict.CORRECT` applies."""
        if self.lost.any() or self.block.kind.any() or not np.isfinite(self.g).all():
            return False
        return not (np.any(self.apart) or self.too_wide.any())

    @cached_property
    def accepted(self) -> Accepted:
        return measures.accepted_errors(self.block, self.format, self.tolerance)

    @cached_property
    def by_conditioning(self) -> Mask:
        return self.off & (self._error <= self.accepted.conditioning)

    @cached_property
    def by_rounding(self) -> Mask:
        """Entries whose error the rounding of operations explains. For an entry that `_fails`, this
        rounding explains no more than rounding the inputs does."""
        most = self.accepted.rounding
        if np.any(self.off & self._fails):
            moved = self.accepted.base + EXCUSED_MOVES * self.block.condition
            most = np.where(self._fails, np.fmin(most, moved), most)
        return np.asarray(self.off & (self._error <= most))

    @cached_property
    def _fails(self) -> Mask:
        """Entries with a certified truth that a search calls failures."""
        truth = np.where(np.isfinite(self.block.value), self.block.value, 0.0)
        top = top_of(truth)
        fails = (inaccuracy(self.g, truth, top, self.format) > 0) | (
            lost_to_zero(self.g, truth, top, self.format) > 0
        )
        return np.asarray(fails & self.block.certified)

    @cached_property
    def _error(self) -> Array:
        return np.asarray(np.abs(self.g - self.block.value))

    @cached_property
    def felt(self) -> Mask:
        return measures.is_felt(self.g, self.block, self.ulps, self.format, self.tolerance)

    @cached_property
    def sensitive(self) -> Mask:
        """Entries whose error is explained by rounding the inputs. Well-behaved operations may cost
        a few times as much as the inputs do. If they cost half of the digits, the problem is
        ill-conditioned, too."""
        half = measures.lossy(self.ulps, self.format, ERROR_BITS)
        explained = self.by_conditioning | self.by_rounding & half
        residue = measures.is_zero(self.block) & (self._error <= self.accepted.rounding)
        return np.asarray(explained & self.felt & ~residue)

    @cached_property
    def in_float32(self) -> Mask | None:
        """Entries that are off in float64 alone; None if the engine was not run in float32 too."""
        if self.wide is None or (self.format.name, self.wide.format.name) != ("float64", "float32"):
            return None
        return measures.only_lost_in_float64(self.g, self.ulps, self.wide, self.block, self.format)

    @cached_property
    def wrong(self) -> Mask:
        """Entries whose error is not a rounding problem."""
        # if only rounding is to blame, the other precision may absorb the same terms
        again = None if self.rounds else self.wide
        cost: Array | float = 0.0
        if again is not None and self.repairable is not False:
            cost = measures.finest_cost(again, self.block, self.format)
            cost = cost + measures.finest_rounding(again, self.steepest, self.format)
        wrong = measures.repeats_in(self.g, self.block, again, cost)
        wrong |= measures.grows_with_precision(self.g, self.block, again, self.format)
        if self.in_float32 is not None:
            wrong |= self.in_float32
        if not self.repairable and self.wide is not None:
            zero = (self.g == 0) & (self.wide.values == 0)
            zero &= self.wide.speaks_of(self.g, self.block.value)
            unknown = self.repairable is None
            seen = measures.of_natural_size if unknown else measures.beyond_rounding
            wrong |= zero & seen(self.wide, self.block, self.format)
        return self.off & wrong

    @cached_property
    def outside_kink(self) -> Mask:
        """Entries at a kink that are not between the one-sided derivatives."""
        return ~self.right & self.of_kind(PointKind.KINK)

    @cached_property
    def vanished(self) -> Mask:
        """Zeros where the truth is a normal number of the dtype."""
        holds = np.abs(self.block.value) >= self.format.smallest_normal
        return np.asarray(self.off & (self.g == 0) & holds)

    @cached_property
    def lossy(self) -> Mask:
        lost = measures.lossy(self.ulps, self.format, NOTE_BITS)
        return self.off & (lost | measures.has_tolerance(self.format, self.tolerance))

    @cached_property
    def may_be_rounding(self) -> Mask:
        """Entries with lost digits that rounding may explain, because its cost is unknown."""
        return self.unweighed & (self.vanished | self.lossy)

    @cached_property
    def documents_it(self) -> Mask:
        """Defects that the engine's documentation describes."""
        if self.documented is None or not np.any(self.off):
            return np.zeros_like(self.right)
        defects = self.wrong | self.outside_kink | self.vanished | self.lossy
        return defects & measures.follows(
            self.g, self.block, self.documented, self.format, self.tolerance
        )


TABLE: tuple[tuple[Verdict, Callable[[Evidence], Mask]], ...] = (
    (Verdict.OUTPUT_LOST, lambda e: e.lost),
    (Verdict.NAN, lambda e: ~e.right & np.isnan(e.g)),
    (Verdict.INFINITE, lambda e: ~e.right & np.isinf(e.g) & ~e.of_kind(PointKind.UNDECIDED)),
    (Verdict.OVERFLOW, lambda e: e.overflows),
    (Verdict.APART, lambda e: e.right & e.apart),
    (Verdict.KINK, lambda e: e.right & e.of_kind(PointKind.KINK)),
    (Verdict.UNDEFINED, lambda e: e.of_kind(PointKind.UNDEFINED)),
    (Verdict.JUMP, lambda e: e.of_kind(PointKind.JUMP)),
    (Verdict.ILL_CONDITIONED, lambda e: e.too_wide & measures.has_few_digits(e.g, e.block)),
    (Verdict.UNDECIDED, lambda e: e.too_wide | e.of_kind(PointKind.UNDECIDED)),
    (Verdict.CORRECT, lambda e: e.right),
    (Verdict.ILL_CONDITIONED, lambda e: e.sensitive),
    (Verdict.CORRECT, lambda e: e.by_conditioning | e.by_rounding),
    (Verdict.DOCUMENTED, lambda e: e.documents_it),
    (Verdict.WRONG, lambda e: e.wrong | e.outside_kink),
    (Verdict.UNDECIDED, lambda e: e.may_be_rounding),
    (Verdict.UNDERFLOW, lambda e: e.vanished),
    (Verdict.PRECISION, lambda e: e.lossy),
    (Verdict.CORRECT, lambda e: e.off),
)
"""The verdict on an entry is the first one whose row applies. The rows below `CORRECT` apply only
to finite entries that are off, so their costly evidence is computed only for these."""

_RIGHT = next(place for place, (verdict, _) in enumerate(TABLE) if verdict is Verdict.CORRECT)


@dataclass(frozen=True, slots=True)
class Reported:
    """The code and the message of the finding for a verdict."""

    code: str
    says: Callable[[wording.About], str]


OF_THE_ENGINE: Mapping[Verdict, Reported] = {
    Verdict.NAN: Reported(Codes.NAN_GRADIENT, wording.nan),
    Verdict.INFINITE: Reported(Codes.INFINITE_GRADIENT, wording.infinite),
    Verdict.OVERFLOW: Reported(Codes.INFINITE_GRADIENT, wording.infinite),
    Verdict.WRONG: Reported(Codes.WRONG_GRADIENT, wording.wrong),
    Verdict.APART: Reported(Codes.WRONG_GRADIENT, wording.apart),
    Verdict.UNDERFLOW: Reported(Codes.UNDERFLOW_TO_ZERO, wording.vanished),
    Verdict.PRECISION: Reported(Codes.PRECISION_LOSS, wording.lossy),
    Verdict.ILL_CONDITIONED: Reported(Codes.ILL_CONDITIONED, wording.ill_conditioned),
    Verdict.DOCUMENTED: Reported(Codes.DOCUMENTED_APPROXIMATION, wording.documented),
}
"""Findings about an engine's answer. Both tables are in the order of verdicts. A finding about the
point is reported once for an input, not once for an engine."""

OF_THE_POINT: Mapping[Verdict, Reported] = {
    Verdict.KINK: Reported(Codes.KINK, wording.kink),
    Verdict.UNDEFINED: Reported(Codes.UNDEFINED_DERIVATIVE, wording.undefined),
    Verdict.JUMP: Reported(Codes.DISCONTINUITY, wording.jump),
    Verdict.UNDECIDED: Reported(Codes.UNDECIDED, wording.undecided),
}


def judge_block(evidence: Evidence, *, settled: bool = False) -> Judged:
    """Return the verdict on every entry of one block. `settled` says that no entry which is not
    simply right has lost enough digits to be reported."""
    g, lost = evidence.g, evidence.lost
    verdict = np.zeros(g.shape, dtype=np.int64)  # Verdict.CORRECT
    if evidence.all_right or (settled and evidence.plain):
        return Judged(verdict, evidence.ulps)
    left = np.ones(g.shape, dtype=np.bool_)
    for one, applies in TABLE[_RIGHT:] if evidence.plain else TABLE:
        mine = left & applies(evidence)
        if mine.any():
            verdict[mine] = one
            left &= ~mine
            if not left.any():
                break
    if np.all(lost) or not np.any(evidence.off):
        return Judged(verdict, evidence.ulps, evidence.in_float32)
    return Judged(
        verdict,
        evidence.ulps,
        evidence.in_float32,
        evidence.felt,
        measures.is_hidden(g, evidence.block, evidence.format),
        evidence.accepted,
    )
