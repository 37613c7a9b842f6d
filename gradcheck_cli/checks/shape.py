"""How many numbers a layer gives and takes, and the layer as a program of one operation."""

from __future__ import annotations

from gradcheck_cli.domain.layer import LayerProblem, as_program
from gradcheck_cli.domain.records import replace
from gradcheck_cli.domain.spec import Spec
from gradcheck_cli.engines.layer.subject import Subject


def output_size(subject: Subject) -> int:
    return sum(output.size for output in subject.outputs)


def moving_size(subject: Subject) -> int:
    return sum(leaf.size for leaf in subject.leaves if leaf.differentiable)


def output_shape(subject: Subject) -> tuple[int, ...]:
    """The shape of the only output; several outputs are one flat vector."""
    if len(subject.outputs) == 1:
        return subject.outputs[0].shape
    return (output_size(subject),)


def is_complex(subject: Subject) -> bool:
    """Whether the only output is complex."""
    return len(subject.outputs) == 1 and subject.outputs[0].is_complex


def with_layer(problem: LayerProblem, subject: Subject) -> Spec:
    """The spec, with the layer as a program of one operation over its leaves."""
    leaves = {leaf.name: leaf.shape for leaf in subject.leaves}
    program = as_program(problem.implementation, leaves, output_shape(subject))
    wrt = tuple(leaf.name for leaf in subject.leaves if leaf.differentiable)
    return replace(problem.spec, program=program, wrt=wrt)
