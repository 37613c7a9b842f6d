"""What a narrow dtype loses of a large gradient: entries of its products that are further from
those in the highest precision than rounding explains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gradcheck_cli.domain.draws import signs
from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat
from gradcheck_cli.domain.layer import LayerProblem, Leaf
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Pass, Rule
from gradcheck_cli.domain.thresholds import (
    ERROR_BITS,
    FEW_ULPS,
    FIRST_ORDER_SLACK,
    ROUNDINGS,
    Step,
)
from gradcheck_cli.engines.layer.subject import Call, Subject
from gradcheck_cli.judge.measures import Mask
from gradcheck_cli.truth.layers.callables import STIRRED, natural_size, stirred
from gradcheck_cli.truth.layers.projections import Projections
from gradcheck_cli.truth.layers.weighing import move_of, without_digits
from gradcheck_cli.truth.numerics.differences import Float
from gradcheck_cli.truth.numerics.probes import dot, parts

STIR: Step = 0.94  # of the bits stay: a few ulps, which round everything on the way anew
KEPT = 32  # entries of one product that are judged: the ones that are off most


def few_ulps(dtype: str) -> float:
    """The part of itself by which a number moves to have everything on the way rounded anew."""
    return float(2.0 ** -round(STIR * FORMATS[dtype].bits))


@dataclass
class RoundingOutliers:
    """Entries of one product row @ J by one leaf that are off in the dtype of the problem."""

    row: int
    leaf: Leaf
    flat: Array
    narrow: Float
    wide: Float
    cost: Float
    count: int


class Errors:
    """The errors of row @ J by one leaf in a narrow dtype, in which its entries are `mine`, while
    they are `right` in the highest precision: the `largest` in ulps, and how many entries (`count`)
    are off by more than FEW_ULPS. An entry of a product that cancels to nothing is measured against
    the `usual` size of entries. Of the arrays, only these entries are kept."""

    def __init__(self, mine: Float, right: Float, fmt: FloatFormat) -> None:
        self._fmt = fmt
        self.usual = _usual(right)
        self.largest = 0.0
        places = []
        with np.errstate(all="ignore"):
            for inside in parts(right.size):
                felt = self.felt(mine[inside], right[inside])
                worse = np.flatnonzero(~(felt <= FEW_ULPS) & np.isfinite(right[inside]))
                places.append(worse + inside.start)
                finite = np.isfinite(felt)
                self.largest = float(np.max(felt, initial=self.largest, where=finite))
        self._worse = np.concatenate([np.zeros(0, dtype=int), *places])
        self._mine, self._right = mine[self._worse], right[self._worse]
        self.count = self._worse.size

    def felt(self, mine: Float, right: Float) -> Float:
        """The errors of some entries in ulps."""
        off = np.abs(mine - right)
        return np.asarray(off / self._fmt.ulp(np.fmax(np.abs(right), self.usual)))

    def within(self, cost: Float) -> bool:
        """Whether rounding that costs an entry so much, (n,) or (1,), explains all of them, and
        none has lost half of its digits."""
        mine, right = self._mine, self._right
        cost = cost if cost.size == 1 else cost[self._worse]
        fmt = self._fmt
        with np.errstate(all="ignore"):
            off = np.abs(mine - right)
            bar = FIRST_ORDER_SLACK * ROUNDINGS * cost + FEW_ULPS * fmt.ulp(right)
            half = 2.0 ** (ERROR_BITS * fmt.bits) * fmt.ulp(np.fmax(np.abs(right), self.usual))
            return bool(np.all((off <= bar) & (off <= half)))


def _usual(right: Float) -> float:
    """The root of the mean square of the entries that are numbers."""
    square = dot(right, right)
    if np.isfinite(square):
        return float(np.sqrt(square / max(right.size, 1)))
    return float(np.sqrt(np.mean(np.square(right[np.isfinite(right)]))))


class Rounding:
    """Collects what is `off`, the largest error in `ulps` a leaf, what is a few ulps off and
    `explained`, and how many `backward` passes of the narrow layer that took."""

    def __init__(self, problem: LayerProblem, narrow: Subject, truth: Projections) -> None:
        self._problem = problem
        self._narrow = narrow
        self._truth = truth
        self._leaves = {leaf.name: leaf for leaf in truth.leaves}
        self.off: list[RoundingOutliers] = []
        self.ulps: dict[str, float] = dict.fromkeys(self._leaves, 0.0)
        self.explained: dict[str, list[Pass]] = {name: [] for name in self._leaves}
        self.backward = 0
        self._usual_costs: dict[str, float] = {}  # by leaf, what rounding costs a usual entry

    def begin(self) -> None:
        """Forgets what was off."""
        self.off.clear()

    def compare(self, k: int, wide: Mapping[str, Float | None]) -> None:
        """Keeps the entries of row k @ J that are off in the narrow dtype, with what rounding costs
        there."""
        row, fmt = self._truth.rows[k], FORMATS[self._problem.dtype]
        every = {name: Errors(mine, right, fmt) for name, mine, right in self._both(row, wide)}
        for name, errors in every.items():
            self.ulps[name] = max(self.ulps[name], errors.largest)
        # The rounding of the cotangent alone costs a usual entry half an ulp: its terms add up as
        # those of the product do, along other signs.
        costs = {
            name: np.array([max(fmt.unit_roundoff * one.usual, self._usual_costs.get(name, 0.0))])
            for name, one in every.items()
        }
        left = self._unexplained(every, costs)
        if not left:
            return
        costs = self._moved(k, row, wide)
        left = self._unexplained(left, costs)
        if not left:
            return
        noise = self._noise(k, row, wide)
        for name, mine, right in self._both(row, wide):
            if name in left:
                self._judge(k, name, mine, right, left[name], costs[name], noise[name])

    def _both(
        self, row: Float, wide: Mapping[str, Float | None]
    ) -> Iterator[tuple[str, Float, Float]]:
        """By leaf, row @ J in the narrow dtype and in the highest precision."""
        gradients = dict(self._narrow.run(Call(cotangents=row[None])).gradients)
        self.backward += 1
        for name, right in wide.items():
            mine = gradients.pop(name, None)  # not kept: each may be as large as the layer
            if mine is not None and right is not None:
                yield name, mine[0], right

    def _unexplained(
        self, every: Mapping[str, Errors], costs: Mapping[str, Float]
    ) -> dict[str, Errors]:
        """Those that rounding at these costs does not explain."""
        left = {}
        for name, errors in every.items():
            if not errors.within(costs[name]):
                left[name] = errors
            elif errors.count:
                self.explained[name].append(Pass("rounding", errors.count, errors.largest))
        return left

    def _judge(
        self,
        k: int,
        name: str,
        mine: Float,
        right: Float,
        errors: Errors,
        moved: Float,
        noise: Float,
    ) -> None:
        """Keeps the entries of a leaf that are off, where rounding does not explain all of them."""
        fmt = FORMATS[self._problem.dtype]
        cost, zero = self._weighed(name, self._truth.rows[k], right, moved, noise)
        with np.errstate(all="ignore"):
            off, felt = np.abs(mine - right), errors.felt(mine, right)
            ulps = off / fmt.ulp(right)
            half = felt > 2.0 ** (ERROR_BITS * fmt.bits)
            bar = FIRST_ORDER_SLACK * cost + FEW_ULPS * fmt.ulp(right)
            odd = (half & ~zero) | ~(off <= bar)
            odd &= np.isfinite(right)
        self._explain(name, "zero", felt[(felt > FEW_ULPS) & ~odd & zero])
        self._explain(name, "rounding", felt[(felt > FEW_ULPS) & ~odd & ~zero])
        self._keep(k, name, mine, right, ulps, cost, odd)

    def _weighed(
        self, name: str, row: Float, right: Float, moved: Float, noise: Float
    ) -> tuple[Float, Mask]:
        """What rounding costs entries of row @ J, and which of them are zero in exact arithmetic.

        Those are nothing but rounding: what that leaves in the narrow dtype is right. Elsewhere it
        is no excuse: stable programs have less. What a few ulps move by half of the digits of a
        derivative is no rounding either: it is another gradient next door.
        """
        fmt, wide = (FORMATS[d] for d in (self._problem.dtype, self._truth.subject.dtype))
        size = np.asarray(np.linalg.norm(row * self._truth.output))
        natural = natural_size(size, self._leaves[name].value)
        jumps = noise > 2.0 ** -(ERROR_BITS * wide.bits) * np.fmax(natural, np.abs(right))
        cost = np.where(jumps, 0.0, ROUNDINGS * moved)
        zero = (np.abs(right) <= FIRST_ORDER_SLACK * noise) & ~jumps
        left = ROUNDINGS * noise * (fmt.unit_roundoff / wide.unit_roundoff)
        none = without_digits(right, moved / fmt.unit_roundoff, natural, wide.name) & ~jumps
        cost = np.where(zero, cost + left, cost)
        return np.where(none, np.fmax(cost, fmt.ulp(natural)), cost), zero | none

    def _explain(self, name: str, rule: Rule, felt: Float) -> None:
        """Entries with these errors pass by a rule."""
        if felt.size:
            self.explained[name].append(Pass(rule, felt.size, float(np.max(felt))))

    def _keep(
        self, k: int, name: str, mine: Float, right: Float, ulps: Float, cost: Float, odd: Array
    ) -> None:
        """Keeps the worst of the `odd` entries for the judge."""
        places = np.flatnonzero(odd)
        if not places.size:
            return
        size = np.where(np.isnan(ulps[places]), np.inf, ulps[places])
        worst = places[np.argsort(-size, kind="stable")[:KEPT]]
        leaf = self._leaves[name]
        self.off.append(
            RoundingOutliers(k, leaf, worst, mine[worst], right[worst], cost[worst], places.size)
        )

    def _noise(self, k: int, row: Float, wide: Mapping[str, Float | None]) -> dict[str, Float]:
        """How far the rounding of the highest precision moves row @ J: the largest change of
        STIRRED, when every number moves by a few ulps."""
        move = few_ulps(self._truth.subject.dtype)
        draws = [self._changes(k, row, wide, move, 1 + draw) for draw in range(STIRRED)]
        return {name: np.max([draw[name][0] for draw in draws], axis=0) for name in wide}

    def _moved(self, k: int, row: Float, wide: Mapping[str, Float | None]) -> dict[str, Float]:
        """How far row @ J moves with half an ulp of the dtype in every number; the moves are large
        enough for rounding to vanish beside them."""
        move = move_of(self._truth.subject.dtype)
        unit = FORMATS[self._problem.dtype].unit_roundoff
        changes = self._changes(k, row, wide, move, 0)
        for name, (change, usual) in changes.items():
            self._usual_costs[name] = usual * (unit / move)
            change *= unit / move
        return {name: change for name, (change, _) in changes.items()}

    def _changes(
        self, k: int, row: Float, wide: Mapping[str, Float | None], move: float, draw: int
    ) -> dict[str, tuple[Float, float]]:
        """How far row @ J is from `wide` when every number has moved by this part of itself: each
        entry by itself and the leaf at large together, because one move along random signs may
        leave an entry where it was; and the leaf at large."""
        changes = changes_of_row(self._truth, row, wide, move, [self._problem.seed, 19, k, draw])
        found = {}
        for name, change in changes.items():
            usual = _usual(change)
            change += usual
            found[name] = change, usual
        return found


def changes_of_row(
    truth: Projections,
    row: Float,
    gradient: Mapping[str, Float | None],
    move: float,
    seed: Sequence[int],
) -> dict[str, Float]:
    """How far row @ J is from the `gradient` that it is here, when every number has moved by this
    part of itself; by leaf, (n,)."""
    rng = np.random.default_rng(seed)
    values = {leaf.name: stirred(leaf, move, rng) for leaf in truth.leaves}
    there = truth.pulled(row * (1 + move * signs(rng, row.shape)), values)
    del values  # as large as the layer
    changes = {}
    for leaf in truth.leaves:
        here, moved = gradient[leaf.name], there[leaf.name]
        if here is None or moved is None:
            changes[leaf.name] = np.zeros(leaf.size)
            continue
        with np.errstate(all="ignore"):
            moved -= here
            np.abs(moved, out=moved)
        moved[~np.isfinite(moved)] = 0.0
        changes[leaf.name] = moved
    return changes
