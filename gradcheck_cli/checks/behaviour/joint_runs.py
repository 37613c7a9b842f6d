"""Ask the questions of many checks together in a few runs. Most layers have no fault: if every
answer is as expected, no check needs runs of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from functools import partial

import numpy as np

from gradcheck_cli.checks.behaviour.baseline import ELSEWHERE, Apart, Bars, Bench, Fault
from gradcheck_cli.checks.behaviour.layouts import layouts_of, of_inputs, of_upstream
from gradcheck_cli.checks.behaviour.linear import factors, linear, not_zero, sum_of, times, widened
from gradcheck_cli.checks.behaviour.memory import call_affects_next, kept_from_earlier
from gradcheck_cli.checks.behaviour.request_dependence import requested, subsets
from gradcheck_cli.domain.draws import generator
from gradcheck_cli.domain.dtypes import FORMATS, Values, ValuesOrNone
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.layer.subject import Call, CallResult, Layout
from gradcheck_cli.engines.tracebacks import raise_if_internal
from gradcheck_cli.truth.layers.safe_values import RaisedLater

Check = Callable[[Bench], Iterator[Fault]]
EVERY: tuple[Check, ...] = (call_affects_next, linear, of_upstream, of_inputs, requested)
"""The checks whose questions are asked together."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """The checks that must run on their own. `error` is an exception of the layer; `again` is a
    difference between two runs of the same computation."""

    checks: tuple[Check, ...] = EVERY
    error: Exception | None = None
    again: Apart | None = None


def doubts_of(bench: Bench) -> list[Doubt]:
    """The doubts that these runs raise. Raises RaisedLater."""
    doubts: list[Doubt] = []
    try:
        doubts += _doubts(bench)
    except RaisedLater:
        raise
    except Exception as error:
        raise_if_internal(error)
        doubts.append(Doubt(error=error))
    return doubts


def _doubts(bench: Bench) -> Iterator[Doubt]:
    other = _another(bench)
    if other is None:
        yield Doubt()
        return
    values, there = other
    if any(kept_from_earlier(bench, values, there)):
        yield Doubt((call_affects_next,))
    yield from _doubts_of_fresh_layer(bench, values, there)
    del there, other  # free their memory for the next passes
    groups, rest = _groups(bench)
    for wrt, layout in groups:
        yield from _doubts_of_passes(bench, values, wrt, layout)
    del values
    yield from _doubts_of_requests(bench, rest)


def _groups(bench: Bench) -> tuple[list[tuple[tuple[str, ...], Layout]], list[tuple[str, ...]]]:
    """Groups of leaves to differentiate together, each with a layout of the inputs, and subsets to
    request on their own as well. The groups cover all leaves, as few as possible, and no group has
    all leaves unless it is the only one. A compiled layer is compiled for each set of leaves and
    each layout, so all its leaves are one group, and one subset is requested besides."""
    everything, wanted = tuple(bench.leaves), subsets(bench)
    groups: list[tuple[str, ...]] = []
    for one in wanted:
        if not set(one) & {name for group in groups for name in group}:
            groups.append(one)
    whole = {name for group in groups for name in group} == set(everything)
    if bench.subject.stages or not whole:
        return [(everything, _layout_for(bench, "sliced"))], wanted or [everything]
    layouts: tuple[Layout, ...] = ("sliced", "transposed")
    rest = [one for one in wanted if one not in groups]
    return [(one, layouts[place % 2]) for place, one in enumerate(groups)], rest


def _another(bench: Bench) -> tuple[Values, CallResult] | None:
    """Other values of the given inputs and a run there. The rows are equal, so that they can be
    expanded, if the layer accepts such values."""
    for alike in (True, False):
        values = bench.moved_inputs(ELSEWHERE, generator(bench.problem.seed, 8), alike)
        ran = bench.ran_at(values)
        if ran is not None:
            return values, ran
    return None


def _doubts_of_passes(
    bench: Bench, values: Values, wrt: tuple[str, ...], layout: Layout
) -> Iterator[Doubt]:
    apart = _Passes(bench, wrt, layout).off_at(values)
    if apart is not None:
        once = _Passes(bench, wrt, layout).off_at(values) is None
        yield Doubt(again=apart if once else None)


class _Passes:
    """Backward passes over one graph in which only the leaves `wrt` are differentiated. A call with
    other values comes before, and another one between the forward run and these passes. The results
    are compared one by one, because each may be as large as the layer. The gradient for an expanded
    upstream gradient of ones is a term of a sum; the last pass requests a multiple of that sum, in
    another layout."""

    def __init__(self, bench: Bench, wrt: tuple[str, ...], layout: Layout) -> None:
        self._bench = bench
        self._wrt = wrt
        self._layout = layout
        self._ones: CallResult | None = None
        self._off: Apart | None = None

    def off_at(self, values: Values) -> Apart | None:
        """The first difference, with `values` for the other calls."""
        bench = self._bench
        _, small = factors(bench)
        layouts: tuple[Layout, ...] = ("contiguous", "expanded", "sliced")
        cotangents = np.zeros((len(layouts), bench.size))
        cotangents[1:] = 1.0
        cotangents[2] += bench.row
        cotangents[2] *= small
        bench.announce(len(layouts))
        ran = bench.subject.run(
            Call(
                cotangents=cotangents,
                layouts=layouts,
                inputs=self._layout,
                wrt=self._wrt if len(self._wrt) < len(bench.leaves) else None,
                interleaved_inputs=values,
                retained=True,
                each=self._take,
            )
        )
        if ran.gradients:
            for place in range(len(layouts)):
                self._take(place, ran.row(place))
        if self._off is None and ran.overwritten:
            self._off = Apart(ran.overwritten[0], 0.0, 0.0, bench.is_summed)
        return self._off or bench.difference(bench.first, ran, ())

    def _take(self, place: int, gradients: ValuesOrNone) -> None:
        bench, first = self._bench, self._bench.first
        shown = bench.as_compared(gradients)
        ran = CallResult(
            first.output, {n: None if g is None else g[None] for n, g in shown.items()}
        )
        if place == 0:
            for name, value in not_zero(bench, ran):
                self._off = self._off or Apart(name, 0.0, value, bench.is_summed)
        elif place == 1:
            self._ones = ran
        else:
            assert self._ones is not None
            _, small = factors(bench)
            bars = sum_of([bench.tight_bars] * 3, bench.tight_bars_of(self._ones))
            total = _multiple(bench, bench.added(first, self._ones), small)
            self._off = self._off or bench.difference(total, ran, self._wrt, widened(bars, small))


def _multiple(bench: Bench, ran: CallResult, factor: float) -> CallResult:
    return times(ran, factor, FORMATS[bench.subject.dtype].largest)


def _doubts_of_fresh_layer(bench: Bench, values: Values, there: CallResult) -> Iterator[Doubt]:
    """Bind the layer again, run it with other values (equal rows expanded) and with a multiple of
    the upstream gradient, transposed in memory. Use the same layer if fresh ones would be
    identical."""
    negative, _ = factors(bench)
    call = Call(
        values=values,
        inputs=_layout_for(bench, "expanded"),
        cotangents=negative * bench.row[None],
        layouts=("transposed",),
    )

    def run() -> CallResult:
        if not bench.subject.is_fresh:
            return bench.ran(bench.subject, call)
        with closing(bench.fresh(values)) as subject:
            return bench.ran(subject, call)

    checks = (call_affects_next, of_inputs, linear, of_upstream)
    expected = _multiple(bench, there, negative)
    bars = widened(bench.tight_bars_of(there), negative)
    yield from _compared(bench, expected, run, checks, bars=bars)


def _doubts_of_requests(bench: Bench, wanted: Sequence[tuple[str, ...]]) -> Iterator[Doubt]:
    """Run without gradients, and with some or all of them while inputs are transposed in memory.
    For a compiled layer this is one run, up to the stage before its compiler would generate code
    for it."""
    untracked = partial(bench.subject.run, Call(tracking=False))
    yield from _compared(bench, bench.first, untracked, (requested,), ())
    stage = bench.subject.traced_stage
    for wrt in wanted:
        call = Call(wrt=wrt, inputs=layouts_of(bench)[0])

        def run(call: Call = call) -> CallResult:
            with bench.subject.at_stage(stage) if stage else nullcontext():
                return bench.run(call)

        yield from _compared(bench, bench.first, run, (requested, of_inputs), wrt)


def _layout_for(bench: Bench, layout: Layout) -> Layout:
    """The layout for a run that also asks other questions: a compiled layer keeps its own."""
    return "contiguous" if bench.subject.stages else layout


def _compared(
    bench: Bench,
    first: CallResult,
    run: Callable[[], CallResult],
    checks: tuple[Check, ...],
    names: tuple[str, ...] | None = None,
    bars: Bars | None = None,
) -> Iterator[Doubt]:
    """A doubt if a run differs from `first`, the expected result, by more than the bars; with
    `again` if a second run does not differ."""
    apart = bench.difference(first, run(), names, bars)
    if apart is not None:
        yield Doubt(checks, again=None if bench.difference(first, run(), names, bars) else apart)
