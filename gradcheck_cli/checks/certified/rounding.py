"""Find the entries of a large gradient that a narrow dtype has lost: those whose products differ
from the highest precision by more than rounding explains."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from gradcheck_cli.domain.draws import signs
from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat, Values
from gradcheck_cli.domain.large_arrays import PART, dot, parts
from gradcheck_cli.domain.layer import LayerProblem, Leaf
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Pass, Rule
from gradcheck_cli.domain.thresholds import (
    ERROR_BITS,
    FEW_ULPS,
    FIRST_ORDER_SLACK,
    ROUNDINGS,
    TAIL,
    Step,
)
from gradcheck_cli.engines.layer.subject import Call, Spare, Subject
from gradcheck_cli.judge.measures import Mask
from gradcheck_cli.truth.layers.beside import (
    Point,
    Visit,
    cost_beside,
    is_confirmed,
    points_beside,
    visits,
)
from gradcheck_cli.truth.layers.callables import STIRRED, natural_size, own_size, perturbed_leaf
from gradcheck_cli.truth.layers.projections import Projections, single_vjp
from gradcheck_cli.truth.layers.weighing import move_of, rounding_only
from gradcheck_cli.truth.numerics.block_sums import block_sums, usual_size
from gradcheck_cli.truth.numerics.differences import Float

STIR: Step = 0.94  # part of the bits that stay: moves of a few ulps change every later rounding
MANY = 2**12  # errors: a single large one adds an eighth of itself to TAIL times their spread
KEPT = 32  # the most entries of one product that are judged, the worst first


def few_ulps(dtype: str) -> float:
    """The relative move of a few ulps, which makes every operation round differently."""
    return float(2.0 ** -round(STIR * FORMATS[dtype].bits))


@dataclass
class RoundingOutliers:
    """Entries of one product row @ J by one leaf that are off in the dtype of the problem.
    Rounding costs them `cost`, and rounding the inputs moves them by `moved`, for entries that are
    right on the other side of a kink. `slight`: an entry of usual size would lose no more than half
    of its digits by such an error."""

    row: int
    leaf: Leaf
    flat: Array
    narrow: Float
    wide: Float
    cost: Float
    moved: Float
    count: int
    slight: bool


class Errors:
    """The errors of row @ J by one leaf in a narrow dtype (`mine`), compared with the highest
    precision (`right`).

    `largest` is the largest error in ulps, `count` the number of entries off by more than FEW_ULPS.
    An entry of a product that cancels to nothing is measured against the `usual` size of entries.
    `worse` are the places of errors that the `cost` of rounding for an entry of usual size does not
    explain; only there are `mine` and `right` kept. `explained` is the largest of the other errors,
    `spread` the root mean square of all.
    """

    def __init__(
        self,
        mine: Float,
        right: Float,
        fmt: FloatFormat,
        cost: Callable[[float], float] = lambda usual: 0.0,
    ) -> None:
        self._fmt = fmt
        self.usual = _usual(right)
        self.largest, self.explained, self.count = 0.0, 0.0, 0
        squares = 0.0
        usual, places = np.array([cost(self.usual)]), [np.zeros(0, dtype=int)]
        memory = np.empty((2, PART))
        for inside in parts(right.size):
            value = right[inside]
            off, size = memory[:, : value.size]
            off[:] = mine[inside]
            off -= value
            squares += dot(off, off)
            looked_at = self._large(np.abs(off, out=off), np.abs(value, out=size))
            if not looked_at.size:
                continue
            off, value = off[looked_at], value[looked_at]
            felt = self.felt(off, value)
            worse = np.flatnonzero(~(felt <= FEW_ULPS) & np.isfinite(value))
            self.count += worse.size
            beyond = ~self._within_rounding(off[worse], value[worse], usual)
            places.append(looked_at[worse[beyond]] + inside.start)
            finite = np.isfinite(felt)
            self.largest = float(np.max(felt, initial=self.largest, where=finite))
            finite[worse[beyond]] = False
            self.explained = float(np.max(felt, initial=self.explained, where=finite))
        self.spread = math.sqrt(squares / max(right.size, 1))
        self.worse = np.concatenate(places)
        self.mine = np.asarray(mine[self.worse], np.float64)
        self.right = right[self.worse]

    def _large(self, off: Float, size: Float) -> Array:
        """The places of errors that count, or may be larger than those before, for numbers of this
        `size`, which is overwritten. An ulp is at least the unit roundoff times the number, unless
        that is out of the format's range."""
        least = min(FEW_ULPS, self.explained) * self._fmt.unit_roundoff
        np.fmax(size, self.usual, out=size)
        np.fmin(size, self._fmt.largest, out=size)
        size *= least
        return np.flatnonzero(~(off <= size))

    def felt(self, off: Float, right: Float) -> Float:
        """The errors of these entries, which are `off` by so much, in ulps."""
        return np.asarray(off / self._fmt.ulp(np.fmax(np.abs(right), self.usual)))

    def are_explained_by(self, cost: Float, beside: Float | None = None) -> Mask:
        """A mask of the entries of `worse` that rounding at this `cost` for each of them, or at one
        cost (1,) for all, explains, on slopes that are apart by `beside`."""
        off = np.abs(self.mine - self.right)
        if beside is not None:
            off = off - FIRST_ORDER_SLACK * beside
        return self._within_rounding(off, self.right, cost)

    def _within_rounding(self, off: Float, right: Float, cost: Float) -> Mask:
        """A mask of the entries that rounding at this cost explains, none with half its digits
        lost."""
        fmt = self._fmt
        bar = FIRST_ORDER_SLACK * ROUNDINGS * cost + FEW_ULPS * fmt.ulp(right)
        half = fmt.lost(ERROR_BITS) * fmt.ulp(np.fmax(np.abs(right), self.usual))
        return (off <= bar) & (off <= half)


def _usual(right: Float) -> float:
    """The root mean square of the finite entries."""
    square = dot(right, right)
    if np.isfinite(square):
        return float(np.sqrt(square / max(right.size, 1)))
    return float(np.sqrt(np.mean(np.square(right[np.isfinite(right)]))))


@dataclass(frozen=True, slots=True)
class _Weighed:
    """Entries (c,) that are `off`, compared with the `cost` of rounding: their errors in ulps as
    `felt`, masks of those that are `zero` in exact arithmetic, that have lost `half` of their
    digits, that are so `small` that rounding in the highest precision may be all of them, and that
    are `odd`, which rounding does not explain."""

    cost: Float
    off: Float
    felt: Float
    zero: Mask
    half: Mask
    small: Mask
    odd: Mask

    @property
    def lost(self) -> Mask:
        """The entries that are an error, unless another slope is beside them."""
        return self.odd & self.half


class Rounding:
    """Collects the entries that are `off`, the largest error in `ulps` by leaf, the small errors
    that are `explained`, and the number of `backward` passes of the narrow layer."""

    def __init__(self, problem: LayerProblem, narrow: Subject, truth: Projections) -> None:
        self._problem = problem
        self._narrow = narrow
        self._truth = truth
        self._leaves = {leaf.name: leaf for leaf in truth.leaves}
        self.off: list[RoundingOutliers] = []
        self.ulps: dict[str, float] = dict.fromkeys(self._leaves, 0.0)
        self.explained: dict[str, list[Pass]] = {name: [] for name in self._leaves}
        self.backward = 0
        self._left: list[tuple[int, dict[str, Errors], dict[str, Errors], dict[str, Float]]] = []
        self._usual_costs: dict[str, float] = {}  # by leaf, the cost of rounding a usual entry

    def begin(self) -> None:
        """Discard the entries that were off."""
        self.off.clear()
        self._left.clear()

    def compare(self, k: int, wide: Mapping[str, Float | None]) -> None:
        """Record the entries of row k @ J that are off in the narrow dtype by more than usual."""
        row, fmt = self._truth.rows[k], FORMATS[self._problem.dtype]
        every = {
            name: Errors(mine, right, fmt, partial(self._usual, name))
            for name, mine, right in self._narrow_and_wide(row, wide)
        }
        for name, errors in every.items():
            self.ulps[name] = max(self.ulps[name], errors.largest)
        left = self._unexplained_by_usual(every)
        if left:
            sums = {name: block_sums(right) for name, right in wide.items() if right is not None}
            self._left.append((k, left, every, sums))

    def settle(self) -> None:
        """Try to explain the remaining entries by other slopes beside the point or by rounding,
        which takes more runs. Whole gradients may each be as large as the layer, so only their
        remaining entries are kept until then."""
        for k, left, every, sums in self._left:
            left = self._unexplained_by_usual(left)
            none = {name: np.zeros(errors.worse.size) for name, errors in left.items()}
            weighed = {n: self._weigh(k, n, one, none[n], none[n]) for n, one in left.items()}
            beside = none
            # no rounding explains these, so its cost may not be needed
            if any(np.any(one.lost & ~one.small) for one in weighed.values()):
                beside = self._slopes_beside(k, left, weighed)
            near = {name: self._is_near(name, one, beside[name]) for name, one in left.items()}
            if not all(map(np.all, near.values())):
                costs = self._costs(k, every, sums)
                left = self._unexplained(left, costs)
                weighed = {n: self._weigh(k, n, one, costs[n], none[n]) for n, one in left.items()}
                if any(np.any((one.odd | one.half) & ~near[n]) for n, one in weighed.items()):
                    noise = self._noise(k, every, sums)
                    weighed = {n: self._weigh(k, n, left[n], costs[n], noise[n]) for n in left}
                if beside is none and any(np.any(one.lost) for one in weighed.values()):
                    beside = self._slopes_beside(k, left, weighed)
            for name, errors in left.items():
                self._judge(k, name, errors, weighed[name], beside[name])
        self._left.clear()

    def _usual(self, name: str, size: float) -> float:
        """The cost of rounding an entry of usual `size`. Rounding the cotangent alone costs it half
        an ulp: the errors add up as the terms of the product do, with other signs."""
        unit = FORMATS[self._problem.dtype].unit_roundoff
        return max(unit * size, self._usual_costs.get(name, 0.0))

    def _unexplained_by_usual(self, every: Mapping[str, Errors]) -> dict[str, Errors]:
        costs = {name: np.array([self._usually(name, one)]) for name, one in every.items()}
        return self._unexplained(every, costs)

    def _usually(self, name: str, errors: Errors) -> float:
        """The cost of rounding a usual entry of the leaf, as far as it is known without a run."""
        return max(self._usual(name, errors.usual), self._by_spread(name, errors))

    def _by_spread(self, name: str, errors: Errors) -> float:
        """The cost of rounding a usual entry, estimated from the spread of all errors: as much as
        explains the largest of them. Zero unless there are so many entries that none dominates the
        spread, and rounding explains the spread."""
        unit = FORMATS[self._problem.dtype].unit_roundoff
        bar = FIRST_ORDER_SLACK * ROUNDINGS
        usually = self._leaves[name].size >= MANY and errors.spread <= bar * unit * errors.usual
        return TAIL * errors.spread / bar if usually else 0.0

    def _costs(
        self, k: int, every: Mapping[str, Errors], sums: Mapping[str, Float]
    ) -> dict[str, Float]:
        """The cost of half an ulp in every number for the remaining entries, by leaf."""
        unit, move = self._half_an_ulp()
        costs = {}
        for name, (change, usual) in self._changes(k, every, sums, move, 0).items():
            self._usual_costs[name] = usual * (unit / move)
            costs[name] = (change + usual) * (unit / move)
        return costs

    def _half_an_ulp(self) -> tuple[float, float]:
        """Half an ulp of the dtype as a part of a number, and the larger part by which a number
        moves in the highest precision instead, so that rounding is negligible."""
        return FORMATS[self._problem.dtype].unit_roundoff, move_of(self._truth.subject.dtype)

    def _narrow_and_wide(
        self, row: Float, wide: Mapping[str, Float | None]
    ) -> Iterator[tuple[str, Float, Float]]:
        """For each leaf, row @ J in the narrow dtype and in the highest precision."""
        gradients = single_vjp(self._narrow, Call(cotangents=row[None]))
        self.backward += 1
        for name, right in wide.items():
            mine = gradients.pop(name, None)  # freed soon: it may be as large as the layer
            if mine is not None and right is not None:
                yield name, mine, right

    def _unexplained(
        self, every: Mapping[str, Errors], costs: Mapping[str, Float]
    ) -> dict[str, Errors]:
        """The errors that rounding at these costs does not explain."""
        left = {}
        for name, errors in every.items():
            if not np.all(errors.are_explained_by(costs[name])):
                left[name] = errors
            elif errors.count:
                self.explained[name].append(Pass("rounding", errors.count, errors.largest))
        return left

    def _slopes_beside(
        self, k: int, every: Mapping[str, Errors], weighed: Mapping[str, _Weighed]
    ) -> dict[str, Float]:
        """How far the remaining entries (c,) of row k @ J change when a few ulps of the narrow
        dtype move the leaves, and the slopes there are confirmed. Beside a kink, this is another
        slope. Moves end when they explain every entry that has lost its digits."""
        truth, row = self._truth, self._truth.rows[k]
        found = {name: np.zeros(errors.worse.size) for name, errors in every.items()}
        confirmed: dict[Point, list[str]] = {}
        rng = np.random.default_rng([self._problem.seed, 23, k])
        pairs = points_beside(truth.leaves, self._problem.dtype, self._problem.seed)
        for at in visits(pairs, lambda point: self._remaining_at(point(), row, every)):
            costs = {
                name: cost_beside(
                    errors.right, at.slope[name], (at.opposite or {}).get(name), at.times
                )
                for name, errors in every.items()
            }
            moved = [name for name, size in costs.items() if np.any(size > found[name])]
            if moved and at.point not in confirmed:
                confirmed[at.point] = self._confirmed_at(at, row, moved, every, rng)
            for name in set(moved) & set(confirmed.get(at.point, ())):
                found[name] = np.fmax(found[name], costs[name])
            near_all = (
                self._is_near(name, errors, found[name]) | ~weighed[name].lost
                for name, errors in every.items()
            )
            if all(map(np.all, near_all)):
                break
        return found

    def _remaining_at(
        self, point: Values, row: Float, every: Mapping[str, Errors]
    ) -> dict[str, Float]:
        """The remaining entries (c,) of row @ J where the leaves have moved."""
        whole = self._truth.pulled(row, point)
        found = {name: np.full(one.worse.size, np.nan) for name, one in every.items()}
        for name, gradient in whole.items():
            if name in every and gradient is not None:
                found[name] = gradient[every[name].worse]
        return found

    def _confirmed_at(
        self,
        at: Visit[dict[str, Float]],
        row: Float,
        moved: Sequence[str],
        every: Mapping[str, Errors],
        rng: np.random.Generator,
    ) -> list[str]:
        """The leaves among the `moved` whose remaining entries of row @ J are right at a point."""
        found: list[str] = []
        # differences are too noisy to look at several leaves at once
        alone = self._truth.tangents is None
        for names in [[name] for name in moved] if alone else [moved]:
            along: dict[str, Float] = {}
            stated = known = np.zeros(1)
            for name in names:
                along[name], steps = self._steps(every[name], name, rng)
                stated = stated + at.slope[name] @ steps
                known = known + every[name].right @ steps
            given = at.point(), along, row[None], stated, known
            if is_confirmed(self._truth, self._problem.dtype, *given)[0]:
                found += names
        return found

    def _steps(self, errors: Errors, name: str, rng: np.random.Generator) -> tuple[Float, Float]:
        """A direction (n,) along which the remaining entries of a leaf move by their own size, up
        or down at random, and the steps (c,) of these."""
        leaf = self._leaves[name]
        sizes = own_size(leaf.kept.reshape(-1)[errors.worse])
        steps = signs(rng, sizes.shape) * sizes
        along = np.zeros(leaf.size)
        along[errors.worse] = steps
        return along, steps

    def _is_near(self, name: str, errors: Errors, beside: Float) -> Mask:
        """A mask of the entries that are right on slopes that are apart by `beside` (c,), up to the
        rounding of a usual entry."""
        return errors.are_explained_by(np.array([self._usually(name, errors)]), beside)

    def _weigh(self, k: int, name: str, errors: Errors, moved: Float, noise: Float) -> _Weighed:
        """Compare the remaining entries of a leaf with the effect of rounding, which moves them by
        `moved` in the narrow dtype, and by `noise` in the highest precision (c,)."""
        fmt, wide = (FORMATS[d] for d in (self._problem.dtype, self._truth.subject.dtype))
        size = np.asarray(np.linalg.norm(self._truth.rows[k] * self._truth.output))
        natural = natural_size(size, self._leaves[name].kept.reshape(-1)[errors.worse])
        cost, zero = self._cost_and_zeros(errors.right, natural, moved, noise)
        off = np.abs(errors.mine - errors.right)
        felt = errors.felt(off, errors.right)
        half = ~(felt <= fmt.lost(ERROR_BITS))
        bar = FIRST_ORDER_SLACK * cost + FEW_ULPS * fmt.ulp(errors.right)
        small = np.abs(errors.right) <= FIRST_ORDER_SLACK * wide.half * natural
        return _Weighed(cost, off, felt, zero, half, small, (half & ~zero) | ~(off <= bar))

    def _judge(self, k: int, name: str, errors: Errors, weighed: _Weighed, beside: Float) -> None:
        """Keep the entries of a leaf that are off, unless rounding the inputs takes them to slopes
        that are apart by `beside` (c,)."""
        fmt = FORMATS[self._problem.dtype]
        cost, felt, half = weighed.cost, weighed.felt, weighed.half
        near = self._is_near(name, errors, beside)
        odd, crosses = weighed.odd & ~near, weighed.odd & near & half
        zero = ~weighed.odd & weighed.zero
        self._explain(name, "zero", felt[zero])
        self._explain(name, "conditioning", felt[crosses])
        self._explain(name, "rounding", felt[~(odd | crosses | zero)])
        usually = errors.count - errors.right.size
        if usually:
            self.explained[name].append(Pass("rounding", usually, errors.explained))
        ulps, none = weighed.off / fmt.ulp(errors.right), np.zeros_like(cost)
        self._keep(k, name, errors, ulps, cost, none, odd & half)
        moved = beside + ROUNDINGS * self._usually(name, errors)
        self._keep(k, name, errors, ulps, none, moved, crosses)
        self._keep(k, name, errors, ulps, cost, none, odd & ~half, slight=True)

    def _cost_and_zeros(
        self, right: Float, natural: Float, moved: Float, noise: Float
    ) -> tuple[Float, Mask]:
        """The cost of rounding entries (c,) of row @ J, whose `natural` size is known, and a mask
        of those that are zero in exact arithmetic.

        Such entries consist of rounding alone, so any rounding residue of the narrow dtype is
        right. Elsewhere rounding in the highest precision is no excuse: stable programs have less.
        If a few ulps change half of a derivative's digits, the cause is not rounding: a nearby
        point has another gradient.
        """
        fmt, wide = (FORMATS[d] for d in (self._problem.dtype, self._truth.subject.dtype))
        jumps = noise > wide.half * np.fmax(natural, np.abs(right))
        cost = np.where(jumps, 0.0, ROUNDINGS * moved)
        zero = (np.abs(right) <= FIRST_ORDER_SLACK * noise) & ~jumps
        left = ROUNDINGS * noise * (fmt.unit_roundoff / wide.unit_roundoff)
        none = rounding_only(right, moved / fmt.unit_roundoff, natural, wide.name) & ~jumps
        cost = np.where(zero, cost + left, cost)
        return np.where(none, np.fmax(cost, fmt.ulp(natural)), cost), zero | none

    def _explain(self, name: str, rule: Rule, felt: Float) -> None:
        """Record that entries with these errors pass by a rule."""
        if felt.size:
            self.explained[name].append(Pass(rule, felt.size, float(np.max(felt))))

    def _keep(
        self,
        k: int,
        name: str,
        errors: Errors,
        ulps: Float,
        cost: Float,
        moved: Float,
        chosen: Array,
        slight: bool = False,
    ) -> None:
        """Keep the worst of the `chosen` entries for the judge."""
        places = np.flatnonzero(chosen)
        if not places.size:
            return
        size = np.where(np.isnan(ulps[places]), np.inf, ulps[places])
        worst = places[np.argsort(-size, kind="stable")[:KEPT]]
        mine, right = errors.mine[worst], errors.right[worst]
        flat, leaf = errors.worse[worst], self._leaves[name]
        self.off.append(
            RoundingOutliers(
                k, leaf, flat, mine, right, cost[worst], moved[worst], places.size, slight
            )
        )

    def _noise(
        self, k: int, every: Mapping[str, Errors], sums: Mapping[str, Float]
    ) -> dict[str, Float]:
        """How far rounding in the highest precision moves the remaining entries: the largest change
        of STIRRED runs in which every number moves by a few ulps."""
        move = few_ulps(self._truth.subject.dtype)
        noise = {name: np.zeros(one.worse.size) for name, one in every.items()}
        for draw in range(STIRRED):
            for name, (change, usual) in self._changes(k, every, sums, move, 1 + draw).items():
                np.maximum(noise[name], change + usual, out=noise[name])
        return noise

    def _changes(
        self, k: int, every: Mapping[str, Errors], sums: Mapping[str, Float], move: float, draw: int
    ) -> dict[str, tuple[Float, float]]:
        """How far the remaining entries (c,) of row k @ J move when every number moves by this part
        of itself, and how far an entry of the leaf usually moves, since a single move along random
        signs may leave an entry where it was. Of the gradient itself only `sums` are known."""
        there = moved_row(self._truth, self._truth.rows[k], move, [self._problem.seed, 19, k, draw])
        changes = {}
        for name, one in every.items():
            moved = there.pop(name)
            if moved is None:
                changes[name] = np.zeros(one.worse.size), 0.0
                continue
            change = np.abs(moved[one.worse] - one.right)
            usual = usual_size(block_sums(moved) - sums[name], moved.size)
            change[~np.isfinite(change)] = 0.0
            changes[name] = change, usual
        return changes


def changes_of_row(
    truth: Projections,
    row: Float,
    gradient: Mapping[str, Float | None],
    move: float,
    seed: Sequence[int],
) -> dict[str, Float]:
    """How far row @ J moves from `gradient` when every number moves by this part of itself; by
    leaf, (n,)."""
    there = moved_row(truth, row, move, seed)
    changes = {}
    for leaf in truth.leaves:
        here, moved = gradient[leaf.name], there[leaf.name]
        if here is None or moved is None:
            changes[leaf.name] = np.zeros(leaf.size)
            continue
        change = moved - here  # not in place: the framework may own the memory
        np.abs(change, out=change)
        change[~np.isfinite(change)] = 0.0
        changes[leaf.name] = change
    return changes


def moved_row(
    truth: Projections, row: Float, move: float, seed: Sequence[int]
) -> dict[str, Float | None]:
    """row @ J after every number has moved by this part of itself; by leaf, (n,)."""
    rng = np.random.default_rng(seed)
    values = Spare({leaf.name: perturbed_leaf(leaf, move, rng) for leaf in truth.leaves})
    return truth.pulled(row * (1 + move * signs(rng, row.shape)), values)
