"""The baseline of the checks of behaviour: one plain run, and the tolerances of later runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np

from gradcheck_cli.checks.casts import casts_of_run
from gradcheck_cli.checks.large.free_memory import return_free_memory
from gradcheck_cli.checks.large.progress import tell
from gradcheck_cli.domain.behaviour import OtherRun
from gradcheck_cli.domain.codes import Severity
from gradcheck_cli.domain.draws import generator, signs
from gradcheck_cli.domain.dtypes import FORMATS, Array, Values, ValuesOrNone
from gradcheck_cli.domain.large_arrays import parts
from gradcheck_cli.domain.layer import LayerProblem
from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.records import dataclass, replace
from gradcheck_cli.domain.thresholds import DRAWN_SLACK, PRODUCT_BARS, Step
from gradcheck_cli.engines.layer.casts import narrowest
from gradcheck_cli.engines.layer.source_lines import raised_at
from gradcheck_cli.engines.layer.subject import Call, CallResult, Subject, output_size
from gradcheck_cli.engines.tracebacks import raise_if_internal, short_traceback
from gradcheck_cli.explain.blame.values import two_texts
from gradcheck_cli.explain.remedies import with_remedy
from gradcheck_cli.truth.layers.safe_values import RaisedLater, moved_inside, try_call, values_of
from gradcheck_cli.truth.numerics.block_sums import LARGER, block_sums, count
from gradcheck_cli.truth.numerics.noise import largest_of, measured_of_layer

DRAWS = 2  # moves along random signs; each is a fair sample of the effect on a number
TRIES = 4  # draws of other signs, if the layer refuses a nearby point
# Relative to every number: far enough to be seen, near enough to stay in the domain.
ELSEWHERE: Step = 2.0**-6


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault in the behaviour of a layer. `severity` overrides the severity of the code; `place`
    is where the layer raises; `nondeterministic` is as in `LayerAnswer`."""

    code: str
    message: str
    input: str | None = None
    detail: str = ""
    severity: Severity | None = None
    place: Place | None = None
    nondeterministic: bool = False
    other_run: OtherRun | None = None


@dataclass(frozen=True, slots=True)
class Bars:
    """The tolerances within which two runs agree: for each number of the output, and for each
    number of a leaf's gradient."""

    output: float
    gradients: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Slope:
    """A directional derivative of the value by finite differences, with its error bar."""

    value: float
    bar: float

    def excludes(self, slope: float) -> bool:
        return abs(self.value - slope) > PRODUCT_BARS * self.bar

    def allows(self, slope: float) -> bool:
        """Whether the difference confirms the slope. A nan neither allows nor excludes it."""
        return abs(self.value - slope) <= PRODUCT_BARS * self.bar


OF_BEHAVIOUR = 26
"""The forward passes of all checks of a layer with two leaves, for the progress bar."""


@dataclass(frozen=True, slots=True)
class Apart:
    """The largest difference of two runs: in the gradient of `leaf`, or in the value if it is None.
    If `summed`, the numbers are sums over a block of entries."""

    leaf: str | None
    before: float
    after: float
    summed: bool = False

    def __str__(self) -> str:
        before, after = self.two_numbers()
        return f"{self._quantity()} is {before} and then {after}"

    def depending(self, where: str) -> str:
        """`the value is 1 in the plain run, and 2 where an input is transposed in memory`."""
        before, after = self.two_numbers()
        return f"{self._quantity()} is {before} in the plain run, and {after} {where}"

    def fault(self, code: str, message: str, run: OtherRun) -> Fault:
        """A fault: the two runs differ, although they should not."""
        other_run = replace(run, of_value=self.leaf is None)
        return Fault(code, message, self.leaf, other_run=other_run)

    def _quantity(self) -> str:
        if self.leaf is None:
            return "the value"
        gradient = f"the gradient of `{self.leaf}`"
        return f"a sum over entries of {gradient}" if self.summed else gradient

    def two_numbers(self) -> tuple[str, str]:
        """Both numbers."""
        return two_texts(self.before, self.after)


def raised(
    code: str, where: str, error: Exception, other_run: OtherRun, severity: Severity | None = None
) -> Fault:
    """A fault: the layer raises in this run. Raises exceptions of gradcheck's own code."""
    raise_if_internal(error)
    words = str(error).strip().splitlines() or [""]
    message = f"{where}, the layer raises {type(error).__name__}: {words[0].strip()}"
    place = raised_at(error)
    return Fault(
        code,
        message,
        detail=with_remedy(short_traceback(error), error),
        severity=severity,
        place=place,
        other_run=replace(other_run, raises=True),
    )


class Bench:
    """One layer, the cotangent `row` (m,) of its checks, and its first run with it.

    `fresh` binds the same layer again with other values of its inputs. `digits` is a dtype whose
    precision numbers must agree to (None: their own). If `is_summed`, `block_sums` replace the
    gradients of runs. Raises the layer's own exceptions.
    """

    def __init__(
        self,
        subject: Subject,
        fresh: Callable[[Values], Subject],
        problem: LayerProblem,
        digits: str | None = None,
        is_summed: bool = False,
    ) -> None:
        self.subject = subject
        self.is_summed = is_summed
        self._done = 0  # forward passes
        self.fresh = fresh
        self.problem = problem
        self.leaves = {leaf.name: leaf for leaf in subject.leaves if leaf.differentiable}
        self._rng = generator(problem.seed, 7)
        self.size = output_size(subject)
        self.row, self.second_row = self.draw(self.size), self.draw(self.size)
        self.first = self.run(watch=True)
        self.walled = False  # whether the layer refused every point near a compared one
        # Two right ways to compute a number share at least half of the digits, of the narrowest
        # dtype that the layer casts to.
        dtypes = {subject.dtype, *(output.dtype for output in subject.outputs)}
        dtypes |= {*self.first.dtypes.values(), *([digits] if digits else [])}
        self.half = max(FORMATS[dtype].half for dtype in dtypes & FORMATS.keys())

    def digits(self) -> str | None:
        """The narrowest dtype that the layer casts to, if any: seen in a watched run, or inferred
        from the noise of its values. A solver that iterates up to a tolerance counts as float32,
        because its tolerance is not linear in the cotangent. Called if a fault was found."""
        casts = casts_of_run(self.subject)
        if casts:
            return narrowest(cast.dtype for cast in casts)
        if self.subject.solvers():
            return "float32"
        floats = {n: leaf.value for n, leaf in self.leaves.items() if leaf.is_floating}
        size, dtype = self.first.output.size, self.subject.dtype

        def value(at: Values) -> Array:
            return np.asarray(values_of(self.subject, [moved_inside(self.subject, at)], size)[0])

        try:
            _, cast = measured_of_layer(value, floats, self.first.output, False, dtype)
        except RaisedLater:  # the fault that was found stands
            return None
        return "float32" if cast else None

    @property
    def is_walled(self) -> bool:
        """Whether this bench or the one without sums was walled."""
        return self.walled or ("_unsummed" in self.__dict__ and self._unsummed.walled)

    def settle(self) -> None:
        """Discard runs at other values and repeat the first call, so that the next check follows
        it."""
        self.__dict__.pop("run_at_other_values", None)
        self.run()

    def draw(self, size: int) -> Array:
        """Gaussian numbers rounded to the dtype that is checked."""
        return FORMATS[self.problem.dtype].round(self._rng.standard_normal(size))

    def run(
        self, call: Call | None = None, *, row: Array | None = None, watch: bool = False
    ) -> CallResult:
        """Run the layer with one cotangent: the bench's own, or `row`."""
        rows = (self.row if row is None else row)[None]
        return self.ran(self.subject, replace(call or Call(), cotangents=rows, watch=watch))

    def ran(self, subject: Subject, call: Call) -> CallResult:
        """Run one of the layer's subjects."""
        if not self.is_summed:
            return subject.run(call)
        rows = 0 if call.cotangents is None else len(call.cotangents)
        self.announce(rows)
        every: list[dict[str, Array | None]] = []
        result = subject.run(
            replace(call, each=lambda _, gradients: every.append(self.as_compared(gradients)))
        )
        if result.gradients:  # the engine returns them all at once
            every = [self.as_compared(result.row(place)) for place in range(rows)]
        gradients: dict[str, Array | None] = {}
        for name in every[0] if every else ():
            known = [one[name] for one in every]
            parts = [np.zeros(self.length(name)) if one is None else one for one in known]
            gradients[name] = None if all(one is None for one in known) else np.stack(parts)
        return replace(result, gradients=gradients)

    def announce(self, rows: int) -> None:
        """Before a run of a large layer with so many backward passes: report the progress, and
        return memory to the system."""
        if self.is_summed:
            self._done += 1 + 2 * rows
            return_free_memory()
            tell("behaviour", self._done, OF_BEHAVIOUR)

    def as_compared(self, gradients: ValuesOrNone) -> dict[str, Array | None]:
        """The gradients (n,) as the checks compare them: all numbers, or sums over blocks."""
        if self.is_summed:
            return {n: None if g is None else block_sums(g) for n, g in gradients.items()}
        wide = {n: None if g is None else np.asarray(g, np.float64) for n, g in gradients.items()}
        return wide

    def length(self, name: str) -> int:
        """The number of compared numbers of a leaf's gradient."""
        size = self.leaves[name].size
        return count(size) if self.is_summed else size

    @property
    def without_sums(self) -> Bench:
        """The same bench without sums, to examine a difference that sums have shown."""
        return self._unsummed if self.is_summed else self

    @cached_property
    def _unsummed(self) -> Bench:
        return Bench(self.subject, self.fresh, self.problem)

    def run_beside(self, call: Call, row: Array | None = None) -> CallResult | None:
        """Run the layer at other values; None if it refuses them. Raises RaisedLater."""
        return try_call(lambda: self.run(call, row=row), self.run)

    @property
    def other_inputs(self) -> dict[str, Array] | None:
        """Other values of the given inputs at which the layer has a value, or None."""
        return self.run_at_other_values[0] if self.run_at_other_values else None

    @cached_property
    def run_at_other_values(self) -> tuple[dict[str, Array], CallResult] | None:
        """Other values of the given inputs and a run there, or None."""
        step = ELSEWHERE
        while step > self.half:
            moved = self.moved_inputs(step, self._rng)
            ran = self.ran_at(moved)
            if ran is not None:
                return moved, ran
            step *= ELSEWHERE
        return None

    def moved_inputs(
        self, step: float, rng: np.random.Generator, alike: bool = False
    ) -> dict[str, Array]:
        """The given inputs with each number moved by this part of itself, inside their domains. If
        `alike`, all rows equal the first, so that they can be expanded."""
        point = self.problem.inputs
        moved = {}
        for leaf in self.leaves.values():
            if leaf.role == "input":
                entry, own = point[leaf.name], leaf.kept[:1] if alike and leaf.rank else leaf.kept
                value = np.asarray(signs(rng, own.shape))
                value *= step  # in place, to save memory
                value += 1.0
                value *= own
                np.clip(value, entry.low, entry.high, out=value)
                moved[leaf.name] = np.broadcast_to(value, leaf.shape) if alike else value
        return moved

    def ran_at(self, values: Values) -> CallResult | None:
        """Run the layer at other values. None if it refuses them, or loses an output that is finite
        at its own values: the values are then outside its domain, which is no fault."""
        ran = self.run_beside(Call(values=values))
        if ran is None:
            return None
        lost = np.isfinite(self.first.output) & ~np.isfinite(ran.output)
        return None if np.any(lost) else ran

    def slope(self, values: Values, name: str, direction: Array) -> Slope | None:
        """The derivative of row @ value at these values along a direction of one leaf, by central
        differences. None if a nearby point is refused or out of bounds, or a step rounds to
        zero."""
        leaf = self.leaves[name]
        at, slopes, largest = values.get(name, leaf.kept), [], 0.0
        unit = FORMATS[self.subject.dtype].unit_roundoff
        step = unit ** (1 / 3) * (largest_of(at) or 1.0) / largest_of(direction)
        if step == 0.0:
            return None
        for wide in (step, 2 * step):
            ends = []
            for there in (at + wide * direction, at - wide * direction):
                inside = np.array_equal(leaf.inside(there), there)
                call = Call(values={**values, name: there}, tracking=False)
                ran = self.run_beside(call) if inside else None
                if ran is None:
                    return None
                ends.append(float(np.sum(self.row * ran.output)))
                largest = max(largest, float(np.sum(np.abs(self.row * ran.output))))
            slopes.append((ends[0] - ends[1]) / (2 * wide))
        return Slope(slopes[0], abs(slopes[0] - slopes[1]) + unit * largest / step)

    @cached_property
    def tight_bars(self) -> Bars:
        """The part of `bars` that takes no further run."""
        return self.tight_bars_of(self.first)

    @cached_property
    def bars(self) -> Bars:
        """The tolerances for runs that compute the same numbers in another way: half of the digits,
        plus the effect of moving every number by that much."""
        return self.bars_of(self.first, Call(), self.row)

    def bars_of(self, ran: CallResult, call: Call, row: Array) -> Bars:
        """The tolerances for a run other than the first. The entry that moves most decides for its
        leaf, because a draw separates only some of several tied numbers."""
        bars = self.tight_bars_of(ran)
        output, gradients = bars.output, dict(bars.gradients)
        for _ in range(DRAWS):
            there = self._moved_a_little(call, row)
            if there is None:  # at the edge of the domain, the number of right digits is unknown
                self.walled = True
                return Bars(np.inf, dict.fromkeys(gradients, np.inf))
            output = output + DRAWN_SLACK * _largest_distance(there.output, ran.output)
            for name in gradients:
                one, other = self.gradient(there, name), self.gradient(ran, name)
                gradients[name] = gradients[name] + DRAWN_SLACK * _largest_distance(one, other)
        return Bars(output, gradients)

    def _moved_a_little(self, call: Call, row: Array) -> CallResult | None:
        for _ in range(TRIES):
            moved = replace(call, values=self._perturbed_leaves(call.values))
            there = self.run_beside(moved, self._shake(row))
            if there is not None:
                return there
        return None

    def tight_bars_of(self, ran: CallResult) -> Bars:
        """The tolerances for other runs of the same computation, which may only add in another
        order in parallel."""
        part = self.half / (LARGER if self.is_summed else 1.0)
        gradients = {name: part * largest_of(self.gradient(ran, name)) for name in self.leaves}
        return Bars(self.half * largest_of(ran.output), gradients)

    def _perturbed_leaves(self, values: Values) -> dict[str, Array]:
        return {
            leaf.name: leaf.inside(self._shake(values.get(leaf.name, leaf.kept)))
            for leaf in self.leaves.values()
        }

    def _shake(self, numbers: Array) -> Array:
        return np.asarray(numbers * (1 + self.half * signs(self._rng, numbers.shape)))

    def gradient(self, ran: CallResult, name: str, row: int = 0) -> Array:
        """The compared numbers of one leaf's gradient; zeros if there is none."""
        found = ran.gradients.get(name)
        return np.zeros(self.length(name)) if found is None else found[row]

    def added(self, one: CallResult, other: CallResult) -> CallResult:
        """The first run with the sum of both gradients."""
        return CallResult(
            self.first.output,
            {n: (self.gradient(one, n) + self.gradient(other, n))[None] for n in self.leaves},
        )

    def differ(
        self,
        before: CallResult,
        after: CallResult,
        names: tuple[str, ...] | None = None,
        bars: Callable[[], Bars] | None = None,
        tight: Bars | None = None,
    ) -> Apart | None:
        """The largest difference of two runs beyond the bars (None: the bench's own). They take
        further runs, so they are computed only if the runs differ by more than the `tight` bars,
        which are at most as wide."""
        if self.difference(before, after, names, tight) is None:
            return None
        return self.difference(before, after, names, self.bars if bars is None else bars())

    def difference(
        self,
        before: CallResult,
        after: CallResult,
        names: tuple[str, ...] | None = None,
        bars: Bars | None = None,
    ) -> Apart | None:
        """The largest difference of the values or gradients (of `names`; None: all) beyond the bars
        (None: the tight bars of `before`), or None. Numbers that are not finite in `before` are not
        compared."""
        if bars is None:
            bars = self.tight_bars if before is self.first else self.tight_bars_of(before)
        pairs: list[tuple[str | None, Array, Array, float]] = [
            (None, before.output, after.output, bars.output)
        ]
        for name in self.leaves if names is None else names:
            one, other = self.gradient(before, name), self.gradient(after, name)
            pairs.append((name, one, other, bars.gradients[name]))
        for leaf, one, other, bar in pairs:
            place = farthest(one, other, bar)
            if place is not None:
                summed = self.is_summed and leaf is not None
                return Apart(leaf, float(one[place]), float(other[place]), summed)
        return None


def _largest_distance(one: Array, other: Array) -> float:
    return largest_of(one - other)


def farthest(one: Array, other: Array, bar: float) -> int | None:
    """The index of the flat numbers that differ most beyond the bar; None if all agree. A bar
    larger than the largest number leaves nothing to compare."""
    if np.array_equal(one, other) or not bar <= largest_of(one):
        return None
    place, most = None, -1.0
    for inside in parts(one.size):
        gap = np.abs(one[inside] - other[inside])
        off = np.isfinite(one[inside]) & ((gap > bar) | np.isnan(other[inside]))
        if np.any(off):
            beyond = np.where(off, np.nan_to_num(gap, nan=np.inf), -1.0)
            worst = int(np.argmax(beyond))
            if beyond[worst] > most:
                place, most = inside.start + worst, beyond[worst]
    return place
