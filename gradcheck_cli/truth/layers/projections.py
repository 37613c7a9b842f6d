"""Products of a gradient that is too large to be checked by entry with random directions, and the
differences of the output along them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Protocol

import numpy as np

from gradcheck_cli.domain.dtypes import FORMATS, Array, Values, aligned
from gradcheck_cli.domain.large_arrays import dot, parts
from gradcheck_cli.domain.layer import LARGE, Leaf
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import OPERATIONS, Enough
from gradcheck_cli.engines.layer.subject import Call, Spare, Subject
from gradcheck_cli.truth.layers.safe_values import moved_inside, values_of
from gradcheck_cli.truth.numerics.differences import FIRST_STEP, Estimate, Float, Line
from gradcheck_cli.truth.numerics.directions import Sampled, Slope, room
from gradcheck_cli.truth.numerics.noise import from_size, measured_of_layer
from gradcheck_cli.truth.numerics.probes import COTANGENTS, MANY, Draws, moves
from gradcheck_cli.truth.numerics.sifting import Sums, sifted
from gradcheck_cli.truth.numerics.verify_first import (
    FEWER,
    FIRST_LEVEL,
    LEVELS,
    RELATIVE,
    Probe,
    descend,
    even,
    long_look,
    look,
    narrow,
    same_story,
)

FLOAT64 = np.dtype(np.float64)
TOGETHER = 2**18  # entries of all inputs that are moved in one call to the layer
# Part of an entry of ordinary size: the bar for which steps are refined, if rounding permits.
TARGET: Enough = 1e-6
# Part of the norm of a gradient with MANY entries: a fifth of one ordinary entry among 1e7.
TARGET_OF_MANY: Enough = 2.0**-14

# Part of a product: the usual bar if nothing prevents long steps.
USUAL: Enough = 2.0**-36

# For a slow layer, the first look uses steps so short that FEWER of them are enough: their
# truncation, O(h^4) as far as their bars know, is then about as small as their rounding, u / h.
SHORT_LEVEL = FIRST_LEVEL + 4

FEW_OUTPUTS = 32  # entries per output: the outputs at six points then take little extra memory

Excluded = dict[str, Array]
"""By leaf, a mask (n,) of entries that do not move."""
Moving = tuple[Excluded, bool]
"""What directions depend on: the excluded entries, and whether each entry has a scale of its
own."""


class Tangents(Protocol):
    """Derivatives of the layer that are computed without its own rules."""

    def along(self, number: int) -> Estimate | None:
        """J @ direction (m,) by number, with the usual error of each output; None if unknown."""

    def at(self, point: Values, along: Mapping[str, Float]) -> Float:
        """J @ `along` (m,), parts (n,) of a direction by leaf, where some leaves are at `point`."""


@dataclass
class Projections:
    """One subject at its own leaves, where its output is `output` (m,), with 0 in place of elements
    that are not finite. `rows` (k, m) are the cotangents, which are 0 there. `forward` and
    `backward` count the passes that were run. Error bars should be no wider than the part `wanted`
    of the gradient, whose norm is `norm`. The gradient itself is never kept."""

    subject: Subject
    output: Float
    bounds: Mapping[str, tuple[float, float]]
    seed: int
    forward: int = 1
    backward: int = 0
    excluded: Excluded = field(default_factory=dict)
    wanted: float = math.inf
    norm: float = 0.0  # until it is known
    ran: Callable[[], None] = lambda: None  # called after each run
    tangents: Tangents | None = None

    def __post_init__(self) -> None:
        fmt = FORMATS[self.subject.dtype]
        self.draws = Draws(self.seed, fmt)
        self.leaves = [leaf for leaf in self.subject.leaves if leaf.differentiable]
        self._places = {leaf.name: place for place, leaf in enumerate(self.leaves)}
        entries = sum(leaf.size for leaf in self.leaves)
        self._is_many = entries > MANY
        self.level = FIRST_LEVEL  # of the first step: kinks are as far away in all directions
        # whether outputs are looked at one by one; None: only if their sums show kinks
        few = entries >= FEW_OUTPUTS * self.output.size
        # all cotangents that may be needed, if they take little memory: differences of single
        # outputs serve the sums with all of them
        self._ahead = self._cotangents(1 if self._is_many and not few else COTANGENTS)
        self.known = np.isfinite(self.output)
        if not np.all(self.known):
            self._ahead[:, ~self.known] = 0.0
            self.output = np.where(self.known, self.output, 0.0)
        self.rows = self._ahead[: 1 if self._is_many else COTANGENTS]
        self.target = TARGET_OF_MANY if self._is_many else TARGET
        self._sifts = (True if few else None) if self._is_many else False
        self._sift_level = SHORT_LEVEL  # kinks are as far away in all directions
        self._measured: Float | None = None
        self._known: dict[tuple[int, bool], dict[float, Float]] = {}
        self._sums: dict[tuple[int, bool], Sums] = {}  # of `_ahead`
        self._last: tuple[int, dict[str, Float]] | None = None

    # Cotangents

    def _cotangents(self, count: int) -> Float:
        return self.draws.cotangents(self.subject.outputs, self.output, count)

    @property
    def drawn(self) -> int:
        """The number of random cotangents: none for a single output."""
        return len(self.rows) if self.output.size > 1 else 0

    def draw_more(self, count: int) -> None:
        """Draw cotangents until there are `count`. The new ones are 0 where all others are."""
        if len(self._ahead) < count:
            self._ahead = self._cotangents(count) * np.any(self.rows != 0, axis=0)
        self.rows = self._ahead[:count]
        self._known.clear()

    # The layer

    def value(self, values: Values) -> Float:
        """The outputs (m,); nan if the layer refuses a point beside its own."""
        self.forward += 1
        value: Float
        if values:
            value = values_of(self.subject, [values], self.output.size)[0]
        else:
            value = self.subject.value(values)
        self.ran()
        return value

    def pulled(self, row: Float, values: Values | None = None) -> dict[str, Float | None]:
        """row @ J by leaf, each (n,); None for a leaf without a gradient."""
        self.forward += 1
        self.backward += 1
        found = single_vjp(self.subject, Call({} if values is None else values, row[None]))
        self.ran()
        gradients = {leaf.name: found.get(leaf.name) for leaf in self.leaves}
        return {n: None if g is None else np.asarray(g, np.float64) for n, g in gradients.items()}

    def products_of_rows(self, first: int) -> Iterator[dict[str, Float | None]]:
        """Yield `pulled` for each cotangent from number `first` on; in one run if that takes little
        memory."""
        rows = self.rows[first:]
        if len(rows) * sum(leaf.size for leaf in self.leaves) > TOGETHER:
            for row in rows:
                yield self.pulled(row)
            return
        self.forward += 1
        self.backward += len(rows)
        found = self.subject.run(Call(cotangents=rows)).gradients
        self.ran()
        for k in range(len(rows)):
            whole = {leaf.name: found.get(leaf.name) for leaf in self.leaves}
            yield {name: None if g is None else g[k] for name, g in whole.items()}

    # Directions

    def mask(self, leaf: Leaf) -> Array:
        """The excluded entries of the leaf as a mask (n,), a copy."""
        known = self.excluded.get(leaf.name)
        return np.zeros(leaf.size, dtype=bool) if known is None else known.copy()

    def exclude(self, name: str, mask: Array | None) -> None:
        """Exclude these entries of the leaf from all further directions; None: no entry of it."""
        self.let_go()
        self._known.clear()
        self._sums.clear()
        self.excluded.pop(name, None)
        if mask is not None:
            self.excluded[name] = mask

    def moving(self) -> Moving:
        """The current state of directions, for `as_at`."""
        return dict(self.excluded), self.draws.by_entry

    @contextmanager
    def as_at(self, moving: Moving) -> Iterator[None]:
        """Use directions as they were when `moving` was taken."""
        now = self.moving()
        if now[0].keys() | moving[0].keys():
            self.let_go()
        self.excluded, self.draws.by_entry = dict(moving[0]), moving[1]
        try:
            yield
        finally:
            if now[0].keys() | moving[0].keys():
                self.let_go()
            self.excluded, self.draws.by_entry = now

    def direction(self, number: int) -> dict[str, Float]:
        """Direction `number` by leaf, (n,), with zeros for excluded entries."""
        return {leaf.name: self._part(number, leaf, False) for leaf in self.leaves}

    def narrow_direction(self, number: int) -> dict[str, Float]:
        """Direction `number`, read-only, with large leaves in float32 unless each entry has a scale
        of its own. The last one is kept, because it is requested several times."""
        if self.draws.by_entry:
            return self.direction(number)
        if self._last is None or self._last[0] != number:
            self._last = None
            self._last = number, {leaf.name: self._part(number, leaf, True) for leaf in self.leaves}
        return self._last[1]

    def let_go(self) -> None:
        """Free the direction that is kept."""
        self._last = None

    def _part(self, number: int, leaf: Leaf, narrow: bool) -> Float:
        drawn = self.draws.direction(number, leaf, self._places[leaf.name], narrow)
        if leaf.name in self.excluded:
            drawn[self.excluded[leaf.name]] = 0.0
        return drawn

    def product(self, gradient: Mapping[str, Float | None], along: Mapping[str, Float]) -> float:
        """<gradient, direction>. Entries that do not move do not count, even if they are nan."""
        total = 0.0
        for name, weights in along.items():
            values = gradient[name]
            if values is None:
                continue
            for inside in parts(weights.size):
                part, moves = values[inside], np.asarray(weights[inside], np.float64)
                if name in self.excluded:
                    part = np.where(moves != 0, part, 0.0)
                total += dot(part, moves)
        return total

    def product_along(self, gradient: Mapping[str, Float | None], number: int) -> float:
        """The product with direction `number`. A direction with a scale for each entry is not kept:
        it is as large as the layer, in float64."""
        if not self.draws.by_entry:
            return self.product(gradient, self.narrow_direction(number))
        total = 0.0
        for place, leaf in enumerate(self.leaves):
            values = gradient[leaf.name]
            if values is None:
                continue
            for inside, drawn in self.draws.unscaled(number, leaf, place):
                terms = values[inside] * drawn
                if leaf.name in self.excluded:
                    terms[self.excluded[leaf.name][inside]] = 0.0
                total += dot(self.draws.scales(leaf, inside), terms)
        return total

    def square(self, gradient: Mapping[str, Float | None]) -> float:
        """The square of the norm of the gradient, scaled like the directions."""
        total = 0.0
        for leaf in self.leaves:
            values = gradient[leaf.name]
            if values is None:
                continue
            if not self.draws.by_entry and leaf.name not in self.excluded:
                total += self.draws.size(leaf) ** 2 * dot(values, values)
                continue
            for inside in parts(leaf.size):
                terms = values[inside] * self.draws.scales(leaf, inside)
                if leaf.name in self.excluded:
                    terms[self.excluded[leaf.name][inside]] = 0.0
                total += dot(terms, terms)
        return total

    def along(self, number: int) -> Line:
        """The products of F with all cotangents along direction `number`."""
        line = self.line(self.narrow_direction(number), self.rows)
        known = self._known.setdefault((number, self.draws.by_entry), line.known)
        return replace(line, known=known)

    def line(self, along: Mapping[str, Float], rows: Float | None) -> Line:
        """rows @ F along a direction or a part of one; F itself without `rows`."""
        noise = self.noise(rows)
        moved = {n: w for n, w in along.items() if moves(w)}
        low, high = room(self.bounds, {name: self._leaf(name).kept for name in moved}, moved)
        together = TOGETHER // max(sum(w.size for w in moved.values()), 1)

        def seen(values: Float) -> Float:
            return values if rows is None else np.asarray(values @ rows.T)

        def many(steps: Sequence[float]) -> Float:
            if together < 2:
                self.subject.stencils.looped += len(steps)
                values = np.empty((len(steps), self.output.size if rows is None else len(rows)))
                point: dict[str, Array] = {}
                for place, h in enumerate(steps):  # which takes less memory than a list
                    point = self.moved(moved, float(h), point)
                    values[place] = seen(self.value(point))
                return values
            self.forward += len(steps)
            points = [self.moved(moved, float(h)) for h in steps]
            return seen(values_of(self.subject, points, self.output.size))

        return Line(many, seen(self.output), noise, 1.0, low, high)

    def beside(self, along: Mapping[str, Float], step: float) -> Spare | None:
        """The leaves at a step along a direction; None if one leaves its domain."""
        values = {name: self._leaf(name).kept for name in along}
        _, high = room(self.bounds, values, along)
        return self.moved(along, step) if step <= high else None

    def moved(
        self, along: Mapping[str, Float], step: float, used: Mapping[str, Array] | None = None
    ) -> Spare:
        """The leaves at a step along a direction, in the `used` memory if there is any."""
        found = Spare()
        for name, weights in along.items():
            value = self._leaf(name).kept
            flat, there = value.reshape(-1), (used or {}).get(name)
            there = aligned(weights.shape, FLOAT64) if there is None else there.reshape(-1)
            for inside in parts(weights.size):
                part = there[inside]
                part[:] = weights[inside]
                part *= step
                part += flat[inside]
            found[name] = there.reshape(value.shape)
        return found

    def _leaf(self, name: str) -> Leaf:
        return next(leaf for leaf in self.leaves if leaf.name == name)

    # Noise

    def noise(self, rows: Float | None) -> Float:
        """The rounding of rows @ F, (k,), as a sum of terms that round independently; the rounding
        of F, (m,), without `rows`."""
        dtype = self.subject.digits
        if self._measured is None:
            each = from_size(self.output, OPERATIONS, dtype)
        else:
            each = self._measured
        found = each if rows is None else np.sqrt((rows**2) @ np.square(each))
        return np.asarray(found)

    @property
    def unsure(self) -> bool:
        """Whether some first look did not confirm the gradient."""
        return self._measured is not None

    def measure(self) -> None:
        """Measure the noise, which may be larger than the size of the output suggests."""
        if self._measured is not None:
            return
        floats = {leaf.name: leaf.value for leaf in self.subject.leaves if leaf.is_floating}
        dtype = self.subject.dtype
        least = from_size(self.output, OPERATIONS, self.subject.digits)

        def near(at: Values) -> Float:
            return self.value(moved_inside(self.subject, at))

        found, _ = measured_of_layer(near, floats, self.output, exact=False, dtype=dtype)
        self._measured = np.fmax(least, 2 * found)
        self._sums.clear()

    # Looks

    def confirmed(self, number: int, expected: Float) -> Probe | None:
        """Compare the products (k,) of the gradient and direction `number` with differences. The
        noise is measured if these seem to contradict each other, or agree on short steps alone: a
        layer that casts to float32 is a flight of stairs."""
        relative = self._relative()
        known = self._of_tangent(number, expected)
        if known is not None:
            return known
        if self._sifts:
            probe = self._sift(number, expected)
            if probe is not None and probe.confirmed:
                return probe
        if self._is_many and self._measured is None:  # many steps may follow
            self.measure()
            shortest = FIRST_STEP * 2.0 ** (1 - SHORT_LEVEL - FEWER)
            if np.any(self.noise(self.rows) > relative * shortest * np.abs(expected)):
                self.level = FIRST_LEVEL  # rounding would hide shorter steps
        line, level = self.along(number), self.level
        probe = descend(line, expected, relative, level)
        at_first = probe is not None and probe.confirmed and probe.level < level + LEVELS
        if not at_first and self._measured is None:
            self.measure()
            again = self.along(number)
            if np.any(again.noise > 2 * line.noise):
                probe = descend(again, expected, relative, level)
        return probe

    def at_once(self, number: int, expected: Float) -> tuple[Probe | None, bool]:
        """A look that confirms the products, or None. In the latter case, the second result says
        whether two looks at long steps with narrow bars contradict the products and agree with each
        other: no kink or pole does that."""
        known = self._of_tangent(number, expected)
        if known is not None:
            return known, False
        if self._is_many:
            short = self._short_look(number, expected)
            if short is None or short.level > SHORT_LEVEL:  # there are kinks
                self.level = SHORT_LEVEL  # longer steps cross more of them
                return (short if short and short.confirmed else None), False
            if short.confirmed and self._is_wanted(short, expected):
                return short, False
            self._sifts = False  # longer steps have narrower bars
        found: list[Probe] = []
        line = self.along(number)
        for level in (FIRST_LEVEL, FIRST_LEVEL + 1):
            one = long_look(line, expected, self._relative(), level)
            if one is None or not narrow(one, line, expected, RELATIVE):
                return None, False
            if one.confirmed:
                return (one, False) if not found else (None, False)
            found.append(one)
        return None, same_story(*found)

    def _of_tangent(self, number: int, expected: Float) -> Probe | None:
        """A probe without steps, if the products agree with the tangent along a direction. The
        two were computed in different ways, so they do not round alike: error bars as narrow as
        `wanted` hold what rounding leaves of them. If they differ, differences decide from now
        on."""
        found = None if self.tangents is None else self.tangents.along(number)
        if found is not None:
            value = np.asarray(self.rows @ found.value)
            error = self._relative() / 2 * np.maximum(np.abs(value), self.norm)
            unseen = np.sqrt(self.rows**2 @ found.error**2)
            if np.all(np.abs(value - expected) + unseen <= error):
                estimate, agrees = Estimate(value, error), np.ones(value.shape, dtype=bool)
                sides, size = even(estimate), np.abs(value)
                return Probe(estimate, sides, size, agrees, False, SHORT_LEVEL, FEWER)
        self.tangents = None
        return None

    def _short_look(self, number: int, expected: Float) -> Probe | None:
        """A look at SHORT_LEVEL, and at shorter steps for outputs with kinks there; None if
        differences of single outputs do not show how near the kinks are."""
        if self._sifts:
            return self._sift(number, expected)
        probe = look(self.along(number), expected, SHORT_LEVEL, FEWER)
        smooth = probe is not None and not (probe.rough or probe.apart)
        if self._sifts is None and not (probe and smooth and self._is_wanted(probe, expected)):
            return self._sift(number, expected)
        return probe if smooth else None

    def _sift(self, number: int, expected: Float) -> Probe | None:
        key = number, self.draws.by_entry
        known: Sums | None = self._sums.get(key)
        if known is None or known.value.size < expected.size:
            line = self.line(self.narrow_direction(number), None)
            known = sifted(line, self._ahead, self._sift_level)
        self._sifts = known is not None
        if known is None:
            return None
        self._sift_level = known.usual
        self._sums[key] = known
        return known.probe(expected)

    def _is_wanted(self, probe: Probe, expected: Float) -> bool:
        sizes = np.maximum(np.abs(expected), probe.steepest)
        if self._is_many:  # a product may be small by chance
            sizes = np.maximum(sizes, self.norm)
        return bool(np.all(probe.estimate.error <= self._relative() * sizes))

    def _relative(self) -> float:
        """The relative error bar for which steps are refined. Products are larger than one entry by
        the square root of the number of entries. It is no narrower than bars usually are."""
        if self._is_many:  # nothing narrower than `wanted` can be reached
            return min(RELATIVE, self.wanted)
        entries = sum(leaf.size for leaf in self.leaves)
        each = TARGET / (4 * math.sqrt(max(entries * self.output.size, 1)))
        return min(max(each, USUAL), self.wanted)

    def glance(
        self,
        along: Mapping[str, Float],
        row: Float,
        expected: float,
        level: int,
        wanted: float = math.inf,
    ) -> tuple[float, float]:
        """By how much row @ F along a direction differs from the expected derivative, and the error
        bar of this difference. A few steps are taken from `level` on, where they are known to be
        good, and one more if the bar would hide a difference of `wanted`."""
        line = self.line(along, row[None])
        apart, bar = 0.0, np.inf
        for start in range(level, level + 3 * LEVELS, LEVELS):
            for levels in (FEWER, LEVELS):
                probe = look(line, np.array([expected]), start, levels)
                if probe is not None and probe.estimate.error[0] < bar:
                    apart = float(probe.estimate.value[0]) - expected
                    bar = float(probe.estimate.error[0])
                if bar <= wanted / 2:
                    return apart, bar
            if np.isfinite(bar):
                break
        return apart, bar

    def column(self, leaf: Leaf, flat: int, rows: Float | None, level: int | None = None) -> Slope:
        """The derivative along one entry of every output, or of the products with `rows`. One look
        is enough if steps are known to be good from `level` on. If this fails, differences are as
        careful as for a small layer."""
        self.measure()
        found = None if level is None else self._seen_from(level, leaf, flat, rows)
        return self._careful(leaf.name, flat, rows) if found is None else found

    def _seen_from(self, level: int, leaf: Leaf, flat: int, rows: Float | None) -> Slope | None:
        along = np.zeros(leaf.size)
        along[flat] = scale = self.draws.scale(leaf, flat)
        line = self.line({leaf.name: along}, rows)
        nothing = np.zeros(line.zero.size)
        probe = look(line, nothing, level)
        if probe is None or probe.rough or not narrow(probe, line, nothing, RELATIVE):
            return None
        estimate = Estimate(probe.estimate.value / scale, probe.estimate.error / scale)
        return Slope(estimate, even(estimate), probe.steepest / scale)

    def _careful(self, name: str, flat: int, rows: Float | None) -> Slope:
        values = {leaf.name: leaf.value for leaf in self.subject.leaves}

        def function(at: Values) -> Float:
            there = self.value({n: v for n, v in at.items() if v is not values[n]})
            return there if rows is None else np.asarray(rows @ there)

        noise = self.noise(rows)
        zero = self.output if rows is None else rows @ self.output

        def noise_of(at: Values, y: Float) -> Float:
            return noise + from_size(y - zero, OPERATIONS, self.subject.dtype)

        sampled = Sampled(function, values, self.bounds, noise, zero, noise_of)
        return sampled.along_entry(name, flat)


def single_vjp(subject: Subject, call: Call) -> dict[str, Float | None]:
    """The gradients (n,) of the only cotangent of a call, by leaf. For a large layer they have the
    layer's dtype and use the framework's memory."""
    found: dict[str, Float | None] = {}
    if sum(leaf.size for leaf in subject.leaves) >= LARGE:
        call = replace(call, each=lambda _, gradients: found.update(gradients))
    ran = subject.run(call)
    return found or ran.row(0)
