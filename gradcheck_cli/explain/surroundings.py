"""What the program does around an operation: what selects it, what it was fed with."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.evaluation import Operation
from gradcheck_cli.domain.program import Node
from gradcheck_cli.explain.traces import LOST_BITS, Traces

# An exact number is known to float64, some of whose digits the wider run may have lost itself.
SAME = 2.0**-20


def masked(traces: Traces, index: int) -> bool:
    """Whether nothing of node `index` reaches the result because something selects another value,
    or multiplies by zero: the zero that comes back to it is exact."""
    seen: set[int] = set()
    waiting = [index]
    while waiting:
        here = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        y_bar = traces.narrow.derivatives.get(here)
        if y_bar is None or not np.any(np.asarray(y_bar) == 0):
            continue
        for user in traces.users(here):
            if _selects(traces, traces.program.nodes[user], here):
                return True
            waiting.append(user)
    return False


def _selects(traces: Traces, node: Node, argument: int) -> bool:
    from reference_engine.op import TABLE

    if node.op == "multiply":
        others = [i for i in node.args if i != argument]
        return any(_has_exact_zero(traces, i) for i in others)
    return node.op in TABLE and TABLE[node.op].family in ("selection", "indexing")


def _has_exact_zero(traces: Traces, index: int) -> bool:
    narrow = traces.narrow.values.get(index)
    if narrow is None:
        return False
    zero = np.asarray(narrow) == 0
    wide = None if traces.wide is None else traces.wide.values.get(index)
    if wide is not None and np.shape(wide) == np.shape(narrow):
        zero = zero & (np.asarray(wide) == 0)
    return bool(np.any(zero))


def handed_over(traces: Traces, op: Operation) -> bool:
    """Whether `op` gave the derivative itself that its node hands on, and no number on the way
    to it."""
    if op.node is None:
        return True
    node = traces.program.nodes[op.node]
    places = (op.node,) if op.phase == "tangent" else node.args
    trace = traces.narrow if traces.wide is None else traces.wide
    wanted = op.result if traces.wide is None else op.exact
    for index in places:
        found = trace.derivatives.get(index)
        if found is None:
            continue
        with np.errstate(all="ignore"):
            numbers = np.ravel(np.asarray(found, dtype=np.float64))
            same = (numbers == wanted) | (np.abs(numbers - wanted) <= SAME * abs(wanted))
        if np.any(same):
            return True
    return False


def absorbed_by(traces: Traces, index: int | None) -> int | None:
    """The term (a node) that a sum has rounded away, or most digits of it, where that sum is an
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
        small = node.args[int(np.argmin(largest))]
        spacing = float(traces.fmt.ulp(np.max(np.abs(np.asarray(total, dtype=np.float64)))))
        if 0 < min(largest) < spacing * 2.0 ** ((1 - LOST_BITS) * traces.fmt.bits):
            return small
    return None
