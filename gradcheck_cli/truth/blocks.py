"""Finite differences of a whole block, and their combination with the float64 gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import FIRST_ORDER_SLACK, UNSEEN_ULPS
from gradcheck_cli.domain.truth import Entries, PointKind, TruthBlock
from gradcheck_cli.truth.numerics.classify import Sides
from gradcheck_cli.truth.numerics.directions import Slope
from gradcheck_cli.truth.plain import moving

CONTRADICTION = (
    "the finite difference and the float64 gradient of the reference engine contradict each other"
)
NO_DIFFERENCE = (
    "no finite difference could be taken here: the function is not finite around the point"
)
TOO_FAST = "the function changes faster than any step in float64 can resolve"


@dataclass(slots=True)
class Differences:
    """Finite differences of one block, every array (rows, columns). `kind` holds PointKinds. An
    entry without a difference of its own is nan, with an infinite error; but if a directional
    difference over many entries `vouched` for it, the error is the smallest that would have been
    found. `reach` is the longest step that shows the value, inf if only a few steps were taken.
    `reason` says why some differences were not taken at all, if the function is not the reason."""

    value: Array
    error: Array
    kind: Array
    above: Array
    below: Array
    side_error: Array
    vouched: Array
    steepest: Array
    isolated: Array
    reach: Array
    reason: str = ""

    @classmethod
    def empty(cls, rows: int, columns: int) -> Differences:
        shape = (rows, columns)
        return cls(
            np.full(shape, np.nan),
            np.full(shape, np.inf),
            np.full(shape, int(PointKind.SMOOTH)),
            np.full(shape, np.nan),
            np.full(shape, np.nan),
            np.full(shape, np.inf),
            np.zeros(shape, dtype=bool),
            np.zeros(shape),
            np.zeros(shape, dtype=bool),
            np.full(shape, np.inf),
        )

    def put(self, column: int, slope: Slope) -> None:
        """Write the slopes of all rows into a column."""
        sides: Sides = slope.sides
        self.value[:, column] = slope.estimate.value
        self.error[:, column] = slope.estimate.error
        self.kind[:, column] = sides.kind
        self.isolated[:, column] = sides.isolated
        self.above[:, column] = sides.above.value
        self.below[:, column] = sides.below.value
        self.steepest[:, column] = slope.steepest
        self.reach[:, column] = slope.reach
        self.side_error[:, column] = np.fmax(sides.above.error, sides.below.error)

    def rows(self, rows: slice) -> Differences:
        """The differences of some rows."""
        names = (field.name for field in fields(self) if field.name != "reason")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})


def rows_by_input(counts: Mapping[str, int]) -> dict[str, slice]:
    """The rows of every input, from the number of its rows, if inputs follow one another."""
    ends = np.cumsum([*counts.values()])
    return {n: slice(int(end) - counts[n], int(end)) for n, end in zip(counts, ends, strict=True)}


@dataclass(slots=True)
class Merged(Entries):
    """The truth of a block: value, error, kind and one-sided interval of each entry, and why
    entries are undecided."""

    value: Array
    error: Array
    kind: Array
    lower: Array
    upper: Array
    confirmed: Array
    reason: str

    def block(self, found: Differences, **known: Array) -> TruthBlock:
        """The truth in the form that the judge takes, with the differences behind it."""
        merged = {
            "difference": found.value,
            "difference_error": np.where(np.isnan(found.value), np.nan, found.error),
            "kind": self.kind,
            "lower": self.lower,
            "upper": self.upper,
            "confirmed": self.confirmed,
        }
        return TruthBlock.of(self.value, **{"error": self.error, **merged, **known})


def merge(
    gradient: Array,
    spread: Array,
    differences: Differences,
    structural: Array | bool,
    ulp: Array,
    rounding: Callable[[], tuple[Array, Array]],
    *,
    stairs: bool = False,
) -> Merged:
    """Return the truth of a block from the float64 gradient (rows, columns) and the differences.

    If both agree, the truth is the gradient, and its error is bounded by the difference's bar and
    by the cost of rounding in float64. `spread` is the distance between two ways to compute the
    gradient. `structural` entries depend on an operation that is exactly on a kink of its own,
    where the gradient is a convention. On `stairs`, that gradient is the slope of one side: a
    difference that contradicts it has met several steps of the stairs, and is not the truth either.
    `ulp` is the ulp of the judged dtype around the gradient. `rounding` returns C and R in float64
    and is called only if needed.
    """
    structural = np.broadcast_to(np.asarray(structural, np.bool_), gradient.shape)
    kind = _settle_kinds(gradient, spread, differences, structural, stairs)
    smooth = kind == PointKind.SMOOTH
    taken = np.isfinite(differences.error) & (np.isfinite(differences.value) | differences.vouched)
    both = smooth & taken & np.isfinite(gradient)
    gap = np.where(differences.vouched, 0.0, np.abs(gradient - differences.value))
    bar = differences.error + gap
    consistent = both & (gap <= differences.error + spread)
    vague = both & ~(consistent & (bar <= UNSEEN_ULPS * ulp))
    error = np.where(both, bar, spread)
    explained = better = np.zeros_like(both)
    if np.any(vague):
        condition, floor = rounding()
        by_rounding = FIRST_ORDER_SLACK * floor + spread
        error = np.where(consistent, np.minimum(bar, by_rounding), error)
        off = both & ~consistent
        explained, better = _by_rounding(off, gap, differences, condition, by_rounding)
        error = np.where(better, differences.error, np.where(explained, by_rounding, error))
    confirmed = consistent | (explained & ~better)
    conflict = both & ~consistent & ~explained
    refuted = conflict & structural & (not stairs)
    only = smooth & taken & (~np.isfinite(gradient) | refuted)
    value = np.where(better | only, differences.value, gradient)
    error = np.where(only, differences.error, error)
    untaken = smooth & ~taken
    lost = (conflict & ~refuted) | untaken
    reasons = (
        (conflict & structural & stairs, TOO_FAST),
        (conflict & ~refuted, CONTRADICTION),
        (untaken, differences.reason or NO_DIFFERENCE),
        (kind == PointKind.UNDECIDED, TOO_FAST),
    )
    reason = next((words for entries, words in reasons if np.any(entries)), "")
    kind = np.where(lost, int(PointKind.UNDECIDED), kind)
    return _with_sides(value, error, kind, confirmed, differences, reason)


def _by_rounding(
    off: Array, gap: Array, differences: Differences, condition: Array, by_rounding: Array
) -> tuple[Array, Array]:
    """Mark the entries among `off` whose gap rounding explains, and those of them for which the
    difference is more accurate. A function so steep that half an ulp of its input explains the gap
    is not resolved by a difference either, however narrow its bar."""
    explained = off & (gap <= differences.error + by_rounding)
    resolved = gap > differences.error + FIRST_ORDER_SLACK * condition
    return explained, explained & resolved & (differences.error < by_rounding)


def _settle_kinds(
    gradient: Array, spread: Array, differences: Differences, structural: Array, stairs: bool
) -> Array:
    """The kinds, after considering the program. Without an operation on a kink of its own, a point
    that looks rough is a kink nearby, closer than the steps, if the gradient is the slope of one
    side; otherwise the function changes too fast for the steps. A kink of stairs whose gradient is
    neither slope also changes too fast."""
    kind = differences.kind.copy()
    if np.all(structural) and not stairs:
        return kind
    near = differences.side_error + spread
    on_top = np.abs(gradient - differences.above) <= near
    one_side = on_top | (np.abs(gradient - differences.below) <= near)
    rough = np.isin(kind, (PointKind.KINK, PointKind.JUMP, PointKind.UNDEFINED)) & ~structural
    nearby = rough & one_side
    kind[nearby] = int(PointKind.SMOOTH)
    slope = np.where(on_top, differences.above, differences.below)
    differences.value = np.where(nearby, slope, differences.value)
    differences.error = np.where(nearby, near, differences.error)
    doubtful = rough & ~nearby & ~differences.isolated & np.isfinite(gradient)
    kind[doubtful] = int(PointKind.UNDECIDED)
    if stairs:
        kind[(kind == PointKind.KINK) & structural & ~one_side] = int(PointKind.UNDECIDED)
    return kind


def _with_sides(
    value: Array, error: Array, kind: Array, confirmed: Array, differences: Differences, reason: str
) -> Merged:
    kink = kind == PointKind.KINK
    low = np.fmin(differences.above, differences.below)
    high = np.fmax(differences.above, differences.below)
    lower, upper = np.where(kink, low, value), np.where(kink, high, value)
    error = np.where(kink, differences.side_error, error)
    outside = kink & ~((value >= low) & (value <= high))
    value[outside] = (low[outside] + high[outside]) / 2
    free = (kind == PointKind.UNDEFINED) | (kind == PointKind.JUMP)
    value = np.where(free | ((kind == PointKind.UNDECIDED) & ~np.isfinite(value)), np.nan, value)
    error = np.where(free | (kind == PointKind.UNDECIDED), np.inf, error)
    return Merged(value, error, kind, lower, upper, confirmed, reason)


def unconstrained(merged: Merged) -> Merged:
    """For second derivatives: accept any value where the gradient has a kink or a jump."""
    rough = np.isin(merged.kind, (PointKind.KINK, PointKind.JUMP, PointKind.UNDEFINED))
    return merged.at(rough, kind=PointKind.KINK, lower=-np.inf, upper=np.inf)


def on_a_kink(program_nodes: list[Array], program: Program, wrt: Iterable[str]) -> set[str]:
    """The operations that depend on `wrt` and are exactly on a kink, tie or jump of their own
    row."""
    from reference_engine.traced import ROWS

    moved = moving(program, wrt)
    ops = set()
    for node in program.nodes:
        row = ROWS.get(node.op)
        if row is None or moved.isdisjoint(node.args):
            continue
        at = row.at_kink(*[program_nodes[i] for i in node.args], **node.keywords)
        if at is not None and np.any(at):
            ops.add(node.op)
    return ops
