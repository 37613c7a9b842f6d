"""Find the operation that made the first bad number, from the values at all nodes of the program.

Used if an engine's executed operations are unknown. Forwards, this is the first node with a bad
value and good arguments; backwards, a node with a good cotangent that hands a bad one to an
argument. All later nodes only pass it on. Exact numbers are taken from the wider run.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from gradcheck_cli.domain.dtypes import Array, FloatFormat
from gradcheck_cli.domain.evaluation import Operation, Phase
from gradcheck_cli.domain.program import CONSTANT, INPUT, Node
from gradcheck_cli.explain.blame.single_op import behaviour
from gradcheck_cli.explain.blame.traces import Bad, Traces, not_a_number, not_finite, vanished, zero
from gradcheck_cli.explain.blame.values import element, first_index

UNNAMED = ""  # the name of an operation of which only the node is known


def first_bad(traces: Traces, bad: Bad, *, backward_first: bool = False) -> Operation | None:
    """The operation that made the first number that is `bad`; None if the traces show none."""
    phases = [_forward, _derivative]
    if bad is not_finite:  # infinity may be right, but not nan computed from it
        phases.insert(1, lambda traces, bad: _forward(traces, not_a_number))
    for phase in reversed(phases) if backward_first else phases:
        operation = phase(traces, bad)
        if operation is not None:
            return _earlier_underflow(traces, operation) or operation
    return None


def _earlier_underflow(traces: Traces, operation: Operation) -> Operation | None:
    """The operation that underflowed to a zero at which the blamed derivative is taken; None if the
    exact derivative does not fit the dtype anyway."""
    assert operation.node is not None
    args = traces.program.nodes[operation.node].args
    overflows = (
        operation.phase != "forward"
        and bool(np.isinf(operation.result))
        and bool(np.isfinite(operation.exact))
        and abs(operation.exact) > traces.fmt.largest
    )
    if overflows or not any(np.any(traces.bad(vanished, i, derivative=False)) for i in args):
        return None
    return _forward(traces, vanished)


def first_nan(traces: Traces, op: Operation) -> Operation | None:
    """The operation that made the nan which the derivative `op` only passes on, in the forward pass
    or among the tangents; None if there is none."""
    if op.node is None or op.phase == "forward" or not np.isnan(op.result):
        return None
    taken = (op.node, *traces.program.nodes[op.node].args)
    if any(np.any(traces.bad(not_a_number, i, derivative=False)) for i in taken):
        return _forward(traces, not_a_number)
    if op.phase == "tangent":
        found = _tangent(traces, not_finite)
        return found if found is not None and found.node != op.node else None
    return None


def first_zero(traces: Traces) -> Operation | None:
    """The operation whose derivative made the first zero of a cotangent or tangent, in any
    precision; None if exact numbers do not tell whether zero is right."""
    found = _derivative(traces, zero)
    return None if found is None or math.isnan(found.exact) else found


def _derivative(traces: Traces, bad: Bad) -> Operation | None:
    return _tangent(traces, bad) if traces.forward_mode else _backward(traces, bad)


def _forward(traces: Traces, bad: Bad) -> Operation | None:
    made = _first_made(traces, bad, derivative=False)
    return None if made is None else forward_operation(traces, *made)


def _tangent(traces: Traces, bad: Bad) -> Operation | None:
    """The first node with a bad tangent whose arguments have good tangents (forward mode)."""
    made = _first_made(traces, bad, derivative=True)
    return None if made is None else _operation(traces, "tangent", *made, made[0])


def _first_made(traces: Traces, bad: Bad, derivative: bool) -> tuple[int, tuple[int, ...]] | None:
    """The first node and element that are bad although the arguments of the node are good."""
    there = traces.narrow.derivatives if derivative else traces.narrow.values
    masks = partial(traces.bad, bad, derivative=derivative)
    for index, node in enumerate(traces.program.nodes):
        if node.op in (INPUT, CONSTANT) or index not in there:
            continue
        if np.any(masks(index)) and not any(np.any(masks(i)) for i in node.args):
            return index, first_index(masks(index))
    return None


def forward_operation(traces: Traces, index: int, at: tuple[int, ...]) -> Operation:
    """Element `at` of node `index` of the program, as an operation."""
    return _operation(traces, "forward", index, at, index)


def backward_place(traces: Traces, bad: Bad) -> tuple[int, int, tuple[int, ...]] | None:
    """(node, argument, element): the node's cotangent is good, but the one that it hands to the
    argument is bad."""
    nodes = traces.program.nodes
    for index in range(len(nodes) - 1, -1, -1):
        if index not in traces.narrow.derivatives:
            continue
        if np.any(traces.bad(bad, index, derivative=True)):
            continue
        for arg in nodes[index].args:
            if arg not in traces.narrow.derivatives or _has_bad_use(traces, bad, arg):
                continue
            mask = traces.bad(bad, arg, derivative=True)
            if np.any(mask):
                at = first_index(mask)
                return _giver(traces, index, arg, at), arg, at
    return None


def _giver(traces: Traces, last: int, arg: int, at: tuple[int, ...]) -> int:
    """The use that made the summed cotangent of a node bad: the last one at the edge of its
    derivative's domain, or `last` if none is known to be."""
    users = [user for user in traces.users(arg) if user in traces.narrow.derivatives]
    if len(users) > 1 and not traces.executed:
        for user in reversed(users):
            node = traces.program.nodes[user]
            args = (traces.narrow.values.get(i) for i in node.args)
            numbers = [None if a is None else element(node, np.asarray(a), at) for a in args]
            known = [x for x in numbers if x is not None]
            if len(known) == len(numbers) and _is_on_edge(node, known, traces.fmt):
                return user
    return last


def _is_on_edge(node: Node, numbers: list[float], fmt: FloatFormat) -> bool:
    """Whether a row has no derivative at these numbers, or none after a tiny move of one of them.
    xlogy(0, 0) has a convention, which an engine need not follow, and xlogy(x, 0) has no value."""
    moved = [
        [*numbers[:k], x + side * fmt.smallest_normal, *numbers[k + 1 :]]
        for k, x in enumerate(numbers)
        for side in (-1, 1)
    ]
    return any(
        found is not None and found.singular
        for found in (behaviour(node.op, node.keywords, one) for one in (numbers, *moved))
    )


def _has_bad_use(traces: Traces, bad: Bad, index: int) -> bool:
    """Whether a use of the node has a bad cotangent itself and passed it on."""
    return any(
        user in traces.narrow.derivatives and np.any(traces.bad(bad, user, derivative=True))
        for user in traces.users(index)
    )


def _backward(traces: Traces, bad: Bad) -> Operation | None:
    place = backward_place(traces, bad)
    if place is None:
        return None
    index, arg, at = place
    return _operation(traces, "backward", index, at, arg)


def _operation(
    traces: Traces, phase: Phase, index: int, at: tuple[int, ...], where: int
) -> Operation:
    """Node `index` as the operation that made element `at` of the value or derivative of node
    `where`. Its inputs are the derivatives that this phase takes, then the node's arguments."""
    node, derivative = traces.program.nodes[index], phase != "forward"
    moved = {"forward": (), "backward": (index,), "tangent": node.args}[phase]

    def numbers(wider: bool) -> tuple[float, ...]:
        trace = traces.wide if wider else traces.narrow
        assert trace is not None
        arrays: list[Array | None] = [trace.derivatives.get(i) for i in moved]
        arrays += [trace.values.get(i) for i in node.args]
        found = (None if a is None else element(node, np.asarray(a), at) for a in arrays)
        return tuple(np.nan if one is None else one for one in found)

    result = traces.number(where, at, derivative=derivative)
    exact = traces.exactly(where, at, derivative=derivative)
    result = np.nan if result is None else result
    exact = np.nan if exact is None else exact
    both = np.isfinite(result) and np.isfinite(exact)
    error = abs(result - exact) / float(traces.fmt.ulp(exact)) if both else np.inf
    return Operation(
        name=UNNAMED,
        phase=phase,
        node=index,
        index=at,
        inputs=numbers(False),
        exact_inputs=numbers(traces.wide is not None),
        result=result,
        exact=exact,
        error=float(error),
    )
