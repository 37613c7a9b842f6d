"""Second derivatives of a callable: differences of its gradient in the highest precision that it
runs in, and its own second derivatives if these differences confirm them.

A difference is only as good as the gradient that it is taken from. A gradient that forward mode or
a difference of the value contradicts says nothing about its own derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array, Values
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import OPERATIONS, ROUNDINGS
from gradcheck_cli.domain.truth import PointKind, TruthBlock
from gradcheck_cli.engines.layer.subject import Call, Subject
from gradcheck_cli.truth.blocks import Differences, rows_by_input, unconstrained
from gradcheck_cli.truth.layers.callables import quick_of
from gradcheck_cli.truth.layers.safe_values import is_inside, moved_inside, values_of
from gradcheck_cli.truth.layers.weighing import Rounding, weigh_block
from gradcheck_cli.truth.numerics.differences import Float
from gradcheck_cli.truth.numerics.directions import Sampled, Slope
from gradcheck_cli.truth.numerics.noise import from_size, measured_of_layer
from gradcheck_cli.truth.numerics.pieces import Crossings
from gradcheck_cli.truth.numerics.verify_first import Quick

Blocks = dict[tuple[str, str], Array]
"""By two leaves a and b: d(ds/da)/db along directions of b, (size of a, directions of b)."""

DOUBTFUL = (
    "the gradient to differentiate is itself contradicted, by forward mode or by differences of "
    "the value"
)


@dataclass(frozen=True, slots=True)
class Weights:
    """The effect of rounding on second derivatives. By block: `costs` is how far half an ulp of the
    judged dtype in every number moves them, `noise` how far the subject's own rounding does. By
    leaf: `doubtful` marks entries of the first gradient (n,) whose differences are not used as
    truth."""

    costs: Blocks
    noise: Blocks
    doubtful: Mapping[str, Array]


class RowGradients:
    """The gradient of s = row @ F of a subject at several points. Each is computed once for all
    compositions of modes."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._known: dict[tuple[bytes, ...], Mapping[str, Array | None]] = {}

    @cached_property
    def value(self) -> Array:
        """F at the subject's own leaves, (m,)."""
        return self.subject.value({})

    def at(self, row: Float, moved: Values) -> Mapping[str, Array | None]:
        """The gradients by leaf, (n,), with some leaves `moved` to other values."""
        parts = (part for name in moved for part in (name.encode(), moved[name].tobytes()))
        key = (row.tobytes(), *parts)
        if key not in self._known:
            self._known[key] = self.subject.run(Call(moved, row[None])).row(0)
        return self._known[key]


@dataclass
class SecondTruth:
    """The Hessian of s = row @ F at the subject's own leaves, along `directions` (k, n) of every
    requested leaf, one leaf at a time. For third order, the Hessian of the derivative of s `along`
    a direction (n,) a leaf. `unsure`: a first look did not confirm it."""

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
        self.rows = rows_by_input(self.sizes)  # of the gradient

    def _gradient(self, at: Values) -> Float:
        """The gradient of s, all leaves one after the other; nan outside the domain."""
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
        # entries that cancel are as noisy as the others; if all vanish, like 1 - y^2, terms as
        # large as the value have cancelled
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
        """By leaf, mark the entries of the gradient (n,) that differences of the value contradict.
        Entries that forward mode contradicts are marked, too, unless the differences vouch for
        them. `pushed` has the gradient by forward mode, if there is one."""
        gradient = self._gradient({})
        noise = np.fmax(self._quick().measure(), 4 * FORMATS[self.subject.dtype].ulp(gradient))
        found = {}
        for name, mine in self.rows.items():
            own, bar = gradient[mine], ROUNDINGS * noise[mine]
            value, error = (
                np.array([float(getattr(slope.estimate, what)[0]) for slope in self._slopes[name]])
                for what in ("value", "error")
            )
            off = np.abs(own - value)
            doubt = off > error + bar
            if name in pushed:
                apart = np.abs(own - pushed[name])
                vouched = (off <= error) & (error <= apart / 4)
                doubt |= (apart > bar) & ~vouched
            found[name] = doubt
        return found

    @cached_property
    def _slopes(self) -> dict[str, list[Slope]]:
        """The differences of the value along every entry, by leaf. A short look that confirms the
        gradient would not do: it also confirms the 0 at an even kink."""
        gradient, quick = self._gradient({}), self._quick_of_value()
        value = Sampled(
            quick.function,
            quick.values,
            quick.bounds,
            quick.measure(),
            quick.zero,
            quick.noise_of,
        )
        return {
            name: [value.along_entry(name, i, own) for i, own in enumerate(gradient[mine, None])]
            for name, mine in self.rows.items()
        }

    def _quick_of_value(self) -> Quick:
        """A `Quick` of the scalar s itself."""

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
        derivatives. Without `weights`, the effect of rounding is unknown."""
        quick = self._quick()
        rows = self.rows
        found: dict[tuple[str, str], Differences] = {}
        for second, directions in self.directions.items():
            shape = np.shape(self.values[second])
            expected = np.concatenate([own[first, second] for first in rows])
            taken = Differences.empty(*expected.shape)
            for number, along in enumerate(directions):
                slope = quick.along({second: along.reshape(shape)}, expected[:, number])
                taken.put(number, slope)
            found |= {(first, second): taken.rows(mine) for first, mine in rows.items()}
        if weights:
            # a difference may have met only one of several pieces; jumps of large layers are
            # not searched for
            entries = all(len(self.directions[name]) == n for name, n in self.sizes.items())
            crossings = Crossings(quick, rows, entries, self.subject.digits)
            for key, off in _contradicted(own, found).items():
                crossed = crossings.of_block(*key, self.directions[key[1]], off)
                found[key].kind[crossed] = int(PointKind.KINK)
        blocks, reasons = {}, {}
        for key, block in own.items():
            blocks[key], reason = self._block(key, block, found[key], weights)
            if reason:
                reasons[key] = reason
        return blocks, reasons

    def _block(
        self, key: tuple[str, str], own: Array, found: Differences, weights: Weights | None
    ) -> tuple[TruthBlock, str]:
        zeros = np.zeros(own.shape)
        rounding = Rounding(zeros, zeros, zeros)
        if weights is not None:
            blind = self.subject.digits != self.subject.dtype
            natural = self.natural_block(*key)
            rounding = Rounding(weights.costs[key], weights.noise[key], natural, blind)
        # an entry that cancels has no slope of its own; its scale is the slope of the others, or
        # the natural size for this function
        scale = np.fmax(np.max(found.steepest, axis=0), self.natural_block(*key))
        dtype = self.subject.dtype
        block, reason = weigh_block(own, found, rounding, scale, dtype, self.dtype, unconstrained)
        if weights is None or not np.any(weights.doubtful.get(key[0], False)):
            return block, reason
        rows = np.broadcast_to(weights.doubtful[key[0]][:, None], own.shape)
        rows = rows & (block.kind == PointKind.SMOOTH)
        return block.undecided_at(rows), DOUBTFUL

    @cached_property
    def _size(self) -> float:
        """How large s may be: no smaller than its terms. For third order, the derivative of s."""
        size = float(np.abs(self.row) @ np.abs(self.of_row.value))
        if self.along:
            steps = [np.abs(u) / self._sizes(name) for name, u in self.along.items()]
            size *= float(np.sum(np.concatenate(steps)))
        return size if np.isfinite(size) else 0.0

    def _natural(self, name: str, least: float = 0.0, most: float = np.inf) -> Float:
        """The size (n,) of a derivative if s changes by its own size while the input changes by its
        own size, clipped to `least` and `most`."""
        return np.asarray(self._size / self._sizes(name, least, most))

    def _sizes(self, name: str, least: float = 0.0, most: float = np.inf) -> Float:
        """The sizes of the numbers of an input, (n,); 1 for a 0."""
        sizes = np.clip(np.abs(np.reshape(self.values[name], -1)), least, most)
        return np.where(sizes == 0, 1.0, sizes)

    def natural_block(self, first: str, second: str, most: float = np.inf) -> Array:
        """The natural size of a second derivative, (n of first, directions of second), where inputs
        change by no more than `most`."""
        along = np.abs(self.directions[second]) @ self._natural(second, most=most)
        first_order = self._natural(first, most=most)[:, None]
        return np.asarray(first_order * along / (self._size or 1.0))


def _contradicted(own: Blocks, found: Mapping[tuple[str, str], Differences]) -> Blocks:
    """Mark the smooth entries that differences contradict."""
    return {
        key: (np.abs(own[key] - block.value) > block.error) & (block.kind == PointKind.SMOOTH)
        for key, block in found.items()
    }
