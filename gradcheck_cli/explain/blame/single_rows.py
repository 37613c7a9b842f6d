"""Find a row of the table that an engine computes by a wrong formula, so that rounding is not at
fault.

Examples are a float32 constant in a float64 kernel, or a series that stops too early: the executed
operations round as they should, and exact ones give the same error. So each row is enclosed in
isolation at the engine's own inputs, and the first with a different result is to blame.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gradcheck_cli.domain.case import TruthRequest
from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Mode, Operation, Phase, Projection
from gradcheck_cli.domain.indices import index_of
from gradcheck_cli.domain.program import Node
from gradcheck_cli.domain.thresholds import NOTE_BITS, Cost
from gradcheck_cli.explain.blame.first_bad_op import UNNAMED
from gradcheck_cli.explain.blame.single_op import SingleOp, single_op
from gradcheck_cli.explain.blame.traces import Traces
from gradcheck_cli.explain.blame.values import element
from reference_engine.op import Op

BUDGET: Cost = 20_000.0  # scalar ball operations for one row, about a tenth of a second


def first_unlike(traces: Traces) -> Operation | None:
    """The first row, forward and then in the derivative, that in isolation lost more than a quarter
    of the digits; None if there is none that can be enclosed."""
    from reference_engine.op import TABLE

    program = traces.program
    rows = [
        (index, node, [np.asarray(traces.narrow.values[i]) for i in node.args])
        for index, node in enumerate(program.nodes)
        if node.op in TABLE  # layers execute other operations, too
        and (not traces.executed or _is_known(TABLE[node.op], node))
        and all(i in traces.narrow.values for i in (index, *node.args))
    ]
    for index, node, args in rows:
        operation = _value(traces, index, node, args)
        if operation is not None:
            return operation
    for index, node, args in rows if traces.forward_mode else rows[::-1]:
        for operation in _derivative(traces, index, node, args):
            return operation
    return None


def _is_known(row: Op, node: Node) -> bool:
    """Whether the row's name and arguments alone determine what the operation computed."""
    return row.elementwise and not row.keywords and row.arity in (len(node.args), -1)


def _request(traces: Traces, call: SingleOp, mode: Mode, projection: Projection) -> TruthRequest:
    dtype = traces.fmt.name
    return TruthRequest(call.program, call.values, {}, call.wrt, dtype, {mode: projection})


def _value(traces: Traces, index: int, node: Node, args: Sequence[Array]) -> Operation | None:
    from gradcheck_cli.truth.certified.enclose import certify_output

    y = np.asarray(traces.narrow.values[index])
    if y.dtype.kind != "f" or not _finite(y, *args):
        return None
    exact = certify_output(_request(traces, single_op(node, args), "reverse", Projection()), BUDGET)
    if exact.value.shape != y.shape:
        return None
    return _unlike(traces, "forward", index, args, y, exact.value, exact.sure)


def _derivative(
    traces: Traces, index: int, node: Node, args: Sequence[Array]
) -> Iterator[Operation]:
    """Errors in the row's own tangent, or in cotangents of arguments that no other node uses."""
    from gradcheck_cli.truth.certified.enclose import certify

    derivatives = traces.narrow.derivatives
    dots = {f"a{k}": np.asarray(derivatives.get(i, 0.0)) for k, i in enumerate(node.args)}
    if index not in derivatives or not _finite(derivatives[index], *args, *dots.values()):
        return
    call, y_dot = single_op(node, args), np.asarray(derivatives[index])
    if traces.forward_mode:
        columns = {n: np.broadcast_to(dots[n], np.shape(call.values[n]))[None] for n in call.wrt}
        blocks = certify(
            _request(traces, call, "forward", Projection(columns=columns)), BUDGET
        ).values()
        value = sum(block.value.reshape(-1) for block in blocks)
        sure = np.all([block.sure.reshape(-1) for block in blocks], axis=0)
        if np.size(value) == y_dot.size:
            parts = (np.reshape(x, y_dot.shape) for x in (value, sure))
            operation = _unlike(traces, "tangent", index, args, y_dot, *parts)
            if operation is not None:
                yield operation
        return
    wanted = [
        k
        for k, i in enumerate(node.args)
        if f"a{k}" in call.wrt and i in derivatives and _only_use(traces, i, index)
    ]
    if not wanted or y_dot.shape != call.program.nodes[-1].shape:
        return
    certified = certify(_request(traces, call, "reverse", Projection(rows=y_dot[None])), BUDGET)
    for k in wanted:
        block, x_bar = certified["reverse", f"a{k}"], dots[f"a{k}"]
        if block.value.size == x_bar.size:
            parts = (np.reshape(x, x_bar.shape) for x in (block.value, block.sure))
            operation = _unlike(traces, "backward", index, args, x_bar, *parts)
            if operation is not None:
                yield operation


def _finite(*arrays: Array) -> bool:
    return all(bool(np.all(np.isfinite(array))) for array in arrays)


def _only_use(traces: Traces, index: int, user: int) -> bool:
    """Whether the node's cotangent comes from this one use."""
    node = traces.program.nodes[user]
    return list(traces.users(index)) == [user] and node.args.count(index) == 1


def _unlike(
    traces: Traces,
    phase: Phase,
    index: int,
    args: Sequence[Array],
    given: Array,
    exact: Array,
    sure: Array,
) -> Operation | None:
    ulps = np.where(sure, np.abs(given - exact) / traces.fmt.ulp(exact), 0.0)
    if not ulps.size or not np.max(ulps) > traces.fmt.lost(NOTE_BITS):
        return None
    at = index_of(int(np.argmax(ulps)), ulps.shape)
    met = (element(traces.program.nodes[index], array, at) for array in args)
    inputs = tuple(np.nan if x is None else x for x in met)
    return Operation(
        name=UNNAMED,
        phase=phase,
        node=index,
        index=at,
        inputs=inputs,
        exact_inputs=inputs,
        result=float(given[at]),
        exact=float(exact[at]),
        error=float(ulps[at]),
    )
