"""How far rounding may move a gradient: conditioning C, rounding floor R, and the allowance.

Let T be an entry of the gradient, written as a program of its own (forward pass, then backward
pass), and u the unit roundoff of the judged dtype. To first order,

    C = u * sum over inputs |dT/dx_j| |x_j|             half an ulp of every input
    R = sum over operations |dT/dv_i| (u |v_i| + eta)   every operation rounded, or underflowing

(Higham, Accuracy and Stability of Numerical Algorithms, section 1.6 and 3). An operation of a
well-behaved program costs about as much as rounding the inputs does. The allowance is R with each
operation's part cut off at BENIGN times that cost, and with the parts added as independent errors:
the root of the sum of their squares (Higham, section 2.8). The rest of R is the program's
instability. A factorisation moves its matrix by u times its norm, whichever entry is requested.
That part of R is allowed as far as inputs that are off by u times their norm explain it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.draws import generator, signs
from gradcheck_cli.domain.dtypes import FORMATS, Array, FloatFormat
from gradcheck_cli.domain.evaluation import FIRST_ORDER, Mode
from gradcheck_cli.domain.program import INPUT, Program, ProgramCopy
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.thresholds import BENIGN, FEW_ULPS, FIRST_ORDER_SLACK, Step
from gradcheck_cli.domain.truth import Cost, Truth, TruthBlock
from gradcheck_cli.engines.reference.engine import ReferenceEngine
from gradcheck_cli.truth.certified.enclose import certify, certify_output
from gradcheck_cli.truth.conditioning.directional import OUTPUT, Derivatives
from gradcheck_cli.truth.conditioning.tape import EntryTape, RecordedProgram, Sums
from gradcheck_cli.truth.gradients import block_shapes, float64_gradients, numbers_asked
from gradcheck_cli.truth.plain import inlined

EXACT_ENTRIES = 64  # entries for which the sums are taken exactly: each costs one walk of the tape
EXACT_NODES = 600  # and the longest program for that
# Random sign vectors for larger blocks. If all of them happen to move an entry little, its
# roundings look like instability: with 4, this happened to one entry in 1000; with 8, it should
# happen to one in a million.
SAMPLES = 8
AT_FIRST = 2  # for suspects alone: each further sample only explains more, and few are needed
# Roundings by which all inputs move, so that every operation rounds anew, and how often: the
# largest change of three is seldom below the usual one.
STIR: Step = 2.0
STIRRED = 3
# Part of the norm of a factorised matrix: far above float64's rounding, and so small that second
# order does not count.
PERTURBATION: Step = 2.0**-26
DRAWS = 3  # one of them nearly always moves an entry by half of the largest possible move
SUFFIX = " moved by"  # no name of an input has a space
VALUE = cast(Mode, "value"), OUTPUT  # the key of the value among blocks


def with_costs(truth: Truth, request: TruthRequest, engine: ReferenceEngine) -> Truth:
    """Return the truth with C, allowance and R in every block. For suspects alone, only first order
    is used, which explains less."""
    true: Mapping[tuple[Mode, str], Array] = {
        (cast(Mode, mode), name): block.value for (mode, name), block in truth.blocks.items()
    }
    certified = all(np.all(block.certified) for block in truth.blocks.values())
    if certified and request.suspects is not None:
        nothing = np.zeros_like(truth.output)
        costs = conditioning(request, true)
        blocks = {key: truth.blocks[key] for key in costs}
        if any(np.any(_is_large(blocks[key], cost)) for key, cost in costs.items()):
            costs |= _where_lost(costs, request, blocks, float64_gradients(request, engine).true)
        return _with(truth, costs, Cost(nothing, nothing, nothing))
    there = float64_gradients(request, engine)
    own = {**there.true, VALUE: np.reshape(there.output, (1, -1))}
    run = recorded(request)
    costs = conditioning(request, true if certified else there.true, run=run)
    blocks = {key: truth.blocks[key] for key in costs} | {VALUE: _value_of(truth)}
    costs[VALUE] = _shaped(cost_of_output(request, truth.output, run), blocks[VALUE].value.shape)
    unit = FORMATS[request.dtype].unit_roundoff
    keys = [
        key
        for key in costs
        if missed(blocks[key], costs[key], own[key], unit, _entries_to_cost(request, *key))
    ]
    if keys:
        some = {key: costs[key] for key in keys}
        costs |= with_moved(some, request, {key: blocks[key] for key in keys})
    costs |= _beside_kinks(costs, request, engine, blocks, own)
    costs |= _where_lost(costs, request, blocks, own)
    return _with(truth, costs, _shaped(costs.pop(VALUE), np.shape(truth.output)))


def _value_of(truth: Truth) -> TruthBlock:
    """The value as one row, (1, m). Its cost is found as that of a gradient."""
    value, error = (np.reshape(part, (1, -1)) for part in (truth.output, truth.output_error))
    certified = np.full(value.shape, truth.output_certified)
    return TruthBlock.of(value, error, certified=certified, scale=np.zeros(value.shape))


def _shaped(cost: Cost, shape: tuple[int, ...]) -> Cost:
    condition, allowance, floor = (
        np.reshape(part, shape) for part in (cost.known_condition, cost.allowance, cost.floor)
    )
    return Cost(condition, allowance, floor)


def _with(truth: Truth, costs: Mapping[tuple[Mode, str], Cost], of_output: Cost) -> Truth:
    blocks = dict(truth.blocks)
    for (mode, name), cost in costs.items():
        blocks[mode, name] = replace(
            blocks[mode, name],
            condition=cost.known_condition,
            allowance=cost.allowance,
            floor=cost.floor,
        )
    return replace(truth, blocks=blocks, output_cost=of_output)


def _entries_to_cost(request: TruthRequest, mode: Mode, name: str) -> Array | None:
    """A mask of the entries of a block that need costs; None: all. Modes that are requested the
    same derivatives share their mask."""
    if request.suspects is None or (mode, name) == VALUE:
        return None
    of_mode = {m: numbers_asked(m, projection) for m, projection in request.projections.items()}
    same = [m for m, key in of_mode.items() if key == of_mode[mode]]
    masks = [request.suspects[m, name] for m in same if (m, name) in request.suspects]
    shape = block_shapes(request, mode)[name]
    return np.asarray(np.logical_or.reduce([np.zeros(shape, np.bool_), *masks]))


def recorded(request: TruthRequest) -> RecordedProgram | None:
    """The program on the tape; None if it is too long for exact sums."""
    program = inlined(request.program)
    if len(program.nodes) > EXACT_NODES:
        return None
    return RecordedProgram(program, request.values, request.dtype, request.exact)


def cost_of_output(request: TruthRequest, output: Array, run: RecordedProgram | None) -> Cost:
    """The cost of rounding the value itself, in the judged dtype, with arrays in the shape of
    `output`, the exact value. `run` is the recorded program if there is one already."""
    fmt = FORMATS[request.dtype]
    flat = np.reshape(output, (1, -1))
    run = run if run is not None or flat.size > EXACT_ENTRIES else recorded(request)
    if flat.size <= EXACT_ENTRIES and run is not None:
        raw = _gathered((1, flat.size), lambda _, k: run.sensitivities(k, fmt))
    else:
        raw = _sampled(request, None, {OUTPUT: flat}, fmt.unit_roundoff)[OUTPUT]
    cost = _finish(raw, flat, fmt.ulp(flat))
    shape = np.shape(output)
    return _shaped(cost, shape)


def conditioning(
    request: TruthRequest,
    true: Mapping[tuple[Mode, str], Array],
    dtype: str | None = None,
    run: RecordedProgram | None = None,
) -> dict[tuple[Mode, str], Cost]:
    """Return the cost of every block. `dtype` (default: the judged one) sets the unit roundoff;
    `run` is the recorded program if there is one already."""
    fmt = FORMATS[dtype or request.dtype]
    result: dict[tuple[Mode, str], Cost] = {}
    known: dict[object, dict[str, _Raw]] = {}  # two modes may be requested the same numbers
    for mode, projection in request.projections.items():
        key = numbers_asked(mode, projection)
        shapes = block_shapes(request, mode)
        entries = sum(
            _count(_entries_to_cost(request, mode, name), shape) for name, shape in shapes.items()
        )
        if key not in known and entries <= EXACT_ENTRIES:
            run = run or recorded(request)
        if key not in known and entries <= EXACT_ENTRIES and run is not None:
            known[key] = _exact(run, request, mode, fmt)
        elif key not in known:
            mine = {name: true[mode, name] for name in shapes}
            known[key] = _sampled(request, mode, mine, fmt.unit_roundoff)
        for name, raw in known[key].items():
            result[mode, name] = _finish(raw, true[mode, name], fmt.ulp(true[mode, name]))
    return result


def _count(wanted: Array | None, shape: tuple[int, int]) -> int:
    return shape[0] * shape[1] if wanted is None else int(np.count_nonzero(wanted))


@dataclass(slots=True)
class _Raw:
    """The raw costs, arrays of shape (rows, columns): C, the part of R of each operation, the part
    of R of backward stable algorithms, and the effect of inputs that are off by u times their
    norm."""

    condition: Array
    parts: list[Array]
    backward: Array
    norms: Array


def _finish(raw: _Raw, true: Array, ulp: Array) -> Cost:
    floor = sum(raw.parts, raw.backward)
    condition, floor = (np.where(np.isnan(a), np.inf, a) for a in (raw.condition, floor))
    benign = BENIGN * (np.where(np.isfinite(condition), condition, 0.0) + ulp / 2)
    norms = BENIGN * (np.where(np.isfinite(raw.norms), raw.norms, 0.0) + ulp / 2)
    parts = [np.fmin(raw.backward, norms), *(np.fmin(part, benign) for part in raw.parts)]
    allowance = np.hypot.reduce(parts)
    known = np.isfinite(allowance) & np.isfinite(floor)
    return Cost(condition, np.where(known, allowance, 0.0), floor)


def _exact(
    run: RecordedProgram, request: TruthRequest, mode: Mode, fmt: FloatFormat
) -> dict[str, _Raw]:
    """The exact sums, by one walk of the tape for each entry."""
    tape = EntryTape(run, request.projections[mode], mode, fmt)
    shapes = block_shapes(request, mode)
    return {
        name: _gathered(
            shape, partial(tape.sensitivities, name), _entries_to_cost(request, mode, name)
        )
        for name, shape in shapes.items()
    }


def _gathered(
    shape: tuple[int, int], sensitivities: Callable[[int, int], Sums], wanted: Array | None = None
) -> _Raw:
    """The sums of every entry of a block, or of the `wanted` entries."""
    condition, backward, norms = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    by_op: dict[int, Array] = {}
    for row, column in np.ndindex(shape):
        if wanted is not None and not wanted[row, column]:
            continue
        sums = sensitivities(row, column)
        condition[row, column], backward[row, column] = sums.inputs, sums.backward
        norms[row, column] = sums.norms
        for i, part in enumerate(sums.operations):
            by_op.setdefault(i, np.zeros(shape))[row, column] = part
    return _Raw(condition, list(by_op.values()), backward, norms)


def _sampled(
    request: TruthRequest, mode: Mode | None, true: Mapping[str, Array], u: float
) -> dict[str, _Raw]:
    """The costs from samples; of the output without a mode. C comes from derivatives along random
    signs of the inputs. Each operation is assumed to cost as much. All operations together cost at
    least the change when every number rounds anew: a derivative that is 0 in exact arithmetic does
    not move, and yet is nothing but rounding."""
    rng = generator(request.seed, 1)
    derivatives = Derivatives(request, _lines(request, mode))
    moved = {name: np.zeros_like(block) for name, block in true.items()}
    backward = {name: np.zeros_like(block) for name, block in true.items()}
    norms = {name: np.zeros_like(block) for name, block in true.items()}
    all_of_it = request.suspects is None
    for _ in range(SAMPLES if all_of_it else AT_FIRST):
        xs = dict(zip(derivatives.names, derivatives.xs, strict=True))
        up = {name: signs(rng, x.shape) for name, x in xs.items()}
        _enlarge(moved, derivatives.along(mode, {n: x * up[n] for n, x in xs.items()}), 0.0, u)
        if all_of_it and derivatives.factorises():
            whole = {n: _root_mean_square(x) * up[n] for n, x in xs.items()}
            _enlarge(norms, derivatives.along(mode, whole), 0.0, u)
            there = derivatives.perturbed(mode, PERTURBATION, rng)
            _enlarge(backward, there, true, u / PERTURBATION)
    left = {name: np.zeros_like(block) for name, block in true.items()}
    single = FORMATS["float64"].unit_roundoff
    for _ in range(STIRRED if all_of_it else AT_FIRST):
        _enlarge(left, derivatives.randomly_perturbed(mode, STIR * single, rng), true, u / single)
    operations = float(sum(1 for node in request.program.nodes if node.args))
    result: dict[str, _Raw] = {}
    for name, block in true.items():
        condition = 2 * moved[name]
        # independent roundings together cost about the square root of their number
        part = np.sqrt(2 * operations) * (condition + u * np.abs(block))
        result[name] = _Raw(condition, [part, left[name]], 2 * backward[name], 2 * norms[name])
    return result


def _lines(request: TruthRequest, mode: Mode | None) -> frozenset[int] | None:
    """The rows (reverse mode) or columns of all blocks in which costs are wanted; None: all."""
    if mode not in FIRST_ORDER or request.suspects is None:
        return None
    masks = (_entries_to_cost(request, mode, name) for name in request.wrt)
    found: set[int] = set()
    start = 0
    for mask in masks:
        assert mask is not None
        if mode == "reverse":
            found.update(np.flatnonzero(np.any(mask, axis=1)).tolist())
        else:
            found.update((start + np.flatnonzero(np.any(mask, axis=0))).tolist())
            start += mask.shape[1]
    return frozenset(found)


def _root_mean_square(x: Array) -> float:
    return float(np.linalg.norm(np.ravel(x)) / np.sqrt(max(x.size, 1)))


def _enlarge(
    largest: dict[str, Array],
    there: Mapping[str, Array],
    here: Mapping[str, Array] | float,
    factor: float,
) -> None:
    """Raise each entry of `largest` to factor |there - here| if that is larger and finite."""
    for name, seen in largest.items():
        start = here if isinstance(here, float) else here[name]
        change = np.abs(there[name] - start) * factor
        largest[name] = np.fmax(seen, np.where(np.isfinite(change), change, 0.0))


def missed(
    block: TruthBlock, cost: Cost, own: Array, unit: float, wanted: Array | None = None
) -> bool:
    """Check whether right rules in float64, which compute `own`, are off by more than first order
    explains. `cost` belongs to a dtype with this unit roundoff; only entries that are `wanted`
    count (None: all)."""
    wide = FORMATS["float64"]
    rounding = np.fmax(cost.floor, cost.known_condition) * (wide.unit_roundoff / unit)
    explained = FIRST_ORDER_SLACK * rounding + FEW_ULPS * wide.ulp(block.value)
    off = np.abs(own - block.value) > explained + block.error
    off = off & block.certified & np.isfinite(own)
    return bool(np.any(off if wanted is None else off & wanted))


def _is_large(block: TruthBlock, cost: Cost) -> Array:
    """Mark the entries for which rounding the inputs costs half of float64's digits, by C."""
    return np.asarray(block.certified & (cost.known_condition > _half_of_the_digits(block)))


def _half_of_the_digits(block: TruthBlock) -> Array:
    """Half of float64's digits of each entry, at its own size or its natural size."""
    size = np.fmax(np.abs(block.value), block.scale)
    return np.asarray(size * FORMATS["float64"].half)


def _beside_kinks(
    costs: Mapping[tuple[Mode, str], Cost],
    request: TruthRequest,
    engine: ReferenceEngine,
    blocks: Mapping[tuple[Mode, str], TruthBlock],
    own: Mapping[tuple[Mode, str], Array],
) -> dict[tuple[Mode, str], Cost]:
    """The costs with C no smaller than the change of float64's numbers when every input moves by
    half an ulp, up or down. Beside a kink, this is the distance to another slope: relu(5 x - 1.5)
    at the float32 next to 0.3 has the slope 5, and at half an ulp less none. Entries of which
    float64 has lost half of the digits are left out."""
    from reference_engine.traced import ROWS

    unit = FORMATS[request.dtype].unit_roundoff
    nodes = inlined(request.program).nodes
    # a second derivative may jump where an operation has no kink of its own, as huber does
    kinked = any(mode not in FIRST_ORDER for mode in request.projections)
    kinked |= any(node.op in ROWS and ROWS[node.op].kinks_at is not None for node in nodes)
    if not kinked or unit <= FORMATS["float64"].unit_roundoff:  # no float64 lies between others
        return {}
    condition = {key: cost.known_condition.copy() for key, cost in costs.items()}
    rng = generator(request.seed, 59)
    moving = [
        name
        for name, value in request.values.items()
        if np.asarray(value).dtype.kind == "f" and name not in request.exact
    ]
    for _ in range(SAMPLES):
        moves = {name: unit * signs(rng, np.shape(request.values[name])) for name in moving}
        for way in (1, -1):
            near = {name: request.values[name] * (1 + way * move) for name, move in moves.items()}
            there = float64_gradients(replace(request, values={**request.values, **near}), engine)
            found = {**there.true, VALUE: np.reshape(there.output, (1, -1))}
            for key, largest in condition.items():
                kept = np.abs(own[key] - blocks[key].value) <= _half_of_the_digits(blocks[key])
                change = np.where(kept, np.abs(found[key] - own[key]), 0.0)
                condition[key] = np.fmax(largest, change)
    return {key: replace(cost, condition=condition[key]) for key, cost in costs.items()}


def _where_lost(
    costs: Mapping[tuple[Mode, str], Cost],
    request: TruthRequest,
    blocks: Mapping[tuple[Mode, str], TruthBlock],
    own: Mapping[tuple[Mode, str], Array],
) -> dict[tuple[Mode, str], Cost]:
    """The costs of blocks in which float64 itself, with its numbers `own`, loses half of its
    digits. For those entries C is the change of certified numbers, however large the slopes are
    that float64 computes. At 3 + 2 ulps, log(x / 3) has no right digit in float64, so 1 / log(x /
    3) is off by as much as its own slope says, while the derivative of (x - 3) / log(x / 3) does
    not move."""
    lost = {}
    for key, cost in costs.items():
        block = blocks[key]
        off = ~(np.abs(own[key] - block.value) <= _half_of_the_digits(block) + block.error)
        mine = off & _is_large(block, cost)
        if np.any(mine):
            lost[key] = mine
    moved = _input_changes(request, {key: blocks[key] for key in lost}) if lost else {}
    found = {}
    for key, mask in lost.items():
        change, known = moved[key]
        mine = np.where(mask & known, 2 * change, costs[key].known_condition)
        found[key] = replace(costs[key], condition=mine)
    return found


def with_moved(
    costs: Mapping[tuple[Mode, str], Cost],
    request: TruthRequest,
    blocks: Mapping[tuple[Mode, str], TruthBlock],
) -> dict[tuple[Mode, str], Cost]:
    """The costs of these blocks, with C, allowance and R no smaller than the change of certified
    derivatives when every input moves by up to half an ulp.

    First order takes the slope of the derivative where float64 evaluates it. For example, `sinc(y +
    0.3)` at 1e30 is evaluated at an even integer, because 0.3 is absorbed, and its derivative is
    flat there; at the exact point it is not.
    """
    moved = {key: change for key, (change, _) in _input_changes(request, blocks).items()}
    return {
        key: Cost(
            np.fmax(cost.known_condition, 2 * moved[key]),
            np.fmax(cost.allowance, 2 * moved[key]),
            np.fmax(cost.floor, 2 * moved[key]),
        )
        for key, cost in costs.items()
    }


def _input_changes(
    request: TruthRequest, blocks: Mapping[tuple[Mode, str], TruthBlock]
) -> dict[tuple[Mode, str], tuple[Array, Array]]:
    """The largest change of certified numbers in a few draws of moves of every input by up to half
    an ulp, and a mask of the entries that were certified in each draw. Moves by all of it cross a
    kink or a jump more often."""
    modes = {mode: request.projections[mode] for mode, name in blocks if (mode, name) != VALUE}
    program = _perturbed_program(request.program, request.exact)
    rng = generator(request.seed, 53)
    unit = FORMATS[request.dtype].unit_roundoff
    moved = {key: np.zeros_like(block.value) for key, block in blocks.items()}
    known = {key: block.certified.copy() for key, block in blocks.items()}
    shapes = {n + SUFFIX: np.shape(v) for n, v in request.values.items()}
    shapes = {name: shape for name, shape in shapes.items() if name in program.inputs}
    draws: list[dict[str, Array]] = []
    for _ in range(DRAWS):
        draws.append({name: rng.uniform(-1.0, 1.0, shape) for name, shape in shapes.items()})
        whole = {name: signs(rng, shape) for name, shape in shapes.items()}
        draws += [whole, {name: -move for name, move in whole.items()}]
    for draw in draws:
        moves = {name: unit * move for name, move in draw.items()}
        near = replace(
            request, program=program, values={**request.values, **moves}, projections=modes
        )
        there = certify(near)
        if VALUE in blocks:
            there[VALUE] = certify_output(near)
        for key, largest in moved.items():
            value, sure = (
                np.reshape(a, largest.shape) for a in (there[key].value, there[key].sure)
            )
            both = sure & blocks[key].certified
            change = np.where(both, np.abs(value - blocks[key].value), 0.0)
            moved[key] = np.fmax(largest, change)
            known[key] &= both
    return {key: (moved[key], known[key]) for key in moved}


def _perturbed_program(program: Program, exact: Collection[str]) -> Program:
    """The program with each floating input x that is not `exact` replaced by x * exp(e), where e is
    a new input. No other float64 is so near to x: large ones are integers, and so are their
    sums."""
    copy = ProgramCopy(program)
    inputs: dict[str, int] = {}
    for index, node in enumerate(program.nodes):
        place = copy.place[index] = copy.add(copy.copied(node))
        if node.op == INPUT and node.name is not None:
            inputs[node.name] = place
            if node.kind == "float" and node.name not in exact:
                name = node.name + SUFFIX
                inputs[name] = copy.add(replace(node, name=name))
                factor = copy.add(replace(node, op="exp", args=(inputs[name],)))
                product = replace(node, op="multiply", args=(place, factor))
                copy.place[index] = copy.add(product)
    return copy.finished(inputs)
