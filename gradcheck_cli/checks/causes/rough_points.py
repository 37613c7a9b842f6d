"""Find the cause of a kink or a jump of a layer: a branch of its code, or an operation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from gradcheck_cli.checks.bound_layer import output_shape
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.layer import Leaf
from gradcheck_cli.domain.place import Place
from gradcheck_cli.domain.records import replace
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.domain.scale import scale_of
from gradcheck_cli.engines.layer.branches import parting
from gradcheck_cli.engines.layer.recording import Recording
from gradcheck_cli.engines.layer.subject import Subject
from gradcheck_cli.engines.trace.rough_steps import LONG, SHORT, rough_step
from gradcheck_cli.engines.tracebacks import where_it_runs

ROUGH = (Codes.KINK, Codes.UNDEFINED_DERIVATIVE, Codes.DISCONTINUITY)
WORDS = "; next to the point the code takes another branch here"


def with_rough_points(findings: Sequence[Finding], subject: Subject) -> tuple[Finding, ...]:
    """The findings; those about a point without a derivative get the place of the condition that
    changes next to it, or else of the operation that has the kink or jump."""
    return tuple(_at_its_cause(finding, subject) for finding in findings)


def _at_its_cause(finding: Finding, subject: Subject) -> Finding:
    axis = _axis(finding, subject) if finding.code in ROUGH and finding.place is None else None
    if axis is None:
        return finding

    def found() -> Finding:
        near = [{axis[0].name: _with_perturbed_entry(*axis, way * SHORT)} for way in (-1, 0, 1)]
        place = parting([partial(subject.value, there) for there in near])
        if place is not None:
            return replace(finding, place=place, message=finding.message + WORDS)
        place = _of_an_operation(subject.record_forward(), *axis)
        return finding if place is None else replace(finding, place=place)

    return where_it_runs(found, finding)


def _of_an_operation(recording: Recording, leaf: Leaf, index: tuple[int, ...]) -> Place | None:
    execution = recording.execution
    slot = recording.slots[recording.program.inputs[leaf.name]]
    native = execution.slots[slot].native

    def moved(part: float) -> dict[int, object]:
        return {
            slot: execution.conversions.native(_with_perturbed_entry(leaf, index, part), native)
        }

    short, long = [(moved(-length), moved(length)) for length in (SHORT, LONG)]
    step = rough_step(execution, recording.outputs, short, long)
    return None if step is None else step.place


def _axis(finding: Finding, subject: Subject) -> tuple[Leaf, tuple[int, ...]] | None:
    """The input of the finding's first entry and the index of its number; None if unknown."""
    leaf = next((leaf for leaf in subject.leaves if leaf.name == finding.input), None)
    if leaf is None or not finding.entries:
        return None
    index = tuple(finding.entries[0].index)[len(output_shape(subject)) :]
    return (leaf, index) if len(index) == len(leaf.shape) else None


def _with_perturbed_entry(leaf: Leaf, index: tuple[int, ...], part: float) -> Array:
    """The values of a leaf with one number moved by a part of itself."""
    there = np.array(leaf.value)
    there[index] += part * (np.abs(there[index]) or scale_of(there))
    return there
