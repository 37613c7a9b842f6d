"""The vocabulary of causes, and which of them an operation is, from its numbers alone.

The numbers are those of one executed operation (`Operation`: what went in, what should have, what
came out, what should have) and what the program does around it. The conditions are those by which
rounding errors are told apart in the analysis of expressions (Panchekha et al., PLDI 2015; Herbie's
explanations), with those added that only derivatives have.
"""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.evaluation import Operation
from gradcheck_cli.domain.program import CONSTANT, INPUT, Node
from gradcheck_cli.domain.report import CauseKind
from gradcheck_cli.explain.alone import Behaviour, behaviour
from gradcheck_cli.explain.surroundings import absorbed_by, handed_over, masked
from gradcheck_cli.explain.traces import LOST_BITS, Traces

CAUSES: dict[CauseKind, str] = {
    "overflow": "An intermediate number is too large for the dtype and becomes infinite, "
    "although the gradient itself would fit.",
    "genuine overflow": "The exact result is too large for the dtype, so no way of computing it "
    "in this dtype helps.",
    "underflow": "An intermediate number is too small for the dtype and becomes zero, or keeps "
    "only a few digits, although the gradient itself would fit.",
    "subnormal flush": "A number below the smallest normal one is set to zero, as processors and "
    "frameworks may do.",
    "cancellation": "Terms that are nearly equal are subtracted: the digits that they share go, "
    "and what their rounding left behind is all that remains.",
    "absorption": "A term is so small beside the other one that the sum rounds it away, and what "
    "follows needed it.",
    "absorbed epsilon": "A small constant that was added for safety is rounded away by the larger "
    "term, so it protects nothing.",
    "0*inf": "A factor that is zero meets one that is infinite, and their product is not a number.",
    "indeterminate form": "0 / 0, inf / inf or inf - inf: the operation has no value at these "
    "numbers, whatever their limit may be.",
    "masked branch": "A branch that was not selected has an infinite derivative, and the zero that "
    "should silence it makes nan of it.",
    "saturation": "The derivative is rebuilt from the function's rounded result, which has reached "
    "its limit and no longer tells how far away that is.",
    "square inside the derivative": "The derivative is written with a square or a product that "
    "leaves the range of the dtype, although the derivative itself would fit.",
    "clip that kills the gradient": "Rounding puts a number on the flat side of a bound, and the "
    "derivative there is zero.",
    "tie": "Rounding makes two numbers equal, or changes their order, so the derivative is that of "
    "another branch.",
    "domain edge": "The operation is evaluated where its domain or its derivative ends.",
    "sensitivity": "The operation, or the function itself, magnifies the rounding of its "
    "arguments.",
    "inaccurate kernel": "The framework's own operation is not accurate at these numbers, which "
    "are harmless and right.",
    "wrong rule": "The derivative that was stated is not that of the function.",
}

# A sum whose terms are larger than it by this factor loses more than a quarter of float32's digits
# to their rounding. (Herbie calls 100 sure and 32 perhaps.)
CANCELS = 64.0

# What rounding the arguments explains: the condition number times an ulp of them, and as much again
# for the operation itself and for first order being only that.
EXPLAINED = 4.0


def kind_of(traces: Traces, op: Operation) -> CauseKind:
    """The word of the vocabulary for what `op` did."""
    fmt = traces.fmt
    if traces.target is not None and _too_large(traces, traces.target):
        return "genuine overflow"
    if not np.isfinite(op.result):
        return _not_finite(traces, op)
    if 0 < abs(op.exact) < fmt.smallest_normal:
        return _too_small(traces, op)
    return _inaccurate(traces, op)


def _too_large(traces: Traces, exact: float) -> bool:
    """Beyond the dtype, or beyond float64, where it arrives here as an infinity."""
    return bool(np.abs(traces.fmt.round(exact)) > traces.fmt.largest)


def _not_finite(traces: Traces, op: Operation) -> CauseKind:
    zero, infinite = 0.0 in op.inputs, bool(np.any(np.isinf(op.inputs)))
    node = node_of(traces, op)
    if op.phase == "forward":
        around = behaviour(node, op.inputs) if node else None
        edge = around is not None and around.singular
        off = op.node is not None and masked(traces, op.node)
        if off and (edge or _too_large(traces, op.exact)):
            return "masked branch"
        if np.isnan(op.result) and zero and infinite and node and node.op == "multiply":
            return "0*inf"
        if np.isnan(op.result) and (infinite or not any(op.inputs)):
            return "indeterminate form"
        return "domain edge" if edge and not _too_large(traces, op.exact) else "overflow"
    if op.node is not None and _silent(traces, op.node) and np.isnan(op.result):
        return "masked branch" if masked(traces, op.node) else "0*inf"
    if np.isnan(op.result) and zero and infinite:
        return "0*inf"
    if _too_large(traces, op.exact):
        return "overflow" if handed_over(traces, op) else "square inside the derivative"
    if _singular_node(traces, node, op.node):
        return "domain edge"
    if np.isnan(op.result) and not np.isfinite(op.exact):
        return "indeterminate form"
    return "square inside the derivative"


def _too_small(traces: Traces, op: Operation) -> CauseKind:
    if op.phase != "forward" and not handed_over(traces, op):
        return "square inside the derivative"
    flushed = op.result == 0 and abs(op.exact) >= traces.fmt.smallest_subnormal
    return "subnormal flush" if flushed else "underflow"


def _inaccurate(traces: Traces, op: Operation) -> CauseKind:
    """The result is finite, and so is the exact one, of ordinary size; but they differ."""
    node = node_of(traces, op)
    if op.phase != "forward":
        return _inaccurate_derivative(traces, op, node)
    if _sums(op, node):
        return "cancellation" if _cancels(traces, op, node) else "absorption"
    if node is not None and _rounding(node) == "inputs":
        return "sensitivity"
    around = behaviour(node, op.exact_inputs) if node else None
    if around is None or not _by_condition(traces, op, around):
        return "inaccurate kernel"
    lost = absorbed_by(traces, op.node)
    if lost is None:
        return "sensitivity"
    return "absorbed epsilon" if traces.program.nodes[lost].op == CONSTANT else "absorption"


def _inaccurate_derivative(traces: Traces, op: Operation, node: Node | None) -> CauseKind:
    if node is not None and (branch := _other_branch(traces, op, node)):
        return branch
    if op.node is not None and _reads_result(traces, op, op.node):
        return "square inside the derivative" if _squares_leave(traces, op) else "saturation"
    if _is_sum(op):
        return "cancellation"
    if _squares_leave(traces, op):
        return "square inside the derivative"
    if node is not None and _rounding(node) == "inputs":
        return "sensitivity"
    return "inaccurate kernel"


def node_of(traces: Traces, op: Operation) -> Node | None:
    return None if op.node is None else traces.program.nodes[op.node]


def _rounding(node: Node) -> str:
    """Where rounding enters the row's value (`Op.rounding`)."""
    from reference_engine.op import TABLE

    return TABLE[node.op].rounding if node.op in TABLE else "result"


def _is_sum(op: Operation) -> bool:
    """Whether the result is the sum or the difference of the two numbers that went in.

    Where much cancels, no other operation of two numbers of ordinary size gives this.
    """
    terms = [x for x in op.exact_inputs if np.isfinite(x)]
    if len(terms) != 2:
        return False
    largest = max(map(abs, terms))
    # exact to float64, in which the exact numbers are written down
    near = 2.0**-50 * largest
    return largest > 0 and any(abs(terms[0] + s * terms[1] - op.exact) <= near for s in (1, -1))


def _sums(op: Operation, node: Node | None) -> bool:
    return _is_sum(op) or (node is not None and _rounding(node) == "sums")


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
    if any(a is None for a in args):
        return None
    with np.errstate(all="ignore"):
        sizes = [np.abs(np.asarray(a, dtype=np.float64)) for a in args]
        try:
            return float(TABLE[node.op].value(*sizes, **node.keywords)[at])
        except (TypeError, ValueError, IndexError):  # whole numbers among its arguments
            return None


def _by_condition(traces: Traces, op: Operation, around: Behaviour) -> bool:
    """Whether rounding the arguments to the dtype explains the error."""
    fmt = traces.fmt
    off = abs(op.result - op.exact)
    moved = around.condition(op.exact_inputs) * fmt.unit_roundoff * abs(op.exact)
    return bool(off <= EXPLAINED * (moved + float(fmt.ulp(op.exact))))


def _silent(traces: Traces, index: int) -> bool:
    """Whether a zero arrives at the node from above."""
    y_bar = traces.narrow.derivatives.get(index)
    return y_bar is not None and bool(np.any(np.asarray(y_bar) == 0))


def _arguments(traces: Traces, node: Node, exact: bool) -> list[float] | None:
    """The numbers of a node whose arguments are all scalars, or None."""
    trace = traces.wide if exact else traces.narrow
    if trace is None or any(i not in trace.values for i in node.args):
        return None
    arrays = [np.asarray(trace.values[i]) for i in node.args]
    return [float(a.reshape(())) for a in arrays] if all(a.size == 1 for a in arrays) else None


def _singular_node(traces: Traces, node: Node | None, index: int | None) -> bool:
    """Whether some element of the arguments is where the row has no finite value or derivative."""
    if node is None or index is None or node.op in (CONSTANT, INPUT):
        return False
    if not all(i in traces.narrow.values for i in node.args):
        return False
    arrays = [np.asarray(traces.narrow.values[i]) for i in node.args]
    try:
        elements = {tuple(map(float, e)) for e in np.broadcast(*arrays)} if arrays else set()
    except ValueError:  # they do not meet element by element
        return False
    suspicious = sorted(elements, key=lambda e: min(map(abs, e)))[:4]  # edges are mostly at 0
    found = (behaviour(node, numbers) for numbers in suspicious)
    return any(one is not None and one.singular for one in found)


def _other_branch(traces: Traces, op: Operation, node: Node) -> CauseKind | None:
    """The derivative is that of another branch than the exact arguments are on."""
    from reference_engine.op import TABLE

    if node.op not in TABLE or TABLE[node.op].kinks_at is None:
        return None
    if not TABLE[node.op].elementwise:
        return "tie" if _same_somewhere(traces, node) else None
    seen, exact = _arguments(traces, node, False), _arguments(traces, node, True)
    here = behaviour(node, seen) if seen else None
    there = behaviour(node, exact) if exact else None
    if here is None or there is None or here.slopes == there.slopes:
        return "clip that kills the gradient" if op.result == 0 != op.exact else None
    return "tie" if any(here.slopes) else "clip that kills the gradient"


def _same_somewhere(traces: Traces, node: Node) -> bool:
    """Whether an argument has two elements that are equal in the dtype and not exactly."""
    for i in node.args:
        if traces.wide is None or i not in traces.narrow.values or i not in traces.wide.values:
            continue
        narrow, wide = np.ravel(traces.narrow.values[i]), np.ravel(traces.wide.values[i])
        if len(np.unique(narrow)) < len(np.unique(wide)):
            return True
    return False


def _reads_result(traces: Traces, op: Operation, index: int) -> bool:
    """Whether the node's own result, or 1 less or more than it, went into the derivative."""
    y = traces.narrow.values.get(index)
    if y is None:
        return False
    results = np.ravel(np.asarray(y, dtype=np.float64))
    numbers = [x for x in op.inputs if np.isfinite(x) and x not in (0.0, 1.0)]
    if any(np.any(results == x) for x in numbers):
        return True
    # it has reached its limit, 1 in size, and so has every power of it; or exp of it, at 0
    limit = np.any(np.abs(results) == 1.0) or np.any(results == 0.0)
    return bool(limit and (1.0 in np.abs(op.inputs)) and abs(op.exact) < LOST_BITS)


def _squares_leave(traces: Traces, op: Operation) -> bool:
    """Whether the square of a number that went in leaves the range of the dtype."""
    sizes = [abs(x) for x in op.inputs if np.isfinite(x) and x != 0]
    tiny, huge = traces.fmt.smallest_normal, traces.fmt.largest
    with np.errstate(all="ignore"):
        return any(not tiny <= x * x <= huge for x in sizes)
