"""The truth of a callable that is known only by its values: finite differences in the highest
precision that it runs in, and its gradient in that precision if they confirm it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, replace
from functools import cached_property, partial

import numpy as np

from gradcheck_cli.domain.draws import generator, signs
from gradcheck_cli.domain.dtypes import FORMATS, Array, Values
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.layer import Leaf
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import (
    COARSE_STAIRS,
    FINE_STAIRS,
    GROWS,
    OPERATIONS,
    ROUNDING_GRAINS,
    ROUNDINGS,
    VAGUE_BAR,
    Step,
)
from gradcheck_cli.domain.truth import Hull, PointKind, Truth, TruthBlock
from gradcheck_cli.engines.layer.subject import Call, CallResult, Subject, output_size
from gradcheck_cli.truth.bisect_directions import confirm
from gradcheck_cli.truth.blocks import Differences, Merged
from gradcheck_cli.truth.layers.absorption import ABSORBED, absorbed
from gradcheck_cli.truth.layers.corners import cornered
from gradcheck_cli.truth.layers.precisions import without_rounded
from gradcheck_cli.truth.layers.resolving import UNRESOLVED, unresolved
from gradcheck_cli.truth.layers.safe_values import moved_inside, values_of
from gradcheck_cli.truth.layers.stairs import SHORTEST, Stairs, stairs_along, words_of_stairs
from gradcheck_cli.truth.layers.visibility import (
    bubbles,
    unseen_rows,
    words_of_bubbles,
    words_of_unseen,
    words_of_unused,
)
from gradcheck_cli.truth.layers.weighing import (
    Rounding,
    blurred,
    contradicted,
    left_open,
    move_of,
    unseen,
    weigh_block,
)
from gradcheck_cli.truth.numerics.differences import Estimate, Float
from gradcheck_cli.truth.numerics.directions import Slope
from gradcheck_cli.truth.numerics.noise import BESIDE, from_size, largest_of, measured_of_layer
from gradcheck_cli.truth.numerics.verify_first import Quick
from gradcheck_cli.truth.subdifferential import steady

DRAWS = 4  # moves of the inputs along random signs, to see how far the gradient moves
FEW = 4  # entries that get a difference each at once: two directions would cost half of that
STIR: Step = 8.0  # roundings by which the inputs move, so that every operation rounds anew
FAR_MOVE: Step = 2.0**-10
STIRRED = 3  # times; the largest change of three is seldom below the usual one


@dataclass
class CallableTruth:
    """The truth about the whole Jacobian of one subject at its own leaves.

    `dtype` is the judged dtype; the subject runs in its own. `ran` is a run with all unit
    cotangents, made when it is first needed; it took `seconds`. `gradients` are its gradients, (m,
    n) a leaf, with zeros where the layer returns none: differences show whether zero is right.
    `unsure`: a first look at values did not confirm the gradients. `searches`: the layer is known
    to be a search, so the slope of one of its stairs is not its derivative. `coarser` opens the
    layer in a narrower dtype, or gives None if the layer does not run in one.
    """

    subject: Subject
    bounds: Mapping[str, tuple[float, float]]
    dtype: str
    seed: int
    forward: int = 0
    backward: int = 0
    searches: bool = False
    coarser: Callable[[], AbstractContextManager[Subject | None]] = nullcontext

    def __post_init__(self) -> None:
        self.values = {leaf.name: leaf.value for leaf in self.subject.leaves}
        self.moving = [leaf for leaf in self.subject.leaves if leaf.differentiable]
        size = output_size(self.subject)
        self.cotangents = np.eye(size)
        self.seconds = 0.0
        self.unsure = False
        self.notes: dict[str, None] = {}  # sentences about limits of the differences
        self.cast = False  # whether the measured noise shows a cast to float32 inside the layer
        self._spread: Callable[[str, str], Array] | None = None
        self._noise: dict[str, Array] | None = None
        self._found: dict[str, Differences] | None = None
        self._outputs: dict[tuple[bytes, ...], Float] = {}  # by the bytes of the leaves
        self.doubt = ""  # why differences that contradict the gradient may be wrong
        self.stairs: dict[tuple[str, int], Stairs] = {}  # by leaf and entry

    @cached_property
    def ran(self) -> CallResult:
        """The run with all unit cotangents. Raises what the layer raises."""
        started = time.perf_counter()
        found = self._run({}, self.cotangents)
        self.seconds = time.perf_counter() - started
        return found

    @property
    def output(self) -> Array:
        return self.ran.output

    @cached_property
    def gradients(self) -> dict[str, Array]:
        return self._filled(self.ran, len(self.cotangents))

    def some_rows(self, asked: Array) -> tuple[Array, dict[str, Array]]:
        """The output (m,) and the gradients (m, n) by leaf. Rows that are not `asked` (m,) may be
        nan."""
        if "ran" in vars(self) or asked.all():
            return self.output, self.gradients
        output, some = self._pulled({}, self.cotangents[asked])
        by_leaf = {leaf.name: np.full((asked.size, leaf.size), np.nan) for leaf in self.moving}
        for name, gradients in some.items():
            by_leaf[name][asked] = gradients
        return output, by_leaf

    def _run(self, values: Values, rows: Array) -> CallResult:
        self.forward += 1
        self.backward += len(rows)
        return self.subject.run(Call(values, rows))

    def _filled(self, ran: CallResult, rows: int) -> dict[str, Array]:
        return {
            leaf.name: np.zeros((rows, leaf.size)) if found is None else found
            for leaf in self.moving
            for found in (ran.gradients.get(leaf.name),)
        }

    def _pulled(self, values: Values, rows: Array) -> tuple[Array, dict[str, Array]]:
        ran = self._run(values, rows)
        return ran.output, self._filled(ran, len(rows))

    def truth(self, names: Mapping[Mode, Mapping[str, Array] | None], costs: bool) -> Truth:
        """Return the blocks of every mode. `names` maps a mode to the directions of forward mode by
        leaf, (k, n), or to None for the whole Jacobian; `costs` requests C as well."""
        started = time.perf_counter()
        blocks: dict[tuple[str, str], TruthBlock] = {}
        reasons: dict[tuple[str, str], str] = {}
        differences = self.differences()
        unseen = unseen_rows(self.gradients, differences)
        self.notes = dict.fromkeys(words_of_unseen(unseen, self.subject.outputs))
        self.notes |= dict.fromkeys(words_of_stairs(self.stairs))
        for leaf in self.moving:
            own, taken = self.gradients[leaf.name], differences[leaf.name]
            self.notes |= dict.fromkeys(words_of_bubbles(leaf.name, leaf.value, own, taken))
            self.notes |= dict.fromkeys(words_of_unused(leaf.name, own, taken))
            block, reason = self._block(leaf.name, taken, costs)
            if np.any(unseen):
                block = replace(block, confirmed=block.confirmed & (unseen == 0)[:, None])
            block = open_at_infinity(block, self.gradients[leaf.name], leaf.value)
            for mode, directions in names.items():
                along = None if directions is None else directions[leaf.name]
                blocks[mode, leaf.name] = block if along is None else projected(block, along)
                if reason:
                    reasons[mode, leaf.name] = reason
        whole = [mode for mode, directions in names.items() if directions is None]
        hulls = self._hulls({leaf.name: blocks[whole[0], leaf.name] for leaf in self.moving})
        return Truth(
            dtype=self.dtype,
            output=self.output,
            output_error=from_size(self.output, OPERATIONS, self.subject.digits),
            blocks=blocks,
            reasons=reasons,
            hulls=dict.fromkeys(whole, hulls),
            forward=self.forward,
            duration_s=time.perf_counter() - started,
        )

    def _hulls(self, blocks: Mapping[str, TruthBlock]) -> tuple[Hull, ...]:
        """The slope along the direction in which all entries at kinks grow together, if there are
        several."""
        tied = {n: np.any(block.kind == PointKind.KINK, axis=0) for n, block in blocks.items()}
        if sum(map(np.count_nonzero, tied.values())) < 2:
            return ()
        steepest = {name: block.steepest for name, block in blocks.items()}
        size = min(float(np.min(own_size(self.values[n])[m])) for n, m in tied.items() if m.any())
        return (steady(tied, steepest, self.values, self._several, size, self.seed),)

    # Differences

    def _several(self, many: Sequence[Values]) -> Float:
        self.forward += len(many)
        own = self.values
        moved = [{name: v for name, v in at.items() if v is not own[name]} for at in many]
        return values_of(self.subject, moved, self.output.size)

    def _once(self, many: Sequence[Values]) -> Float:
        """`_several`, which does not run a point again: a block is settled twice, the second time
        with its costs."""
        keys = [tuple(value.tobytes() for value in at.values()) for at in many]
        new = {key: at for key, at in zip(keys, many, strict=True) if key not in self._outputs}
        if new:
            self._outputs.update(zip(new, self._several(list(new.values())), strict=True))
        return np.stack([self._outputs[key] for key in keys])

    def _value(self, at: Values) -> Float:
        return np.asarray(self._several([at])[0])

    def _least_noise(self) -> Float:
        """The rounding of the value at its size, plus one rounding of every input. Near a root the
        value is small, although the numbers that it is computed from are not."""
        dtype = self.subject.digits
        noise = from_size(self.output, OPERATIONS, dtype)
        square = np.zeros(self.output.size)
        for leaf in self.moving:
            terms = self.gradients[leaf.name] * leaf.value.reshape(-1)
            square += np.sum(np.where(np.isfinite(terms), terms, 0.0) ** 2, axis=1)
        return noise + from_size(np.sqrt(square), 1, dtype)

    def _quick(self, exact: bool) -> Quick:
        """A first look at differences whose steps are `exact` or rounded."""
        zero, dtype = self.output, self.subject.dtype
        least = self._least_noise()
        floats = {n: v for n, v in self.values.items() if v.dtype.kind == "f"}

        def near(at: Values) -> Float:
            return self._value(moved_inside(self.subject, at))

        def measure() -> Float:
            self.unsure = True
            found, cast = measured_of_layer(near, floats, zero, exact, dtype, least)
            self.cast |= cast
            return found if exact else np.fmax(least, 2 * found)

        return quick_of(self._several, self.values, self.bounds, zero, least, measure, dtype)

    def differences(self) -> dict[str, Differences]:
        """The differences of every entry, or along directions over all entries if those confirm the
        gradient."""
        if self._found is None:
            self._found = self._take_differences()
        return self._found

    def _take_differences(self) -> dict[str, Differences]:
        rows = self.output.size
        result = {leaf.name: Differences.empty(rows, leaf.size) for leaf in self.moving}
        exact, rounded = self._quick(True), self._quick(False)
        slope = partial(self._slope, exact)
        if sum(leaf.size for leaf in self.moving) > FEW:
            confirm(self.gradients, result, slope, rounded, self.seed, self.searches)
        for leaf in self.moving:
            gradient, differences = self.gradients[leaf.name], result[leaf.name]
            for column in range(leaf.size):
                if self._needs_its_own(gradient[:, column], differences, column):
                    differences.put(column, slope(leaf.name, column, gradient[:, column]))
                    differences.vouched[:, column] = False
        return result

    def _slope(self, exact: Quick, name: str, column: int, gradient: Array) -> Slope:
        """The difference along one entry. If the value rises in stairs, the steps are longer than
        the stairs."""
        slope = exact.along_entry(name, column, gradient)
        off = np.abs(slope.estimate.value - gradient) > slope.estimate.error
        ends = (off | self.searches) & np.isfinite(slope.reach)
        longest = COARSE_STAIRS if self.searches else FINE_STAIRS
        size = float(own_size(self.values[name])[column])
        unended = FINE_STAIRS / SHORTEST * size if self.searches else np.inf
        reach = float(np.min(np.where(ends, slope.reach, np.inf), initial=unended))
        if np.isinf(reach):
            return slope
        least = max(reach, self._rounding_on_the_way())
        stairs = stairs_along(self._several, self.values, name, column, least, longest)
        if stairs is None:
            return slope

        def noise_of(at: Values, y: Float) -> Float:
            return exact.noise_of(at, y) + stairs.heights

        coarse = replace(exact, noise=exact.noise + stairs.heights, noise_of=noise_of)
        searched = coarse.along_entry(name, column, gradient)
        followed = (stairs.heights > 0) & (stairs.slope.error < searched.estimate.error)
        value = np.where(followed, stairs.slope.value, searched.estimate.value)
        error = np.where(followed, stairs.slope.error, searched.estimate.error)
        tells = (np.abs(value) > error) | (off & (np.abs(value - gradient) <= error))
        if not np.any(tells & (stairs.heights > 0)):  # a sawtooth has no slope over long steps
            return slope
        self.stairs[name, column] = stairs
        return replace(searched, estimate=Estimate(value, error))

    @staticmethod
    def _needs_its_own(gradient: Array, differences: Differences, column: int) -> bool:
        """Check whether an entry needs its own difference: none was taken yet, or the entry is so
        small that a direction over all entries says little about it."""
        if not np.any(differences.vouched[:, column]):
            return bool(np.all(np.isinf(differences.error[:, column])))
        small = differences.error[:, column] > VAGUE_BAR * np.abs(gradient)
        return bool(np.any(small & (gradient != 0)))

    # Conditioning

    def costs(self) -> dict[str, Array]:
        """How far half an ulp of every number moves the gradient, by leaf (m, n)."""
        if self._spread is None:
            self._spread = moved_gradients(self.subject, self.gradients, self._pulled, self.seed)
        return {name: self._spread(name, self.dtype) for name in self.gradients}

    def noise(self) -> dict[str, Array]:
        """How far the subject's own rounding moves the gradient, by leaf (m, n): the largest change
        when every number moves by a few ulps, so that every operation rounds anew. An entry that is
        zero in exact arithmetic, like a bias before a batch norm, consists of nothing else."""
        if self._noise is None:
            rng = generator(self.seed, 7)
            move = STIR * FORMATS[self.subject.dtype].unit_roundoff
            self._noise = {name: np.zeros(g.shape) for name, g in self.gradients.items()}
            for _ in range(STIRRED):
                moved = {leaf.name: perturbed_leaf(leaf, move, rng) for leaf in self.moving}
                _, there = self._pulled(moved, self.cotangents)
                for name, found in self._noise.items():
                    change = np.abs(there[name] - self.gradients[name])
                    self._noise[name] = np.fmax(found, np.where(np.isfinite(change), change, 0.0))
        return self._noise

    @cached_property
    def _scattered(self) -> dict[str, Array]:
        """How far rounding spreads the gradients at points nearby, by leaf (m, n); 0 where the
        spread is no larger than the change of a smooth derivative. A few ulps of the input do not
        round a contracting function anew, such as a saturated one. The moves here are about
        halfway, in bits, to the moves that show how the gradient changes."""
        rng = generator(self.seed, 19)
        unit = FORMATS[self.subject.dtype].unit_roundoff
        move = float(np.sqrt(STIR * unit * move_of(self.subject.dtype)))
        many = []
        for size in (move / 4, move, 4 * move):  # a few roundings can produce only a few values
            moved = {leaf.name: perturbed_leaf(leaf, size, rng) for leaf in self.moving}
            many.append(self._pulled(moved, self.cotangents)[1])
        costs, scattered = self.costs(), {}
        for name in self.gradients:
            apart = np.ptp(np.stack([one[name] for one in many]), axis=0)
            smooth = GROWS * costs[name] / FORMATS[self.dtype].unit_roundoff * move
            scattered[name] = np.where(np.isfinite(apart) & (apart > smooth), apart, 0.0)
        return scattered

    # Blocks

    @property
    def _is_as_good_as_its_dtype(self) -> bool:
        """Whether values have all digits of their dtype. If not, agreement with a difference says
        little."""
        return self.subject.digits == self.subject.dtype

    def _block(self, name: str, differences: Differences, costs: bool) -> tuple[TruthBlock, str]:
        gradient = self.gradients[name]
        spread = 4 * FORMATS[self.subject.dtype].ulp(gradient)
        gap = np.where(differences.vouched, 0.0, np.abs(gradient - differences.value))
        confirmed = (differences.kind == PointKind.SMOOTH) & np.isfinite(gradient)
        confirmed &= np.isfinite(differences.error) & (gap <= differences.error + spread)
        scale = self._scale(name, differences)
        confirmed &= ~unseen(gradient, differences, scale, self.subject.dtype)
        confirmed &= ~bubbles(self.values[name], gradient, differences)
        if np.all(confirmed) and not costs and self._is_as_good_as_its_dtype:
            block = TruthBlock.of(
                gradient,
                spread,
                difference=differences.value,
                difference_error=np.where(np.isnan(differences.value), np.nan, differences.error),
                kind=differences.kind,
                scale=scale,
                confirmed=confirmed,
            )
            return block, ""
        doubtful = np.any(~confirmed & (differences.kind == PointKind.SMOOTH))
        rounding = Rounding(
            cost=self.costs()[name],
            noise=self.noise()[name],
            scattered=self._scattered[name] if doubtful else np.zeros_like(gradient),
            natural=natural_size(self.output[:, None], self.values[name]),
            blind=not self._is_as_good_as_its_dtype,
        )

        def settled(merged: Merged) -> Merged:
            # other dtypes have no digits for steps so short, and stairs are beside other stairs
            if self.subject.digits == "float64" and not self.stairs:
                at = name, range(gradient.shape[1])
                here = self._once, self.values
                merged = cornered(merged, gradient, differences, *here, at, self.seed)
            # a gradient that is all rounding, of a value that never moves, has lost no term
            still = (differences.value == 0) & (np.abs(gradient) <= ROUNDINGS * rounding.noise)
            below = self._in_last_digit(name, differences) & ~still
            merged = blurred(merged, gradient, differences, below)
            sizes, off = own_size(self.values[name]), contradicted(merged, gradient, differences)
            rows, value = self.cotangents, differences.value
            lost = absorbed(self.subject, rows, sizes, gradient, value, off)
            merged = left_open(merged, lost, ABSORBED)
            if self.doubt:
                off = contradicted(merged, gradient, differences)
                merged = left_open(merged, off, self.doubt)
            merged = left_open(merged, self._unresolved(merged, name, differences), UNRESOLVED)
            where = name, range(gradient.shape[1])
            given = self.subject, self.coarser, self.cotangents
            return without_rounded(merged, where, gradient, differences, *given)

        return weigh_block(
            gradient, differences, rounding, scale, self.subject.dtype, self.dtype, settled
        )

    def _rounding_on_the_way(self) -> float:
        """The size of the last digit of numbers as large as the inputs, the outputs or 1, times a
        safety factor: stairs are longer than that."""
        largest = max(map(largest_of, (self.output, *self.values.values())))
        unit = FORMATS[self.subject.digits].unit_roundoff
        return ROUNDING_GRAINS * unit * max(1.0, largest)

    def _unresolved(self, merged: Merged, name: str, found: Differences) -> Array:
        """Mark the contradicted entries (m, n) whose value changes too fast for any step."""
        gradient = self.gradients[name]
        off = contradicted(merged, gradient, found)
        if self.subject.digits != "float64" or not np.any(off):
            return np.zeros_like(off)
        return unresolved(self._several, self.values, name, gradient, self.output, off)

    def _in_last_digit(self, name: str, found: Differences) -> Array:
        """Mark the entries (m, n) whose output is below the last digit of the largest input, also
        after one number of this leaf moves by its own size. (A value that is zero only at a root
        rises at once.)"""
        sizes = [np.max(np.abs(v), initial=0.0, where=np.isfinite(v)) for v in self.values.values()]
        digit = FORMATS[self.subject.digits].unit_roundoff * max(sizes, default=0.0)
        rise = np.fmax(np.abs(self.gradients[name]), np.abs(found.value))
        rise = rise * own_size(self.values[name])
        return np.asarray(np.fmax(np.abs(self.output)[:, None], rise) <= digit)

    def _scale(self, name: str, found: Differences) -> Array:
        """The size of a derivative on any scale near the point: the steepest difference, or the
        size of the function over the size of the input. A tiny input counts as zero here."""
        outputs = np.abs(self.output[np.isfinite(self.output)])
        size = own_size(self.values[name])
        natural = np.max(outputs, initial=0.0) / np.where(size < BESIDE, 1.0, size)
        return np.where(found.vouched, np.inf, np.fmax(found.steepest, natural))


def open_at_infinity(block: TruthBlock, gradient: Array, at: Array) -> TruthBlock:
    """The block (m, n) with nothing known about derivatives by infinite inputs. Such an input has
    no neighbours, so any finite derivative is accepted."""
    infinite = np.broadcast_to(~np.isfinite(at.reshape(-1)), block.value.shape)
    if not np.any(infinite):
        return block
    value = np.where(np.isfinite(gradient), gradient, 0.0)
    return block.at(infinite, value=value, error=np.inf, kind=PointKind.SMOOTH, scale=np.inf)


def quick_of(
    several: Callable[[Sequence[Values]], Float],
    values: Values,
    bounds: Mapping[str, tuple[float, float]],
    zero: Float,
    least: Float,
    measure: Callable[[], Float],
    dtype: str,
) -> Quick:
    """A `Quick` of the function `several` around `values`, where the function is `zero` (m,). The
    noise is `least` until `measure` is called, and grows with the change of the value. `dtype` is
    what the function computes in."""

    def noise_of(at: Values, y: Float) -> Float:
        return quick.noise + from_size(y - zero, OPERATIONS, dtype)

    def one(at: Values) -> Float:
        return np.asarray(several([at])[0])

    quick = Quick(one, values, bounds, least, zero, noise_of, many=several, measure=measure)
    return quick


def moved_gradients(
    subject: Subject,
    gradients: Mapping[str, Array],
    pulled: Callable[[Values, Array], tuple[Array, Mapping[str, Array]]],
    seed: int,
) -> Callable[[str, str], Array]:
    """Return a function of leaf and dtype: how far half an ulp of the dtype in every number moves
    the gradients (m, n). This is the root mean square over moves of all leaves and cotangents along
    random signs; 0 where it is not finite. The moves are so large that the subject's own rounding
    is negligible."""
    rng = generator(seed, 5)
    rows = np.eye(output_size(subject))
    moving = [leaf for leaf in subject.leaves if leaf.differentiable]
    move = move_of(subject.dtype)
    sums = {name: np.zeros(g.shape) for name, g in gradients.items()}
    for _ in range(DRAWS):
        moved = {leaf.name: perturbed_leaf(leaf, move, rng) for leaf in moving}
        _, there = pulled(moved, rows * (1 + move * signs(rng, rows.shape)))
        for name, gradient in gradients.items():
            sums[name] += ((there[name] - gradient) / move) ** 2

    def cost(name: str, dtype: str) -> Array:
        found = np.sqrt(sums[name] / DRAWS) * FORMATS[dtype].unit_roundoff
        return np.where(np.isfinite(found), found, 0.0)

    return cost


def natural_size(output: Array, value: Array) -> Array:
    """The size (..., n) of a derivative if the output (..., 1) changes by its own size while the
    input changes by its own size."""
    return np.asarray(np.abs(output) / own_size(value))


def own_size(value: Array) -> Array:
    """The size of every number, (n,); 1 for a zero."""
    size = np.abs(value.reshape(-1))
    return np.where(size == 0, 1.0, size)


def ulp_perturbed(subject: Subject, seed: int = 0) -> dict[str, Array]:
    """The values of the leaves moved by a few ulps, so that every operation rounds anew."""
    rng = generator(seed, 37)
    move = 8 * FORMATS[subject.dtype].unit_roundoff
    return {
        leaf.name: perturbed_leaf(leaf, move, rng) for leaf in subject.leaves if leaf.differentiable
    }


def far_rounded(subject: Subject, seed: int) -> dict[str, Array]:
    """The values of the leaves moved by 2^-10 of themselves, as numbers of the dtype: so far that
    a result rounds anew although it hardly moves, down to a derivative of 2^-13 in float32, and so
    little that most derivatives keep their size."""
    rng = generator(seed, 38)
    fmt = FORMATS[subject.dtype]
    return {
        leaf.name: fmt.round(perturbed_leaf(leaf, FAR_MOVE, rng))
        for leaf in subject.leaves
        if leaf.differentiable
    }


def perturbed_leaf(leaf: Leaf, part: float, rng: np.random.Generator) -> Array:
    """The leaf's values, each moved by this part of itself at random up or down, inside the
    domain."""
    moved = signs(rng, leaf.shape)
    moved *= part  # in place, because further arrays of this size cost memory
    moved += 1.0
    moved *= leaf.kept
    moved = leaf.inside(moved)
    return moved if leaf.holds(moved) else np.clip(moved, leaf.low, leaf.high)


def transposed(block: TruthBlock) -> TruthBlock:
    """The block with rows and columns exchanged."""
    return TruthBlock(*(np.transpose(getattr(block, one.name)) for one in fields(block)))


def projected(block: TruthBlock, directions: Array) -> TruthBlock:
    """The block (m, n) times directions (k, n): (m, k). A product has the kind of the least smooth
    entry that it contains."""
    turned, size = directions.T, np.abs(directions.T)
    moved = block.kind[:, :, None] * (turned[None] != 0)
    kind = np.max(moved, axis=1, initial=PointKind.SMOOTH).astype(block.kind.dtype)
    value = block.value @ turned
    return TruthBlock.of(
        value,
        block.error @ size,
        kind=kind,
        lower=np.where(kind == PointKind.KINK, -np.inf, value),
        upper=np.where(kind == PointKind.KINK, np.inf, value),
        condition=np.sqrt(block.condition**2 @ size**2),
        allowance=np.sqrt(block.allowance**2 @ size**2),
        floor=np.sqrt(block.floor**2 @ size**2),
        scale=np.where(np.isfinite(block.scale), block.scale, np.abs(block.value)) @ size,
        confirmed=np.all(block.confirmed, axis=1, keepdims=True) & np.ones(value.shape, bool),
        certified=np.all(block.certified, axis=1, keepdims=True) & np.ones(value.shape, bool),
    )
