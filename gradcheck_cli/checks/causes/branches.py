"""Where a kink or a jump of a layer comes from the branch that its code takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from gradcheck_cli.checks.bound_layer import output_shape
from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.records import replace
from gradcheck_cli.domain.report import Finding
from gradcheck_cli.domain.scale import scale_of
from gradcheck_cli.domain.thresholds import Step
from gradcheck_cli.engines.layer.branches import parting
from gradcheck_cli.engines.layer.subject import Subject
from gradcheck_cli.engines.tracebacks import raise_if_internal

ROUGH = (Codes.KINK, Codes.UNDEFINED_DERIVATIVE, Codes.DISCONTINUITY)
NEAR: Step = 2.0**-20  # of the number: far more than its rounding, far less than its own size
WORDS = "; next to the point the code takes another branch here"


def with_branches(findings: Sequence[Finding], subject: Subject) -> tuple[Finding, ...]:
    """The findings; those of a point without a derivative at the condition that is decided in
    another way next to it, where there is one."""
    return tuple(_at_its_branch(finding, subject) for finding in findings)


def _at_its_branch(finding: Finding, subject: Subject) -> Finding:
    moved = _moved(finding, subject) if finding.code in ROUGH and finding.place is None else None
    if moved is None:
        return finding
    try:
        place = parting([partial(subject.value, there) for there in moved])
    except Exception as error:  # the layer need not run there
        raise_if_internal(error)
        return finding
    if place is None:
        return finding
    return replace(finding, place=place, message=finding.message + WORDS)


def _moved(finding: Finding, subject: Subject) -> tuple[Mapping[str, Array], ...] | None:
    """Values on one side of the point along the input of the first entry, at it, and on the other
    side; None where that input is not known."""
    leaf = next((leaf for leaf in subject.leaves if leaf.name == finding.input), None)
    if leaf is None or not finding.entries:
        return None
    index = tuple(finding.entries[0].index)[len(output_shape(subject)) :]
    if len(index) != len(leaf.shape):
        return None
    sides = []
    for way in (-NEAR, 0.0, NEAR):
        there = np.array(leaf.value)
        there[index] += way * (np.abs(there[index]) or scale_of(there))
        sides.append({leaf.name: there})
    return tuple(sides)
