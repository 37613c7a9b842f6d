"""A few runs that put the questions of many checks together. Most layers have no fault: where every
answer is as it should be, no check has anything to find, and none runs by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from gradcheck_cli.checks.behaviour.baseline import ELSEWHERE, Apart, Bars, Bench, Fault
from gradcheck_cli.checks.behaviour.layouts import of_inputs, of_upstream, repeated
from gradcheck_cli.checks.behaviour.linear import (
    factors,
    linear,
    not_zero,
    sum_of,
    times,
    widened,
)
from gradcheck_cli.checks.behaviour.memory import of_the_first, remembered
from gradcheck_cli.checks.behaviour.request_dependence import requested, subsets
from gradcheck_cli.domain.dtypes import FORMATS, Array
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
    if any(of_the_first(bench, values, there)):
        yield Doubt((remembered,))
    yield from _of_a_fresh_layer(bench, values, there)
    del there, other  # the next passes need its memory
    yield from _of_backward_passes(bench, values)
    del values
    yield from _of_requests(bench)


def _another(bench: Bench) -> tuple[Mapping[str, Array], CallResult] | None:
    """Other values of the given inputs, and a run there: with equal rows, which can be expanded,
    where the layer has a value for such."""
    moved = bench.moved(ELSEWHERE, np.random.default_rng([bench.problem.seed, 8]))
    equal = moved | repeated(bench, moved)
    ran = bench.ran_at(equal)
    if ran is not None:
        return equal, ran
    ran = bench.ran_at(moved)
    return None if ran is None else (moved, ran)


def _of_backward_passes(bench: Bench, values: Mapping[str, Array]) -> Iterator[Doubt]:
    found = _off_in_passes(bench, values)
    if found is not None:
        once = _off_in_passes(bench, values) is None
        yield Doubt((remembered, linear, of_upstream, of_inputs), again=found if once else None)


def _off_in_passes(bench: Bench, values: Mapping[str, Array]) -> Apart | None:
    """What differs first where inputs are transposed in memory, and passes go back over one graph
    after a call with other values, and with one more between the forward run and these passes. A
    multiple of the upstream gradient is also one in another layout, and so are the ones of a
    sum."""
    negative, small = factors(bench)
    ones = np.ones(bench.size)
    passes: list[tuple[Array, Layout]] = [
        (np.zeros(bench.size), "contiguous"),
        (negative * bench.row, "transposed"),
        (small * bench.row, "sliced"),
        (ones, "expanded"),
        (bench.row + ones, "contiguous"),
    ]
    compared = _ComparedPasses(bench)
    ran = bench.subject.run(
        Call(
            cotangents=np.stack([part for part, _ in passes]),
            layouts=tuple(layout for _, layout in passes),
            inputs="transposed",
            interleaved_inputs=values,
            retained=True,
            each=compared.take,
        )
    )
    if ran.gradients:
        for place in range(len(passes)):
            compared.take(place, ran.row(place))
    return compared.off or bench.apart(bench.first, ran, bench.near, ())


class _ComparedPasses:
    """What is `off` first in the backward passes of one graph, which are compared one by one: each
    may be as large as the layer."""

    def __init__(self, bench: Bench) -> None:
        self.off: Apart | None = None
        self._bench = bench
        self._total, self._near = bench.first, bench.near  # of a sum, once it is known

    def take(self, place: int, gradients: Mapping[str, Array | None]) -> None:
        """Compares the pass at this place with what those before say of it."""
        bench, first = self._bench, self._bench.first
        ran = CallResult(
            first.output, {n: g if g is None else g[None] for n, g in gradients.items()}
        )
        if place == 0:
            for name, value in not_zero(bench, ran):
                self.off = self.off or Apart(name, 0.0, value)
        elif place in (1, 2):
            factor = factors(bench)[place - 1]
            multiple = times(first, factor, FORMATS[bench.subject.dtype].largest)
            self._compare(multiple, ran, widened(bench.near, factor))
        elif place == 3:
            self._near = sum_of([bench.near] * 3, bench.tight(ran))
            self._total = bench.added(first, ran)
        else:
            self._compare(self._total, ran, self._near)

    def _compare(self, expected: CallResult, ran: CallResult, bars: Bars) -> None:
        self.off = self.off or self._bench.apart(expected, ran, bars)


def _of_a_fresh_layer(
    bench: Bench, values: Mapping[str, Array], there: CallResult
) -> Iterator[Doubt]:
    """A layer that is bound anew is given other values, those with equal rows expanded. It is the
    same one where nothing is made anew."""
    call = Call(values=values, inputs="expanded", cotangents=bench.row[None])

    def run() -> CallResult:
        if not bench.subject.is_fresh:
            return bench.subject.run(call)
        subject = bench.fresh(values)
        try:
            return subject.run(call)
        finally:
            subject.close()

    yield from _compared(bench, there, run, (remembered, of_inputs))


def _of_requests(bench: Bench) -> Iterator[Doubt]:
    """Without gradients; with some or all of them, where inputs are sliced in memory."""
    untracked = partial(bench.subject.run, Call(tracking=False))
    yield from _compared(bench, bench.first, untracked, (requested,), ())
    wanted = subsets(bench)
    if set(bench.leaves).difference(*wanted):
        wanted.append(tuple(bench.leaves))
    for wrt in wanted:
        run = partial(bench.run, Call(wrt=wrt, inputs="sliced"))
        yield from _compared(bench, bench.first, run, (requested, of_inputs), wrt)


def _compared(
    bench: Bench,
    first: CallResult,
    run: Callable[[], CallResult],
    checks: tuple[Check, ...],
    names: tuple[str, ...] | None = None,
) -> Iterator[Doubt]:
    """A doubt where a run differs from the first; `again`, if it does not once more."""
    near = bench.near if first is bench.first else bench.tight(first)
    found = bench.apart(first, run(), near, names)
    if found is not None:
        yield Doubt(checks, again=None if bench.apart(first, run(), near, names) else found)
