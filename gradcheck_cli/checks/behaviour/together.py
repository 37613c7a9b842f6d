"""A few runs that put the questions of many checks together. Most layers have no fault: where every
answer is as it should be, no check has anything to find, and none runs by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from functools import partial

import numpy as np

from gradcheck_cli.checks.behaviour.baseline import ELSEWHERE, Apart, Bars, Bench, Fault
from gradcheck_cli.checks.behaviour.layouts import layouts_of, of_inputs, of_upstream, repeated
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
    passes = _Passes(bench)
    yield from _of_backward_passes(bench, values, passes)
    del values
    yield from _of_requests(bench, passes)


def _another(bench: Bench) -> tuple[Values, CallResult] | None:
    """Other values of the given inputs, and a run there: with equal rows, which can be expanded,
    where the layer has a value for such."""
    moved = bench.moved(ELSEWHERE, generator(bench.problem.seed, 8))
    equal = repeated(bench, moved)
    values: Values = {**moved, **equal}
    if equal.keys() == moved.keys():
        moved = {}  # as large as the layer: made anew where it is needed
    ran = bench.ran_at(values)
    if ran is not None:
        return values, ran
    moved = moved or bench.moved(ELSEWHERE, generator(bench.problem.seed, 8))
    ran = bench.ran_at(moved)
    return None if ran is None else (moved, ran)


def _of_backward_passes(bench: Bench, values: Values, passes: _Passes) -> Iterator[Doubt]:
    found = passes.off_at(values)
    if found is not None:
        once = _Passes(bench).off_at(values) is None
        yield Doubt((remembered, linear, of_upstream, of_inputs), again=found if once else None)


class _Passes:
    """Backward passes over one graph, where inputs are sliced in memory, after a call with
    other values, and with one more between the forward run and these passes. They are compared one
    by one with what is expected of them: each may be as large as the layer. A multiple of the
    upstream gradient is also one in another layout, and so are the ones, of which `ones` is the
    run, and which are a part of a sum later."""

    def __init__(self, bench: Bench) -> None:
        self.ones: CallResult | None = None
        self._bench = bench
        self._off: Apart | None = None

    def off_at(self, values: Values) -> Apart | None:
        """What differs first, where `values` are the other ones."""
        bench = self._bench
        _, small = factors(bench)
        passes: list[tuple[Array, Layout]] = [
            (np.zeros(bench.size), "contiguous"),
            (small * bench.row, "sliced"),
            (np.ones(bench.size), "expanded"),
        ]
        ran = bench.subject.run(
            Call(
                cotangents=np.stack([part for part, _ in passes]),
                layouts=tuple(layout for _, layout in passes),
                inputs=_laid_out(bench, "sliced"),
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
            factor = factors(bench)[1]
            self._off = self._off or bench.apart(
                _multiple(bench, first, factor), ran, widened(bench.near, factor)
            )
        else:
            self.ones = ran


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


def _of_requests(bench: Bench, passes: _Passes) -> Iterator[Doubt]:
    """Without gradients; with some or all of them, where inputs are transposed in memory, and
    the upstream gradient is the sum of two whose gradients are known. Of a layer that is compiled
    this is one run, with some of them if there are several, up to the stage at which its compiler
    would write code for these alone."""
    untracked = partial(bench.subject.run, Call(tracking=False))
    yield from _compared(bench, bench.first, untracked, (requested,), bench.near, ())
    wanted = subsets(bench)
    if not wanted or (set(bench.leaves).difference(*wanted) and not bench.subject.stages):
        wanted.append(tuple(bench.leaves))
    ones = passes.ones
    assert ones is not None
    total, near = bench.added(bench.first, ones), sum_of([bench.near] * 3, bench.tight(ones))
    checks, stage = (requested, of_inputs, linear, of_upstream), bench.subject.traced_stage
    for wrt in wanted:
        call = Call(wrt=wrt, inputs=layouts_of(bench)[0])

        def run(call: Call = call) -> CallResult:
            with bench.subject.at_stage(stage) if stage else nullcontext():
                return bench.run(call, row=bench.row + np.ones(bench.size))

        yield from _compared(bench, total, run, checks, near, wrt)


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
