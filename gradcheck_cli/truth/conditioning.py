"""How far rounding may move a gradient: conditioning C, rounding floor R, and what is allowed.

With T an entry of the gradient, written as a program of its own (forward pass, then backward
pass), and u the unit roundoff of the judged dtype:

    C = u * sum over inputs |dT/dx_j| |x_j|             half an ulp of every input
    R = sum over operations |dT/dv_i| (u |v_i| + eta)   every operation rounded, or underflowing

(Higham, Accuracy and Stability of Numerical Algorithms, section 1.6 and 3; first order.) An
operation of a well-behaved program costs about as much as the inputs' own rounding; the allowance
is R with each operation's part cut off at BENIGN times that. What R has above it is the program's
instability.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat
from gradcheck_cli.domain.evaluation import Mode
from gradcheck_cli.domain.truth import Cost, Truth
from gradcheck_cli.engines.reference import ReferenceEngine
from gradcheck_cli.truth.gradients import block_shapes, float64_gradients
from gradcheck_cli.truth.plain import PlainFunction, inlined
from gradcheck_cli.truth.tape import EntryTape, RecordedProgram

# An operation whose rounding moves the result by up to 8 times what half an ulp of every input (or
# of the result) does is taken as benign: the dot product of a well-conditioned problem reaches 2
# to 4.
BENIGN = 8.0
EXACT_ENTRIES = 64  # entries for which the sums are taken exactly: each costs one walk of the tape
EXACT_NODES = 600  # and the longest program for that
# Random sign vectors for larger blocks. Where all of them happen to move an entry little, its
# roundings look like instability: of 4, one entry in 1000 did; of 8, one in a million should.
SAMPLES = 8
PERTURBATION = (
    2.0**-26
)  # relative: far above float64's rounding, far below where second order counts


def with_costs(truth: Truth, request: TruthRequest, engine: ReferenceEngine) -> Truth:
    """The truth with C, allowance and R in every block."""
    true = float64_gradients(request, engine).true
    costs = conditioning(request, true, engine)
    blocks = dict(truth.blocks)
    for (mode, name), cost in costs.items():
        blocks[mode, name] = replace(
            blocks[mode, name],
            # an unknown C excuses nothing
            condition=np.where(np.isfinite(cost.condition), cost.condition, 0.0),
            allowance=cost.allowance,
            floor=cost.floor,
        )
    return replace(truth, blocks=blocks, output_cost=_of_output(request, truth.output))


def _of_output(request: TruthRequest, output: Array) -> Cost:
    """What rounding costs the value itself, in the judged dtype."""
    fmt, program = FORMATS[request.dtype], inlined(request.program)
    flat = np.reshape(output, (1, -1))
    if flat.size <= EXACT_ENTRIES and len(program.nodes) <= EXACT_NODES:
        run = RecordedProgram(program, request.values, request.dtype)
        raw = _gathered((1, flat.size), lambda _, k: run.sensitivities(k, fmt))
    else:
        function = PlainFunction(program, request.dtype)
        raw = _perturbed(
            request,
            {"": flat},
            lambda values: {"": function(values).reshape(1, -1)},
            fmt.unit_roundoff,
        )[""]
    cost = _finish(raw, flat, fmt.ulp(flat))
    shape = np.shape(output)
    known = np.where(np.isfinite(cost.condition), cost.condition, 0.0)
    return Cost(known.reshape(shape), cost.allowance.reshape(shape), cost.floor.reshape(shape))


def conditioning(
    request: TruthRequest,
    true: Mapping[tuple[Mode, str], Array],
    engine: ReferenceEngine,
    dtype: str | None = None,
) -> dict[tuple[Mode, str], Cost]:
    """Cost of every block; `dtype` (default: the judged one) sets the unit roundoff."""
    fmt = FORMATS[dtype or request.dtype]
    result: dict[tuple[Mode, str], Cost] = {}
    for mode in request.projections:
        shapes = block_shapes(request, mode)
        entries = sum(rows * columns for rows, columns in shapes.values())
        small = entries <= EXACT_ENTRIES and len(request.program.nodes) <= EXACT_NODES
        if small:
            blocks = _exact(request, mode, fmt)
        else:
            blocks = _sampled(request, mode, true, engine, fmt.unit_roundoff)
        for name, raw in blocks.items():
            result[mode, name] = _finish(raw, true[mode, name], fmt.ulp(true[mode, name]))
    return result


@dataclass(slots=True)
class _Raw:
    condition: Array  # (rows, columns)
    parts: list[Array]  # one an operation, each (rows, columns)
    floor: Array


def _finish(raw: _Raw, true: Array, ulp: Array) -> Cost:
    condition, floor = (np.where(np.isnan(a), np.inf, a) for a in (raw.condition, raw.floor))
    benign = BENIGN * (np.where(np.isfinite(condition), condition, 0.0) + ulp / 2)
    allowance = sum((np.fmin(part, benign) for part in raw.parts), np.zeros_like(true))
    known = np.isfinite(allowance) & np.isfinite(floor)
    return Cost(condition, np.where(known, allowance, 0.0), floor)


def _exact(request: TruthRequest, mode: Mode, fmt: FloatFormat) -> dict[str, _Raw]:
    """The sums themselves, one walk of the tape an entry."""
    tape = EntryTape(inlined(request.program), request, mode, fmt)
    shapes = block_shapes(request, mode)
    return {
        name: _gathered(shape, partial(tape.sensitivities, name)) for name, shape in shapes.items()
    }


def _gathered(
    shape: tuple[int, int], sensitivities: Callable[[int, int], tuple[float, list[float]]]
) -> _Raw:
    """The sums of every entry of a block."""
    condition = np.zeros(shape)
    by_op: dict[int, Array] = {}
    for row, column in np.ndindex(shape):
        condition[row, column], at_ops = sensitivities(row, column)
        for i, part in enumerate(at_ops):
            by_op.setdefault(i, np.zeros(shape))[row, column] = part
    parts = list(by_op.values())
    return _Raw(condition, parts, sum(parts, np.zeros(shape)))


def _sampled(
    request: TruthRequest,
    mode: Mode,
    true: Mapping[tuple[Mode, str], Array],
    engine: ReferenceEngine,
    u: float,
) -> dict[str, _Raw]:
    """The sums by samples (`_perturbed`)."""
    names = list(block_shapes(request, mode))
    only = replace(
        request, projections={mode: request.projections[mode]}, program=inlined(request.program)
    )

    def blocks_at(values: Mapping[str, Array]) -> dict[str, Array]:
        there = float64_gradients(replace(only, values=values), engine).true
        return {name: there[mode, name] for name in names}

    return _perturbed(request, {name: true[mode, name] for name in names}, blocks_at, u)


def _perturbed(
    request: TruthRequest,
    true: Mapping[str, Array],
    function: Callable[[Mapping[str, Array]], Mapping[str, Array]],
    u: float,
) -> dict[str, _Raw]:
    """C from random relative perturbations of the inputs; each operation is taken to cost as
    much."""
    rng = np.random.default_rng([request.seed, 1])
    largest = {name: np.zeros_like(block) for name, block in true.items()}
    for _ in range(SAMPLES):
        moved = {
            name: value * (1 + PERTURBATION * rng.choice([-1.0, 1.0], size=np.shape(value)))
            if np.asarray(value).dtype.kind == "f"
            else value
            for name, value in request.values.items()
        }
        there = function(moved)
        for name, block in true.items():
            with np.errstate(all="ignore"):
                change = np.abs(there[name] - block) * (u / PERTURBATION)
            largest[name] = np.fmax(largest[name], np.where(np.isfinite(change), change, 0.0))
    operations = float(sum(1 for node in request.program.nodes if node.args))
    result: dict[str, _Raw] = {}
    for name, block in true.items():
        condition = 2 * largest[name]
        # roundings are independent: together they cost about the root of their number
        part = np.sqrt(2 * operations) * (condition + u * np.abs(block))
        result[name] = _Raw(condition, [part], part)
    return result
