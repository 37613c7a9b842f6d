"""Check whether a layer remembers earlier calls, or is nondeterministic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np

from gradcheck_cli.checks.behaviour.baseline import Apart, Bench, Fault, raised
from gradcheck_cli.checks.behaviour.caches import Place, cleared, places_of
from gradcheck_cli.domain.behaviour import OtherRun, Way
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.layer.subject import Call, CallResult

BETWEEN = "with another forward run between a forward and its backward"
REPEATS = 2  # repetitions of the first run
PLACES = 4  # the most places for kept numbers that are cleared one by one
FIRST = (
    "for another input, the gradient of `{name}` is still that of the first input, although the "
    "slope of the value differs there: the backward does not use the input, or it uses what an "
    "earlier call computed"
)
OVERWRITTEN = (
    "the gradient of `{name}` that a backward pass returned is overwritten by the next one: both "
    "are the same memory"
)
OUTPUT = (
    "the output that a forward run returned is overwritten by the next call: both are the same "
    "memory"
)
TWICE = "called twice with the same input and the same random numbers"


def call_affects_next(bench: Bench) -> Iterator[Fault]:
    """GC602 and GC605: the first way in which one call affects another."""
    for _ in range(REPEATS):
        apart = bench.difference(bench.first, bench.run())
        if apart is not None:
            yield replace(_fault_of_changes(bench, apart), nondeterministic=True)
            return
    for way in (_over_one_graph, _after_another, _with_one_between, _on_a_fresh_layer):
        fault = way(bench)
        if fault is not None:
            yield fault
            return
    if bench.run_at_other_values is not None:
        yield from kept_from_earlier(bench, *bench.run_at_other_values)


def kept_from_earlier(
    bench: Bench, values: Mapping[str, Array], there: CallResult
) -> Iterator[Fault]:
    """GC605: state of an earlier call that fresh layers share affects a call at other `values`,
    whose run was `there`."""
    for look in (_of_the_first, _of_a_place):
        for fault in look(bench, values, there):
            yield fault
            return


def state_in_object(bench: Bench) -> Iterator[Fault]:
    """GC605: state that a call leaves in an object affects its next call, although the value is
    equal. (Each call has a copy of the object.) Gradients of arrays in the object may add up, as
    optimisers expect."""
    if not bench.subject.copies:
        return
    try:
        ran = bench.run(Call(earlier_inputs=bench.other_inputs or {}))
    except Exception as error:
        when, other = "in the second call of an object", OtherRun("second call")
        yield raised(Codes.STATEFUL_GRADIENT, when, error, other, "warning")
        return
    given = tuple(leaf.name for leaf in bench.leaves.values() if leaf.role == "input")
    for name in ran.overwritten:
        if name in given:
            yield _overwrite_fault(name)
            return
    if ran.output_written:
        yield Fault(Codes.STATEFUL_GRADIENT, OUTPUT)
        return
    found = bench.difference(bench.first, ran, given)
    fault = _stateful_fault(
        "second call", "in the first call of an object, and in its second call", found
    )
    if fault is not None and fault.input is not None:
        yield fault


def different_once(found: Apart) -> Fault:
    """GC602 for a run that differed from another run of the same computation."""
    return replace(_random_fault(found), nondeterministic=True)


def _fault_of_changes(bench: Bench, apart: Apart) -> Fault:
    """The fault of a layer that differs in every call: random, counting its calls, or adding up."""
    runs = [bench.run() for _ in range(3)]
    if apart.leaf is not None and _adds_up(bench, runs, apart.leaf):
        message = f"the gradient of `{apart.leaf}` grows by the same amount at every call"
        before, after = (bench.difference(runs[0], runs[1]) or apart).two_numbers()
        message = f"{message}: {before}, then {after}"
        return apart.fault(Codes.STATEFUL_GRADIENT, message, OtherRun("added up"))
    here, there = _two_calls(bench), _two_calls(bench)
    if not any(bench.difference(a, b) for a, b in zip(here, there, strict=True)):
        message = f"it depends on how often the layer was called: {apart}"
        return apart.fault(Codes.STATEFUL_GRADIENT, message, OtherRun("counted"))
    return _random_fault(apart)


def _random_fault(found: Apart) -> Fault:
    return found.fault(Codes.NONDETERMINISTIC, f"{TWICE}, {found}", OtherRun("again"))


def _adds_up(bench: Bench, runs: Sequence[CallResult], name: str) -> bool:
    one, two, three = (bench.gradient(ran, name) for ran in runs)
    bar = 2 * bench.half * np.max(np.abs(three), initial=0.0)
    return bool(np.all(np.abs((three - two) - (two - one)) <= bar))


def _two_calls(bench: Bench) -> tuple[CallResult, CallResult]:
    call = Call(cotangents=bench.row[None])
    with closing(bench.fresh({})) as subject:
        return subject.run(call), subject.run(call)


def _after_another(bench: Bench) -> Fault | None:
    if bench.other_inputs is None:
        return None
    found = bench.difference(bench.first, bench.run())
    return _stateful_fault("after another", "before and after a call with another input", found)


def _over_one_graph(bench: Bench) -> Fault | None:
    """Run several backward passes over one graph, as several losses do. A layer that frees its
    residuals and raises in the second pass gets only a warning, because no wrong number results."""
    rows = np.stack([bench.row, 2 * bench.row, bench.row])
    try:
        ran = bench.subject.run(Call(cotangents=rows, retained=True))
    except Exception as error:
        when, other = "in a second backward pass over one graph", OtherRun("one graph")
        return raised(Codes.STATEFUL_GRADIENT, when, error, other, "warning")
    for name in ran.overwritten:
        return _overwrite_fault(name)
    for row in (0, 2):
        taken = {n: g if g is None else g[row : row + 1] for n, g in ran.gradients.items()}
        apart = bench.difference(bench.first, CallResult(ran.output, taken))
        if apart is not None:
            return _stateful_fault("one graph", "in two backward passes over one graph", apart)
    return None


def _with_one_between(bench: Bench) -> Fault | None:
    """Run the layer forward at another input before the first backward pass, as a model does that
    uses it twice. A parameter that the forward writes to (GC603) breaks the graph anyway."""
    spoilt = any(name in bench.leaves for name in bench.first.changed)
    if spoilt or bench.other_inputs is None:
        return None
    try:
        ran = bench.run(Call(interleaved_inputs=bench.other_inputs))
    except Exception as error:
        return raised(Codes.STATEFUL_GRADIENT, BETWEEN, error, OtherRun("another between"))
    found = bench.difference(bench.first, ran)
    return _stateful_fault("another between", BETWEEN, found)


def _on_a_fresh_layer(bench: Bench) -> Fault | None:
    """Check whether state of a first call affects a call with another input."""
    if bench.run_at_other_values is None:
        return None
    values, later = bench.run_at_other_values
    with closing(bench.fresh(values)) as subject:
        fresh = subject.run(Call(values=values, cotangents=bench.row[None]))
    found = bench.difference(fresh, later)
    when = "for an input on a fresh layer, and for the same input after another"
    return _stateful_fault("fresh", when, found)


def _of_the_first(bench: Bench, values: Mapping[str, Array], there: CallResult) -> Iterator[Fault]:
    """GC605 if a fresh layer returns the first input's gradient at other `values` (run: `there`),
    although the value has another slope there: an earlier call left it where fresh layers find
    it."""
    if bench.is_summed:  # sums have no products with moves; if some agree, whole gradients decide
        sums = ((bench.gradient(bench.first, n), bench.gradient(there, n)) for n in values)
        agree = any(np.array_equal(first, other) for first, other in sums)
        ran = bench.without_sums.ran_at(values) if agree else None
        if ran is not None:
            yield from _of_the_first(bench.without_sums, values, ran)
        return
    kept = {name: bench.gradient(bench.first, name) for name in values}
    moves = {name: value - bench.leaves[name].kept for name, value in values.items()}
    # infinite entries do not move
    moves = {n: np.nan_to_num(move, posinf=0.0, neginf=0.0) for n, move in moves.items()}
    known = sum(float(np.sum(kept[name] * move.ravel())) for name, move in moves.items())
    grew = float(np.sum(bench.row * (there.output - bench.first.output)))
    if abs(grew - known) <= bench.half * max(abs(grew), abs(known)):
        return  # a linear layer
    for name, move in moves.items():
        if np.any(move) and np.any(kept[name]):
            if not np.array_equal(kept[name], bench.gradient(there, name)):
                continue
            slope = float(np.sum(kept[name] * move.ravel()))
            other = bench.slope(values, name, move)
            own = bench.slope({}, name, move) if other and other.excludes(slope) else None
            if own is not None and own.allows(slope):
                other_run, message = OtherRun("first kept"), FIRST.format(name=name)
                yield Fault(Codes.STATEFUL_GRADIENT, message, name, other_run=other_run)
                return


def _of_a_place(bench: Bench, values: Mapping[str, Array], there: CallResult) -> Iterator[Fault]:
    """GC605 if a call at other `values` (run: `there`) changes when a place where the code keeps
    numbers is cleared first."""

    def without(places: Sequence[Place]) -> tuple[Sequence[Place], CallResult | None]:
        """The places that a call at `values` fills again after they were cleared, and its run;
        nothing if the call fails, because the layer needs them."""
        with cleared(places):
            try:
                with closing(bench.fresh(values)) as subject:
                    ran = bench.ran(subject, Call(values=values, cotangents=bench.row[None]))
            except Exception:
                return (), None
            return [place for place in places if place.filled()], ran

    for places in places_of(bench.subject.user_function):
        filled, first = without(places) if places else ((), None)
        if first is None:
            alone = places[:PLACES] if len(places) > 1 else ()
            filled = [one for one in alone if without([one])[0]]
        if len(filled) < len(places):
            _, first = without(filled) if filled else ((), None)
        apart = None if first is None else bench.difference(first, there)
        if apart is not None:
            when = f"for an input while `{filled[0].name}` is {filled[0].state}"
            message = f"{when}, and for the same input after another, {apart}"
            yield Fault(Codes.STATEFUL_GRADIENT, message, apart.leaf)
            return


def _overwrite_fault(name: str) -> Fault:
    message = OVERWRITTEN.format(name=name)
    other_run = OtherRun("gradient overwritten")
    return Fault(Codes.STATEFUL_GRADIENT, message, name, other_run=other_run)


def _stateful_fault(way: Way, when: str, apart: Apart | None) -> Fault | None:
    if apart is None:
        return None
    return apart.fault(Codes.STATEFUL_GRADIENT, f"{when}, {apart}", OtherRun(way))
