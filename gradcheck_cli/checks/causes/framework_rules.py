"""Examine custom functions and framework operations of a layer in isolation, at the values that
they had, and describe an operation of the framework whose own derivative is wrong."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Mode, order_of
from gradcheck_cli.domain.implementation import Implementation
from gradcheck_cli.domain.layer import LayerProblem
from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.report import Cause, Finding
from gradcheck_cli.domain.scale import scale_of
from gradcheck_cli.domain.spec import Input
from gradcheck_cli.domain.thresholds import Seconds, Step
from gradcheck_cli.engines.execution import Step as Ran
from gradcheck_cli.engines.layer.custom import CustomCall, IsolatedCall
from gradcheck_cli.engines.layer.recording import Recording

SECONDS: Seconds = 20.0
"""The time for the calls of one layer: enough for a hundred small functions or a few large ones."""

OWN_SECONDS: Seconds = 5.0
"""The time for the framework's operations in one mode: nearly all of them are right."""


BESIDE: Step = 2.0**-20
"""How far beside the point a comparison is repeated, relative to the compared values."""


def in_time(
    calls: Iterable[CustomCall], notes: dict[str, None], seconds: float = SECONDS
) -> Iterator[CustomCall]:
    """The calls, until the time is over; then a note says so."""
    until = time.perf_counter() + seconds
    for done, call in enumerate(calls):
        if time.perf_counter() > until:
            notes[f"{done} calls were examined in isolation; there was no time for more"] = None
            break
        yield call


def call_problem(problem: LayerProblem, dtype: str, call: CustomCall, *modes: Mode) -> LayerProblem:
    """The call as a problem of its own, or the layer's problem if the layer is this call alone."""
    problem = replace(problem, dtype=dtype, modes=modes)
    if call.live is None:
        return problem
    start = {
        name: Input(name, v, name in call.moving, is_complex=name in call.complex_values)
        for name, v in call.values.items()
    }
    old = problem.implementation
    own = Implementation(old.engine, call.name, old.folder, old.span, live=call.live)
    spec = replace(
        problem.spec,
        points=(start,),
        wrt=call.moving,
        implementations=(own,),
        by_design=(),
        model=None,
        order=max(map(order_of, modes)),
        pointed=False,
    )
    return replace(problem, spec=spec, implementation=own, point=0)


def executed(recording: Recording) -> Iterator[CustomCall]:
    """The operations of the forward pass that the outputs depend on, from the output backwards, as
    functions of their floating-point arguments that return the results with a cotangent."""
    bars = recording.bars
    stated = {recording.slots[node] for node in recording.stated}
    steps, reached = steps_and_leaves(recording)
    for step in reversed(steps):
        wanted = [place for place, slot in enumerate(step.results) if slot in bars]
        moving = [place for place, slot in enumerate(step.args) if reached[slot]]
        if wanted and moving and stated.isdisjoint(step.results):
            yield as_call(recording, step, moving, wanted, reached[step.results[0]])


def steps_and_leaves(recording: Recording) -> tuple[list[Ran], dict[int, frozenset[str]]]:
    """The steps that the outputs depend on, and the leaves that each slot depends on."""
    execution, bars = recording.execution, recording.bars
    steps = [execution.steps[place] for place in execution.needed(recording.outputs)]
    leaves_of: dict[int, frozenset[str]] = {}  # both terms of a sum share its cotangent
    for name, bar in recording.gradients.items():
        if bar is not None:
            leaves_of[bar] = leaves_of.get(bar, frozenset()) | {name}
    reached: dict[int, frozenset[str]] = {}
    for step in steps:
        for slot in step.args:
            if slot not in reached:  # a leaf, or a constant
                reached[slot] = leaves_of.get(bars.get(slot, -1), frozenset())
        through = [reached[slot] for slot in step.args]
        reached.update(dict.fromkeys(step.results, frozenset[str]().union(*through)))
    return steps, reached


def sampler(finding: Finding, recording: Recording, names: frozenset[str]) -> Ran | None:
    """The first operation with one of these names that the finding's input reaches."""
    steps, reached = steps_and_leaves(recording)
    mine = (step for step in steps if step.name in names)
    return next((step for step in mine if finding.input in reached[step.results[0]]), None)


def lone_branch(finding: Finding, recording: Recording) -> Cause | None:
    """The cause if a comparison has a different result at this point than on both sides."""
    execution = recording.execution
    steps, reached = steps_and_leaves(recording)
    for step in steps:
        values = [execution.values(slot) for slot in step.args]
        through = [slot for slot in step.args if finding.input in reached[slot]]
        if not through or execution.values(step.results[0]).dtype != bool:
            continue

        def beside(sign: int, step: Ran = step, values: Sequence[Array] = values) -> Array:
            given = [
                execution.conversions.native(x + sign * BESIDE * scale_of(x), slot.native)
                if finding.input in reached[place] and slot.format is not None
                else slot.native
                for place, slot, x in zip(
                    step.args, (execution.slots[s] for s in step.args), values, strict=True
                )
            ]
            return execution.conversions.numpy(step.low(given)[0])

        here = execution.values(step.results[0])
        if np.any((here != beside(1)) & (here != beside(-1))):
            return _lone(finding, step)
    return None


def cause_at(finding: Finding, name: str, place: Place | None, **words: Any) -> Cause:
    """The cause of a finding that is an operation, at its place in the code if known."""
    return Cause(
        op=name,
        span=place.span if place else finding.span,
        text=place.text if place else name,
        source=place.source if place else None,
        **words,
    )


def _cause(finding: Finding, of: Ran | CustomCall, **words: Any) -> Cause:
    return cause_at(finding, of.name, of.place, engine_op=of.name, **words)


def _lone(finding: Finding, step: Ran) -> Cause:
    alone = f"`{step.name}` has a different result at this point than on both sides of it"
    return _cause(
        finding,
        step,
        phase="forward",
        detail=f"{alone}, so the derivative is that of the chosen branch",
        story=f"{alone}, and selects a branch with a different derivative",
        kind="lone branch",
        proof="every operation examined in isolation is right at these inputs",
    )


def as_call(
    recording: Recording,
    step: Ran,
    moving: Sequence[int],
    wanted: Sequence[int],
    reaches: frozenset[str],
) -> CustomCall:
    slots = recording.execution.slots
    places = [place for place, slot in enumerate(step.args) if slots[slot].format is not None]
    places = [place for place in places if slots[step.args[place]].size == 1 or place in moving]
    names = {place: f"argument {place + 1}" for place in places}
    values = {names[place]: recording.execution.values(step.args[place]) for place in places}
    natives = [slots[slot].native for slot in step.args]
    return CustomCall(
        name=step.name,
        live=IsolatedCall(step.name, partial(_run, step, wanted), natives, places),
        values=values,
        moving=tuple(names[place] for place in moving if place in names),
        reaches=reaches,
        positions={name: (place,) for place, name in names.items()},
        place=step.place,
    )


def _run(step: Ran, wanted: Sequence[int], *given: Any) -> list[Any]:
    results = (step.live or step.low)(given)
    return [results[place] for place in wanted]


def wrong_rule(
    finding: Finding, call: CustomCall, name: str, numbers: tuple[str, str], framework: str
) -> Cause:
    """The cause if a framework's rule returns the first of `numbers` instead of the second."""
    stated, right = numbers
    of_it = f"{framework}'s {finding.way} mode returns {stated} for {name} of `{call.name}`"
    return _cause(
        finding,
        call,
        phase="backward",
        detail=f"{of_it}; its derivative is {right}",
        story=f"{of_it}; correct: {right}",
        kind="operation's rule",
        proven=True,
        proof=f"checked in isolation at the same inputs, `{call.name}` disagrees with finite "
        "differences",
    )


def convention(finding: Finding, calls: Mapping[str, CustomCall]) -> Cause:
    """The cause of a finding if operations are at kinks but the layer has a derivative."""
    first, *_ = (call for call in calls.values())
    named = " and ".join(f"`{name}`" for name in calls)
    many = len(calls) > 1
    stand = f"{named} {'are at kinks' if many else 'is at a kink'} here"
    return _cause(
        finding,
        first,
        phase="backward",
        detail=f"{stand}, but the layer has a derivative",
        story=f"{stand}; the derivative there is a convention, but the layer has a derivative",
        kind="convention at a kink",
        proof="every other operation examined in isolation is right at these inputs",
    )
