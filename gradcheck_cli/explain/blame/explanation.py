"""From an engine's executed operations to a proven cause.

The engine names the operations that spoil the entry and proves it (`Trace`). Otherwise the
operation is searched for among the nodes of the program (`first_bad_op`); the cause then counts as
proven only if the wider run confirms it.
"""

from __future__ import annotations

import numpy as np

from gradcheck_cli.domain.codes import Codes
from gradcheck_cli.domain.evaluation import Operation
from gradcheck_cli.domain.program import INPUT
from gradcheck_cli.domain.records import dataclass
from gradcheck_cli.domain.report import Cause, CauseKind
from gradcheck_cli.explain.blame.causes import at_edge, at_kink, kind_of
from gradcheck_cli.explain.blame.context import accumulated, joint
from gradcheck_cli.explain.blame.first_bad_op import UNNAMED, first_bad, first_nan, first_zero
from gradcheck_cli.explain.blame.single_rows import first_unlike
from gradcheck_cli.explain.blame.traces import Bad, Traces, lossy, not_finite, vanished
from gradcheck_cli.explain.blame.values import application
from gradcheck_cli.explain.blame.wording import detail_of, proof_of, story_of

# Rounding is not the cause if the wider precision has the same error from the same finite numbers.
IN_EVERY_PRECISION: tuple[CauseKind, ...] = (
    "0*inf",
    "domain edge",
    "indeterminate form",
    "masked branch",
)

OF_A_ROW = (
    "every operation of the formula was repeated exactly on its recorded inputs: this is the "
    "first with a different result"
)

OF_THE_OUTPUT = (Codes.NON_FINITE_OUTPUT, Codes.UNSTABLE_OUTPUT)


@dataclass(frozen=True, slots=True)
class Symptom:
    """The kind of bad number that a finding is about, and the pass to search first."""

    bad: Bad
    backward_first: bool = False


def symptom_of(code: str, traces: Traces) -> Symptom | None:
    """The symptom of a finding with this code; None if no operation causes such findings."""
    return {
        Codes.NAN_GRADIENT: Symptom(not_finite),
        Codes.INFINITE_GRADIENT: Symptom(not_finite),
        Codes.NON_FINITE_OUTPUT: Symptom(not_finite),
        Codes.PRECISION_LOSS: Symptom(lossy(traces.fmt)),
        Codes.UNDERFLOW_TO_ZERO: Symptom(vanished, backward_first=True),
        Codes.UNSTABLE_OUTPUT: Symptom(lossy(traces.fmt)),
        Codes.ILL_CONDITIONED: Symptom(lossy(traces.fmt)),
    }.get(code)


@dataclass(frozen=True, slots=True)
class _Executed:
    """The engine's report on its executed operations: about the output if the finding is, else
    about the entry."""

    operations: tuple[Operation, ...]
    culprits: tuple[Operation, ...]
    repaired: float | None


def _executed(traces: Traces, code: str) -> _Executed:
    trace = traces.narrow
    if code in OF_THE_OUTPUT:
        operations, places = trace.output_operations, trace.output_culprits
        repaired = trace.output_repaired
    else:
        operations, places, repaired = trace.operations, trace.culprits, trace.repaired
    return _Executed(operations, tuple(operations[i] for i in places), repaired)


def blame(traces: Traces, code: str) -> Cause | None:
    """The cause of a finding with this code: the operation to blame, or None."""
    wanted = symptom_of(code, traces)
    if wanted is None:
        return None
    executed = _executed(traces, code)
    if executed.culprits:
        first = executed.culprits[0]
        return _cause(traces, code, first_nan(traces, first) or first, executed)
    operation = first_bad(traces, wanted.bad, backward_first=wanted.backward_first)
    if operation is None and code == Codes.UNDERFLOW_TO_ZERO:
        operation = first_zero(traces)
    if operation is None and (unlike := blame_row(traces, code)):
        return unlike
    if operation is None:
        operation = max(executed.operations, key=lambda op: op.error, default=None)
    return (
        None
        if operation is None
        else _cause(traces, code, _worst_of_node(executed, operation), executed)
    )


def blame_row(traces: Traces, code: str) -> Cause | None:
    """The first row that an engine computes by a wrong formula, with the same error in exact
    arithmetic."""
    operation = first_unlike(traces)
    if operation is None:
        return None
    return _cause(traces, code, operation, _Executed((), (), None), "inaccurate kernel")


def blame_tie(traces: Traces) -> Cause | None:
    """The first operation exactly at a kink or tie that has a cotangent; its derivative is the
    engine's choice."""
    for index, node in enumerate(traces.program.nodes):
        y_bar = traces.narrow.derivatives.get(index)
        if y_bar is None or not np.any(y_bar) or not at_kink(traces, node):
            continue
        args = [np.asarray(traces.narrow.values[i]) for i in node.args]
        shown = application(node, args, (0,) * len(node.shape))
        return Cause(
            op=node.op,
            phase="forward" if traces.forward_mode else "backward",
            span=node.span,
            text=node.text,
            detail=f"exactly at a kink or a tie: {shown}",
            story=f"the derivative of {shown} is the engine's choice",
            kind="tie",
            node=index,
        )
    return None


def _worst_of_node(executed: _Executed, operation: Operation) -> Operation:
    """The worst executed operation of the same node and phase, if known, else `found`."""
    same = [
        op
        for op in executed.operations
        if (op.node, op.phase) == (operation.node, operation.phase) and operation.name == UNNAMED
    ]
    return max(same, key=lambda op: op.error, default=operation)


def _cause(
    traces: Traces, code: str, op: Operation, executed: _Executed, kind: CauseKind | None = None
) -> Cause:
    kind = kind or ("sensitivity" if code == Codes.ILL_CONDITIONED else kind_of(traces, op))
    proof, proven = _proof(traces, code, op, kind, executed)
    index = _place(traces, op)
    node = traces.program.nodes[index]
    nobody = node.op == INPUT or (op.node is None and index == traces.program.output)
    stated = op.node in traces.stated
    return Cause(
        op=op.name or node.op if nobody else node.op,
        phase="backward" if op.phase == "backward" or stated else "forward",
        span=node.span,
        text=node.text,
        source=node.source,
        detail=detail_of(traces, op, kind),
        story=story_of(traces, op, kind),
        kind=kind,
        node=index,
        engine_op=op.name or None,
        proven=proven,
        proof=proof,
        repaired=executed.repaired if executed.culprits else None,
    )


def _proof(
    traces: Traces, code: str, op: Operation, kind: CauseKind, executed: _Executed
) -> tuple[str, bool]:
    """A sentence, and whether a run has shown it."""
    if code == Codes.ILL_CONDITIONED:
        return "rounding the inputs moves the truth as far as the observed error", True
    if kind == "inaccurate kernel" and op.name == UNNAMED:
        return OF_A_ROW, True
    what = "output" if code in OF_THE_OUTPUT else "gradient"
    if kind == "genuine overflow":
        return f"the exact {what} is larger than any number of {traces.fmt.name}", True
    if executed.culprits:
        return proof_of(traces, executed.culprits, what), executed.repaired is not None
    if kind in IN_EVERY_PRECISION and _same_when_wider(traces, op):
        return ("float64 gives the same for the same inputs, so rounding is not the cause", True)
    if kind == "absorbed epsilon" and not np.isfinite(op.result):
        return f"the constant is zero in {traces.fmt.name} before it is added", True
    if kind == "domain edge" and at_edge(traces, op):
        return (
            "ball arithmetic has no finite number there either, so rounding is not the cause",
            True,
        )
    return traces.narrow.note, False


def _same_when_wider(traces: Traces, op: Operation) -> bool:
    """Whether the wider run makes its first nonfinite number at the same operation."""
    if traces.wide is None or op.node is None:
        return False
    wider = Traces(
        traces.program, traces.fmt, traces.wide, None, traces.forward_mode, traces.target
    )
    found = first_bad(wider, not_finite)
    return found is not None and (found.node, found.phase) == (op.node, op.phase)


def _place(traces: Traces, op: Operation) -> int:
    """The node to point at: the operation's own, or the one where several uses meet again if `op`
    sums their contributions."""
    if op.phase == "backward" and (index := accumulated(traces, op)) is not None:
        return joint(traces, index)
    return traces.program.output if op.node is None else op.node
