"""The summands of a gradient: one for each use of the input in the program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.case import Case
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Mode, Problem
from gradcheck_cli.domain.program import INPUT, Node, Program

MOST_USES = 16  # uses that are shown apart; more would make a sentence that nobody reads


def terms_of(case: Case, mode: Mode, name: str) -> Sequence[tuple[str, Array]]:
    """(text of the use, its part of the float64 gradient) for an input that is used several
    times."""
    from gradcheck_cli.engines.reference.engine import ReferenceEngine
    from gradcheck_cli.truth.plain import inlined

    program = inlined(case.spec.program)
    split, uses = _split(program, name)
    if not 2 <= len(uses) <= MOST_USES or case.projections[mode].columns is not None:
        return ()
    values = {**case.values, **dict.fromkeys(uses, case.values[name])}
    problem = Problem(
        split, values, tuple(uses), "float64", case.dtype, mode, case.projections[mode]
    )
    answer = ReferenceEngine().evaluate(problem)
    if answer.failure is not None:
        return ()
    result = []
    for use, text in uses.items():
        gradient = answer.gradients.get(use)
        if gradient is not None and gradient.values is not None and np.any(gradient.values):
            result.append((text, gradient.values))
    return result


def _split(program: Program, name: str) -> tuple[Program, dict[str, str]]:
    """The program with an input of its own for each use of `name`: new input -> text of the use."""
    source = program.inputs[name]
    origin = program.nodes[source]
    nodes: list[Node] = []
    inputs: dict[str, int] = {}
    place: dict[int, int] = {}
    uses: dict[str, str] = {}
    for index, node in enumerate(program.nodes):
        args = []
        for arg in node.args:
            if arg != source:
                args.append(place[arg])
                continue
            new = f"{name}:{len(uses)}"
            nodes.append(replace(origin, op=INPUT, name=new))
            inputs[new] = len(nodes) - 1
            uses[new] = node.text
            args.append(len(nodes) - 1)
        nodes.append(replace(node, args=tuple(args)))
        place[index] = len(nodes) - 1
        if node.op == INPUT and node.name is not None:
            inputs[node.name] = len(nodes) - 1
    outputs = tuple(None if i is None else place[i] for i in program.outputs)
    return Program(tuple(nodes), inputs, outputs, program.text), uses
