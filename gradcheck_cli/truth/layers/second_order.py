"""Second derivatives of a callable: differences of its gradient, in the highest precision that it
runs in, and its own second derivative where they confirm it.

A difference is as good as the gradient that it is taken of: one that forward mode or a difference
of the value contradicts says nothing about its own derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

from gradcheck_cli.domain.draws import generator, signs
from gradcheck_cli.domain.dtypes import FORMATS, Array, Values
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.scale import tangent_scale
from gradcheck_cli.domain.thresholds import OPERATIONS, ROUNDINGS
from gradcheck_cli.domain.truth import PointKind, TruthBlock
from gradcheck_cli.engines.layer.subject import Call, Subject
from gradcheck_cli.truth.blocks import Differences, unconstrained
from gradcheck_cli.truth.layers.bisect_entries import at_rows
from gradcheck_cli.truth.layers.callables import quick_of
from gradcheck_cli.truth.layers.safe_values import is_inside, moved_inside, values_of
from gradcheck_cli.truth.layers.weighing import Rounding, weighed
from gradcheck_cli.truth.numerics.differences import Float
from gradcheck_cli.truth.numerics.directions import Sampled, Slope
from gradcheck_cli.truth.numerics.noise import from_size, measured_of_layer
from gradcheck_cli.truth.numerics.verify_first import Quick

Blocks = dict[tuple[str, str], Array]
"""By leaf and leaf: d(ds/da)/db along directions of b, (n of a, directions of b)."""

ACROSS = 3  # pairs of directions; one tells two pieces of alike entries apart
ROUGH = (PointKind.KINK, PointKind.JUMP, PointKind.UNDEFINED)
DOUBTFUL = (
    "the gradient to differentiate is itself contradicted, by forward mode or by differences of "
    "the value"
)


@dataclass(frozen=True, slots=True)
class Weights:
    """What is known of rounding, by block: `costs` is how far half an ulp of the judged dtype in
    every number moves second derivatives, `noise` how far the subject's own roundings do. By leaf,
    `doubtful` entries of the first gradient (n,): differences of them are no truth; and `kinks`,
    the entries (n,) along which the value itself has a kink."""

    costs: Blocks
    noise: Blocks
    doubtful: Mapping[str, Array]
    kinks: Mapping[str, Array]


class RowGradients:
    """The gradient of s = row @ F of a subject; each is computed once, whatever composition of
    modes is compared with its differences."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._known: dict[tuple[bytes, ...], Mapping[str, Array | None]] = {}

    def at(self, row: Float, moved: Values) -> Mapping[str, Array | None]:
        """By leaf (n,), with some leaves at values that are not their own."""
        parts = (part for name in moved for part in (name.encode(), moved[name].tobytes()))
        key = (row.tobytes(), *parts)
        if key not in self._known:
            self._known[key] = self.subject.run(Call(moved, row[None])).row(0)
        return self._known[key]


@dataclass
class SecondTruth:
    """The Hessian of s = row @ F at the subject's own leaves, along `directions` (k, n) of every
    leaf that is requested, one leaf at a time; third order, of the derivative of s `along` a
    direction (n,) a leaf. `unsure`: a first look did not confirm it."""

    of_row: RowGradients
    row: Float
    directions: Mapping[str, Array]
    bounds: Mapping[str, tuple[float, float]]
    dtype: str
    along: Mapping[str, Array]
    unsure: bool = False

    def __post_init__(self) -> None:
        self.subject = self.of_row.subject
        self.values = {leaf.name: leaf.value for leaf in self.subject.leaves}
        self.sizes = {
            leaf.name: leaf.size for leaf in self.subject.leaves if leaf.name in self.directions
        }

    def _gradient(self, at: Values) -> Float:
        """The gradient of s, all leaves one after the other; nan outside of the domain."""
        if not is_inside(self.subject, at):
            return np.full(sum(self.sizes.values()), np.nan)
        moved = {name: v for name, v in at.items() if v is not self.values[name]}
        gradients = self.of_row.at(self.row, moved)
        parts = []
        for name, size in self.sizes.items():
            found = gradients.get(name)
            parts.append(np.zeros(size) if found is None else found)
        return np.concatenate(parts)

    def _several(self, many: Sequence[Values]) -> Float:
        return np.stack([self._gradient(at) for at in many])

    def _quick(self) -> Quick:
        zero = self._gradient({})
        # entries that cancel are as noisy as the others; where all vanish, as 1 - y^2 does, terms
        # as large as the value have cancelled
        usual = np.sqrt(np.mean(np.square(zero[np.isfinite(zero)])))
        terms = np.concatenate([self._natural(name, least=1.0) for name in self.sizes])
        size = np.fmax(np.fmax(np.abs(zero), usual), terms)
        least = from_size(size, OPERATIONS, self.subject.digits)
        return self._quick_of(self._gradient, self._several, zero, least)

    def _quick_of(
        self,
        one: Callable[[Values], Float],
        several: Callable[[Sequence[Values]], Float],
        zero: Float,
        least: Float,
    ) -> Quick:
        dtype = self.subject.dtype
        floats = {n: v for n, v in self.values.items() if v.dtype.kind == "f"}

        def near(at: Values) -> Float:
            return one(moved_inside(self.subject, at))

        def measure() -> Float:
            self.unsure = True
            return np.fmax(least, 2 * measured_of_layer(near, floats, zero, False, dtype)[0])

        return quick_of(several, self.values, self.bounds, zero, least, measure, dtype)

    # Whether the gradient is one

    def doubtful(self, pushed: Mapping[str, Float]) -> dict[str, Array]:
        """By leaf, the entries of the gradient (n,) that differences of the value contradict, or
        forward mode where those do not tell which of both is right. `pushed` has the same entries
        by forward mode, where there is one."""
        gradient = self._gradient({})
        noise = np.fmax(self._quick().measure(), 4 * FORMATS[self.subject.dtype].ulp(gradient))
        found, start = {}, 0
        for name, size in self.sizes.items():
            mine = slice(start, start + size)
            own, bar = gradient[mine], ROUNDINGS * noise[mine]
            value, error = (
                np.array([float(getattr(slope.estimate, what)[0]) for slope in self._slopes[name]])
                for what in ("value", "error")
            )
            with np.errstate(all="ignore"):
                off = np.abs(own - value)
                doubt = off > error + bar
                if name in pushed:
                    apart = np.abs(own - pushed[name])
                    vouched = (off <= error) & (error <= apart / 4)
                    doubt |= (apart > bar) & ~vouched
            found[name] = doubt
            start += size
        return found

    def kinks(self) -> dict[str, Array]:
        """By leaf, the entries (n,) along which the value has no derivative."""
        return {
            name: np.array([slope.sides.kind[0] != PointKind.SMOOTH for slope in slopes])
            for name, slopes in self._slopes.items()
        }

    @cached_property
    def _slopes(self) -> dict[str, list[Slope]]:
        """Of the value along every entry, by leaf. A few steps that confirm the gradient would not
        do: they confirm the 0 that an even kink has."""
        gradient, quick = self._gradient({}), self._quick_of_value()
        value = Sampled(
            quick.function,
            quick.values,
            quick.bounds,
            quick.measure(),
            quick.zero,
            quick.noise_of,
        )
        found, start = {}, 0
        for name, size in self.sizes.items():
            own = gradient[start : start + size, None]
            found[name] = [value.along_entry(name, i, own[i]) for i in range(size)]
            start += size
        return found

    def _quick_of_value(self) -> Quick:
        """The scalar itself."""

        def several(many: Sequence[Values]) -> Float:
            own = self.values
            moved = [{n: v for n, v in at.items() if v is not own[n]} for at in many]
            return values_of(self.subject, moved, self.row.size) @ self.row[:, None]

        def one(at: Values) -> Float:
            return np.asarray(several([at])[0])

        zero = one({})
        return self._quick_of(one, several, zero, from_size(zero, OPERATIONS, self.subject.digits))

    # Blocks

    def blocks(
        self, own: Blocks, weights: Weights | None
    ) -> tuple[dict[tuple[str, str], TruthBlock], dict[tuple[str, str], str]]:
        """The truth of every block, and why entries are undecided. `own` are the subject's second
        derivatives; no `weights`: nobody has looked at rounding."""
        quick = self._quick()
        found = {key: Differences.empty(*block.shape) for key, block in own.items()}
        for second, directions in self.directions.items():
            shape = np.shape(self.values[second])
            for number, along in enumerate(directions):
                expected = np.concatenate([own[first, second][:, number] for first in self.sizes])
                with np.errstate(all="ignore"):
                    slope = quick.along({second: along.reshape(shape)}, expected)
                start = 0
                for first, size in self.sizes.items():
                    mine = list(range(start, start + size))
                    found[first, second].put(number, at_rows(slope, mine))
                    start += size
        self._free_at_kinks(own, found, weights.kinks if weights else {})
        if weights and self._is_whole and any(map(np.any, _off(own, found).values())):
            self._free_at_kinks(own, found, self._bent(quick, found))
        blocks, reasons = {}, {}
        for key, block in own.items():
            blocks[key], reason = self._block(key, block, found[key], weights)
            if reason:
                reasons[key] = reason
        return blocks, reasons

    @cached_property
    def _is_whole(self) -> bool:
        """Whether there is a column an entry."""
        return all(
            np.array_equal(self.directions[name], np.eye(n)) for name, n in self.sizes.items()
        )

    def _bent(self, quick: Quick, found: Mapping[tuple[str, str], Differences]) -> dict[str, Array]:
        """By leaf, the entries of the gradient (n,) that have no derivative, though they have one
        along every axis: along other directions it is not what those add up to, as at 0 for
        max(x^2, y^2)."""
        rng = generator(0, 37)
        bent = {name: np.zeros(n, dtype=np.bool_) for name, n in self.sizes.items()}
        count = sum(self.sizes.values())
        # what is 0 moves alike in all leaves: there most ties are
        still = {name: np.reshape(self.values[name] == 0, -1) for name in self.sizes}
        lengths = rng.uniform(-2, 2, (ACROSS, count))
        # of two pieces one is seen by a direction, and the other by that of the inverse lengths
        for bits in np.concatenate([lengths, -lengths]):
            parts = np.split(
                signs(rng, (count,)) * np.exp2(bits), np.cumsum([*self.sizes.values()])[:-1]
            )
            u = {
                name: part * np.where(still[name], 1.0, tangent_scale(self.values[name]))
                for name, part in zip(self.sizes, parts, strict=True)
            }
            shaped = {name: part.reshape(self.values[name].shape) for name, part in u.items()}
            with np.errstate(all="ignore"):
                slope, start = quick.along(shaped), 0
            for first, n in self.sizes.items():
                mine = slice(start, start + n)
                value, bar = slope.estimate.value[mine], slope.estimate.error[mine]
                with np.errstate(all="ignore"):
                    total = sum(found[first, second].value @ u[second] for second in u)
                    bars = sum(found[first, second].error @ np.abs(u[second]) for second in u)
                    bent[first] |= np.abs(value - total) > bar + bars
                start += n
        return bent

    def _free_at_kinks(
        self,
        own: Blocks,
        found: Mapping[tuple[str, str], Differences],
        kinks: Mapping[str, Array],
    ) -> None:
        """Makes kinks, in place, of entries that a difference contradicts where the gradient has no
        derivative: where the entry that is differentiated has a kink along any direction, or the
        value has one itself. A difference along one direction may exist even so, of one piece of
        several that meet; what a framework gives there is put together from all of them. Where
        every column is an entry, this holds of columns as it does of rows: a Hessian is symmetric.
        """
        rough = {
            name: np.array(kinks.get(name, np.zeros(n, bool))) for name, n in self.sizes.items()
        }
        for (first, second), block in found.items():
            kinked = np.isin(block.kind, ROUGH)
            rough[first] |= np.any(kinked, axis=1)
            if self._is_whole:
                rough[second] |= np.any(kinked, axis=0)
        off = _off(own, found)
        for (first, second), block in found.items():
            reached = np.broadcast_to(rough[first][:, None], block.kind.shape)
            if self._is_whole:
                reached = reached | rough[second]
            free = reached & off[first, second]
            block.kind = np.where(free, int(PointKind.KINK), block.kind)

    def _block(
        self,
        key: tuple[str, str],
        own: Array,
        found: Differences,
        weights: Weights | None,
    ) -> tuple[TruthBlock, str]:
        zeros = np.zeros(own.shape)
        rounding = Rounding(zeros, zeros, zeros)
        if weights is not None:
            blind = self.subject.digits != self.subject.dtype
            natural = self.natural_block(*key)
            rounding = Rounding(weights.costs[key], weights.noise[key], natural, blind)
        # an entry that cancels has no slope of its own; that of the others is its scale, or what is
        # natural for this function
        scale = np.fmax(np.max(found.steepest, axis=0), self.natural_block(*key))
        dtype = self.subject.dtype
        block, reason = weighed(own, found, rounding, scale, dtype, self.dtype, unconstrained)
        if weights is None or not np.any(weights.doubtful.get(key[0], False)):
            return block, reason
        rows = np.broadcast_to(weights.doubtful[key[0]][:, None], own.shape)
        rows = rows & (block.kind == PointKind.SMOOTH)
        return block.undecided_at(rows), DOUBTFUL

    @cached_property
    def _size(self) -> float:
        """How large s may be: no smaller than its terms. Third order, its derivative."""
        with np.errstate(all="ignore"):
            size = float(np.abs(self.row) @ np.abs(self.subject.value({})))
            if self.along:
                steps = [np.abs(u) / self._sizes(name) for name, u in self.along.items()]
                size *= float(np.sum(np.concatenate(steps)))
        return size if np.isfinite(size) else 0.0

    def _natural(self, name: str, least: float = 0.0, most: float = np.inf) -> Float:
        """How large a derivative is that changes s as a whole while the input, at least `least` and
        at most `most` of it, changes as a whole, (n,)."""
        return np.asarray(self._size / self._sizes(name, least, most))

    def _sizes(self, name: str, least: float = 0.0, most: float = np.inf) -> Float:
        """How large the numbers of an input are, (n,): 1 in place of 0."""
        sizes = np.clip(np.abs(np.reshape(self.values[name], -1)), least, most)
        return np.where(sizes == 0, 1.0, sizes)

    def natural_block(self, first: str, second: str, most: float = np.inf) -> Array:
        """The natural size of a second derivative, (n of first, directions of second), where inputs
        change by no more than `most`."""
        along = np.abs(self.directions[second]) @ self._natural(second, most=most)
        with np.errstate(all="ignore"):
            first_order = self._natural(first, most=most)[:, None]
            return np.asarray(first_order * along / (self._size or 1.0))


def _off(own: Blocks, found: Mapping[tuple[str, str], Differences]) -> Blocks:
    """Entries of smooth points that differences contradict."""
    with np.errstate(all="ignore"):
        return {
            key: (np.abs(own[key] - block.value) > block.error) & (block.kind == PointKind.SMOOTH)
            for key, block in found.items()
        }
