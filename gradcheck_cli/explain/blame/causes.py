"""The kinds of causes, and which of them fits an operation, judged by its numbers alone.

The numbers are the computed and exact inputs and results of one executed operation (`Operation`),
and what the program does around it. The conditions are those of the analysis of rounding errors
(Panchekha et al., PLDI 2015; Herbie's explanations), with some that only derivatives need.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Operation
from gradcheck_cli.domain.program import CONSTANT, Node
from gradcheck_cli.domain.report import CauseKind
from gradcheck_cli.domain.thresholds import CANCELS, FROM_ARGUMENTS
from gradcheck_cli.explain.blame.context import absorbed_by, accumulates, handed_over, silenced
from gradcheck_cli.explain.blame.first_bad_op import UNNAMED
from gradcheck_cli.explain.blame.single_op import Behaviour, behaviour
from gradcheck_cli.explain.blame.traces import Traces, limit_of
from gradcheck_cli.explain.blame.values import element
from gradcheck_cli.truth.plain import elementwise

CAUSES: dict[CauseKind, str] = {
    "overflow": "An intermediate number is too large for the dtype and becomes infinite, "
    "although the gradient itself would fit.",
    "genuine overflow": "The exact result is too large for the dtype, so no reformulation in this "
    "dtype helps.",
    "underflow": "An intermediate number is too small for the dtype and becomes zero, or keeps "
    "only a few digits, although the gradient itself would fit.",
    "subnormal flush": "A number below the smallest normal number is flushed to zero or treated as "
    "zero, as processors and frameworks may do.",
    "cancellation": "Nearly equal terms are subtracted: their common digits vanish, and only "
    "their rounding errors remain.",
    "absorption": "A term is so small compared with the other that the sum rounds it away, "
    "although later operations need it.",
    "absorbed epsilon": "A small constant added for safety is rounded away next to a larger term, "
    "so it protects nothing.",
    "0*inf": "A zero factor is multiplied by an infinite factor, and the product is nan.",
    "indeterminate form": "0 / 0, inf / inf or inf - inf: the operation has no value at these "
    "numbers, whatever the limit may be.",
    "masked branch": "A branch that was not selected has an infinite derivative, and multiplying "
    "it by zero gives nan.",
    "saturation": "The derivative is computed from the function's rounded result, which has "
    "saturated at its limit, so the distance to the limit is lost.",
    "square inside the derivative": "The derivative contains a square or a product that leaves "
    "the range of the dtype, although the derivative itself would fit.",
    "clip that kills the gradient": "Rounding moves a number to the flat side of a bound, where "
    "the derivative is zero.",
    "tie": "Rounding makes two numbers equal or changes their order, so the derivative is that of "
    "a different branch.",
    "domain edge": "The operation is evaluated at the edge of its domain, or of the domain of its "
    "derivative.",
    "sensitivity": "The operation, or the function itself, magnifies the rounding of its "
    "arguments.",
    "inaccurate kernel": "The framework's own operation is inaccurate here, although its inputs "
    "are right and unproblematic.",
    "narrowing cast": "The backward pass continues in a dtype with fewer digits than that of the "
    "gradient.",
    "wrong rule": "The custom derivative is not the derivative of the function.",
    "detached path": "A value that depends on the input is taken out of the graph, so its "
    "derivative is lost.",
    "gradient hook": "A hook of a tensor or a module changes the gradient that passes it, or the "
    "numbers that the forward saves for it.",
    "recomputed forward": "The backward pass runs a part of the forward once more, to save memory, "
    "and gets other numbers than the first run, as from a random number or from state that changed "
    "in between.",
    "iterative solution": "The function stops iterating at a tolerance, and its custom "
    "derivative is that of the exact solution. Both are approximations.",
    "reparameterised sample": "The operation draws numbers whose distribution its arguments "
    "decide. Its derivative is that at a fixed quantile, not that of the numbers that were drawn.",
    "operation's rule": "The framework's rule for the operation is not its derivative.",
    "convention at a kink": "Several operations are at kinks, where their derivatives are "
    "conventions. The kinks cancel, so the whole has a derivative, but the conventions do not add "
    "up to it.",
    "lone branch": "A comparison has a different result at this point than on both sides of it, so "
    "the derivative is that of a branch that no nearby point takes.",
}


HALVINGS = 8  # after which the difference of smooth slopes is a 256th of the first one


def kind_of(traces: Traces, op: Operation) -> CauseKind:
    """The kind of cause that describes what `op` did."""
    fmt, target = traces.fmt, traces.target
    if target is not None and np.isinf(fmt.round(target)):
        return "genuine overflow"
    if not np.isfinite(op.result):
        return _not_finite(traces, op) if op.phase == "forward" else _derivative_lost(traces, op)
    if 0 < abs(op.exact) < fmt.smallest_normal:
        return _too_small(traces, op)
    if op.phase == "forward":
        return _inaccurate(traces, op)
    return _inaccurate_derivative(traces, op)


def node_of(traces: Traces, op: Operation) -> Node | None:
    return None if op.node is None else traces.program.nodes[op.node]


def _overflows(traces: Traces, op: Operation) -> bool:
    """Whether the exact result is finite but too large for the dtype."""
    return bool(np.isfinite(op.exact) and abs(op.exact) > limit_of(traces.fmt))


def _row_at(node: Node | None, numbers: Sequence[float]) -> Behaviour | None:
    return None if node is None else behaviour(node.op, node.keywords, numbers)


def _not_finite(traces: Traces, op: Operation) -> CauseKind:
    node = node_of(traces, op)
    at = _row_at(node, op.inputs)
    overflows = _overflows(traces, op)
    edge = not overflows and (at.singular if at else bool(np.isnan(op.result)))
    wholly = overflows  # an overflow counts as silenced only if every element is
    if op.node is not None and (edge or overflows) and (how := silenced(traces, op.node, wholly)):
        return how
    lost = absorbed_by(traces, op.node) if edge else None
    if lost is not None and traces.program.nodes[lost].op == CONSTANT:
        return "absorbed epsilon"
    zero, infinite = 0.0 in op.inputs, bool(np.any(np.isinf(op.inputs)))
    if np.isnan(op.result) and zero and infinite and node and node.op == "multiply":
        return "0*inf"
    if np.isnan(op.result) and (infinite or not any(op.inputs)):
        return _range_cause(op) or "indeterminate form"
    return "domain edge" if edge else "overflow"


def _range_cause(op: Operation) -> CauseKind | None:
    """Why inputs are zero or infinite, if they are neither in exact arithmetic. An exact input that
    is not known is nan."""
    for seen, exact in zip(op.inputs, op.exact_inputs, strict=True):
        if seen == 0 and exact != 0 and not np.isnan(exact):
            return "underflow"
        if np.isinf(seen) and np.isfinite(exact):
            return "overflow"
    return None


def _derivative_lost(traces: Traces, op: Operation) -> CauseKind:
    node = node_of(traces, op)
    nan, zero, infinite = np.isnan(op.result), 0.0 in op.inputs, np.any(np.isinf(op.inputs))
    quiet = nan and zero and node is not None and elementwise(node.op)
    if quiet and op.node is not None and (how := silenced(traces, op.node)):
        return how
    if nan and (lost := _range_cause(op)):
        return lost
    if nan and zero:
        # if only the node is known, the infinite factor is the derivative itself
        return "0*inf" if infinite or (quiet and op.name == UNNAMED) else "indeterminate form"
    if _overflows(traces, op):
        return "overflow" if handed_over(traces, op) else "square inside the derivative"
    if not np.isfinite(op.exact) or _at_singular_point(traces, node):
        return "domain edge"
    return "square inside the derivative"


def _too_small(traces: Traces, op: Operation) -> CauseKind:
    if op.phase != "forward" and op.node is not None and _reads_limit(traces, op, op.node, [1.0]):
        return "saturation"
    if op.phase != "forward" and not handed_over(traces, op):
        return "square inside the derivative"
    # exact numbers below the range of float64 are stored as its smallest
    flushed = op.result == 0 and abs(op.exact) > traces.fmt.smallest_subnormal
    return "subnormal flush" if flushed else "underflow"


def _inaccurate(traces: Traces, op: Operation) -> CauseKind:
    """The kind of cause if both results are finite and of ordinary size, but differ."""
    node = node_of(traces, op)
    if _is_sum(op) or _rounding(node) == "sums":
        return "cancellation" if _cancels(traces, op, node) else "absorption"
    if _rounding(node) == "inputs":
        return "sensitivity"
    return _magnified(traces, op, _row_at(node, op.exact_inputs))


def _inaccurate_derivative(traces: Traces, op: Operation) -> CauseKind:
    node = node_of(traces, op)
    if op.result == op.exact:  # not rounding, but a convention or another formula
        return "tie" if node is not None and at_kink(traces, node) else "inaccurate kernel"
    if node is not None and (branch := _other_branch(traces, op, node)):
        return branch
    if accumulates(traces, op):
        return "cancellation"
    if _squares_leave(traces, op):
        return "square inside the derivative"
    if op.node is not None and _reads_result(traces, op, op.node):
        return "saturation"
    if _is_sum(op):
        return "cancellation"
    if _rounding(node) == "inputs":
        return "sensitivity"
    return _magnified(traces, op, behaviour(op.name, {}, op.exact_inputs))


def _magnified(traces: Traces, op: Operation, exactly: Behaviour | None) -> CauseKind:
    """Whether the error comes from the arguments, which the operation magnifies, or is its own.

    `exactly` is the row's behaviour at the exact arguments. If it is None, the operation alone is
    to blame if the dtype can hold the exact arguments.
    """
    if exactly is not None and exactly.singular:
        return "domain edge"
    if exactly is not None:
        fmt, off = traces.fmt, abs(op.result - op.exact)
        moved = exactly.condition(op.exact_inputs) * fmt.unit_roundoff * abs(op.exact)
        theirs = off <= FROM_ARGUMENTS * (moved + float(fmt.ulp(op.exact)))
    else:
        theirs = any(x != traces.fmt.round(x) for x in op.exact_inputs if np.isfinite(x))
    if not theirs:
        flushed = any(0 < abs(x) < traces.fmt.smallest_normal for x in op.inputs)
        return "subnormal flush" if flushed else "inaccurate kernel"
    lost = absorbed_by(traces, op.node)
    if lost is None:
        return "sensitivity"
    return "absorbed epsilon" if traces.program.nodes[lost].op == CONSTANT else "absorption"


def _rounding(node: Node | None) -> str:
    """Where rounding enters the row's value (`Op.rounding`)."""
    from reference_engine.op import TABLE

    return TABLE[node.op].rounding if node is not None and node.op in TABLE else "result"


def _is_sum(op: Operation) -> bool:
    """Whether the result is the sum or difference of the inputs; in a derivative, also of 1 and the
    only input or its square. If much cancels, no other operation on ordinary numbers has such a
    result, except log near 1."""
    terms = [x for x in op.exact_inputs if np.isfinite(x)]
    if len(terms) == 1 and op.phase != "forward":
        pairs = [(1.0, terms[0]), (1.0, terms[0] ** 2)]
    elif len(terms) > 1:
        pairs = [(sum(terms[:-1]), terms[-1])]
    else:
        return False
    for a, b in pairs:
        largest = max(abs(a), abs(b))
        # exact numbers are stored in float64
        near = 2.0**-50 * largest
        if largest > 0 and any(abs(abs(a + s * b) - abs(op.exact)) <= near for s in (1, -1)):
            return True
    return False


def _cancels(traces: Traces, op: Operation, node: Node | None) -> bool:
    """Whether the terms are much larger than their sum."""
    if _is_sum(op):
        return max(map(abs, op.exact_inputs)) > CANCELS * abs(op.exact)
    bound = None if node is None else _sum_of_sizes(traces, node, op.index)
    return bound is None or bound > CANCELS * abs(op.exact)


def _sum_of_sizes(traces: Traces, node: Node, at: tuple[int, ...]) -> float | None:
    """The row at the absolute values of its arguments, which bounds every partial sum."""
    from reference_engine.op import TABLE

    args = [traces.narrow.values.get(i) for i in node.args]
    if node.op not in TABLE or any(a is None for a in args):
        return None
    sizes = [np.abs(np.asarray(a, dtype=np.float64)) for a in args]
    try:
        return float(TABLE[node.op].value(*sizes, **node.keywords)[at])
    except (TypeError, ValueError, IndexError):  # some arguments are integers
        return None


def at_edge(traces: Traces, op: Operation) -> bool:
    """Whether the row of `op` has no finite value or derivative at the given numbers, in ball
    arithmetic or, without an enclosure, in float64."""
    node = node_of(traces, op)
    if op.phase != "forward":
        return _at_singular_point(traces, node)
    at = _row_at(node, op.inputs)
    return at is not None and at.singular


def _at_singular_point(traces: Traces, node: Node | None) -> bool:
    """Whether the row has no finite value or derivative at some element of the arguments."""
    arrays = [] if node is None else [traces.narrow.values.get(i) for i in node.args]
    if not arrays or any(a is None for a in arrays):
        return False
    try:
        met = np.broadcast(*(np.asarray(a, dtype=np.float64) for a in arrays))
    except ValueError:  # the arguments do not broadcast
        return False
    elements = {tuple(map(float, numbers)) for numbers in met}
    suspicious = sorted(elements, key=lambda numbers: min(map(abs, numbers)))
    # most edges are at 0, the others (1, of acos) at the largest number
    found = (_row_at(node, numbers) for numbers in (*suspicious[:2], *suspicious[-2:]))
    return any(one is not None and one.singular for one in found)


def _other_branch(traces: Traces, op: Operation, node: Node) -> CauseKind | None:
    """The kind of cause if the computed arguments are on another branch than the exact ones."""
    from reference_engine.op import TABLE

    if node.op not in TABLE or TABLE[node.op].kinks_at is None:
        return None
    if not TABLE[node.op].elementwise:
        return "tie" if _same_somewhere(traces, node) else None
    mine, exact = _arguments(traces, node, op.index)
    if mine is None or exact is None:
        return None
    here, there = _row_at(node, mine), _row_at(node, exact)
    if here is None or there is None or not _jumps(node, mine, exact):
        return None
    return "tie" if any(here.slopes) else "clip that kills the gradient"


def _jumps(node: Node, one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether the slopes of a row jump between two places. Halving the interval does not reduce a
    jump; it does reduce a smooth change."""
    ends = [np.asarray(one, np.float64), np.asarray(other, np.float64)]
    slopes = [_slopes(node, end) for end in ends]
    apart = float(np.max(np.abs(slopes[1] - slopes[0]), initial=0.0))
    for _ in range(HALVINGS if apart > 0 else 0):
        middle = (ends[0] + ends[1]) / 2
        between = _slopes(node, middle)
        near = int(np.max(np.abs(between - slopes[0])) >= np.max(np.abs(slopes[1] - between)))
        ends[near], slopes[near] = middle, between
    return bool(np.max(np.abs(slopes[1] - slopes[0]), initial=0.0) > apart / 2)


def _slopes(node: Node, numbers: Array) -> Array:
    at = _row_at(node, [float(x) for x in numbers])
    return np.full(len(numbers), np.nan) if at is None else np.asarray(at.slopes)


def _arguments(
    traces: Traces, node: Node, at: tuple[int, ...]
) -> tuple[list[float] | None, list[float] | None]:
    """The arguments of an elementwise node at one element: computed, and exact."""
    sides: list[list[float] | None] = []
    for trace in (traces.narrow, traces.wide):
        values = [None if trace is None else trace.values.get(i) for i in node.args]
        numbers = [None if v is None else element(node, np.asarray(v), at) for v in values]
        known = [x for x in numbers if x is not None]
        sides.append(known if len(known) == len(numbers) else None)
    return sides[0], sides[1]


def at_kink(traces: Traces, node: Node) -> bool:
    """Whether some element of the arguments is exactly at a kink, or several share the largest
    place."""
    from reference_engine.op import TABLE

    args = [traces.narrow.values.get(i) for i in node.args]
    if node.op not in TABLE or any(a is None for a in args):
        return False
    found = TABLE[node.op].at_kink(*args, **node.keywords)
    return found is not None and bool(np.any(found))


def _same_somewhere(traces: Traces, node: Node) -> bool:
    """Whether an argument has two elements that are equal in the dtype but not exactly."""
    for i in node.args:
        narrow = traces.narrow.values.get(i)
        wide = None if traces.wide is None else traces.wide.values.get(i)
        if (
            narrow is not None
            and wide is not None
            and len(np.unique(narrow)) < len(np.unique(wide))
        ):
            return True
    return False


def _reads_result(traces: Traces, op: Operation, index: int) -> bool:
    """Whether the derivative reads the node's own result, or a limit that it has reached."""
    y = traces.narrow.values.get(index)
    if y is None:
        return False
    results = np.ravel(np.asarray(y, dtype=np.float64))
    read = _independent_inputs(traces, op, index) - {0.0}
    # all powers of 1 are 1, and so is the exponential of 0
    return any(np.any(results == x) for x in read) or _reads_limit(traces, op, index, [0.0, 1.0])


def _reads_limit(traces: Traces, op: Operation, index: int, limits: Sequence[float]) -> bool:
    ones = not {1.0, -1.0}.isdisjoint(_independent_inputs(traces, op, index))
    return ones and index in traces.narrow.values and _at_limit(traces, index, limits)


def _independent_inputs(traces: Traces, op: Operation, index: int) -> set[float]:
    """The inputs of the derivative without the node's arguments, their negatives and their squares,
    which were not computed from the result."""
    arguments = [traces.narrow.values.get(i) for i in traces.program.nodes[index].args]
    known = [np.ravel(np.asarray(a, dtype=np.float64)) for a in arguments if a is not None]
    sizes = np.abs(np.concatenate(known)) if known else np.zeros(0)
    sizes = np.concatenate([sizes, sizes * sizes])  # an infinite square equals no input
    return {x for x in op.inputs if np.isfinite(x) and not np.any(sizes == abs(x))}


def _at_limit(traces: Traces, index: int, limits: Sequence[float]) -> bool:
    """Whether the dtype cannot tell the node's result from one of `limits`."""
    results = np.abs(np.ravel(np.asarray(traces.narrow.values[index], dtype=np.float64)))
    off = np.abs(results[:, None] - np.asarray(limits))
    return bool(np.any(off <= traces.fmt.unit_roundoff))


def _squares_leave(traces: Traces, op: Operation) -> bool:
    """Whether the square of an input leaves the range of the dtype."""
    sizes = [abs(x) for x in op.inputs if np.isfinite(x) and x != 0]
    tiny, huge = traces.fmt.smallest_normal, traces.fmt.largest
    return any(not tiny <= x * x <= huge for x in sizes)
