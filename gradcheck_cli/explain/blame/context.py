"""The program around an operation: what selects its result, and what its arguments absorbed."""

from __future__ import annotations

from typing import Literal

import numpy as np

from gradcheck_cli.domain.dtypes import Array
from gradcheck_cli.domain.evaluation import Operation
from gradcheck_cli.domain.program import Node
from gradcheck_cli.domain.thresholds import NOTE_BITS, SAME_SIZE
from gradcheck_cli.explain.blame.traces import Traces

Silence = Literal["masked branch", "0*inf"]


def silenced(traces: Traces, index: int, wholly: bool = False) -> Silence | None:
    """Why nothing of node `index` reaches the result, if the zero cotangent that comes back is
    exact: another value is selected ("masked branch"), or it is multiplied by zero ("0*inf"); in
    some element, or `wholly`."""
    seen: set[int] = set()
    waiting = [index]
    while waiting:
        here = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        y_bar = traces.narrow.derivatives.get(here)
        if y_bar is None or not (traces.forward_mode or np.any(_zero_or_nan(y_bar))):
            continue  # a tangent does not say how it is used
        for user in traces.users(here):
            if how := _silences(traces, traces.program.nodes[user], here, wholly):
                return how
            waiting.append(user)
    return None


def _zero_or_nan(y_bar: Array) -> Array:
    """A mask of zeros, and of nan, which zero times an infinite derivative gives."""
    return np.asarray((np.asarray(y_bar) == 0) | np.isnan(np.asarray(y_bar, dtype=np.float64)))


def _silences(traces: Traces, node: Node, argument: int, wholly: bool) -> Silence | None:
    from reference_engine.op import TABLE

    if node.op == "multiply":
        others = [i for i in node.args if i != argument]
        return "0*inf" if any(_has_exact_zero(traces, i, wholly) for i in others) else None
    selects = node.op in TABLE and TABLE[node.op].family in ("selection", "indexing")
    return "masked branch" if selects else None


def _has_exact_zero(traces: Traces, index: int, wholly: bool) -> bool:
    narrow = traces.narrow.values.get(index)
    if narrow is None:
        return False
    zero = np.asarray(narrow) == 0
    wide = None if traces.wide is None else traces.wide.values.get(index)
    if wide is not None and np.shape(wide) == np.shape(narrow):
        zero = zero & (np.asarray(wide) == 0)
    return bool(np.all(zero) if wholly else np.any(zero))


def handed_over(traces: Traces, op: Operation) -> bool:
    """Whether the result of `op` is the derivative that its node hands on, not an intermediate
    number."""
    if op.node is None:
        return True
    node = traces.program.nodes[op.node]
    places = (op.node,) if op.phase == "tangent" else node.args
    trace = traces.narrow if traces.wide is None else traces.wide
    wanted = op.result if traces.wide is None else op.exact
    for index in places:
        derivative = trace.derivatives.get(index)
        if derivative is None:
            continue
        numbers = np.ravel(np.asarray(derivative, dtype=np.float64))
        sizes, size = np.abs(numbers), abs(wanted)  # the sign may be applied last
        same = (sizes == size) | (np.abs(sizes - size) <= SAME_SIZE * size)
        if np.any(same):
            return True
    return False


def absorbed_by(traces: Traces, index: int | None) -> int | None:
    """The term (a node) that a sum has absorbed, wholly or for the most part, if the sum is an
    argument of node `index`."""
    if index is None:
        return None
    for i in traces.program.nodes[index].args:
        node = traces.program.nodes[i]
        if node.op not in ("add", "subtract"):
            continue
        sizes = [traces.narrow.values.get(k) for k in node.args]
        total = traces.narrow.values.get(i)
        if total is None or any(s is None for s in sizes):
            continue
        largest = [float(np.max(np.abs(np.asarray(s, dtype=np.float64)))) for s in sizes]
        for k in node.args:
            constant = traces.program.nodes[k].value
            if constant and not traces.fmt.round(float(constant)):
                return k  # zero in the dtype before the addition
        small = node.args[int(np.argmin(largest))]
        spacing = float(traces.fmt.ulp(np.max(np.abs(np.asarray(total, dtype=np.float64)))))
        if 0 < min(largest) < spacing * 2.0 ** ((1 - NOTE_BITS) * traces.fmt.bits):
            return small
    return None


def accumulates(traces: Traces, op: Operation) -> bool:
    """Whether `op` sums the contributions of several uses of a number to its cotangent."""
    return op.phase == "backward" and accumulated(traces, op) is not None


def accumulated(traces: Traces, op: Operation) -> int | None:
    """The node with several uses whose cotangent is the result of `op`, or None."""
    if len(op.inputs) < 2 or not np.all(np.isfinite([*op.inputs, op.result])):
        return None
    near = 4 * float(traces.fmt.ulp(max(map(abs, op.inputs))))
    if abs(sum(op.inputs) - op.result) > near:
        return None
    for index in traces.narrow.derivatives:
        if traces.number(index, op.index, derivative=True) != op.result:
            continue
        if len(list(traces.users(index))) > 1 or _used_twice(traces, index):
            return index
    return None


def _used_twice(traces: Traces, index: int) -> bool:
    users = (traces.program.nodes[user] for user in traces.users(index))
    return any(node.args.count(index) > 1 for node in users)


def joint(traces: Traces, index: int) -> int:
    """The node where two uses of node `index` first meet again; look there if their contributions
    cancel."""
    nodes = traces.program.nodes
    reached: dict[int, set[int]] = {}  # by node, the uses that it depends on
    for later in range(index + 1, len(nodes)):
        origins = set().union(*(reached.get(i, set()) for i in nodes[later].args))
        if index in nodes[later].args:
            origins.add(later)
        if len(origins) > 1:
            return later
        reached[later] = origins
    return next(traces.users(index), index)
