"""A few runs that put the questions of many checks together. Most layers have no fault: where every
answer is as it should be, no check has anything to find, and none runs by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from functools import partial

import numpy as np

from gradcheck_cli.checks.behaviour.baseline import ELSEWHERE, Apart, Bars, Bench, Fault
from gradcheck_cli.checks.behaviour.layouts import layouts_of, of_inputs, of_upstream
from gradcheck_cli.checks.behaviour.linear import (
    factors,
    linear,
    not_zero,
    sum_of,
    times,
    widened,
)
from gradcheck_cli.checks.behaviour.memory import kept_from_earlier, remembered
from gradcheck_cli.checks.behaviour.request_dependence import requested, subsets
from gradcheck_cli.domain.draws import generator
from gradcheck_cli.domain.dtypes import FORMATS, Array, Values, ValuesOrNone
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.engines.layer.subject import Call, CallResult, Layout
from gradcheck_cli.engines.tracebacks import raise_if_internal
from gradcheck_cli.truth.layers.safe_values import RaisedLater

Check = Callable[[Bench], Iterator[Fault]]
EVERY: tuple[Check, ...] = (remembered, linear, of_upstream, of_inputs, requested)
"""Whose questions are put together."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """The checks that have to put their questions by themselves. `error` is what the layer raised;
    `again` is where two runs of one computation differ."""

    checks: tuple[Check, ...] = EVERY
    error: Exception | None = None
    again: Apart | None = None


def doubts_of(bench: Bench) -> list[Doubt]:
    """What is off in these runs. Raises RaisedLater."""
    found: list[Doubt] = []
    try:
        found += _doubts(bench)
    except RaisedLater:
        raise
    except Exception as error:
        raise_if_internal(error)
        found.append(Doubt(error=error))
    return found


def _doubts(bench: Bench) -> Iterator[Doubt]:
    other = _another(bench)
    if other is None:
        yield Doubt()
        return
    values, there = other
    if any(kept_from_earlier(bench, values, there)):
        yield Doubt((remembered,))
    yield from _of_a_fresh_layer(bench, values, there)
    del there, other  # the next passes need its memory
    groups, rest = _groups(bench)
    for wrt, layout in groups:
        yield from _of_backward_passes(bench, values, wrt, layout)
    del values
    yield from _of_requests(bench, rest)


def _groups(bench: Bench) -> tuple[list[tuple[tuple[str, ...], Layout]], list[tuple[str, ...]]]:
    """Leaves that are differentiated together, each with the layout of inputs then: all leaves in
    as few groups as possible, of which each but the only one leaves some out; and others that are
    requested by themselves, too. A layer that is compiled is compiled for each of them, and for
    each layout, so all leaves are one group, as they are, and some are requested once more."""
    everything, wanted = tuple(bench.leaves), subsets(bench)
    groups: list[tuple[str, ...]] = []
    for one in wanted:
        if not set(one) & {name for group in groups for name in group}:
            groups.append(one)
    whole = {name for group in groups for name in group} == set(everything)
    if bench.subject.stages or not whole:
        return [(everything, _laid_out(bench, "sliced"))], wanted or [everything]
    layouts: tuple[Layout, ...] = ("sliced", "transposed")
    rest = [one for one in wanted if one not in groups]
    return [(one, layouts[place % 2]) for place, one in enumerate(groups)], rest


def _another(bench: Bench) -> tuple[Values, CallResult] | None:
    """Other values of the given inputs, and a run there: with equal rows, which can be expanded,
    where the layer has a value for such."""
    for alike in (True, False):
        values = bench.moved(ELSEWHERE, generator(bench.problem.seed, 8), alike)
        ran = bench.ran_at(values)
        if ran is not None:
            return values, ran
    return None


def _of_backward_passes(
    bench: Bench, values: Values, wrt: tuple[str, ...], layout: Layout
) -> Iterator[Doubt]:
    found = _Passes(bench, wrt, layout).off_at(values)
    if found is not None:
        once = _Passes(bench, wrt, layout).off_at(values) is None
        yield Doubt(again=found if once else None)


class _Passes:
    """Backward passes over one graph, in which the leaves `wrt` alone are differentiated, after a
    call with other values, and with one more between the forward run and these passes. They are
    compared one by one with what is expected of them: each may be as large as the layer. What the
    ones give as an expanded upstream gradient is a part of a sum, of which a multiple is asked, in
    another layout."""

    def __init__(self, bench: Bench, wrt: tuple[str, ...], layout: Layout) -> None:
        self._bench = bench
        self._wrt = wrt
        self._layout = layout
        self._ones: CallResult | None = None
        self._off: Apart | None = None

    def off_at(self, values: Values) -> Apart | None:
        """What differs first, where `values` are the other ones."""
        bench = self._bench
        _, small = factors(bench)
        ones = np.ones(bench.size)
        passes: list[tuple[Array, Layout]] = [
            (np.zeros(bench.size), "contiguous"),
            (ones, "expanded"),
            (small * (bench.row + ones), "sliced"),
        ]
        ran = bench.subject.run(
            Call(
                cotangents=np.stack([part for part, _ in passes]),
                layouts=tuple(layout for _, layout in passes),
                inputs=self._layout,
                wrt=self._wrt if len(self._wrt) < len(bench.leaves) else None,
                interleaved_inputs=values,
                retained=True,
                each=self._take,
            )
        )
        if ran.gradients:
            for place in range(len(passes)):
                self._take(place, ran.row(place))
        if self._off is None and ran.overwritten:
            self._off = Apart(ran.overwritten[0], 0.0, 0.0, bench.is_summed)
        return self._off or bench.apart(bench.first, ran, bench.near, ())

    def _take(self, place: int, gradients: ValuesOrNone) -> None:
        bench, first = self._bench, self._bench.first
        shown = bench.shown(gradients)
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
            near = sum_of([bench.near] * 3, bench.tight(self._ones))
            total = _multiple(bench, bench.added(first, self._ones), small)
            self._off = self._off or bench.apart(total, ran, widened(near, small), self._wrt)


def _multiple(bench: Bench, ran: CallResult, factor: float) -> CallResult:
    return times(ran, factor, FORMATS[bench.subject.dtype].largest)


def _of_a_fresh_layer(bench: Bench, values: Values, there: CallResult) -> Iterator[Doubt]:
    """A layer that is bound anew is given other values, those with equal rows expanded, and a
    multiple of the upstream gradient, transposed in memory. It is the same one where nothing is
    made anew."""
    negative, _ = factors(bench)
    call = Call(
        values=values,
        inputs=_laid_out(bench, "expanded"),
        cotangents=negative * bench.row[None],
        layouts=("transposed",),
    )

    def run() -> CallResult:
        if not bench.subject.is_fresh:
            return bench.ran(bench.subject, call)
        with closing(bench.fresh(values)) as subject:
            return bench.ran(subject, call)

    checks = (remembered, of_inputs, linear, of_upstream)
    expected, near = _multiple(bench, there, negative), widened(bench.tight(there), negative)
    yield from _compared(bench, expected, run, checks, near)


def _of_requests(bench: Bench, wanted: Sequence[tuple[str, ...]]) -> Iterator[Doubt]:
    """Without gradients; with some or all of them, where inputs are transposed in memory. Of a
    layer that is compiled this is one run, up to the stage at which its compiler would write code
    for it alone."""
    untracked = partial(bench.subject.run, Call(tracking=False))
    yield from _compared(bench, bench.first, untracked, (requested,), bench.near, ())
    stage = bench.subject.traced_stage
    for wrt in wanted:
        call = Call(wrt=wrt, inputs=layouts_of(bench)[0])

        def run(call: Call = call) -> CallResult:
            with bench.subject.at_stage(stage) if stage else nullcontext():
                return bench.run(call)

        yield from _compared(bench, bench.first, run, (requested, of_inputs), bench.near, wrt)


def _laid_out(bench: Bench, layout: Layout) -> Layout:
    """The layout for a run that asks other questions as well: a compiled layer keeps its own."""
    return "contiguous" if bench.subject.stages else layout


def _compared(
    bench: Bench,
    first: CallResult,
    run: Callable[[], CallResult],
    checks: tuple[Check, ...],
    near: Bars,
    names: tuple[str, ...] | None = None,
) -> Iterator[Doubt]:
    """A doubt where a run differs from what is expected of it (`first`) by more than `near`;
    `again`, if it does not once more."""
    found = bench.apart(first, run(), near, names)
    if found is not None:
        yield Doubt(checks, again=None if bench.apart(first, run(), near, names) else found)
