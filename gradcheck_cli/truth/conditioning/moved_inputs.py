"""Conditioning found by moving the inputs, for cases that first-order analysis misses.

First order takes the slope of the derivative where float64 evaluates it. `sinc(y + 0.3)` at 1e30 is
evaluated at an even integer, as 0.3 is absorbed, and its derivative is flat there; at the exact
point it is not. That first order misses something shows: right rules in float64 are farther from
the certified derivative than all roundings on the way explain.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.draws import generator
from gradcheck_cli.domain.dtypes import FORMATS, Array
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.program import INPUT, Node, Program
from gradcheck_cli.domain.thresholds import FEW_ULPS, FIRST_ORDER_SLACK
from gradcheck_cli.domain.truth import Cost, TruthBlock
from gradcheck_cli.truth.certified.enclose import certify

DRAWS = 3  # one of them moves an entry by half of what the worst does, nearly always
SUFFIX = " moved by"  # no name of an input has a space


def missed(
    block: TruthBlock, cost: Cost, own: Array, unit: float, wanted: Array | None = None
) -> bool:
    """Whether right rules in float64, which give `own`, are off by more than first order says: the
    `cost` is that of a dtype with this unit roundoff, of the entries that are `wanted` (None:
    all)."""
    wide = FORMATS["float64"]
    with np.errstate(all="ignore"):
        rounding = np.fmax(cost.floor, cost.known_condition) * (wide.unit_roundoff / unit)
        explained = FIRST_ORDER_SLACK * rounding + FEW_ULPS * wide.ulp(block.value)
        off = np.abs(own - block.value) > explained + block.error
    off = off & block.certified & np.isfinite(own)
    return bool(np.any(off if wanted is None else off & wanted))


def with_moved(
    costs: Mapping[tuple[Mode, str], Cost],
    request: TruthRequest,
    blocks: Mapping[tuple[Mode, str], TruthBlock],
) -> dict[tuple[Mode, str], Cost]:
    """The costs of these blocks; C, allowance and R are at least what certified derivatives change
    by when every input moves by up to half an ulp."""
    modes = {mode: request.projections[mode] for mode, _ in costs}
    program = _moving(request.program, request.exact)
    rng = generator(request.seed, 53)
    unit = FORMATS[request.dtype].unit_roundoff
    moved = {key: np.zeros_like(blocks[key].value) for key in costs}
    for _ in range(DRAWS):
        moves = {
            name + SUFFIX: unit * rng.uniform(-1.0, 1.0, np.shape(value))
            for name, value in request.values.items()
            if name + SUFFIX in program.inputs
        }
        values = {**request.values, **moves}
        there = certify(replace(request, program=program, values=values, projections=modes))
        for key, largest in moved.items():
            both = there[key].sure & blocks[key].certified
            with np.errstate(all="ignore"):
                change = np.where(both, np.abs(there[key].value - blocks[key].value), 0.0)
            moved[key] = np.fmax(largest, change)
    return {
        key: Cost(
            np.fmax(cost.known_condition, 2 * moved[key]),
            np.fmax(cost.allowance, 2 * moved[key]),
            np.fmax(cost.floor, 2 * moved[key]),
        )
        for key, cost in costs.items()
    }


def _moving(program: Program, exact: Collection[str]) -> Program:
    """The program with each floating input x that is not `exact` in the form x * exp(e), and e an
    input of its own. No float64 is so near to x: large ones are integers, and so are their sums."""
    nodes: list[Node] = []
    place: dict[int, int] = {}
    inputs: dict[str, int] = {}
    for index, node in enumerate(program.nodes):
        place[index] = len(nodes)
        nodes.append(replace(node, args=tuple(place[i] for i in node.args)))
        if node.op == INPUT and node.name is not None:
            inputs[node.name] = place[index]
            if node.kind == "float" and node.name not in exact:
                inputs[node.name + SUFFIX] = len(nodes)
                nodes.append(replace(node, name=node.name + SUFFIX))
                nodes.append(replace(node, op="exp", args=(len(nodes) - 1,)))
                nodes.append(replace(node, op="multiply", args=(place[index], len(nodes) - 1)))
                place[index] = len(nodes) - 1
    outputs = tuple(None if i is None else place[i] for i in program.outputs)
    return Program(tuple(nodes), inputs, outputs, program.text)
