"""Proofs: boxes of the domain are enclosed, and split until no kind of failure can happen in them.

`Proof` takes the formula and the engine's gradient program. `advance` works for a while; then
`open_boxes` returns the boxes in which a kind may still happen. A kind without open boxes is absent
from the whole domain, for every engine that rounds as `Rounding` says.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.program import Program
from gradcheck_cli.domain.search import KINDS, GradientProgram, Kind
from gradcheck_cli.domain.thresholds import EXCUSED_MOVES, ROUNDED_AWAY
from gradcheck_cli.judge.failing import eps, half
from gradcheck_cli.search.bends import Bend, bends
from gradcheck_cli.search.box import Domain, Ordinals, to_ordinals
from gradcheck_cli.search.budget import Budget
from gradcheck_cli.search.enclosures.adjoints import Adjoints, Numbers, Sharper
from gradcheck_cli.search.enclosures.enclosed import Enclosed, Exceeds, Rounding, between
from gradcheck_cli.search.enclosures.enclosing import BoxProgram, Run, size_of
from gradcheck_cli.search.enclosures.polynomials import Polynomials
from gradcheck_cli.search.estimates import Answers
from gradcheck_cli.search.goals import midway
from gradcheck_cli.search.slopes import Slopes
from gradcheck_cli.truth.batching import NotBatched

_BATCH = 1024  # boxes that are enclosed at once, between two looks at the time,
_WORK = 1 << 19  # or fewer if a program has more numbers than this over all of them
_TOGETHER = 128  # boxes cost little more than one, because a call has a fixed cost,
_NUMBERS = 1 << 13  # if they have no more numbers than this
_BIT = {kind: np.uint8(1 << i) for i, kind in enumerate(KINDS)}
_ALL = np.uint8(63)
_SELDOM = 16
"""If an excuse was found for no more than one of so many boxes, only one of so many is examined for
one: this costs as much as enclosing some boxes."""
_SELDOM_ADJOINTS = 8
"""The same for adjoints, which also say along which element a box should be cut."""
_BY_SLOPES = 1 << 12  # boxes that are all cut along the element that moves a number most,
_MIXED = 2  # and after that one of so many
_OCTAVES = 8.0  # an element whose ends are farther apart is cut two octaves below the larger one
_NOTHING = 2.0**-30  # part of another element: too little to change it in float32
_DRAWN = 64  # points that say whether smaller boxes help
_MOST_ADJOINTS = 8  # elements of an output, each of which needs a reverse pass of its own
_MARGIN = 0.75
"""Part of the allowed error: a proof leaves room for other definitions of half the digits."""


class Proof:
    """Branch and bound over the domain. `formula` says where truths exist, `gradient` what the
    engine computes. Raises Exceeds and NotBatched if one of them has no enclosure."""

    def __init__(
        self,
        domain: Domain,
        formula: Program,
        gradient: GradientProgram,
        wrt: tuple[str, ...],
        rounding: Rounding,
    ) -> None:
        assert gradient.program is not None
        fmt = domain.format
        constants = {**domain.still, **gradient.constants}
        self._domain = domain = replace(domain, still=constants)
        self._rounding = rounding
        self._wrt = wrt
        self._formula = BoxProgram(formula, constants, fmt, rounding)
        self._gradient = BoxProgram(gradient.program, constants, fmt, rounding)
        self._half, self._eps = half(fmt), eps(fmt)
        self._exact = formula
        self._values = {name: domain.values(domain.start)[name] for name in domain.shapes}
        self._own: dict[int, Array] = {}
        self._bending, self._adjoint = _Worth(_SELDOM), _Worth(_SELDOM_ADJOINTS)
        self._low = self._high = np.zeros((0, domain.size), np.int64)
        self._kinds = np.zeros(0, np.uint8)
        self._left = self._low, self._high, self._kinds  # boxes that are no longer split
        self._leaves: list[tuple[Ordinals, np.uint8]] = []  # points at which kinds stay open
        self.boxes = 0
        self.run = 0  # leaves that were run because no bound decides them
        low, high = domain.low[None], domain.high[None]
        numbers = sum(math.prod(node.shape) for node in self._gradient.program.nodes)
        self._batch = _BATCH if numbers * _BATCH <= _WORK else _TOGETHER
        self._along = np.full(1, -1)  # the element to cut along, for each examined box
        self._push(low, high, _ALL & ~self.proven(low, high), self._along)

    @cached_property
    def _bends(self) -> list[Bend]:
        return bends(self._exact, self._domain, self._wrt, self._rounding)

    @cached_property
    def _adjoints(self) -> Adjoints | None:
        """The adjoints; None if the reverse pass cannot be written down, or has no enclosure."""
        try:
            return Adjoints(self._gradient, self._values, self._domain.dtype)
        except (Exceeds, NotBatched, TypeError, ValueError):
            return None

    @cached_property
    def _ranges(self) -> BoxProgram:
        return self._gradient.ranges()

    @cached_property
    def _polynomials(self) -> Polynomials:
        domain = self._domain
        low, high = domain.numbers(domain.low), domain.numbers(domain.high)
        sizes = domain.arrays(np.maximum(np.abs(low), np.abs(high))[None])
        return Polynomials(self._gradient, {name: size[0] for name, size in sizes.items()})

    def _excused_elements(self, output: int) -> Array:
        """Mark the elements of an output whose error is the problem's own at all points."""
        if output not in self._own:
            counted = set(range(self._domain.size))
            limits = self._half * _MARGIN, EXCUSED_MOVES * _MARGIN
            self._own[output] = self._polynomials.excused(output, counted, *limits)
        return self._own[output]

    def drop(self, kinds: Iterable[Kind]) -> None:
        """Forget where these kinds may happen."""
        mask = _ALL & ~_mask(kinds)
        self._kinds = self._kinds & mask
        self._keep(self._kinds != 0)
        low, high, left = self._left
        self._left = low, high, left & mask
        self._leaves = [(point, bits & mask) for point, bits in self._leaves if bits & mask]

    def give_up(self, kinds: Iterable[Kind]) -> None:
        """Split no more boxes for these kinds. They stay open where they are."""
        mask = _mask(kinds)
        mine = (self._kinds & mask) != 0
        low, high, left = self._left
        self._left = (
            np.concatenate([low, self._low[mine]]),
            np.concatenate([high, self._high[mine]]),
            np.concatenate([left, self._kinds[mine] & mask]),
        )
        self._kinds = self._kinds & ~mask
        self._keep(self._kinds != 0)

    def advance(self, budget: Budget, most: int) -> None:
        """Enclose and split boxes until the budget is spent, or `most` of them."""
        while len(self._low) and most > 0 and not budget.is_spent:
            count = min(len(self._low), self._batch, most)
            most -= count
            low, high, kinds = self._low[:count], self._high[:count], self._kinds[:count]
            self._low, self._high = self._low[count:], self._high[count:]
            self._kinds = self._kinds[count:]
            kinds = kinds & ~self._proven(low, high, np.bitwise_or.reduce(kinds))
            self._push(low, high, kinds, self._along)

    def needs_points(self, kind: Kind, rng: np.random.Generator) -> bool:
        """Whether no boxes, however small, prove a kind where it is open: not even all of some
        points drawn from there."""
        low, high = self.open_boxes(kind)
        if not len(low):
            return False
        sizes = np.sum(np.log(high.astype(np.float64) - low + 1), axis=1)
        share = np.exp(sizes - np.max(sizes))
        some = rng.choice(len(low), _DRAWN, p=share / np.sum(share))
        points = rng.integers(low[some], high[some], endpoint=True)
        bending, adjoint = self._bending, self._adjoint
        self._bending, self._adjoint = _Worth(None), _Worth(None)
        left = ~self.proven(points, points, [kind]) & _BIT[kind]
        self._bending, self._adjoint = bending, adjoint
        return bool(np.any(left))

    def is_open(self, kind: Kind) -> bool:
        """Whether the kind may still happen somewhere."""
        bit = _BIT[kind]
        return self.has_boxes(kind) or any(bits & bit for _, bits in self._leaves)

    def leaves(self) -> Ordinals:
        """Single points (N, D) at which kinds are open."""
        return np.array([point for point, _ in self._leaves], np.int64).reshape(
            -1, self._domain.size
        )

    def settle(self, point: Ordinals, kinds: Iterable[Kind]) -> None:
        """Note that these kinds do not happen at a leaf, because it was run."""
        mask = _ALL & ~_mask(kinds)
        self.run += 1
        self._leaves = [
            (one, bits & mask if np.array_equal(one, point) else bits) for one, bits in self._leaves
        ]
        self._leaves = [(one, bits) for one, bits in self._leaves if bits]

    def spread(self, most: int) -> None:
        """Turn all points of the boxes that are left into leaves, if there are at most `most`."""
        (low, high, left), open_kinds = self._left, self._kinds
        lows, highs = np.concatenate([self._low, low]), np.concatenate([self._high, high])
        kinds = np.concatenate([open_kinds, left])
        lows, highs, kinds = lows[kinds != 0], highs[kinds != 0], kinds[kinds != 0]
        counts = np.prod(highs.astype(np.float64) - lows + 1, axis=1)
        if not len(lows) or np.sum(counts) > most:
            return
        found = {point.tobytes(): (point, bits) for point, bits in self._leaves}
        for first, last, bits in zip(lows, highs, kinds, strict=True):
            axes = [np.arange(a, b + 1) for a, b in zip(first, last, strict=True)]
            for point in np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(
                -1, len(axes)
            ):
                key = point.tobytes()
                found[key] = point, bits | (found[key][1] if key in found else np.uint8(0))
        self._leaves = list(found.values())
        nothing = np.zeros((0, self._domain.size), np.int64)
        self._low = self._high = nothing
        self._kinds = np.zeros(0, np.uint8)
        self._left = nothing, nothing, self._kinds

    def right(self, points: Ordinals, answers: Answers, budget: Budget | None = None) -> Array:
        """For each point (N, D), the kinds, as bits, in which these answers certainly do not fail;
        none when the budget is spent. The exact numbers are enclosed, and the answers are compared
        with them."""
        found = np.zeros(len(points), np.uint8)
        for some in self._batches(len(points), budget):
            found[some] = self._right(points[some], answers.at_points(some))
        return found

    def _batches(self, count: int, budget: Budget | None = None) -> Iterator[slice]:
        """The rows that are enclosed at once, until the budget is spent."""
        for begin in range(0, count, self._batch):
            if budget is not None and budget.is_spent:
                return
            yield slice(begin, min(begin + self._batch, count))

    def _right(self, points: Ordinals, answers: Answers) -> Array:
        normal, count = self._rounding.normal, len(points)
        lows, highs = self._arrays(points, points)
        value, *gradients = self._gradient(lows, highs, count)
        assert value is not None
        good = np.isfinite(answers.value).reshape(count, -1).all(axis=1) & answers.answered
        v = value.map(lambda part: part.reshape(count, -1))
        known, off = _distance_bound(v, answers.value.reshape(count, -1))
        exact = (known & (off <= self._half * v.least)) | (v.most < normal)
        exact |= known & self._moves_by(0, points, off, good & ~exact.all(axis=1))
        kept, right, finite = good.copy(), good.copy(), good.copy()
        for position, one in enumerate(gradients):
            name = self._wrt[position % len(self._wrt)]
            computed = answers.gradients[name][:, position // len(self._wrt)].reshape(count, -1)
            finite &= np.isfinite(computed).all(axis=1)
            if one is None:
                kept &= False
                right &= False
                continue
            g = one.map(lambda part: part.reshape(count, -1))
            known, off = _distance_bound(g, computed)
            top = np.max(g.least, axis=1, keepdims=True)
            small = np.max(g.most, axis=1, keepdims=True) < normal
            near = (known & (off <= self._half * top)) | small
            limit = np.maximum(ROUNDED_AWAY * self._eps * top, normal)
            there = (computed != 0) | (known & (g.most <= limit))
            own = known & self._moves_by(position + 1, points, off, ~(near & there).all(axis=1))
            right &= np.all(near | own, axis=1)
            kept &= np.all(there | own, axis=1)
        return (
            _bits("value-nonfinite", good)
            | _bits("value-inaccurate", good & exact.all(axis=1))
            | _bits("gradient-nonfinite", finite)
            | _bits("gradient-underflow-to-zero", finite & kept)
            | _bits("gradient-inaccurate", finite & right)
        )

    def _moves_by(self, output: int, points: Ordinals, off: Array, wanted: Array) -> Array:
        """Mark the elements of an output that are `off` (N, n) by no more than the problem's own
        error; none at points that are not `wanted`."""
        found, rows = np.zeros(off.shape, np.bool_), np.flatnonzero(wanted)
        if len(rows) and off.shape[1] <= _MOST_ADJOINTS and self._adjoints is not None:
            some = points[rows]
            boxes = _Boxes(some, some, self._gradient.over(*self._arrays(some, some), len(some)))
            numbers = boxes.numbers(self._adjoints)
            sharper = self._adjoints.of(numbers, np.arange(len(some)), output)
            slopes = self._slopes(sharper, some, some, off.shape[1])
            if slopes is not None:
                moved = np.where(sharper.derived, slopes.moves, 0.0) * self._rounding.unit
                found[rows] = off[rows] <= EXCUSED_MOVES * moved
        return found

    def settle_all(self, points: Ordinals, bits: Array) -> None:
        """Note for each of these leaves the kinds that do not happen there, because all were
        run."""
        settled = {point.tobytes(): one for point, one in zip(points, bits, strict=True)}
        left = []
        for point, kinds in self._leaves:
            rest = kinds & ~settled.get(point.tobytes(), np.uint8(0))
            self.run += point.tobytes() in settled
            if rest:
                left.append((point, rest))
        self._leaves = left

    def has_boxes(self, kind: Kind) -> bool:
        """Whether the kind may happen in a box; single points do not count."""
        return bool(np.any(self._boxes(kind)[2]))

    def _boxes(self, kind: Kind) -> tuple[Ordinals, Ordinals, Array]:
        """All boxes, and a mask of those in which the kind may happen."""
        (low, high, left), bit = self._left, _BIT[kind]
        kinds = np.concatenate([self._kinds, left])
        whole = np.concatenate([self._low, low]), np.concatenate([self._high, high])
        return *whole, (kinds & bit) != 0

    @property
    def open_count(self) -> int:
        """The number of boxes and leaves with open kinds."""
        return len(self._low) + int(np.count_nonzero(self._left[2])) + len(self._leaves)

    def open_share(self, kind: Kind) -> float:
        """The part of the domain, in ordinals, that lies in boxes in which the kind may happen."""
        low, high, mine = self._boxes(kind)
        whole = self._domain.high.astype(np.float64) - self._domain.low + 1
        width = high[mine].astype(np.float64) - low[mine] + 1
        return float(np.sum(np.prod(width / whole, axis=1)))

    def open_boxes(self, kind: Kind) -> tuple[Ordinals, Ordinals]:
        """The least and the largest ordinals (N, D) of the boxes in which the kind may happen."""
        low, high, mine = self._boxes(kind)
        points = [point for point, bits in self._leaves if bits & _BIT[kind]]
        leaves = np.array(points, np.int64).reshape(-1, self._domain.size)
        return np.concatenate([low[mine], leaves]), np.concatenate([high[mine], leaves])

    def _keep(self, mine: Array) -> None:
        self._low, self._high = self._low[mine], self._high[mine]
        self._kinds = self._kinds[mine]

    def _push(self, low: Ordinals, high: Ordinals, kinds: Array, along: Array) -> None:
        """Add the boxes with open kinds, split once or until there are many. Single points become
        leaves."""
        left = kinds != 0
        low, high, kinds, along = low[left], high[left], kinds[left], along[left]
        single = np.all(low == high, axis=1)
        self._leaves += [(p, k) for p, k in zip(low[single], kinds[single], strict=True)]
        low, high, kinds, along = low[~single], high[~single], kinds[~single], along[~single]
        if not len(low):
            return
        self._add_halves(low, high, kinds, along)
        while 2 * len(self._low) <= min(_TOGETHER, _NUMBERS // self._domain.size):
            several = np.any(self._low < self._high, axis=1)
            if not several.any():
                return
            split = self._low[several], self._high[several], self._kinds[several]
            self._keep(~several)
            self._add_halves(*split)

    def _add_halves(
        self, low: Ordinals, high: Ordinals, kinds: Array, along: Array | None = None
    ) -> None:
        low, high = halves(self._domain, low, high, along)
        self._low = np.concatenate([self._low, low])
        self._high = np.concatenate([self._high, high])
        self._kinds = np.concatenate([self._kinds, kinds, kinds])

    # What is proven about a box.

    def proven(
        self,
        low: Ordinals,
        high: Ordinals,
        kinds: Iterable[Kind] = KINDS,
        budget: Budget | None = None,
    ) -> Array:
        """For each box, those of the kinds, as bits, that cannot happen in it; none when the budget
        is spent."""
        found, wanted = np.zeros(len(low), np.uint8), _mask(kinds)
        for some in self._batches(len(low), budget):
            found[some] = self._proven(low[some], high[some], wanted)
        return found

    def failing(self, low: Ordinals, high: Ordinals) -> Array:
        """For each box, the kinds, as bits, that happen at every one of its points, if the overflow
        of one operation shows it."""
        found = np.zeros(len(low), np.uint8)
        for some in self._batches(len(low)):
            value, *gradients = self._gradient(*self._arrays(low[some], high[some]), len(low[some]))
            assert value is not None
            found[some] = _bits("value-nonfinite", _any_of(value.broken))
            for g in gradients:
                if g is not None:
                    found[some] |= _bits("gradient-nonfinite", _any_of(g.broken))
        return found

    def _arrays(
        self, low: Ordinals, high: Ordinals
    ) -> tuple[Mapping[str, Array], Mapping[str, Array]]:
        domain = self._domain
        return domain.arrays(domain.numbers(low)), domain.arrays(domain.numbers(high))

    def _proven(self, low: Ordinals, high: Ordinals, wanted: np.uint8) -> Array:
        self.boxes += len(low)
        self._along = np.full(len(low), -1)
        (lows, highs), count = self._arrays(low, high), len(low)
        found = np.zeros(count, np.uint8)
        if wanted & _BIT["undefined"]:
            (formula,) = self._formula(lows, highs, count)
            assert formula is not None
            found |= _bits("undefined", ~_any_of(formula.undefined))
        if wanted & ~_BIT["undefined"]:
            boxes = _Boxes(low, high, self._gradient.over(lows, highs, count))
            value, *gradients = boxes.run.first(count)
            assert value is not None
            found |= self._of_value(
                value, self._input_rounding_effect(lows, highs, gradients), boxes, wanted
            )
            found |= self._of_gradients(gradients, boxes, wanted)
        return found & wanted

    def _input_rounding_effect(
        self,
        lows: Mapping[str, Array],
        highs: Mapping[str, Array],
        gradients: list[Enclosed | None],
    ) -> Array:
        """A lower bound on how far half an ulp of the searched inputs moves the value, (N, 1): u
        times the sum of |x| |dv/dx|. Zero for several outputs."""
        count = len(next(iter(lows.values())))
        total = np.zeros((count, 1))
        if len(gradients) != len(self._wrt):
            return total
        for name, g in zip(self._wrt, gradients, strict=True):
            if name in lows and g is not None:
                x = between(lows[name], highs[name]).least.reshape(count, -1)
                total += np.sum(x * g.least.reshape(count, -1), axis=1, keepdims=True)
        known = np.isfinite(total)  # an overflow excuses nothing
        return np.where(known, total, 0.0) * self._rounding.unit * _MARGIN

    def _of_value(self, value: Enclosed, moved: Array, boxes: _Boxes, wanted: np.uint8) -> Array:
        value = value.map(lambda part: part.reshape(len(boxes.low), -1))
        good = ~_any_of(value.bad)
        off = ~(self._is_near(value) | (value.error <= EXCUSED_MOVES * moved) | value.broken)
        if wanted & _BIT["value-inaccurate"] and off.any():
            off &= value.bad | ~self._excused_elements(0)
            asked = good & _any_of(off)
            sharp, by_slopes = self._sharper(0, value, boxes, asked)
            moved = np.maximum(moved, _MARGIN * by_slopes)
            off &= ~(self._is_near(sharp) | (sharp.error <= EXCUSED_MOVES * moved))
            self._adjoint.note(int(np.sum(asked & ~_any_of(off))))
        return _bits("value-nonfinite", good) | _bits("value-inaccurate", ~_any_of(off))

    def _is_near(self, value: Enclosed) -> Array:
        """Mark the values that are right to half of the digits, or too small to count."""
        limit = self._half * _MARGIN - value.d
        least = np.maximum(value.least, self._rounding.normal)
        right = (limit > 0) & (self._if_it_counts(value) <= limit * least)
        return np.asarray(right | (value.most < self._rounding.normal))

    def _if_it_counts(self, x: Enclosed) -> Array:
        """The absolute error of numbers that are not below the smallest normal one. A number that
        is flushed to 0 is below its floor. It is off by itself, so that it is not above a / (1 - d)
        either."""
        least = x.a / (1 - x.d) * (1 + 2.0**-40)
        small = (x.d < 1) & (least < self._rounding.normal)
        floor, firm = x.above
        error = np.where(small, x.unless_0.a, x.a)
        return np.where(floor <= self._rounding.normal, np.minimum(error, firm), error)

    def _sharper(
        self, output: int, known: Enclosed, boxes: _Boxes, wanted: Array
    ) -> tuple[Enclosed, Array]:
        """A sharper enclosure of an output, `known` (N, n) so far: its errors by adjoints, its
        range by its slopes; and a lower bound on how far half an ulp of the inputs moves its
        elements, (N, n). Boxes that are not wanted get no errors and moves. If adjoints have
        decided too few boxes so far, only some of the boxes are examined."""
        size = known.lo.shape[1]
        moves = np.zeros((len(boxes.low), size))
        nothing = replace(known, d=moves, a=np.full(known.lo.shape, np.inf)), moves
        rows = self._adjoint.chosen(wanted)
        if not len(rows) or size > _MOST_ADJOINTS or self._adjoints is None:
            return nothing
        found = self._adjoints.of(boxes.numbers(self._adjoints), rows, output)
        errors = nothing[0].a
        errors[rows] = found.errors
        lo, hi = known.lo.copy(), known.hi.copy()
        slopes = self._slopes(found, boxes.low[rows], boxes.high[rows], size)
        if slopes is not None:
            moves[rows] = np.where(found.derived, slopes.moves, 0.0) * self._rounding.unit
            self._cut_by(slopes, rows, found.smooth, wanted)
            least, most = self._between_ends(output, slopes)
            smooth = found.smooth[:, None]
            lo[rows] = np.fmax(lo[rows], np.where(smooth, least, -np.inf))
            hi[rows] = np.fmin(hi[rows], np.where(smooth, most, np.inf))
        sharp = Enclosed(lo, hi, np.zeros(lo.shape), errors, known.bad, known.undefined)
        return sharp, moves

    def _slopes(self, found: Sharper, low: Ordinals, high: Ordinals, size: int) -> Slopes | None:
        """The slopes of an output of `size` elements over boxes; None if they are unknown."""
        if not found.slopes:
            return None
        domain = self._domain
        ends = [np.zeros((len(low), size, domain.size)) for _ in range(2)]
        for name, begin in zip(domain.shapes, self._begins, strict=True):
            for end, part in zip(ends, found.slopes.get(name, ()), strict=False):
                end[:, :, begin : begin + part.shape[2]] = part
        return Slopes(ends[0], ends[1], domain.numbers(low), domain.numbers(high))

    @cached_property
    def _begins(self) -> list[int]:
        """The place of each input's first element among all elements."""
        sizes = [math.prod(shape) for shape in self._domain.shapes.values()]
        return [sum(sizes[:i]) for i in range(len(sizes))]

    def _cut_by(self, slopes: Slopes, rows: Array, smooth: Array, wanted: Array) -> None:
        """Note that boxes should be cut along the element that moves the output most: a cut along
        another one doubles the boxes that are still to be cut along this one. But beside a zero of
        a slope that is always the same element, while other elements decide how large an error may
        be. So all boxes are cut like this at first, and some of them later. The rows between two
        that were examined are boxes close to the first one, and are cut like it."""
        reach = slopes.reach
        known = smooth & np.all(np.isfinite(reach), axis=(1, 2))
        widest = np.where(known, np.argmax(np.max(reach, axis=1), axis=1), self._along[rows])
        every = np.flatnonzero(wanted)[:: 1 if self.boxes < _BY_SLOPES else _MIXED]
        self._along[every] = widest[np.searchsorted(rows, every, side="right") - 1]

    def _between_ends(self, output: int, slopes: Slopes) -> tuple[Array, Array]:
        """The range (N, n) of an output without jumps: between its ends if slopes have one sign,
        around the middle if they do not."""
        domain = self._domain
        middle = slopes.low / 2 + slopes.high / 2
        found = []
        for index in range(slopes.least.shape[1]):
            least, most, beyond = slopes.ends(index, middle)
            sides = []
            for points, part, way in ((least, "lo", -1), (most, "hi", 1)):
                arrays = domain.arrays(points)
                one = self._ranges(arrays, arrays, len(points))[output]
                assert one is not None
                end = getattr(one, part).reshape(len(points), -1)[:, index]
                sides.append(end + way * beyond)
            found.append(sides)
        lo, hi = (np.stack([sides[i] for sides in found], axis=1) for i in range(2))
        return np.where(np.isnan(lo), -np.inf, lo), np.where(np.isnan(hi), np.inf, hi)

    def _bent(self, position: int, size: int, boxes: _Boxes, wanted: Array) -> Array:
        """A lower bound on how far half an ulp of the inputs moves elements of the gradient by an
        input, (N, n), from second derivatives; 0 for boxes that are not wanted. If too few boxes
        were excused so far, only some of the boxes are examined."""
        low, high = boxes.low, boxes.high
        found = np.zeros((len(low), size))
        rows = self._bending.chosen(wanted) if position < len(self._wrt) else ()
        for bend in self._bends if len(rows) else ():
            if bend.name == self._wrt[position]:
                moved = bend.moves(self._domain, low[rows], high[rows]) * self._rounding.unit
                found[rows, bend.place] = moved
        return found

    def _of_gradients(
        self, gradients: list[Enclosed | None], boxes: _Boxes, wanted: np.uint8
    ) -> Array:
        count = len(boxes.low)
        kept_wanted, right_wanted = (
            bool(wanted & _BIT[kind])
            for kind in ("gradient-underflow-to-zero", "gradient-inaccurate")
        )
        good, kept, right = (np.ones(count, np.bool_) for _ in range(3))
        allowed = _MARGIN * EXCUSED_MOVES
        for position, one in enumerate(gradients):
            if one is None:
                continue
            g = one.map(lambda part: part.reshape(count, -1))
            good &= ~_any_of(g.bad)
            lost, off = self._fails_of(g)

            def failing(lost: Array = lost, off: Array = off, good: Array = good) -> Array:
                return good & ((kept_wanted & _any_of(lost)) | (right_wanted & _any_of(off)))

            own = g.broken
            if failing().any():
                own = own | (~g.bad & self._excused_elements(position + 1))
            fails = failing(lost & ~own, off & ~own)
            bent = self._bent(position, g.lo.shape[1], boxes, fails)
            own = own | (g.error <= allowed * bent)
            asked = failing(lost & ~own, off & ~own)
            helped = fails & ~asked
            if asked.any():
                sharp, moved = self._sharper(position + 1, g, boxes, asked)
                still_lost, still_off = self._fails_of(sharp)
                lost, off = lost & still_lost, off & still_off
                own |= sharp.error <= allowed * np.maximum(moved, bent)
                still = failing(lost & ~own, off & ~own)
                self._adjoint.note(int(np.sum(asked & ~still)))
                helped |= asked & ~still & _any_of(bent > moved)
            self._bending.note(int(np.sum(helped)))
            kept &= ~_any_of(lost & ~own)
            right &= ~_any_of(off & ~own)
        return (
            _bits("gradient-nonfinite", good)
            | _bits("gradient-underflow-to-zero", kept)
            | _bits("gradient-inaccurate", right)
        )

    def _fails_of(self, g: Enclosed) -> tuple[Array, Array]:
        """Mark the entries (N, n) of a gradient that may be lost to 0, and those that may be off by
        half of the digits."""
        top = np.maximum(np.max(g.least, axis=1, keepdims=True), self._rounding.normal)
        limit = np.maximum(ROUNDED_AWAY * self._eps * top, self._rounding.normal)
        counts = ~(g.most < limit)
        errors = self._if_it_counts(g)
        lost = counts & ~((1 - g.d) * np.maximum(limit, g.least) > errors)
        allowed = self._half * _MARGIN - g.d
        small = np.max(g.most, axis=1, keepdims=True) < self._rounding.normal
        errors = errors if g.lo.shape[1] == 1 else g.a  # beside larger entries it counts
        return lost, ~(((allowed > 0) & (errors <= allowed * top)) | small)


class _Boxes:
    """Boxes (N, D), and all numbers of the program over them."""

    def __init__(self, low: Ordinals, high: Ordinals, run: Run) -> None:
        self.low, self.high, self.run = low, high, run
        self._numbers: Numbers | None = None

    def numbers(self, adjoints: Adjoints) -> Numbers:
        """What reverse passes take."""
        if self._numbers is None:
            self._numbers = adjoints.numbers(self.run, size_of(len(self.low)))
        return self._numbers


class _Worth:
    """Decides how many boxes to examine by a costly method, from how many it was used on and how
    many it decided. If it decides fewer than one of `seldom` boxes, only one of so many is
    examined; without such a number, all are."""

    def __init__(self, seldom: int | None) -> None:
        self._seldom = seldom
        self._asked, self._decided = 0, 0

    def chosen(self, wanted: Array) -> Array:
        """The rows to examine: all that are wanted, or some of them."""
        rows = np.flatnonzero(wanted)
        if self._seldom is not None and self._decided * self._seldom < self._asked:
            rows = rows[:: self._seldom]
        self._asked += len(rows)
        return rows

    def note(self, decided: int) -> None:
        self._decided += decided


def halves(
    domain: Domain, low: Ordinals, high: Ordinals, chosen: Array | None = None
) -> tuple[Ordinals, Ordinals]:
    """Cut each box (N, D) in two, and return the lower halves followed by the upper ones.

    A box is cut along the element that is widest relative to its domain, by ordinals or by numbers,
    in the middle by the same measure. By ordinals, large numbers are a small part of a domain that
    contains 0; by numbers, small ones are. An element that is negligible beside another one of its
    array is cut by numbers only: sums, norms and differences of the array hardly depend on it. If
    an element is `chosen` (N,), not -1, the box is cut along it, in the middle of its numbers, or
    two octaves below the larger end.
    """
    rows = np.arange(len(low))
    numbers = [domain.numbers(one) for one in (low, high, domain.low[None], domain.high[None])]
    by_ordinals = _shares(low, high, domain.low, domain.high)
    by_ordinals[
        _negligible_elements(domain, np.maximum(np.abs(numbers[0]), np.abs(numbers[1])))
    ] = 0.0
    by_numbers = _shares(*(one / 2 for one in numbers))
    along, axis = np.divmod(np.argmax(np.hstack([by_ordinals, by_numbers]), axis=1), domain.size)
    if chosen is not None:
        can = (chosen >= 0) & (low[rows, chosen] < high[rows, chosen])
        along, axis = np.where(can, 1, along), np.where(can, chosen, axis)
    first, last = low[rows, axis], high[rows, axis]
    crosses_0 = (first < 0) & (last >= 0)
    middle = numbers[0][rows, axis] / 2 + numbers[1][rows, axis] / 2
    if chosen is not None:
        ends = np.abs(numbers[0][rows, axis]), np.abs(numbers[1][rows, axis])
        wide = can & (np.minimum(*ends) * _OCTAVES < np.maximum(*ends)) & ~crosses_0
        middle = np.where(wide, middle / (_OCTAVES / 2), middle)
    by_number = np.clip(to_ordinals(middle, domain.format), first, last - 1)
    cut = np.where(along, by_number, midway(first, last))
    cut = np.where(crosses_0 if chosen is None else crosses_0 & ~can, -1, cut)
    middle_high, middle_low = high.copy(), low.copy()
    middle_high[rows, axis] = cut
    middle_low[rows, axis] = cut + 1
    return np.concatenate([low, middle_low]), np.concatenate([middle_high, high])


def _negligible_elements(domain: Domain, sizes: Array) -> Array:
    """Mark the elements of boxes (N, D), at most of these sizes, that are negligible beside others
    of their array."""
    arrays = domain.arrays(sizes).values()
    flat = (one.reshape(len(sizes), -1) for one in arrays)
    return np.hstack([one < _NOTHING * np.max(one, axis=1, keepdims=True) for one in flat])


def _shares(low: Array, high: Array, lowest: Array, highest: Array) -> Array:
    """The part of the domain that each element of boxes (N, D) covers."""
    whole = highest.astype(np.float64) - lowest
    return (high.astype(np.float64) - low) / np.where(whole > 0, whole, 1.0)


def bit_of(kind: Kind) -> np.uint8:
    """The bit of a kind in the results of `Proof.proven`."""
    return _BIT[kind]


def _distance_bound(exact: Enclosed, computed: Array) -> tuple[Array, Array]:
    """Where an exact number is enclosed, and a bound on its distance to the computed one."""
    off = np.maximum(np.abs(computed - exact.lo), np.abs(computed - exact.hi))
    off = off * (1 + 2.0**-50)
    return ~exact.bad & np.isfinite(off), np.where(np.isfinite(off), off, np.inf)


def _mask(kinds: Iterable[Kind]) -> np.uint8:
    """The bits of the kinds."""
    found = np.uint8(0)
    for kind in kinds:
        found |= _BIT[kind]
    return found


def _bits(kind: Kind, proven: Array) -> Array:
    return np.where(proven, _BIT[kind], np.uint8(0))


def _any_of(flags: Any) -> Array:
    return np.asarray(np.any(flags.reshape(len(flags), -1), axis=1))
