"""The tangents inside a layer: those of every operation of its forward pass along a direction."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing

import numpy as np

from gradcheck_cli.checks.causes.framework_rules import OWN_SECONDS, as_call, steps_and_leaves
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.engines.execution import Step
from gradcheck_cli.engines.layer.custom import CustomCall
from gradcheck_cli.engines.layer.lifting import parts_of
from gradcheck_cli.engines.layer.recording import Recording
from gradcheck_cli.engines.layer.subject import Subject

Bind = Callable[[CustomCall], Subject]
"""Binds an operation alone, at the arguments that it had in the layer."""


def tangents_of_nodes(
    recording: Recording, direction: Mapping[str, Array], bind: Bind
) -> dict[int, Array]:
    """The tangent of every node that moves with the leaves along `direction` (arrays in the shapes
    of the leaves), by node: each operation runs alone, in forward mode, with the tangents of its
    arguments. After the first tangent that is not finite, which is what is searched for, the others
    are left out, as they are when the time is over. Raises what the operations raise."""
    steps, reached = steps_and_leaves(recording)
    made_in = {slot for step in steps for slot in step.results}
    moved = {  # the leaves, and the copies of them that the layer received
        slot: x
        for slot, names in reached.items()
        for name, x in direction.items()
        if name in names and slot not in made_in
    }
    until = time.perf_counter() + OWN_SECONDS
    for step in steps:
        if moved.keys().isdisjoint(step.args):
            continue
        made = _tangents_of_step(recording, step, moved, bind)
        moved.update(made)
        if not all(np.all(np.isfinite(x)) for x in made.values()) or time.perf_counter() > until:
            break
    return {node: moved[slot] for node, slot in enumerate(recording.slots) if slot in moved}


def _tangents_of_step(
    recording: Recording, step: Step, moved: Mapping[int, Array], bind: Bind
) -> dict[int, Array]:
    """The tangents of the results that have one, by slot."""
    slots = recording.execution.slots
    moving = [place for place, slot in enumerate(step.args) if slot in moved]
    wanted = [place for place, slot in enumerate(step.results) if slots[slot].format is not None]
    if not wanted:
        return {}
    call = as_call(recording, step, moving, wanted, frozenset())
    pairs = zip(call.moving, moving, strict=True)
    given = {name: moved[step.args[place]] for name, place in pairs}
    with closing(bind(call)) as subject:
        found = subject.jvp(given)
    if found is None:
        return {}
    results = [step.results[place] for place in wanted]
    parts = parts_of(found, [slots[slot].shape for slot in results])
    return dict(zip(results, parts, strict=True))
